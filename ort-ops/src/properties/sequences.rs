//! Operators on sequences and optional values, and constants.

use ort_graph::Attr;
use ort_tensor::{Bool, DType, Tensor, Value};

use super::draw::{counts, ints, signed};
use super::gather::along;
use super::movement::{joined, pieces};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    of_11("SequenceConstruct", construct),
    of_11("SequenceEmpty", empty),
    of_11("SequenceAt", at),
    of_11("SequenceInsert", insert),
    of_11("SequenceErase", erase),
    of_11("SequenceLength", length),
    of_11("ConcatFromSequence", concat_from_sequence),
    Property { domain: "", name: "SplitToSequence", versions: &[11, 24], draw: split_to_sequence },
    Property { domain: "", name: "Optional", versions: &[15, 28], draw: optional },
    Property { domain: "", name: "OptionalGetElement", versions: &[15, 18, 28], draw: get_element },
    Property { domain: "", name: "OptionalHasElement", versions: &[15, 18, 28], draw: has_element },
    Property { domain: "", name: "Constant", versions: &[1, 9, 11, 12, 25], draw: constant },
    Property { domain: "", name: "ConstantOfShape", versions: &[9, 25], draw: constant_of_shape },
];

const fn of_11(name: &'static str, draw: fn(&mut Draw, DType) -> Sample) -> Property {
    Property { domain: "", name, versions: &[11], draw }
}

/// A node with this output for these inputs.
fn making(inputs: Vec<Value>, output: impl Into<Value>) -> Sample {
    let output = output.into();
    Sample::of_values(inputs, move || vec![Expected::Value(output.clone())])
}

/// Tensors of one type and any shapes, at least `least` of them.
fn items(draw: &mut Draw, dtype: DType, least: usize) -> Vec<Value> {
    let mut item = |_| {
        let shape = draw.shape(0);
        draw.any(dtype, &shape).into()
    };
    let items: Vec<Value> = (0..4).map(&mut item).collect();
    let n = least + draw.below(5 - least);
    items[..n].to_vec()
}

fn construct(draw: &mut Draw, dtype: DType) -> Sample {
    let items = items(draw, dtype, 1);
    making(items.clone(), Value::Sequence(items))
}

fn empty(draw: &mut Draw, dtype: DType) -> Sample {
    let sample = making(vec![], Value::Sequence(vec![]));
    let is_default = dtype == DType::F32 && draw.one_in(2);
    if is_default { sample } else { sample.attr("dtype", Attr::Int(dtype.onnx().into())) }
}

/// A position below `n`, as a tensor that may count from the back.
fn position(draw: &mut Draw, n: usize) -> (usize, Value) {
    let (position, written) = draw.axis(n);
    (position, draw.indices(&[], &[written]).into())
}

fn at(draw: &mut Draw, dtype: DType) -> Sample {
    let items = items(draw, dtype, 1);
    let (at, position) = position(draw, items.len());
    let item = items[at].clone();
    making(vec![Value::Sequence(items), position], item)
}

fn insert(draw: &mut Draw, dtype: DType) -> Sample {
    let before = items(draw, dtype, 0);
    let item = items(draw, dtype, 1).remove(0);
    let mut inputs = vec![Value::Sequence(before.clone()), item.clone()];
    let mut at = before.len();
    if draw.one_in(2) {
        // Negative only before an item: after the last there is no negative position.
        let is_last = before.is_empty() || draw.one_in(3);
        let last = (at, draw.indices(&[], &[signed(at)]).into());
        let (place, position) = if is_last { last } else { position(draw, at) };
        at = place;
        inputs.push(position);
    }
    let mut after = before;
    after.insert(at, item);
    making(inputs, Value::Sequence(after))
}

fn erase(draw: &mut Draw, dtype: DType) -> Sample {
    let mut items = items(draw, dtype, 1);
    let mut inputs = vec![Value::Sequence(items.clone())];
    let mut at = items.len() - 1;
    if draw.one_in(2) {
        let (place, position) = position(draw, items.len());
        at = place;
        inputs.push(position);
    }
    items.remove(at);
    making(inputs, Value::Sequence(items))
}

fn length(draw: &mut Draw, dtype: DType) -> Sample {
    let items = items(draw, dtype, 0);
    let n = signed(items.len());
    making(vec![Value::Sequence(items)], Tensor::scalar(n))
}

fn concat_from_sequence(draw: &mut Draw, dtype: DType) -> Sample {
    let is_new = draw.one_in(2);
    let shape = draw.shape(usize::from(!is_new));
    let (axis, written) = draw.axis(shape.len() + usize::from(is_new));
    let item = |_| {
        let mut shape = shape.clone();
        if !is_new {
            shape[axis] = draw.dim();
        }
        draw.any(dtype, &shape)
    };
    let items: Vec<_> = (0..3).map(item).collect();
    let items = items[..1 + draw.below(3)].to_vec();
    let sequence = Value::Sequence(items.iter().cloned().map(Value::Tensor).collect());
    let sample = Sample::of_values(vec![sequence], move || {
        let parts = items.iter().map(|item| {
            let part = Array::of(item);
            let mut shape = part.shape.clone();
            if is_new {
                shape.insert(axis, 1);
            }
            part.reshaped(&shape)
        });
        Expected::exact(dtype, joined(&parts.collect::<Vec<_>>(), axis))
    });
    let sample = sample.attr("axis", Attr::Int(written));
    let is_default = !is_new && draw.one_in(2);
    if is_default { sample } else { sample.attr("new_axis", Attr::Int(is_new.into())) }
}

