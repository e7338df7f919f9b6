//! Lists of keys that elements are looked up in.

// collects are bounded: as long as the file's lists

use std::collections::HashMap;

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{
    DType, Number, Tensor, TensorError, TensorView, TensorViewMut, collected, move_elements,
    with_dtype,
};

use crate::elementwise::unsupported;

/// The index of each key of a list. Numbers are compared by value: −0 equals 0, NaN equals NaN, and integers of
/// different widths are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    dtype: DType,
    places: Places,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Places {
    Strings(HashMap<String, usize>),
    Numbers(HashMap<u64, usize>),
}

impl Vocabulary {
    /// From the strings, integers or floats `keys`. A repeated key has its last index.
    ///
    /// # Errors
    /// If the keys are of another type.
    pub(crate) fn new(keys: TensorView<'_>) -> Result<Self, OpError> {
        let places = if keys.dtype() == DType::String {
            Places::Strings(keys.as_strings()?.iter().cloned().zip(0..).collect())
        } else {
            Places::Numbers(number_keys(keys)?.into_iter().zip(0..).collect())
        };
        Ok(Self { dtype: keys.dtype(), places })
    }

    /// The type of the keys.
    pub(crate) const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The index of each element of `x`, if it is a key.
    ///
    /// # Errors
    /// If elements and keys are of different kinds, such as strings and numbers.
    pub(crate) fn find(&self, x: TensorView<'_>) -> Result<Vec<Option<usize>>, OpError> {
        match &self.places {
            Places::Strings(places) => {
                Ok(collected(x.as_strings()?.iter().map(|x| places.get(x).copied()))?)
            }
            Places::Numbers(places) if self.dtype.is_integer() == x.dtype().is_integer() => {
                Ok(collected(number_keys(x)?.iter().map(|x| places.get(x).copied()))?)
            }
            Places::Numbers(_) => {
                Err(TensorError::DType { expected: self.dtype, found: x.dtype() }.into())
            }
        }
    }
}

/// The list in one of two attributes, of integers or of strings.
///
/// # Errors
/// If both are present, or none is.
pub(crate) fn read_keys(
    spec: &NodeSpec<'_>,
    integers: &'static str,
    strings: &'static str,
) -> Result<Tensor, OpError> {
    match (spec.ints(integers)?, spec.strings(strings)?) {
        (Some(keys), None) => Ok(Tensor::from_slice(&[keys.len()], keys)?),
        (None, Some(keys)) => Ok(Tensor::from_strings(&[keys.len()], keys.to_vec())?),
        (None, None) => Err(OpError::MissingAttribute { name: integers }),
        (Some(keys), Some(_)) => {
            Err(OpError::AttributeValue { name: integers, found: format!("{keys:?}") })
        }
    }
}

/// Keys that are equal for equal numbers of one kind.
fn number_keys(x: TensorView<'_>) -> Result<Vec<u64>, OpError> {
    with_dtype!(x.dtype(), [i8, i16, i32, i64, u8, u16, u32], T => {
        return Ok(collected(x.as_slice::<T>()?.iter().map(|&x| integer_key(x)))?);
    }, else => {});
    with_dtype!(x.dtype(), [f32, f64], T => {
        Ok(collected(x.as_slice::<T>()?.iter().map(|&x| float_key(Number::to_f64(x))))?)
    }, else => Err(unsupported(0, x.dtype())))
}

fn integer_key(x: impl Into<i64>) -> u64 {
    x.into().cast_unsigned()
}

fn float_key(x: f64) -> u64 {
    // Adding 0 makes −0 positive.
    if x.is_nan() { f64::NAN.to_bits() } else { (x + 0.0).to_bits() }
}

/// `y[i] = values[places[i]]`, and zero or an empty string where there is no index.
///
/// # Errors
/// If the element types differ.
pub(crate) fn pick(
    values: TensorView<'_>,
    places: &[Option<usize>],
    y: TensorViewMut<'_>,
) -> Result<(), TensorError> {
    move_elements!(values => y, |src, dst| {
        for (y, place) in dst.iter_mut().zip(places) {
            *y = place.and_then(|place| src.get(place)).cloned().unwrap_or_default();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::tensor;

    #[test]
    fn numbers_are_found_by_value() {
        let floats = Vocabulary::new(tensor(&[3], &[f32::NAN, -0.0, 0.5]).view()).unwrap();
        let x = tensor(&[4], &[0.0, 0.5, -f64::NAN, 0.1]);
        assert_eq!(floats.find(x.view()), Ok(vec![Some(1), Some(2), Some(0), None]));
        let integers = Vocabulary::new(tensor(&[3], &[-1_i64, 7, 7]).view()).unwrap();
        assert_eq!(integers.find(tensor(&[2], &[7_i8, -1]).view()), Ok(vec![Some(2), Some(0)]));
        assert!(
            integers.find(x.view()).is_err() && floats.find(tensor(&[0], &[0; 0]).view()).is_err()
        );
    }
}
