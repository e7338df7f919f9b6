//! Queries, keys and values from one input: `x·W + b`, of floats or of quantized values.

use ort_graph::OpError;
use ort_tensor::{Inputs, collected, n_elements};

use super::{Attention, Weights};
use crate::accumulate::{multiply_add, zeros};
use crate::floats;
use crate::quantized::{Along, centered, per_channel};

impl Attention {
    /// `[B·S, D + D + E]`.
    pub(super) fn project(&self, inputs: Inputs<'_>, width: usize) -> Result<Vec<f64>, OpError> {
        let mut y = match self.weights {
            Weights::Float => {
                let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
                product(x.shape(), &floats::read(x)?, &floats::read(w)?, width)?
            }
            Weights::Quantized => quantized_product(inputs, width)?,
        };
        if let Some(bias) = inputs.optional_tensor(2)? {
            if bias.shape() != [width] {
                let (left, right) = (bias.shape().to_vec(), vec![width]);
                return Err(OpError::Shapes { what: "the bias", left, right });
            }
            floats::with_period(&mut y, &floats::read(bias)?, |y, bias| *y += bias)?;
        }
        Ok(y)
    }
}

fn quantized_product(inputs: Inputs<'_>, width: usize) -> Result<Vec<f64>, OpError> {
    let x = centered(inputs.tensor(0)?, inputs.optional_tensor(6)?, Along::Columns, [0, 6])?;
    let w = centered(inputs.tensor(1)?, inputs.optional_tensor(7)?, Along::Columns, [1, 7])?;
    let mut y = product(inputs.tensor(0)?.shape(), &x, &w, width)?;
    let x_scale = floats::read_parameter(inputs, 3, 1)?[0];
    let w_scales = per_channel(4, &floats::read(inputs.tensor(4)?)?, width)?;
    let scales = collected(w_scales.into_iter().map(|scale| x_scale * scale))?;
    floats::with_period(&mut y, &scales, |y, scale| *y *= scale)?;
    Ok(y)
}

/// `x·w` of `x: [B, S, I]` and `w: [I, n]`.
fn product(shape: &[usize], x: &[f64], w: &[f64], n: usize) -> Result<Vec<f64>, OpError> {
    let n_sums = n_elements(&shape[..2]).and_then(|rows| rows.checked_mul(n));
    let mut y = zeros(n_sums.ok_or(OpError::TooLarge)?)?;
    multiply_add(x, w, &mut y, n)?;
    Ok(y)
}