fn split_to_sequence(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let n = shape[axis];
    let (kind, keeps_axis) = (draw.below(3), draw.one_in(2));
    let index_type = draw.index_type();
    let (lengths, split) = match kind {
        0 => (vec![1; n], None),
        1 => {
            let length = draw.some_dim();
            let lengths = (0..n).step_by(length).map(|start| length.min(n - start)).collect();
            let cells = vec![Cell::Int(signed(length).into())];
            (lengths, Some(Array { shape: vec![], cells }))
        }
        _ => {
            let lengths: Vec<_> = (0..draw.below(4)).map(|_| draw.dim()).collect();
            shape[axis] = lengths.iter().sum();
            let written = Array::of(&counts(&lengths));
            (lengths, Some(written))
        }
    };
    let loses_axis = split.is_none() && !keeps_axis;
    let x = draw.any(dtype, &shape);
    let inputs = [Some(x.clone()), split.map(|split| split.to_tensor(index_type))];
    let inputs = inputs.into_iter().flatten().map(Value::Tensor).collect();
    let sample = Sample::of_values(inputs, move || {
        let items = pieces(&Array::of(&x), axis, &lengths).into_iter().map(|piece| {
            let mut shape = piece.shape.clone();
            if loses_axis {
                shape.remove(axis);
            }
            Expected::Tensor { dtype, array: piece.reshaped(&shape), ulps: 0.0, distance: 0.0 }
        });
        vec![Expected::Sequence(items.collect())]
    });
    let sample = along(draw, sample, axis, written);
    let is_default = keeps_axis && draw.one_in(2);
    if is_default { sample } else { sample.attr("keepdims", Attr::Int(keeps_axis.into())) }
}

/// A tensor or a sequence.
fn element(draw: &mut Draw, dtype: DType) -> Value {
    let mut items = items(draw, dtype, 1);
    if draw.one_in(2) { Value::Sequence(items) } else { items.remove(0) }
}

fn full(element: &Value) -> Value {
    Value::Optional(Some(Box::new(element.clone())))
}

fn optional(draw: &mut Draw, dtype: DType) -> Sample {
    let element = element(draw, dtype);
    making(vec![element.clone()], full(&element))
}

fn get_element(draw: &mut Draw, dtype: DType) -> Sample {
    let element = element(draw, dtype);
    let may_be_bare = draw.version >= 18;
    let x = if may_be_bare && draw.one_in(2) { element.clone() } else { full(&element) };
    making(vec![x], element)
}

fn has_element(draw: &mut Draw, dtype: DType) -> Sample {
    let element = element(draw, dtype);
    let mut inputs = vec![(vec![full(&element)], true), (vec![Value::Optional(None)], false)];
    if draw.version >= 18 {
        inputs.extend([(vec![element], true), (vec![], false)]);
    }
    let (x, has) = draw.pick(&inputs);
    making(x, Tensor::scalar(Bool::from(has)))
}

fn constant(draw: &mut Draw, dtype: DType) -> Sample {
    const FLOATS: [f32; 3] = [1.5, -0.0, f32::INFINITY];
    const INTS: [i64; 3] = [-7, 0, i64::MAX];
    let strings = ["", "é", "ab"].map(str::to_owned);
    let shape = draw.shape(0);
    let value = draw.any(dtype, &shape);
    let mut forms = vec![("value", Attr::Tensor(value.clone()), value)];
    match dtype {
        _ if draw.version < 12 => {}
        DType::F32 => {
            forms.push(("value_float", Attr::Float(FLOATS[1]), Tensor::scalar(FLOATS[1])));
            let vector = Tensor::from_slice(&[3], &FLOATS).unwrap();
            forms.push(("value_floats", Attr::Floats(FLOATS.to_vec()), vector));
        }
        DType::I64 => {
            forms.push(("value_int", Attr::Int(INTS[2]), Tensor::scalar(INTS[2])));
            forms.push(("value_ints", Attr::Ints(INTS.to_vec()), ints(&INTS)));
        }
        DType::String => {
            let scalar = Tensor::from_strings(&[], strings[1..2].to_vec()).unwrap();
            forms.push(("value_string", Attr::String(strings[1].clone()), scalar));
            let vector = Tensor::from_strings(&[3], strings.to_vec()).unwrap();
            forms.push(("value_strings", Attr::Strings(strings.to_vec()), vector));
        }
        _ => {}
    }
    let (name, attr, value) = draw.pick(&forms);
    making(vec![], value).attr(name, attr)
}

fn constant_of_shape(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let value = draw.any(dtype, &[1]);
    let is_default = dtype == DType::F32 && draw.one_in(2);
    let cell = if is_default { Cell::Float(0.0) } else { Array::of(&value).cells.remove(0) };
    let sample = Sample::new(&[&counts(&shape)], move || {
        Expected::exact(dtype, Array::from_fn(&shape, |_| cell.clone()))
    });
    if is_default { sample } else { sample.attr("value", Attr::Tensor(value)) }
}
