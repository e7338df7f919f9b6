//! The weights of the inputs and the states of a layer: floats, or quantized values.

use std::borrow::Cow;

use ort_tensor::{Number, TensorError, collected};

use crate::integer::multiply;
use crate::product::{Real, add_product};
use crate::quantized::Scheme;

/// The matrices of all directions.
#[derive(Debug)]
pub(super) enum Weights<'a, R: Real> {
    /// Concatenated.
    Floats(Cow<'a, [R]>),
    /// One each.
    Quantized(Vec<QuantizedMatrix>),
}

/// The matrix of one direction, a row for each unit of each gate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Matrix<'a, R: Real> {
    /// The rows.
    Floats(&'a [R]),
    /// Quantized rows: their operand is quantized first.
    Quantized(&'a QuantizedMatrix),
}

/// Quantized values minus their zero points, and the scale of each row.
#[derive(Debug)]
pub(super) struct QuantizedMatrix {
    pub(super) quantized: Vec<i16>,
    pub(super) scales: Vec<f32>,
}

impl<R: Real> Weights<'_, R> {
    /// The matrix of direction `d`, which has `len` elements.
    pub(super) fn matrix(&self, d: usize, len: usize) -> Matrix<'_, R> {
        match self {
            Self::Floats(weights) => Matrix::Floats(&weights[d * len..(d + 1) * len]),
            Self::Quantized(matrices) => Matrix::Quantized(&matrices[d]),
        }
    }
}

impl<R: Real> Matrix<'_, R> {
    /// `c[i, j] += Σ x[i, k] · w[j, k]` for rows of `k` elements in `x` and of `c_stride` in `c`.
    ///
    /// # Errors
    /// If there is no memory for the quantized values of `x`, or the run was cancelled.
    pub(super) fn add_product(
        &self,
        c: &mut [R],
        c_stride: usize,
        x: &[R],
        k: usize,
    ) -> Result<(), TensorError> {
        if k == 0 {
            return Ok(());
        }
        let w = match self {
            Self::Floats(w) => return add_product(c, c_stride, x, w, k),
            Self::Quantized(w) => w,
        };
        let x = collected(x.iter().map(|x| f32::from_f64(x.to_f64())))?;
        let scheme = Scheme::of_values(&x)?;
        multiply(&scheme.centered(&x)?, &w.quantized, k, |i, j, sum| {
            let value = sum as f32 * (scheme.scale * w.scales[j]);
            let c = &mut c[i * c_stride + j];
            *c = *c + R::from_f64(f64::from(value));
        })
    }
}
