//! Sequences: construction, length, access and changes.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator, Type};
use ort_tensor::{DType, Inputs, Output, Tensor, Value, collected};

use crate::infer::int_values;
use crate::ops::gather::normalize_index;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("SequenceConstruct", |_| Ok(Arc::new(Sequence::Construct))),
    def("SequenceEmpty", Sequence::empty),
    def("SequenceAt", |_| Ok(Arc::new(Sequence::At))),
    def("SequenceInsert", |_| Ok(Arc::new(Sequence::Insert))),
    def("SequenceErase", |_| Ok(Arc::new(Sequence::Erase))),
    def("SequenceLength", |_| Ok(Arc::new(Sequence::Length))),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "", name, versions: (11, 11), types: DType::is_any, build }
}

/// An operator on sequences. Positions are scalars, and below zero count from the back.
///
/// Source: ONNX operator set, SequenceConstruct-11, SequenceEmpty-11, SequenceAt-11,
/// SequenceInsert-11, SequenceErase-11, SequenceLength-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// SequenceConstruct: the inputs, in order.
    Construct,
    /// SequenceEmpty: an empty sequence of this type.
    Empty(DType),
    /// SequenceAt: the tensor at position input 1 of sequence input 0.
    At,
    /// SequenceInsert: the sequence with tensor input 1 before position input 2, or at the end.
    Insert,
    /// SequenceErase: the sequence without its tensor at position input 1, or its last.
    Erase,
    /// SequenceLength: how many tensors there are, an int64 scalar.
    Length,
}

impl Sequence {
    fn empty(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let number = spec.int("dtype")?.unwrap_or_else(|| DType::F32.onnx().into());
        let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
        let wrong = || OpError::AttributeValue { name: "dtype", found: number.to_string() };
        Ok(Arc::new(Sequence::Empty(dtype.ok_or_else(wrong)?)))
    }
}

/// The type of the items of the sequence at `index`.
pub(crate) fn item_type<'a>(inputs: &Facts<'a>, index: usize) -> Result<&'a Type, OpError> {
    match &inputs.fact(index)?.ty {
        Type::Sequence(item) => Ok(item),
        Type::Unknown => Ok(&Type::Unknown),
        other => Err(OpError::InputType { index, found: Box::new(other.clone()) }),
    }
}

pub(crate) fn sequence_of(item: Type) -> Fact {
    Type::Sequence(Box::new(item)).into()
}

/// The common type of items `a` and `b`.
fn either(a: &Type, b: &Type, index: usize) -> Result<Type, OpError> {
    a.join(b).ok_or_else(|| OpError::InputType { index, found: Box::new(b.clone()) })
}

/// The position in input `index`, of `len`; `default` if the input is absent.
fn position(
    inputs: Inputs<'_>,
    index: usize,
    len: usize,
    default: usize,
) -> Result<usize, OpError> {
    let Some(position) = inputs.optional_tensor(index)? else { return Ok(default) };
    match int_values(position)?[..] {
        [position] => normalize_index("a position in a sequence", position, len),
        _ => Err(OpError::InputValue { index, what: "a position is one integer" }),
    }
}

