//! Expand of elements of any width, on all threads: each copies some indices of the result's outermost
//! axis.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_ops::axes::merged;
use ort_ops::ops::expand::Expand;
use ort_ops::strided::{self, Strided, copy_slice};
use ort_tensor::{DType, Shape, Word, broadcast_strides, n_elements, row_major_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// What it costs to write a byte, in multiply-adds: as [`Rows::ELEMENTS`].
const BYTE: usize = 3;

#[derive(Debug)]
struct ExpandKernel {
    /// The bytes of an element.
    width: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let width = compiler.fact(0).and_then(Fact::dtype).and_then(DType::word_bytes);
    let (Some(Expand), Some(width)) = (compiler.op::<Expand>(), width) else { return Ok(None) };
    Ok(Some(Box::new(ExpandKernel { width })))
}

impl Kernel for ExpandKernel {
    fn prepare(&self, _: &[&[usize]]) -> Result<Prepared, KernelError> {
        // The shape of the result is a value.
        Ok(Prepared::new(()))
    }

    fn run(&self, _: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.width {
            1 => expand::<u8>(io),
            2 => expand::<u16>(io),
            4 => expand::<u32>(io),
            8 => expand::<u64>(io),
            _ => expand::<u128>(io),
        }
    }

    fn variant(&self) -> &'static str {
        "expand"
    }
}

fn expand<W: Word + strided::Word + Send + Sync>(io: &mut Io<'_, '_>) -> Result<(), KernelError> {
    let x = io.inputs.tensor(0)?;
    let shape = Expand::shape(x.shape(), io.inputs.tensor(1)?)?;
    let strides = broadcast_strides(x.shape(), &shape);
    let y = io.outputs[0].tensor(x.dtype(), &shape)?.into_words::<W>()?;
    let x = x.as_words::<W>()?;
    let axes = merged(shape.iter().zip(&strides).map(|(&dim, &stride)| (dim, [stride])));
    // A scalar is a vector of one.
    let &(_, [step]) = axes.first().unwrap_or(&(1, [0]));
    let inner: Shape = axes.iter().skip(1).map(|&(dim, _)| dim).collect();
    let len = n_elements(&inner).unwrap_or(0).max(1);
    let rows = Rows { len, cost: len.saturating_mul(BYTE * size_of::<W>()) };
    rows.for_each(io.threads, y, |start, y| {
        let shape: Shape = [y.len() / len].into_iter().chain(inner.iter().copied()).collect();
        let strides: Shape =
            [step].into_iter().chain(axes.iter().skip(1).map(|&(_, [stride])| stride)).collect();
        let from = Strided::new(start / len * step, &strides);
        copy_slice(&shape, (x, &from), (y, &Strided::new(0, &row_major_strides(&shape))));
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact, floats, integers};

    #[test]
    fn results_are_those_of_eval() {
        let cases: [(&[usize], &[i64]); 11] = [
            (&[], &[]),
            (&[], &[5]),
            (&[1], &[300_001]),
            (&[3, 1], &[1, 4]),
            (&[1, 7, 1, 9], &[2, 7, 5, 9]),
            (&[4], &[3, 2, 4]),
            (&[2, 1], &[2]),
            (&[0, 1], &[1, 6]),
            (&[3, 1], &[3, 0]),
            // Shared by threads.
            (&[301, 1, 17], &[301, 77, 17]),
            (&[1, 1, 700], &[2, 901, 700]),
        ];
        for (x, shape) in cases {
            for x in [floats(x), integers(x), bytes(x, |byte| byte)] {
                let shape = Tensor::from_slice(&[shape.len()], shape).unwrap();
                Case::new("Expand", 13).input(x.clone()).constant(shape.clone()).check(exact);
                Case::new("Expand", 13).input(x).input(shape).check(exact);
            }
        }
    }

    #[test]
    fn a_shape_that_does_not_fit_is_an_error() {
        let shape = Tensor::from_slice(&[1], &[4_i64]).unwrap();
        let error = Case::new("Expand", 13).input(floats(&[3])).input(shape).error();
        assert!(error.to_string().contains('3'), "{error}");
    }
}
