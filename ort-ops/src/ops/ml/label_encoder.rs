//! LabelEncoder: maps keys to values.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor, copy_texts, move_elements};

use crate::elementwise::shaped_like_first;
use crate::vocabulary::{Vocabulary, pick};

/// The definitions of this file: versions 2 and 4. Version 1 is a form of CategoryMapper.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "LabelEncoder",
    versions: (2, 4),
    types: is_label,
    build: LabelEncoder::build,
}];

/// LabelEncoder: `y[i] = values[j]` where `keys[j] = x[i]`, and the default where there is none.
/// Keys and values are strings, integers or floats. NaN matches NaN, and −0 matches 0.
///
/// Source: ONNX operator set ai.onnx.ml, LabelEncoder-4. Of repeated keys the last prevails in version 4, as
/// specified, and the first before. ONNX Runtime takes the first in version 4, too, and does not match NaN in version
/// 2.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelEncoder {
    keys: Vocabulary,
    /// The values of the keys, followed by the default.
    pub values: Tensor,
}

/// The attributes that can contain a list: as a tensor, strings, integers, floats.
type ListNames = [&'static str; 4];
const KEYS: ListNames = ["keys_tensor", "keys_strings", "keys_int64s", "keys_floats"];
const VALUES: ListNames = ["values_tensor", "values_strings", "values_int64s", "values_floats"];

impl LabelEncoder {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (keys, values) = (read_list(spec, KEYS)?, read_list(spec, VALUES)?);
        let default = read_default(spec, values.dtype())?;
        let is_last_found = spec.since_version >= 4;
        let order: Vec<usize> = (0..keys.len()).collect();
        let reversed: Vec<usize> = order.iter().rev().copied().collect();
        let order = if is_last_found { order } else { reversed };
        Ok(Arc::new(Self::new(&in_order(&keys, &order)?, &in_order(&values, &order)?, &default)?))
    }

    /// With as many keys as values, and one default of the values' type. Of repeated keys the last prevails.
    ///
    /// # Errors
    /// If there are more of one than of the other, or the types do not fit.
    pub fn new(keys: &Tensor, values: &Tensor, default: &Tensor) -> Result<Self, OpError> {
        let n = values.len();
        if keys.len() != n || default.len() != 1 {
            let (left, right) = (keys.shape().to_vec(), values.shape().to_vec());
            return Err(OpError::Shapes { what: "keys and their values", left, right });
        }
        let mut all = Tensor::zeros(values.dtype(), &[n.saturating_add(1)])?;
        move_elements!(values.view() => all.view_mut(),
            |src, dst| dst[..n].clone_from_slice(src))?;
        move_elements!(default.view() => all.view_mut(),
            |src, dst| dst[n..].clone_from_slice(src))?;
        Ok(Self { keys: Vocabulary::new(keys.view())?, values: all })
    }
}

/// The element types of keys and values.
pub(crate) const fn is_label(dtype: DType) -> bool {
    matches!(dtype, DType::String | DType::I64 | DType::I32 | DType::I16 | DType::F32 | DType::F64)
}

/// The only one of these attributes that is present, a list.
fn read_list(spec: &NodeSpec<'_>, names: ListNames) -> Result<Tensor, OpError> {
    let [tensor, strings, ints, floats] = names;
    let from_strings = |x: &[String]| Tensor::from_strings(&[x.len()], x.to_vec());
    let lists = [
        spec.tensor(tensor)?.map(Ok),
        spec.strings(strings)?.map(from_strings),
        spec.ints(ints)?.map(|x| Tensor::from_slice(&[x.len()], x)),
        spec.floats(floats)?.map(|x| Tensor::from_slice(&[x.len()], x)),
    ];
    let mut lists = lists.into_iter().flatten();
    let name = tensor;
    let list = lists.next().ok_or(OpError::MissingAttribute { name })??;
    let is_list = list.shape().len() == 1 && is_label(list.dtype());
    if lists.next().is_some() || !is_list {
        return Err(OpError::AttributeValue { name, found: format!("{list:?}") });
    }
    Ok(list)
}

/// The value of unknown keys.
fn read_default(spec: &NodeSpec<'_>, dtype: DType) -> Result<Tensor, OpError> {
    let (text, integer, float) =
        (spec.string("default_string")?, spec.int("default_int64")?, spec.float("default_float")?);
    if let Some(default) = spec.tensor("default_tensor")? {
        return Ok(default);
    }
    // The attributes have fixed types; values of another type have fixed defaults.
    Ok(match dtype {
        DType::String => Tensor::from_strings(&[], vec![text.unwrap_or("_Unused").to_owned()])?,
        DType::I64 => Tensor::scalar(integer.unwrap_or(-1)),
        DType::I32 => Tensor::scalar(-1_i32),
        DType::I16 => Tensor::scalar(-1_i16),
        DType::F64 => Tensor::scalar(-0.0_f64),
        _ => Tensor::scalar(float.unwrap_or(-0.0)),
    })
}

fn in_order(list: &Tensor, order: &[usize]) -> Result<Tensor, OpError> {
    let mut y = Tensor::zeros(list.dtype(), &[list.len()])?;
    let places: Vec<_> = order.iter().copied().map(Some).collect();
    pick(list.view(), &places, y.view_mut())?;
    Ok(y)
}

