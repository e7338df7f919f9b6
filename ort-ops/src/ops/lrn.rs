//! LRN: local response normalization, `y[c] = x[c] / (bias + alpha / size · Σ x[i]²)^beta`, where
//! `i` runs over the `size` channels around `c`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, TensorError, filled, n_elements};

use crate::floats;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "LRN",
    versions: (1, 13),
    types: DType::is_float,
    build: Lrn::build,
}];

/// LRN of `x: [N, C, D…]`, floats computed in f64 and rounded once. The channels around `c` are
/// `⌊(size − 1) / 2⌋` before it and `⌈(size − 1) / 2⌉` after it, as far as they exist.
///
/// Source: ONNX operator set, LRN-13.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lrn {
    /// How many channels are summed.
    pub size: usize,
    /// The weight of the mean square.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
    /// What is added to the mean square.
    pub bias: f32,
}

impl Lrn {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let found = spec.int("size")?.ok_or(OpError::MissingAttribute { name: "size" })?;
        let wrong = || OpError::AttributeValue { name: "size", found: found.to_string() };
        Ok(Arc::new(Self {
            size: usize::try_from(found).ok().filter(|&size| size > 0).ok_or_else(wrong)?,
            alpha: spec.float("alpha")?.unwrap_or(1e-4),
            beta: spec.float("beta")?.unwrap_or(0.75),
            bias: spec.float("bias")?.unwrap_or(1.0),
        }))
    }

    /// Normalizes one image `x: [C, inner]` to `y`.
    ///
    /// # Errors
    /// If the run was cancelled.
    fn normalize(&self, x: &[f64], y: &mut [f64], sum: &mut [f64]) -> Result<(), TensorError> {
        let mut pace = Pace::new();
        let inner = sum.len();
        let (before, after) = ((self.size - 1) / 2, self.size / 2);
        let scale = f64::from(self.alpha) / self.size as f64;
        for (c, y) in y.chunks_exact_mut(inner).enumerate() {
            sum.fill(0.0);
            let first = c.saturating_sub(before);
            let around = x.chunks_exact(inner).skip(first);
            for channel in around.take((c - first).saturating_add(after).saturating_add(1)) {
                pace.go(inner)?;
                sum.iter_mut().zip(channel).for_each(|(sum, x)| *sum += x * x);
            }
            // Powers are slow.
            pace.go(inner.saturating_mul(16))?;
            let x = &x[c * inner..];
            for ((y, x), sum) in y.iter_mut().zip(x).zip(&*sum) {
                *y = x / (f64::from(self.bias) + scale * sum).powf(f64::from(self.beta));
            }
        }
        Ok(())
    }
}

impl Operator for Lrn {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        let fact = inputs.fact(0)?;
        match fact.rank() {
            Some(rank @ ..2) => Err(no_channels(rank)),
            _ => Ok(vec![fact.ty.clone().into()]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let view = inputs.tensor(0)?;
        let &[_, channels, ref inner @ ..] = view.shape() else {
            return Err(no_channels(view.shape().len()));
        };
        let x = floats::read(view)?;
        let mut y = filled(0.0, x.len())?;
        if !x.is_empty() {
            let inner = n_elements(inner).unwrap_or(0);
            let image = channels * inner;
            let mut sum = filled(0.0, inner)?;
            for (x, y) in x.chunks_exact(image).zip(y.chunks_exact_mut(image)) {
                self.normalize(x, y, &mut sum)?;
            }
        }
        floats::write(outputs, 0, view.dtype(), view.shape(), &y)
    }
}

const fn no_channels(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "2 or more", found }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn an_even_size_sees_one_channel_more_behind() {
        let case = |size: i64| {
            let alpha = Attr::Float(size as f32);
            let case = Case::new("LRN", 13).attr("size", Attr::Int(size)).attr("alpha", alpha);
            case.attr("beta", Attr::Float(1.0)).attr("bias", Attr::Float(0.0))
        };
        let x = tensor(&[1, 3, 1, 1], &[1_f32, 2.0, 3.0]);
        let cases: [(i64, [f32; 3]); 4] = [
            (1, [1.0, 0.5, 1.0 / 3.0]),
            (2, [1.0 / 5.0, 2.0 / 13.0, 3.0 / 9.0]),
            (3, [1.0 / 5.0, 2.0 / 14.0, 3.0 / 13.0]),
            (100, [1.0 / 14.0, 2.0 / 14.0, 3.0 / 14.0]),
        ];
        for (size, expected) in cases {
            let y = case(size).tensor(std::slice::from_ref(&x));
            assert_eq!(y, Ok(tensor(&[1, 3, 1, 1], &expected)), "size {size}");
        }
        assert!(case(i64::MAX).tensor(&[x]).is_ok());
    }

    #[test]
    fn empty_images_pass_and_vectors_do_not() {
        let case = || Case::new("LRN", 1).attr("size", Attr::Int(3));
        let zeros = |shape: &[usize]| Tensor::zeros(ort_tensor::DType::F64, shape).unwrap();
        for shape in [[0, 2, 1], [1, 0, 1], [1, 2, 0]] {
            assert_eq!(case().tensor(&[zeros(&shape)]), Ok(zeros(&shape)), "{shape:?}");
        }
        assert!(case().tensor(&[zeros(&[2])]).is_err());
        assert!(case().attr("size", Attr::Int(0)).tensor(&[zeros(&[1, 1])]).is_err());
    }
}
