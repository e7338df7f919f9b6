//! CastMap: the values of a map as a row, in the order of its keys.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Tensor, TensorView, TensorViewMut, collected, move_elements,
    sort, try_collected,
};

use crate::elementwise::unsupported;
use crate::infer::map_types;
use crate::vocabulary::pick;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "CastMap",
    versions: (1, 1),
    types: is_value,
    build: CastMap::build,
}];

/// CastMap: from a map of int64 keys to floats or strings a row `[1, N]` of floats, int64 or
/// strings. Dense, its values in ascending order of their keys; sparse, `y[0, key] = value`, where keys from `n` on
/// are ignored, and absent ones are 0 (as a string `0.f`).
///
/// Floats become text with six decimals, or integers rounded toward zero and saturated, NaN as 0. Text is
/// read as a number if all of it is one.
///
/// Source: ONNX operator set ai.onnx.ml, CastMap-1; the text is ONNX Runtime's, which also reads numbers from the
/// beginning of longer text, and gives the smallest int64 out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastMap {
    /// The type of the row.
    pub to: DType,
    /// The length of a sparse row; none for a dense one.
    pub n: Option<usize>,
}

impl CastMap {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let wrong =
            |name, found: &dyn ToString| OpError::AttributeValue { name, found: found.to_string() };
        let to = match spec.string("cast_to")? {
            None | Some("TO_FLOAT") => DType::F32,
            Some("TO_STRING") => DType::String,
            Some("TO_INT64") => DType::I64,
            Some(other) => return Err(wrong("cast_to", &other)),
        };
        let max_map = spec.int("max_map")?.unwrap_or(1);
        let n = match spec.string("map_form")? {
            None | Some("DENSE") => None,
            Some("SPARSE") => {
                let n = usize::try_from(max_map).ok().filter(|&n| n > 0);
                Some(n.ok_or_else(|| wrong("max_map", &max_map))?)
            }
            Some(other) => return Err(wrong("map_form", &other)),
        };
        Ok(Arc::new(Self { to, n }))
    }

    /// The values of a map in the type of the row.
    fn cast(&self, values: &Tensor) -> Result<Tensor, OpError> {
        let shape = values.shape();
        if let Ok(values) = values.as_slice::<f32>() {
            return Ok(match self.to {
                DType::String => {
                    Tensor::from_strings(shape, collected(values.iter().map(|&x| text(x)))?)?
                }
                DType::I64 => {
                    let values = values.iter().map(|&x| i64::from_f64(x.into()));
                    Tensor::from_slice(shape, &collected(values)?)?
                }
                _ => Tensor::from_slice(shape, values)?,
            });
        }
        let texts = values.view().as_strings()?;
        Ok(match self.to {
            DType::String => values.clone(),
            DType::I64 => Tensor::from_slice(shape, &parsed::<i64>(texts)?)?,
            _ => Tensor::from_slice(shape, &parsed::<f32>(texts)?)?,
        })
    }
}

/// What C's `%f` prints.
fn text(x: f32) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{x:.6}") }
}

fn parsed<T: std::str::FromStr>(texts: &[String]) -> Result<Vec<T>, OpError> {
    let wrong = |_| OpError::InputValue { index: 0, what: "a text that is not such a number" };
    try_collected(texts.iter().map(|text| text.trim().parse().map_err(wrong)))
}

const fn is_value(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::String)
}

