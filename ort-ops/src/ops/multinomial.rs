//! Multinomial: classes drawn by their probabilities.

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorError, collected, go_on, with_dtype};

use crate::elementwise::{only, unsupported};
use crate::floats;
use crate::random::Generator;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Multinomial",
    versions: (7, 22),
    types: DType::is_float,
    build: Multinomial::build,
}];

/// Multinomial: `y[n, i] = c` with a probability proportional to `e^x[n, c]`. `x: [n, c]` floats;
/// `y: [n, sample_size]` int32 or int64. A row whose weights are all zero or NaN gives its last
/// class; without classes it is an error. Seeds as in [`super::random::Random`].
///
/// Source: ONNX operator set, Multinomial-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multinomial {
    /// How often each row is drawn from.
    pub sample_size: usize,
    /// The type of the result.
    pub dtype: DType,
    /// The seed, if the attribute is present.
    pub seed: Option<f32>,
}

impl Multinomial {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let sample_size = spec.int("sample_size")?.unwrap_or(1);
        let wrong =
            |_| OpError::AttributeValue { name: "sample_size", found: sample_size.to_string() };
        let dtype = spec.dtype("dtype")?.unwrap_or(DType::I32);
        if !matches!(dtype, DType::I32 | DType::I64) {
            return Err(OpError::AttributeValue { name: "dtype", found: dtype.to_string() });
        }
        Ok(Arc::new(Self {
            sample_size: usize::try_from(sample_size).map_err(wrong)?,
            dtype,
            seed: spec.float("seed")?,
        }))
    }
}

impl Operator for Multinomial {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        let n = match inputs.fact(0)?.dims() {
            None => Dim::Unknown,
            Some([n, _]) => n.clone(),
            Some(dims) => {
                return Err(OpError::InputRank { index: 0, expected: "2", found: dims.len() });
            }
        };
        Ok(vec![Fact::tensor(self.dtype, [n, Dim::Known(self.sample_size)])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[n, n_classes] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "2", found: x.shape().len() });
        };
        if n_classes == 0 && n > 0 && self.sample_size > 0 {
            return Err(OpError::InputValue { index: 0, what: "no classes to draw from" });
        }
        let rows = floats::read(x)?;
        let y = only(outputs)?.tensor(self.dtype, &[n, self.sample_size])?;
        let mut generator = Generator::new(self.seed);
        with_dtype!(self.dtype, [i32, i64],
            T => {
                let y = y.into_slice::<T>()?.chunks_mut(self.sample_size.max(1));
                for (row, y) in rows.chunks(n_classes.max(1)).zip(y) {
                    let sums = cumulative_weights(row)?;
                    // Each searches the sums.
                    go_on()?;
                    y.fill_with(|| T::from_f64(draw(&sums, &mut generator) as f64));
                }
                Ok(())
            },
            else => Err(unsupported(0, self.dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_deterministic: false, ..Behaviour::default() }
    }
}

/// `Σ e^(row[j] − max row)` over `j ≤ c`, for each class `c`.
fn cumulative_weights(row: &[f64]) -> Result<Vec<f64>, TensorError> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = row.iter().scan(0.0, |sum, x| {
        *sum += (x - max).exp();
        Some(*sum)
    });
    collected(weights)
}

fn draw(sums: &[f64], generator: &mut Generator) -> usize {
    let point = generator.uniform() * sums.last().copied().unwrap_or(0.0);
    // NaN is not beyond the point either.
    sums.partition_point(|&sum| sum <= point || sum.is_nan()).min(sums.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    #[test]
    fn impossible_classes_are_never_drawn() {
        let never = f32::NEG_INFINITY;
        let x = tensor(&[2, 3], &[never, 0.0, never, 0.0, never, 0.0]);
        let case = Case::new("Multinomial", 22).attr("sample_size", Attr::Int(50));
        let y = case.attr("seed", Attr::Float(3.0)).tensor(&[x]).unwrap();
        assert_eq!((y.dtype(), y.shape()), (DType::I32, &[2, 50][..]));
        let (first, second) = y.as_slice::<i32>().unwrap().split_at(50);
        assert!(first.iter().all(|&class| class == 1));
        assert!(second.contains(&0) && second.contains(&2) && !second.contains(&1));
    }

    #[test]
    fn rows_without_classes_or_weights_do_not_panic() {
        let run = |x: Tensor| Case::new("Multinomial", 7).tensor(&[x]);
        assert!(run(Tensor::zeros(DType::F32, &[2, 0]).unwrap()).is_err());
        assert!(run(Tensor::zeros(DType::F32, &[0, 3]).unwrap()).is_ok());
        assert_eq!(run(tensor(&[1, 2], &[f32::NAN; 2])), Ok(tensor(&[1, 1], &[1_i32])));
        assert!(run(tensor(&[2], &[0.0_f32; 2])).is_err());
    }
}
