//! A summary of a value: its type, its first elements and their range.

use ort_session::{Bool, DType, Number, TensorView, Type, Value, with_dtype};
use serde_json::{Value as Json, json};

use crate::number::{as_f64, significant};

/// How many of the first elements are shown.
const N_SHOWN: usize = 6;

/// The summary of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The element type of a tensor, or the whole type of anything else.
    pub(crate) ty: String,
    /// Of a tensor.
    pub(crate) shape: Option<Vec<usize>>,
    /// Of a tensor of numbers.
    pub(crate) spread: Option<Spread>,
    /// The first elements of a tensor.
    pub(crate) first: Vec<Json>,
    /// How many elements a tensor or sequence has.
    pub(crate) len: usize,
}

/// The range of the numbers; those that are not finite are only counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
    pub(crate) n_not_finite: usize,
}

impl Summary {
    pub(crate) fn of(value: &Value) -> Self {
        let (ty, len) = match value {
            Value::Tensor(tensor) => return Self::of_tensor(tensor.view()),
            Value::Sequence(values) => (Type::of_value(value).to_string(), values.len()),
            Value::Map(map) => (Type::of_value(value).to_string(), map.keys.len()),
            Value::Optional(inner) => {
                (Type::of_value(value).to_string(), usize::from(inner.is_some()))
            }
            _ => (value.kind().to_owned(), 0),
        };
        Self { ty, shape: None, spread: None, first: Vec::new(), len }
    }

    fn of_tensor(view: TensorView<'_>) -> Self {
        Self {
            ty: view.dtype().to_string(),
            shape: Some(view.shape().to_vec()),
            spread: spread(view),
            first: first(view),
            len: view.len(),
        }
    }

    /// `1x3x224x224`, `scalar`, or empty for other values.
    pub(crate) fn shape_text(&self) -> String {
        self.shape.as_deref().map_or_else(String::new, shape_text)
    }

    /// `0.12 -1.5 3 …`
    pub(crate) fn first_text(&self) -> String {
        let Some(_) = self.shape else {
            return format!("{} {}", self.len, if self.len == 1 { "value" } else { "values" });
        };
        let text = |value: &Json| match value {
            Json::Number(number) if number.is_f64() => {
                significant(number.as_f64().unwrap_or(f64::NAN))
            }
            Json::String(text) if self.ty != DType::String.name() => text.clone(),
            other => other.to_string(),
        };
        let mut words: Vec<String> = self.first.iter().map(text).collect();
        if self.len > self.first.len() {
            words.push("…".to_owned());
        }
        words.join(" ")
    }

    pub(crate) fn to_json(&self) -> Json {
        json!({
            "type": self.ty,
            "shape": self.shape,
            "min": self.spread.map(|spread| spread.min),
            "max": self.spread.map(|spread| spread.max),
            "mean": self.spread.map(|spread| spread.mean),
            "not_finite": self.spread.map(|spread| spread.n_not_finite),
            "first": self.first,
        })
    }
}

/// `1x3x224x224`, or `scalar`.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") }
}

/// Of numbers, if there is a finite one.
fn spread(view: TensorView<'_>) -> Option<Spread> {
    with_dtype!(view.dtype(), number, T => {
        let numbers = view.as_slice::<T>().ok()?.iter().map(|x| x.to_f64());
        let (mut min, mut max, mut sum, mut n) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0);
        for x in numbers.filter(|x| x.is_finite()) {
            (min, max, sum, n) = (min.min(x), max.max(x), sum + x, n + 1);
        }
        let n_not_finite = view.len() - n;
        (n > 0).then(|| Spread { min, max, mean: sum / as_f64(n), n_not_finite })
    }, else => None)
}

/// The first elements; numbers that JSON lacks are strings.
fn first(view: TensorView<'_>) -> Vec<Json> {
    let dtype = view.dtype();
    if let Ok(strings) = view.as_strings() {
        return strings.iter().take(N_SHOWN).map(|text| json!(text)).collect();
    }
    if let Ok(bools) = view.as_slice::<Bool>() {
        return bools.iter().take(N_SHOWN).map(|it| json!(it.get())).collect();
    }
    if let Ok(elements) = view.unpacked() {
        let value = |&element| dtype.decode_packed(element).map_or(Json::Null, |x| json!(x));
        return elements.iter().take(N_SHOWN).map(value).collect();
    }
    with_dtype!(dtype, integer, T => {
        let integers = view.as_slice::<T>().unwrap_or_default().iter().take(N_SHOWN);
        integers.map(|x| json!(x)).collect()
    }, else => with_dtype!(dtype, float, T => {
        let floats = view.as_slice::<T>().unwrap_or_default().iter().take(N_SHOWN);
        floats.map(|x| float(&x.to_string())).collect()
    }, else => with_dtype!(dtype, plain, T => {
        let elements = view.as_slice::<T>().unwrap_or_default().iter().take(N_SHOWN);
        elements.map(|x| json!(format!("{x:?}"))).collect()
    }, else => Vec::new())))
}

/// A float by its shortest text, so that a `float` 0.1 is not 0.10000000149011612.
fn float(text: &str) -> Json {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => json!(x),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ort_session::Tensor;

    #[test]
    fn a_tensor_has_type_shape_range_and_first_elements() {
        let data = [1.5_f32, -2.0, f32::NAN, 0.1, 4.0, f32::INFINITY, 7.0, 8.0];
        let tensor = Tensor::from_slice(&[2, 4], &data).unwrap();
        let summary = Summary::of(&tensor.into());
        assert_eq!(summary.shape_text(), "2x4");
        assert_eq!(summary.first_text(), "1.5 -2 NaN 0.1 4 inf …");
        let spread = summary.spread.unwrap();
        assert_eq!((spread.min, spread.max, spread.n_not_finite), (-2.0, 8.0, 2));
        assert_eq!(summary.to_json()["first"], json!([1.5, -2.0, "NaN", 0.1, 4.0, "inf"]));
    }

    #[test]
    fn other_values_have_no_range() {
        let texts = Tensor::from_strings(&[], vec!["a b".to_owned()]).unwrap();
        let bools = Tensor::from_slice(&[2], &[Bool::from(true), Bool::from(false)]).unwrap();
        let empty = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
        for (value, shape, first) in [
            (Value::from(texts), "scalar", "\"a b\""),
            (bools.into(), "2", "true false"),
            (empty.into(), "0x3", ""),
            (Value::Sequence(vec![]), "", "0 values"),
            (Value::Optional(None), "", "0 values"),
        ] {
            let summary = Summary::of(&value);
            assert_eq!(summary.spread, None);
            assert_eq!(summary.shape_text(), shape);
            assert_eq!(summary.first_text(), first);
        }
    }
}