impl Operator for Sequence {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let expect_position = |index| match inputs.get(index) {
            Some(_) => inputs.dtype(index, DType::is_index).map(drop),
            None => Ok(()),
        };
        Ok(vec![match self {
            Sequence::Construct => {
                let mut item = inputs.fact(0)?.ty.clone();
                for i in 1..inputs.len() {
                    item = either(&item, &inputs.fact(i)?.ty, i)?;
                }
                sequence_of(item)
            }
            Sequence::Empty(dtype) => sequence_of(Fact::unranked(*dtype).ty),
            Sequence::At => {
                inputs.fact(1)?;
                expect_position(1)?;
                item_type(inputs, 0)?.clone().into()
            }
            Sequence::Insert => {
                expect_position(2)?;
                sequence_of(either(item_type(inputs, 0)?, &inputs.fact(1)?.ty, 1)?)
            }
            Sequence::Erase => {
                expect_position(1)?;
                sequence_of(item_type(inputs, 0)?.clone())
            }
            Sequence::Length => {
                item_type(inputs, 0)?;
                Fact::shaped(DType::I64, &[])
            }
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let copied = |items: &[Value]| collected(items.iter().cloned());
        let taken = outputs[0].take();
        let items = || inputs.value(0).and_then(ort_tensor::ValueView::sequence);
        let own_items = |taken: Option<Value>| match taken {
            Some(Value::Sequence(items)) => Ok(items),
            Some(other) => other.view().sequence().and_then(copied),
            None => items().and_then(copied),
        };
        let value = match self {
            Sequence::Construct => {
                let items: Result<Vec<Value>, _> =
                    (0..inputs.len()).map(|i| inputs.value(i)?.to_value()).collect();
                let items = items.map_err(OpError::Tensor)?;
                check_types(&items)?;
                Value::Sequence(items)
            }
            Sequence::Empty(_) => Value::Sequence(Vec::new()),
            Sequence::At => {
                inputs.value(1)?;
                let items = items()?;
                items[position(inputs, 1, items.len(), 0)?].clone()
            }
            Sequence::Insert => {
                let mut items = own_items(taken)?;
                let n = items.len();
                // There is one more position than items, and −1 is before the last item.
                let at = match inputs.optional_tensor(2)?.map(int_values).transpose()? {
                    Some(position) if position == [i64::try_from(n).unwrap_or(-1)] => n,
                    _ => position(inputs, 2, n, n)?,
                };
                let item = inputs.value(1)?.to_value()?;
                // The others have been compared with each other.
                let first = Type::of_value(items.first().unwrap_or(&item));
                either(&first, &Type::of_value(&item), 1)?;
                items.insert(at, item);
                Value::Sequence(items)
            }
            Sequence::Erase => {
                let mut items = own_items(taken)?;
                let last = items.len().checked_sub(1);
                let nothing = OpError::InputValue { index: 0, what: "the sequence is empty" };
                let last = last.ok_or(nothing)?;
                items.remove(position(inputs, 1, items.len(), last)?);
                Value::Sequence(items)
            }
            Sequence::Length => {
                let n = i64::try_from(items()?.len()).map_err(|_| OpError::TooLarge)?;
                Tensor::scalar(n).into()
            }
        };
        Ok(outputs[0].set(value)?)
    }

    fn behaviour(&self) -> Behaviour {
        let takes: &[_] = match self {
            Sequence::Insert | Sequence::Erase => &[(0, 0)],
            _ => &[],
        };
        Behaviour { takes, ..Behaviour::default() }
    }
}

/// Checks that all items are of one kind and element type.
fn check_types(items: &[Value]) -> Result<(), OpError> {
    let mut types = items.iter().map(Type::of_value).enumerate();
    let Some((_, first)) = types.next() else { return Ok(()) };
    types.try_for_each(|(i, ty)| either(&first, &ty, i).map(drop))
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    fn item(n: u8) -> Value {
        Value::Tensor(tensor(&[usize::from(n)], &vec![n; n.into()]))
    }

    fn sequence(items: &[u8]) -> Value {
        Value::Sequence(items.iter().map(|&n| item(n)).collect())
    }

    fn run(op_type: &'static str, inputs: Vec<Value>) -> Option<Value> {
        let inputs: Vec<_> = inputs.into_iter().map(Some).collect();
        Case::new(op_type, 11).run_values(&inputs).ok().map(|mut values| values.remove(0))
    }

    fn at(position: i64) -> Value {
        Value::Tensor(Tensor::scalar(position))
    }

    #[test]
    fn items_are_found_by_position() {
        for (position, expected) in
            [(0, Some(1)), (-1, Some(2)), (-2, Some(1)), (2, None), (-3, None)]
        {
            let found = run("SequenceAt", vec![sequence(&[1, 2]), at(position)]);
            assert_eq!(found, expected.map(item), "{position}");
        }
        let length = |n: i64| Some(Value::Tensor(Tensor::scalar(n)));
        assert_eq!(run("SequenceLength", vec![sequence(&[1, 2])]), length(2));
        assert_eq!(run("SequenceLength", vec![sequence(&[])]), length(0));
        assert_eq!(run("SequenceLength", vec![item(1)]), None);
    }

    #[test]
    fn items_enter_and_leave() {
        let insert =
            |position| run("SequenceInsert", vec![sequence(&[1, 2]), item(3), at(position)]);
        assert_eq!(run("SequenceInsert", vec![sequence(&[]), item(3)]), Some(sequence(&[3])));
        assert_eq!(insert(0), Some(sequence(&[3, 1, 2])));
        assert_eq!(insert(2), Some(sequence(&[1, 2, 3])));
        assert_eq!(insert(-1), Some(sequence(&[1, 3, 2])));
        assert_eq!(insert(-2), Some(sequence(&[3, 1, 2])));
        assert_eq!((insert(3), insert(-3)), (None, None));
        let other = Value::Tensor(Tensor::scalar(1_f32));
        assert_eq!(run("SequenceInsert", vec![sequence(&[1]), other]), None);
        let erase = |position| run("SequenceErase", vec![sequence(&[1, 2]), at(position)]);
        assert_eq!((erase(0), erase(-1)), (Some(sequence(&[2])), Some(sequence(&[1]))));
        assert_eq!(erase(2), None);
        assert_eq!(run("SequenceErase", vec![sequence(&[1, 2])]), Some(sequence(&[1])));
        assert_eq!(run("SequenceErase", vec![sequence(&[])]), None);
    }

    #[test]
    fn sequences_are_made_of_one_type() {
        let made = run("SequenceConstruct", vec![item(1), item(2)]);
        assert_eq!(made, Some(sequence(&[1, 2])));
        let mixed = vec![item(1), Value::Tensor(Tensor::scalar(1_f32))];
        assert_eq!(run("SequenceConstruct", mixed), None);
        assert_eq!(run("SequenceEmpty", vec![]), Some(sequence(&[])));
        let unknown = Case::new("SequenceEmpty", 11).attr("dtype", Attr::Int(99));
        assert!(unknown.run(&[]).is_err());
    }
}
