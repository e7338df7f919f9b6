//! Compares an actual with an expected value, and reports the first difference.

mod deviation;
mod distance;

use std::fmt;
use std::str::FromStr;

use ort_tensor::{DType, Map, Tensor, Value};

pub use self::deviation::{Beyond, Deviation, deviation};

/// The allowed deviation of a number: `|found − expected| ≤ atol + rtol·|expected|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
}

/// Two values that differ, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct Mismatch {
    /// The path from the value to the part that differs: positions in sequences, `keys` and
    /// `values` in maps. Empty for a tensor.
    pub path: String,
    /// The difference of that part.
    pub difference: Difference,
}

/// The kinds of differences.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// Values of different kinds, such as a tensor and a sequence.
    #[error("expected a {expected}, found a {found}")]
    Kind {
        /// `tensor`, `sequence`, `map` or `optional`.
        expected: &'static str,
        /// The actual kind.
        found: &'static str,
    },
    /// One optional has a value and the other has none.
    #[error("expected {}, found {}", presence(*expected), presence(!expected))]
    Presence {
        /// Whether a value was expected.
        expected: bool,
    },
    /// Sequences of different lengths.
    #[error("expected {expected} values, found {found}")]
    Length {
        /// The expected number of values.
        expected: usize,
        /// The actual number of values.
        found: usize,
    },
    /// Tensors of different types.
    #[error("expected elements of type {expected}, found {found}")]
    DType {
        /// The expected type.
        expected: DType,
        /// The actual type.
        found: DType,
    },
    /// Tensors of different shapes.
    #[error("expected shape {expected:?}, found {found:?}")]
    Shape {
        /// The expected dimensions.
        expected: Vec<usize>,
        /// The actual dimensions.
        found: Vec<usize>,
    },
    /// Elements beyond the tolerance.
    #[error(
        "element {index:?}: expected {expected}, found {found} \
         ({n_wrong} of {n_elements} differ, at most by {max_error:e})"
    )]
    Elements {
        /// The index of the first wrong element.
        index: Vec<usize>,
        /// The expected element.
        expected: String,
        /// The actual element.
        found: String,
        /// The number of wrong elements.
        n_wrong: usize,
        /// The number of elements.
        n_elements: usize,
        /// The largest `|found − expected|` of a wrong element; infinite if one is not a number.
        max_error: f64,
    },
}

/// A string that is not `rtol atol`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected two numbers, `rtol atol`, found {0:?}")]
pub struct ParseToleranceError(pub String);

/// Whether `found` equals `expected`, up to `tolerance`.
///
/// Kind, length, element type and shape must agree. NaN equals NaN, infinities equal themselves,
/// −0 equals 0. Integers are compared as exact numbers under the same rule as floats; complex
/// numbers by the modulus of their difference; bool and strings exactly. Source: numpy 2,
/// `numpy.testing.assert_allclose`, by which the standard's own test runner compares.
///
/// # Errors
/// The first difference. Within a tensor, all elements are compared.
pub fn compare(expected: &Value, found: &Value, tolerance: Tolerance) -> Result<(), Mismatch> {
    match (expected, found) {
        (Value::Tensor(expected), Value::Tensor(found)) => Ok(tensors(expected, found, tolerance)?),
        (Value::Sequence(expected), Value::Sequence(found)) => {
            sequences(expected, found, tolerance)
        }
        (Value::Map(expected), Value::Map(found)) => maps(expected, found, tolerance),
        (Value::Optional(Some(expected)), Value::Optional(Some(found))) => {
            compare(expected, found, tolerance)
        }
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (Value::Optional(expected), Value::Optional(_)) => {
            Err(Difference::Presence { expected: expected.is_some() }.into())
        }
        _ => Err(Difference::Kind { expected: expected.kind(), found: found.kind() }.into()),
    }
}

impl Tolerance {
    /// Equality.
    pub const EXACT: Self = Self { rtol: 0.0, atol: 0.0 };

    fn accepts(self, error: f64, magnitude: f64) -> bool {
        error == 0.0 || (error.is_finite() && error <= self.atol + self.rtol * magnitude)
    }
}

/// `1e-3 1e-5`.
impl Default for Tolerance {
    fn default() -> Self {
        Self { rtol: 1e-3, atol: 1e-5 }
    }
}

/// Parses `rtol atol`: two non-negative numbers, separated by white space.
impl FromStr for Tolerance {
    type Err = ParseToleranceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Option<Vec<f64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rtol, atol]) if rtol >= 0.0 && atol >= 0.0 => Ok(Self { rtol, atol }),
            _ => Err(ParseToleranceError(text.to_owned())),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        self.difference.fmt(f)
    }
}

impl Mismatch {
    fn below(self, step: impl fmt::Display) -> Self {
        Self { path: format!("{step}{}", self.path), ..self }
    }
}

impl From<Difference> for Mismatch {
    fn from(difference: Difference) -> Self {
        Self { path: String::new(), difference }
    }
}

fn presence(is_there: bool) -> &'static str {
    if is_there { "a value" } else { "none" }
}

fn sequences(expected: &[Value], found: &[Value], tolerance: Tolerance) -> Result<(), Mismatch> {
    if expected.len() != found.len() {
        return Err(Difference::Length { expected: expected.len(), found: found.len() }.into());
    }
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        compare(expected, found, tolerance).map_err(|wrong| wrong.below(format_args!("[{i}]")))?;
    }
    Ok(())
}

/// Keys are compared exactly and in order, as they are stored in a map's file.
fn maps(expected: &Map, found: &Map, tolerance: Tolerance) -> Result<(), Mismatch> {
    let at =
        |step: &'static str| move |difference: Difference| Mismatch::from(difference).below(step);
    tensors(&expected.keys, &found.keys, Tolerance::EXACT).map_err(at("keys"))?;
    tensors(&expected.values, &found.values, tolerance).map_err(at("values"))
}

fn tensors(expected: &Tensor, found: &Tensor, tolerance: Tolerance) -> Result<(), Difference> {
    let deviation = deviation(expected.view(), found.view(), tolerance)?;
    let Some(Beyond { index, expected, found }) = deviation.first else { return Ok(()) };
    let Deviation { n_elements, n_beyond: n_wrong, max_beyond: max_error, .. } = deviation;
    Err(Difference::Elements { index, expected, found, n_wrong, n_elements, max_error })
}

#[cfg(test)]
mod tests;
