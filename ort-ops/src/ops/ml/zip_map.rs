//! ZipMap: the scores of classes as maps from their labels.

// collects are bounded: as long as the file's lists

use std::collections::BTreeMap;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator, Type};
use ort_tensor::{DType, Inputs, Map, Output, Tensor, Value, try_collected};

use crate::vocabulary::read_keys;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "ZipMap",
    versions: (1, 1),
    types: is_score,
    build: ZipMap::build,
}];

/// ZipMap: for each row of `x: [N, C]` (float) a map from the `C` labels, in ascending order, to
/// the elements of the row. `x: [C]` is one row. A repeated label maps to its last column.
///
/// Source: ONNX operator set ai.onnx.ml, ZipMap-1.
#[derive(Clone, Debug, PartialEq)]
pub struct ZipMap {
    /// The labels in ascending order: integers or strings.
    pub labels: Tensor,
    /// The column of each label.
    pub columns: Vec<usize>,
    /// How many columns there are.
    pub n_columns: usize,
}

impl ZipMap {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let labels = read_keys(spec, "classlabels_int64s", "classlabels_strings")?;
        let n_columns = labels.len();
        let (labels, columns) = if let Ok(strings) = labels.view().as_strings() {
            let (labels, columns) = sorted(strings);
            (Tensor::from_strings(&[labels.len()], labels)?, columns)
        } else {
            let (labels, columns) = sorted(labels.as_slice::<i64>()?);
            (Tensor::from_slice(&[labels.len()], &labels)?, columns)
        };
        Ok(Arc::new(Self { labels, columns, n_columns }))
    }
}

/// The labels in ascending order, and the last index of each.
fn sorted<T: Ord + Clone>(labels: &[T]) -> (Vec<T>, Vec<usize>) {
    labels.iter().cloned().zip(0..).collect::<BTreeMap<T, usize>>().into_iter().unzip()
}

fn is_score(dtype: DType) -> bool {
    dtype == DType::F32
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "1 or 2", found }
}

impl Operator for ZipMap {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let value = Box::new(Fact::shaped(inputs.dtype(0, is_score)?, &[]).ty);
        match inputs.fact(0)?.dims() {
            Some([.., n]) if n.unify(&Dim::Known(self.n_columns)).is_none() => {
                return Err(self.wrong_columns(n.known().unwrap_or(0)));
            }
            None | Some([_] | [_, _]) => {}
            Some(dims) => return Err(wrong_rank(dims.len())),
        }
        let map = Type::Map { key: self.labels.dtype(), value };
        Ok(vec![Type::Sequence(Box::new(map)).into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (n_rows, n) = match *x.shape() {
            [n] => (1, n),
            [n_rows, n] => (n_rows, n),
            _ => return Err(wrong_rank(x.shape().len())),
        };
        if n != self.n_columns {
            return Err(self.wrong_columns(n));
        }
        let mut rows = x.as_slice::<f32>()?.chunks_exact(n.max(1));
        let map = |_| {
            let row = rows.next().unwrap_or_default();
            let values: Vec<f32> = self.columns.iter().map(|&column| row[column]).collect();
            let values = Tensor::from_slice(&[values.len()], &values)?;
            Ok(Value::Map(Map { keys: self.labels.clone(), values }))
        };
        // Without labels, rows cost no memory in the input, but do here.
        let n_rows = if n == 0 { n_rows.min(x.len()) } else { n_rows };
        let maps = try_collected::<_, OpError>((0..n_rows).map(map))?;
        Ok(outputs[0].set(Value::Sequence(maps))?)
    }
}

impl ZipMap {
    fn wrong_columns(&self, found: usize) -> OpError {
        let what = "columns and labels";
        OpError::Shapes { what, left: vec![found], right: vec![self.n_columns] }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    fn run(labels: Attr, x: Tensor) -> Result<Value, String> {
        let name = match labels {
            Attr::Ints(_) => "classlabels_int64s",
            _ => "classlabels_strings",
        };
        let case = Case::new("ZipMap", 1).domain("ai.onnx.ml").attr(name, labels);
        case.run(&[x]).map(|mut values| values.remove(0))
    }

    fn map(keys: &Tensor, values: &[f32]) -> Value {
        Value::Map(Map { keys: keys.clone(), values: tensor(&[values.len()], values) })
    }

    #[test]
    fn each_row_becomes_a_map_in_the_order_of_the_labels() {
        let x = tensor(&[2, 2], &[0_f32, 1.0, 2.0, 3.0]);
        let keys = tensor(&[2], &[3_i64, 7]);
        let maps = vec![map(&keys, &[1.0, 0.0]), map(&keys, &[3.0, 2.0])];
        assert_eq!(run(Attr::Ints(vec![7, 3]), x), Ok(Value::Sequence(maps)));
        let names = ["b", "a"].map(str::to_owned).to_vec();
        let keys = Tensor::from_strings(&[2], vec!["a".into(), "b".into()]).unwrap();
        let maps = vec![map(&keys, &[5.0, 4.0])];
        let x = tensor(&[2], &[4_f32, 5.0]);
        assert_eq!(run(Attr::Strings(names), x), Ok(Value::Sequence(maps)));
    }

    #[test]
    fn labels_may_repeat_and_rows_be_none() {
        let key = tensor(&[1], &[7_i64]);
        let maps = vec![map(&key, &[1.0])];
        let x = tensor(&[1, 2], &[0_f32, 1.0]);
        assert_eq!(run(Attr::Ints(vec![7, 7]), x), Ok(Value::Sequence(maps)));
        let none = run(Attr::Ints(vec![7]), tensor(&[0, 1], &[0_f32; 0]));
        assert_eq!(none, Ok(Value::Sequence(vec![])));
    }

    #[test]
    fn columns_must_be_as_many_as_labels() {
        for shape in [&[3][..], &[1, 1], &[1, 1, 2], &[]] {
            let x = Tensor::zeros(DType::F32, shape).unwrap();
            assert!(run(Attr::Ints(vec![1, 2]), x).is_err(), "{shape:?}");
        }
    }
}
