//! Hardmax of every float type: zeros, and a one at the first maximum of each lane.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::argmax::ArgMax;
use ort_ops::ops::softmax::{Form, Softmax};
use ort_tensor::{DType, with_dtype};

use super::arg_max::{COST, LANE, indices_of_columns, indices_of_rows};
use super::folds::Summed;
use super::{Compiled, Compiler, KernelDef};
use crate::lanes::Lanes;
use crate::pieces::{PIECE, Rows, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Lanes whose indices are computed at a time.
const WIDTH: usize = 256;
/// Selects the first maximum.
const GREATEST: ArgMax = ArgMax { axis: 0, keeps_dims: true, is_max: true, selects_last: false };

#[derive(Debug)]
struct HardmaxKernel {
    isa: Isa,
    op: Softmax,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) =
        (compiler.op::<Softmax>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let isa = compiler.cpu.isa;
    let takes = op.form == Form::Hardmax && dtype.is_float();
    Ok(takes.then(|| Box::new(HardmaxKernel { isa, op, dtype }) as Box<dyn Kernel>))
}

impl Kernel for HardmaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        Ok(Prepared::new(match self.op.is_flattened {
            true => Lanes::flattened(x, axis),
            false => Lanes::along(x, axis),
        }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let lanes: &Lanes = prepared.state()?;
        if lanes.are_too_long() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        with_dtype!(self.dtype, float,
            T => self.compute::<T>(*lanes, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "hardmax")
    }
}

impl HardmaxKernel {
    fn compute<T: Summed>(
        &self,
        Lanes { len, inner }: Lanes,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(T::DTYPE, x.shape())?.into_slice::<T>()?;
        let x = x.as_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let block = len * inner;
        let cost = len.saturating_mul(COST).saturating_add(LANE).saturating_mul(inner);
        Rows { len: block, cost }.for_each(io.threads, y, |start, y| {
            let x = &x[start..][..y.len()];
            wanted(y.chunks_mut(PIECE)).for_each(|y| y.fill(T::default()));
            if inner == 1 {
                return self.rows(len, x, y);
            }
            for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
                self.columns(inner, x, y);
            }
        });
        Ok(())
    }

    /// Writes the ones of rows of `len` elements, which are already zero.
    fn rows<T: Summed>(&self, len: usize, x: &[T], y: &mut [T]) {
        for (x, y) in x.chunks(len * WIDTH).zip(y.chunks_mut(len * WIDTH)) {
            let mut found = [0; WIDTH];
            let found = &mut found[..x.len() / len];
            indices_of_rows(self.isa, GREATEST, x, found);
            for (y, index) in y.chunks_exact_mut(len).zip(found) {
                mark(y, *index, 1);
            }
        }
    }

    /// Writes the ones of columns, in rows of `n` elements, which are already zero.
    fn columns<T: Summed>(&self, n: usize, x: &[T], y: &mut [T]) {
        for first in wanted((0..n).step_by(WIDTH)) {
            let mut found = [0; WIDTH];
            let found = &mut found[..WIDTH.min(n - first)];
            indices_of_columns(self.isa, GREATEST, (&x[first..], n), found);
            for (column, index) in (first..).zip(found) {
                mark(&mut y[column..], *index, n);
            }
        }
    }
}

/// Writes the one of a lane with stride `stride`.
fn mark<T: Summed>(lane: &mut [T], index: i64, stride: usize) {
    if let Ok(index) = usize::try_from(index) {
        lane[index * stride] = T::narrow(T::ONE);
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let number = |i: usize| match i % 197 {
            0 => f64::NAN,
            1 => f64::NEG_INFINITY,
            _ => (i * 7919 % 113) as f64 - 56.0,
        };
        let elements: Vec<T> =
            (0..n_elements(shape).unwrap()).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    }

    #[test]
    fn the_first_of_the_largest_is_one() {
        let shapes: [&[usize]; 6] =
            [&[1], &[3, 10], &[700, 64], &[2, 5, 130], &[40, 0], &[2, 1001, 300]];
        for (version, shape) in [1, 13].into_iter().flat_map(|v| shapes.map(|shape| (v, shape))) {
            for axis in 0..shape.len() {
                let axis = Attr::Int(i64::try_from(axis).unwrap());
                let case = || Case::new("Hardmax", version).attr("axis", axis.clone());
                case().input(numbers::<f32>(shape)).check(exact);
                case().input(numbers::<f64>(shape)).check(exact);
                case().input(numbers::<f16>(shape)).check(exact);
                case().input(numbers::<bf16>(shape)).check(exact);
            }
        }
    }
}
