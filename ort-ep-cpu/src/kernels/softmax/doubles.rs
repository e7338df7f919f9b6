//! The same in f64, for contiguous lanes: the exponentials of several are computed together.

use std::ops::{Mul, Sub};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::vec::{FunctionF64, fold_rows_of, map_f64};
use ort_kernels::{Isa, Task};
use ort_ops::ops::softmax::{Form, Softmax};

use super::super::folds::{Greatest, Sum};
use super::{COST, Lanes, lanes_of};
use crate::pieces::{Rows, first_and_output};

/// Elements of several short lanes computed together, which stay in the first-level cache.
const TILE: usize = 1024;
/// The maximum number of lanes per tile.
const LANES: usize = 128;

#[derive(Debug)]
pub(super) struct DoubleSoftmaxKernel {
    pub(super) isa: Isa,
    pub(super) op: Softmax,
}

impl Kernel for DoubleSoftmaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(lanes_of(&self.op, x)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &lanes: &Lanes = prepared.state()?;
        let Lanes { len, inner } = lanes;
        if inner != 1 || lanes.are_too_long() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        let (x, y) = first_and_output::<f64>(io.inputs, &mut io.outputs[0])?;
        let x = x.ok_or(KernelError::ForeignState)?;
        if y.is_empty() {
            return Ok(());
        }
        let n_lanes = (TILE / len).clamp(1, LANES);
        Rows { len, cost: len.saturating_mul(4 * COST) }.for_each(io.threads, y, |start, y| {
            let x = &x[start..start + y.len()];
            for (x, y) in x.chunks(n_lanes * len).zip(y.chunks_mut(n_lanes * len)) {
                self.lanes(x, y, len);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "softmax_f64")
    }
}

impl DoubleSoftmaxKernel {
    /// A few lanes.
    fn lanes(&self, x: &[f64], y: &mut [f64], len: usize) {
        let (mut greatest, mut sums) = ([0.0; LANES], [0.0; LANES]);
        let n = y.len() / len;
        let (greatest, sums) = (&mut greatest[..n], &mut sums[..n]);
        fold_rows_of(self.isa, Greatest, x, greatest);
        self.isa.run(ByLane { x: Some(x), y, len, of_lanes: greatest, f: f64::sub });
        if self.op.form == Form::Softmax {
            map_f64(self.isa, FunctionF64::Exp, None, y);
            fold_rows_of(self.isa, Sum, y, sums);
        } else {
            let mut tile = [0.0; TILE];
            for (sum, lane) in sums.iter_mut().zip(y.chunks_exact(len)) {
                for piece in lane.chunks(TILE) {
                    let (tile, mut of_piece) = (&mut tile[..piece.len()], [0.0]);
                    map_f64(self.isa, FunctionF64::Exp, Some(piece), tile);
                    fold_rows_of(self.isa, Sum, tile, &mut of_piece);
                    *sum += of_piece[0];
                }
            }
        }
        // Infinity minus itself is NaN.
        for (sum, greatest) in sums.iter_mut().zip(&*greatest) {
            let ending = if self.op.form == Form::Softmax { 1.0 / *sum } else { sum.ln() };
            *sum = if greatest.is_finite() { ending } else { f64::NAN };
        }
        match self.op.form {
            Form::Softmax => self.isa.run(ByLane { x: None, y, len, of_lanes: sums, f: f64::mul }),
            _ => self.isa.run(ByLane { x: None, y, len, of_lanes: sums, f: f64::sub }),
        }
    }
}

/// `y = f(x, value of the lane)`, or of `y` if there is no `x`.
struct ByLane<'a, F> {
    x: Option<&'a [f64]>,
    y: &'a mut [f64],
    len: usize,
    of_lanes: &'a [f64],
    f: F,
}

impl<F: Fn(f64, f64) -> f64> Task for ByLane<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, y, len, of_lanes, f } = self;
        for (i, (y, of_lane)) in y.chunks_exact_mut(len).zip(of_lanes).enumerate() {
            match x {
                Some(x) => {
                    let x = &x[i * len..][..len];
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x, *of_lane));
                }
                None => y.iter_mut().for_each(|y| *y = f(*y, *of_lane)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, relative};

    /// An exponential has an error of 2 units, a sum of up to 5000 terms 100, and the rest a few.
    const ERROR: f32 = 1e-13;

    #[test]
    fn lanes_of_any_length_sum_to_one() {
        let cases: [(&[usize], i64); 8] = [
            (&[7, 10], -1),
            (&[3, 64], -1),
            (&[1, 1], -1),
            (&[2, 5000], -1),
            (&[3, 0], -1),
            (&[4, 5, 6], 1),
            // Large enough for several threads.
            (&[700, 90], -1),
            (&[40, 30, 50], 2),
        ];
        for ((shape, axis), name) in
            cases.into_iter().flat_map(|case| ["Softmax", "LogSoftmax"].map(|name| (case, name)))
        {
            let x = bytes(shape, |byte| f64::from(byte) / 16.0);
            Case::new(name, 13).attr("axis", Attr::Int(axis)).input(x).check(relative(ERROR));
        }
    }

    #[test]
    fn non_finite_values_equal_the_operators() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for lane in [[1.0, nan, 2.0], [1.0, inf, 2.0], [-inf, -inf, -inf], [-inf, 0.0, 1.0]] {
            let x = Tensor::from_slice(&[2, 3], &[lane, [0.0, 1.0, 2.0]].concat()).unwrap();
            for name in ["Softmax", "LogSoftmax"] {
                Case::new(name, 13).input(x.clone()).check(relative(ERROR));
            }
        }
    }
}