impl Operator for LabelEncoder {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.fact(0)?;
        inputs.expect_dtype(0, self.keys.dtype())?;
        Ok(vec![shaped_like_first(inputs, self.values.dtype())?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let y = outputs[0].tensor(self.values.dtype(), x.shape())?;
        // Unknown elements have the index after the last, where the default is.
        if let Ok(values) = self.values.view().as_strings() {
            let mut rest = y.into_strings()?;
            return Ok(self.keys.find_blocks(x, |places| {
                let y = rest.split_off_mut(..places.len()).unwrap_or_default();
                copy_texts(places.iter().map(|&place| values[place].as_str()), y)
            })?);
        }
        Ok(move_elements!(self.values.view() => y, |values, y| {
            self.keys.find_each(x, y, |y, place| y.clone_from(&values[place]))
        })?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    fn case(version: i32, attrs: &[(&str, Attr)]) -> Case {
        let case = Case::new("LabelEncoder", version).domain("ai.onnx.ml");
        attrs.iter().fold(case, |case, (name, attr)| case.attr(name, attr.clone()))
    }

    fn strings(words: &[&str]) -> Tensor {
        Tensor::from_strings(&[words.len()], words.iter().map(|&w| w.into()).collect()).unwrap()
    }

    fn words(words: &[&str]) -> Attr {
        Attr::Strings(words.iter().map(|&word| word.into()).collect())
    }

    #[test]
    fn keys_lead_to_values_and_everything_else_to_the_default() {
        let ints = ("values_int64s", Attr::Ints(vec![5, 6]));
        let names = ("keys_strings", words(&["a", "b"]));
        let x = strings(&["b", "", "a"]);
        for version in [2, 4] {
            let case = case(version, &[names.clone(), ints.clone()]);
            assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(tensor(&[3], &[6_i64, -1, 5])));
            let case = case.attr("default_int64", Attr::Int(9));
            assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(tensor(&[3], &[6_i64, 9, 5])));
        }
        let back =
            case(2, &[("keys_int64s", Attr::Ints(vec![5])), ("values_strings", words(&["a"]))]);
        assert_eq!(back.tensor(&[tensor(&[2], &[5_i64, 6])]), Ok(strings(&["a", "_Unused"])));
        assert!(back.tensor(&[tensor(&[1], &[5_i32])]).is_err());
    }

    #[test]
    fn floats_are_found_by_value() {
        let keys = ("keys_floats", Attr::Floats(vec![0.0, f32::NAN]));
        let case = case(4, &[keys, ("values_floats", Attr::Floats(vec![1.0, 2.0]))]);
        let x = tensor(&[3], &[-0.0, -f32::NAN, 7.0]);
        assert_eq!(case.tensor(&[x]), Ok(tensor(&[3], &[1_f32, 2.0, -0.0])));
    }

    #[test]
    fn tensors_hold_the_other_types() {
        let keys = ("keys_tensor", Attr::Tensor(tensor(&[2], &[1_i32, 2])));
        let x = tensor(&[1, 2], &[2_i32, 3]);
        let values = [
            (tensor(&[2], &[3_i16, 4]), tensor(&[1, 2], &[4_i16, -1])),
            (tensor(&[2], &[3_f64, 4.0]), tensor(&[1, 2], &[4_f64, -0.0])),
        ];
        for (values, y) in values {
            let case = case(4, &[keys.clone(), ("values_tensor", Attr::Tensor(values))]);
            assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(y));
        }
        let values = ("values_tensor", Attr::Tensor(tensor(&[2], &[3_i16, 4])));
        let case =
            case(4, &[keys, values, ("default_tensor", Attr::Tensor(tensor(&[1], &[9_i16])))]);
        assert_eq!(case.tensor(&[x]), Ok(tensor(&[1, 2], &[4_i16, 9])));
    }

    #[test]
    fn the_version_decides_which_duplicate_key_counts() {
        let attrs =
            [("keys_int64s", Attr::Ints(vec![1, 1])), ("values_int64s", Attr::Ints(vec![2, 3]))];
        for (version, y) in [(2, 2_i64), (4, 3)] {
            let found = case(version, &attrs).tensor(&[Tensor::scalar(1_i64)]);
            assert_eq!(found, Ok(Tensor::scalar(y)));
        }
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let keys = ("keys_int64s", Attr::Ints(vec![1]));
        let values = ("values_int64s", Attr::Ints(vec![1]));
        let default = |tensor| ("default_tensor", Attr::Tensor(tensor));
        for attrs in [
            vec![keys.clone()],
            vec![keys.clone(), ("values_int64s", Attr::Ints(vec![1, 2]))],
            vec![keys.clone(), values.clone(), ("keys_floats", Attr::Floats(vec![1.0]))],
            vec![keys.clone(), values.clone(), default(tensor(&[2], &[1_i64, 2]))],
            vec![keys.clone(), values.clone(), default(tensor(&[1], &[1_f32]))],
            vec![keys, ("values_tensor", Attr::Tensor(tensor(&[1, 1], &[1_i64])))],
        ] {
            assert!(case(4, &attrs).tensor(&[Tensor::scalar(1_i64)]).is_err(), "{attrs:?}");
        }
    }
}
