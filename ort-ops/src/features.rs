//! The input of classical machine learning: a row of features for each sample.

use ort_graph::{Dim, Fact, Facts, OpError};
use ort_tensor::{DType, Inputs, Pace, TensorError, TensorView, collected, with_dtype, with_room};

use crate::elementwise::unsupported;

/// Whether a feature can be of this type: a float, int32 or int64.
pub(crate) const fn is_feature(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_index()
}

/// Samples as f64: `[N, F]`, or `[F]` for a single one.
#[derive(Debug)]
pub(crate) struct Rows {
    /// How many samples there are.
    pub n: usize,
    /// How many features each has.
    pub n_features: usize,
    values: Vec<f64>,
}

impl Rows {
    /// The samples of input 0.
    ///
    /// # Errors
    /// If the input is absent, of another type or of another rank.
    pub(crate) fn read(inputs: Inputs<'_>) -> Result<Self, OpError> {
        let x = inputs.tensor(0)?;
        let [n, n_features] = n_samples_and_features(x.shape())?;
        Ok(Self { n, n_features, values: numbers(0, x)? })
    }

    /// Checks that there are as many features as a model was made for.
    ///
    /// # Errors
    /// If there are more or fewer.
    pub(crate) fn expect_features(&self, expected: usize) -> Result<(), OpError> {
        expect_features(self.n_features, expected)
    }

    /// The samples in order, each of which takes this many operations, until the run is cancelled.
    pub(crate) fn iter(&self, cost: usize) -> impl Iterator<Item = Result<&[f64], TensorError>> {
        let mut pace = Pace::new();
        (0..self.n).map(move |i| {
            pace.go(cost)?;
            Ok(&self.values[i * self.n_features..][..self.n_features])
        })
    }

    /// An allocation for a row of `width` results per sample.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn results(&self, width: usize) -> Result<Vec<f64>, OpError> {
        Ok(with_room(self.n.checked_mul(width).ok_or(OpError::TooLarge)?)?)
    }
}

/// That samples have as many features as the model.
///
/// # Errors
/// If they have not.
pub fn expect_features(found: usize, expected: usize) -> Result<(), OpError> {
    if found == expected {
        return Ok(());
    }
    let what = "the features of a sample and those of the model";
    Err(OpError::Shapes { what, left: vec![found], right: vec![expected] })
}

/// How many samples a tensor of this shape holds, and how many features each has.
///
/// # Errors
/// If it is of another rank than 1 or 2.
pub const fn n_samples_and_features(shape: &[usize]) -> Result<[usize; 2], OpError> {
    match *shape {
        [n_features] => Ok([1, n_features]),
        [n, n_features] => Ok([n, n_features]),
        _ => Err(wrong_rank(shape.len())),
    }
}

/// The elements of input `index`.
///
/// # Errors
/// If their type is not one of a feature.
pub(crate) fn numbers(index: usize, x: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    use ort_tensor::{Number, bf16, f16};
    with_dtype!(x.dtype(), [f32, f64, f16, bf16, i32, i64], T => {
        Ok(collected(x.as_slice::<T>()?.iter().map(|&x| Number::to_f64(x)))?)
    }, else => Err(unsupported(index, x.dtype())))
}

/// Checks that there is a value for each feature of a tensor of this shape, or one for all.
///
/// # Errors
/// If there are more or fewer; `name` is their attribute.
pub(crate) fn expect_period<T>(
    name: &'static str,
    values: &[T],
    shape: &[usize],
) -> Result<(), OpError> {
    let n_features = shape.last().copied().unwrap_or(1);
    if values.len() == 1 || (values.len() == n_features && n_features > 0) {
        return Ok(());
    }
    let found = format!("{} values for {n_features} features", values.len());
    Err(OpError::AttributeValue { name, found })
}

/// How many samples input 0 has, which must be a tensor that [`Rows::read`] can read.
///
/// # Errors
/// If it is absent, of a type that is not allowed, or of another rank.
pub(crate) fn n_rows(inputs: &Facts<'_>, allowed: fn(DType) -> bool) -> Result<Dim, OpError> {
    inputs.dtype(0, allowed)?;
    match inputs.get(0).and_then(Fact::dims) {
        None => Ok(Dim::Unknown),
        Some([_]) => Ok(Dim::Known(1)),
        Some([n, _]) => Ok(n.clone()),
        Some(dims) => Err(wrong_rank(dims.len())),
    }
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "1 or 2", found }
}
