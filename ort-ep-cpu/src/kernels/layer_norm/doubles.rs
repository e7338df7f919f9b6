//! The same in f64, without a skip connection.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Task;

use super::{COST, NormKernel, Operands, State};
use crate::pieces::{Rows, first_and_output};

/// Parallel accumulators of a sum.
const LANES: usize = 16;

#[derive(Debug)]
pub(super) struct DoubleNormKernel {
    pub(super) norm: NormKernel,
}

impl Kernel for DoubleNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(self.norm.state(shapes)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { len, .. } = prepared.state()?;
        let form = self.norm.form;
        let (x, y) = first_and_output::<f64>(io.inputs, &mut io.outputs[0])?;
        let x = x.ok_or(KernelError::ForeignState)?;
        let operands = Operands::<f64>::new(form, None, io.inputs)?;
        if y.is_empty() {
            return Ok(());
        }
        Rows { len, cost: len.saturating_mul(2 * COST) }.for_each(io.threads, y, |start, y| {
            let x = &x[start..start + y.len()];
            for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
                let (is_centered, epsilon) = (form.is_centered, f64::from(form.epsilon));
                let &Operands { scale, bias, .. } = &operands;
                self.norm.isa.run(Row { x, y, scale, bias, epsilon, is_centered });
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.norm.isa => "layer_norm_f64")
    }
}

/// A row with its scale and bias.
struct Row<'a> {
    x: &'a [f64],
    y: &'a mut [f64],
    scale: &'a [f64],
    bias: Option<&'a [f64]>,
    epsilon: f64,
    is_centered: bool,
}

impl Task for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, y, scale, bias, epsilon, is_centered } = self;
        let n = x.len() as f64;
        let mean = if is_centered { total(x, |x| x) / n } else { 0.0 };
        let variance = total(x, |x| (x - mean) * (x - mean)) / n;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for ((y, x), scale) in y.iter_mut().zip(x).zip(scale) {
            *y = (x - mean) * factor * scale;
        }
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
    }
}

/// `Σ f(x)`.
#[inline(always)]
pub(in super::super) fn total(x: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += f(chunk[i]);
        }
    }
    let (fours, rest) = rest.as_chunks::<4>();
    for four in fours {
        for i in 0..4 {
            lanes[i] += f(four[i]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += f(*x);
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, within};

    fn numbers(shape: &[usize]) -> Tensor {
        bytes(shape, |byte| f64::from(byte) / 16.0)
    }

    #[test]
    fn rows_of_any_length_are_normalized() {
        for shape in [&[3, 56][..], &[2, 5, 1], &[7, 13], &[4, 0], &[0, 4], &[300, 384], &[2, 4099]]
        {
            let row = &shape[shape.len() - 1..];
            // Results are sums of products of numbers of at most 16, and a scale and a bias of the same size.
            let error = within(16.0 * 16.0 * 1e-13);
            let case = || Case::new("LayerNormalization", 17).input(numbers(shape));
            case().weight(numbers(row)).check(&error);
            case().weight(numbers(row)).weight(numbers(row)).check(&error);
            let case = Case::new("RMSNormalization", 23).input(numbers(shape));
            case.weight(numbers(row)).check(&error);
        }
    }
}