impl Operator for CastMap {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        map_types(inputs, 0, |key, value| key == DType::I64 && is_value(value))?;
        let n = self.n.map_or(Dim::Unknown, Dim::Known);
        Ok(vec![Fact::tensor(self.to, [Dim::Known(1), n])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.value(0)?.map()?;
        if !is_value(x.values.dtype()) {
            return Err(unsupported(0, x.values.dtype()));
        }
        let (keys, values) = (x.keys.as_slice::<i64>()?, self.cast(&x.values)?);
        let y = outputs[0].tensor(self.to, &[1, self.n.unwrap_or(keys.len())])?;
        if self.n.is_some() {
            return scatter(keys, values.view(), y);
        }
        let mut order = collected(0..keys.len())?;
        sort(&mut order, &|&a, &b| keys[a].cmp(&keys[b]))?;
        let places = collected(order.into_iter().map(Some))?;
        Ok(pick(values.view(), &places, y)?)
    }
}

/// `y[0, key] = value` within `y`; the rest is zero or empty.
fn scatter(keys: &[i64], values: TensorView<'_>, mut y: TensorViewMut<'_>) -> Result<(), OpError> {
    match y.reborrow().into_bytes() {
        Some(bytes) => bytes.fill(0),
        None => y.reborrow().into_strings()?.fill("0.f".to_owned()),
    }
    let below_zero = |_| OpError::InputValue { index: 0, what: "a key below zero" };
    let keys: Vec<usize> =
        try_collected(keys.iter().map(|&key| key.try_into().map_err(below_zero)))?;
    Ok(move_elements!(values => y, |src, dst| {
        for (&key, value) in keys.iter().zip(src) {
            if let Some(y) = dst.get_mut(key) {
                y.clone_from(value);
            }
        }
    })?)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Map, Value};

    use super::*;
    use crate::case::{Case, tensor};

    fn strings(shape: &[usize], words: &[&str]) -> Tensor {
        Tensor::from_strings(shape, words.iter().map(|&w| w.into()).collect()).unwrap()
    }

    fn run(to: &str, n: Option<i64>, keys: &[i64], values: Tensor) -> Option<Tensor> {
        let case = Case::new("CastMap", 1).domain("ai.onnx.ml");
        let case = case.attr("cast_to", Attr::String(to.into()));
        let case = match n {
            None => case,
            Some(n) => {
                case.attr("map_form", Attr::String("SPARSE".into())).attr("max_map", Attr::Int(n))
            }
        };
        let map = Value::Map(Map { keys: tensor(&[keys.len()], keys), values });
        let values = case.run_values(&[Some(map)]).ok()?;
        values[0].as_tensor().ok().cloned()
    }

    #[test]
    fn dense_rows_are_in_the_order_of_the_keys() {
        let floats = tensor(&[2], &[1.5_f32, -2.7]);
        let dense = |to, values: &Tensor| run(to, None, &[3, -1], values.clone());
        assert_eq!(dense("TO_FLOAT", &floats), Some(tensor(&[1, 2], &[-2.7_f32, 1.5])));
        assert_eq!(dense("TO_INT64", &floats), Some(tensor(&[1, 2], &[-2_i64, 1])));
        let text = strings(&[1, 2], &["-2.700000", "1.500000"]);
        assert_eq!(dense("TO_STRING", &floats), Some(text));
        let texts = strings(&[2], &[" 2e3", "-5"]);
        assert_eq!(dense("TO_FLOAT", &texts), Some(tensor(&[1, 2], &[-5_f32, 2e3])));
        assert_eq!(dense("TO_STRING", &texts), Some(strings(&[1, 2], &["-5", " 2e3"])));
        assert_eq!(dense("TO_INT64", &texts), None);
        assert_eq!(dense("TO_BOOL", &floats), None);
        let empty = run("TO_FLOAT", None, &[], tensor(&[0], &[0_f32; 0]));
        assert_eq!(empty, Some(tensor(&[1, 0], &[0_f32; 0])));
    }

    #[test]
    fn sparse_rows_are_indexed_by_the_keys() {
        let floats = tensor(&[2], &[1.5_f32, f32::NAN]);
        let sparse = |to, n, key| run(to, Some(n), &[3, key], floats.clone());
        assert_eq!(sparse("TO_INT64", 4, 0), Some(tensor(&[1, 4], &[0_i64, 0, 0, 1])));
        assert_eq!(sparse("TO_STRING", 2, 1), Some(strings(&[1, 2], &["0.f", "nan"])));
        assert_eq!(sparse("TO_FLOAT", 1, i64::MAX), Some(tensor(&[1, 1], &[0_f32])));
        assert_eq!(sparse("TO_FLOAT", 4, -1), None);
        assert_eq!(sparse("TO_FLOAT", 0, 1), None);
        assert_eq!(sparse("TO_FLOAT", i64::MAX, 1), None);
    }
}
