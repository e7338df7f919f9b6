//! Expected outputs, and their tolerances.

use ort_tensor::{DType, Value};

use super::array::{Array, Cell};

/// An expected output.
pub(super) enum Expected {
    /// A tensor of these cells, rounded to the type, within `ulps` units in the last place (of the larger magnitude
    /// of the two), and this distance.
    Tensor { dtype: DType, array: Array, ulps: f64, distance: f64 },
    /// A tensor of this type and shape that satisfies a predicate.
    Such { dtype: DType, shape: Vec<usize>, holds: Box<dyn Fn(&Array) -> bool> },
    /// A tensor of these numbers within `slack`, rounded to the type; near a tie either neighbour is accepted.
    /// Integers saturate.
    Within { dtype: DType, array: Array, slack: f64 },
    /// Exactly this value.
    Value(Value),
    /// A sequence of such items.
    Sequence(Vec<Expected>),
}

impl Expected {
    /// Exact equality.
    pub(super) fn exact(dtype: DType, array: Array) -> Vec<Self> {
        Self::near(dtype, array, 0.0)
    }

    /// The result of a formula in double precision, rounded once: within one unit in the last place; for doubles,
    /// which show the error of the formula itself, within `ulps_of_double`.
    pub(super) fn rounded(dtype: DType, array: Array, ulps_of_double: f64) -> Vec<Self> {
        Self::near(dtype, array, if dtype == DType::F64 { ulps_of_double } else { 1.0 })
    }

    /// Within this many units in the last place.
    pub(super) fn near(dtype: DType, array: Array, ulps: f64) -> Vec<Self> {
        vec![Self::Tensor { dtype, array, ulps, distance: 0.0 }]
    }

    /// A result rounded once, of arithmetic with an error up to a distance, since terms cancel.
    pub(super) fn close(dtype: DType, array: Array, distance: f64) -> Self {
        Self::Tensor { dtype, array, ulps: 1.0, distance }
    }

    /// These numbers within `slack`.
    pub(super) fn within(dtype: DType, array: Array, slack: f64) -> Self {
        Self::Within { dtype, array, slack }
    }

    pub(super) fn check(&self, found: &Value, output: usize) {
        match self {
            Self::Value(expected) => assert_eq!(found, expected, "output {output}"),
            Self::Such { dtype, shape, holds } => {
                let found = found.as_tensor().unwrap();
                assert_eq!((found.dtype(), found.shape()), (*dtype, &**shape), "output {output}");
                assert!(holds(&Array::of(found)), "output {output} is {:?}", Array::of(found));
            }
            Self::Within { dtype, array, slack } => {
                let found = found.as_tensor().unwrap();
                assert_eq!((found.dtype(), found.shape()), (*dtype, &*array.shape), "{output}");
                let found = Array::of(found);
                let bound = |slack: f64| {
                    let cell = |x: &Cell| Cell::saturated(*dtype, x.float() + slack);
                    Array::of(&array.map(cell).to_tensor(*dtype)).cells.into_iter()
                };
                let bounds = bound(-slack).zip(bound(*slack));
                for (i, (found, (low, high))) in found.cells.iter().zip(bounds).enumerate() {
                    let is_between = low.float() <= found.float() && found.float() <= high.float();
                    assert!(
                        found.is(&low) || is_between,
                        "output {output}, cell {i}: {found:?} is not {low:?} to {high:?}"
                    );
                }
            }
            Self::Sequence(items) => {
                let found = found.view().sequence().unwrap();
                assert_eq!(found.len(), items.len(), "items of output {output}");
                items.iter().zip(found).for_each(|(item, found)| item.check(found, output));
            }
            Self::Tensor { dtype, array, ulps, distance } => {
                let found = found.as_tensor().unwrap();
                assert_eq!((found.dtype(), found.shape()), (*dtype, &*array.shape), "{output}");
                let (found, expected) = (Array::of(found), Array::of(&array.to_tensor(*dtype)));
                for (i, (found, expected)) in found.cells.iter().zip(&expected.cells).enumerate() {
                    assert!(
                        found.is(expected) || is_near(*dtype, found, expected, (*ulps, *distance)),
                        "output {output}, cell {i}: {found:?} is not {expected:?}"
                    );
                }
            }
        }
    }
}

/// Whether two floats differ by at most `ulps` units in the last place and this distance.
fn is_near(dtype: DType, a: &Cell, b: &Cell, (ulps, distance): (f64, f64)) -> bool {
    let (Cell::Float(a), Cell::Float(b)) = (a, b) else { return false };
    let ulp = ulp(dtype, a.abs().max(b.abs()));
    a.is_finite() && b.is_finite() && ulp.is_some_and(|ulp| (a - b).abs() <= ulps * ulp + distance)
}

/// The unit in the last place of a number of this magnitude, if the type is of floats.
pub(super) fn ulp(dtype: DType, magnitude: f64) -> Option<f64> {
    let (digits, smallest) = match dtype {
        DType::F64 => (52, -1022),
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::Bf16 => (7, -126),
        _ => return None,
    };
    Some(libm::scalbn(1.0, libm::ilogb(magnitude).max(smallest) - digits))
}
