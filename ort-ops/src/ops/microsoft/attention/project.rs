//! Queries, keys and values from one input: `x·W + b`, of floats or of codes.

use ort_graph::OpError;
use ort_tensor::Inputs;

use super::{Attention, Weights};
use crate::floats;
use crate::quantized::{Along, centered, per_channel, scale, scales};

impl Attention {
    /// `[B·S, D + D + E]`.
    pub(super) fn project(&self, inputs: Inputs<'_>, width: usize) -> Result<Vec<f64>, OpError> {
        let mut y = match self.weights {
            Weights::Float => {
                let (x, w) = (floats::read(inputs.tensor(0)?)?, floats::read(inputs.tensor(1)?)?);
                product(&x, &w, width)
            }
            Weights::Quantized => quantized_product(inputs, width)?,
        };
        if let Some(bias) = inputs.optional_tensor(2)? {
            if bias.shape() != [width] {
                let (left, right) = (bias.shape().to_vec(), vec![width]);
                return Err(OpError::Shapes { what: "the bias", left, right });
            }
            floats::with_period(&mut y, &floats::read(bias)?, |y, bias| *y += bias);
        }
        Ok(y)
    }
}

fn quantized_product(inputs: Inputs<'_>, width: usize) -> Result<Vec<f64>, OpError> {
    let x = centered(inputs.tensor(0)?, inputs.optional_tensor(6)?, Along::Columns, [0, 6])?;
    let w = centered(inputs.tensor(1)?, inputs.optional_tensor(7)?, Along::Columns, [1, 7])?;
    let mut y = product(&x, &w, width);
    let x_scale = f64::from(scale(3, inputs.tensor(3)?)?);
    let w_scales = per_channel(4, &scales(4, inputs.tensor(4)?)?, width)?;
    let scales: Vec<_> = w_scales.into_iter().map(|scale| x_scale * f64::from(scale)).collect();
    floats::with_period(&mut y, &scales, |y, scale| *y *= scale);
    Ok(y)
}

/// `x·w` of `x: [m, k]` and `w: [k, n]`.
fn product(x: &[f64], w: &[f64], n: usize) -> Vec<f64> {
    let k = w.len().checked_div(n).unwrap_or(0);
    let rows = x.len().checked_div(k).unwrap_or(0);
    let mut y = vec![0.0; rows * n];
    for (y, x) in y.chunks_exact_mut(n.max(1)).zip(x.chunks_exact(k.max(1))) {
        for (&x, w) in x.iter().zip(w.chunks_exact(n)) {
            y.iter_mut().zip(w).for_each(|(y, &w)| *y += x * w);
        }
    }
    y
}
