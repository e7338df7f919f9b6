//! Transpose in f32, on all threads: each computes some indices of the result's first axis.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_ops::ops::transpose::Transpose;
use ort_ops::strided::{Strided, copy_slice};
use ort_tensor::{DType, Shape, TensorViewMut, n_elements, row_major_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct TransposeKernel {
    op: Transpose,
}

/// What a shape signature makes of it.
struct State {
    /// The shape of the result.
    shape: Shape,
    /// The strides of the input along the axes of the result.
    strides: Shape,
    /// The first axis of more than one element.
    axis: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Transpose>().cloned() else { return Ok(None) };
    if !compiler.are_f32(0..1) {
        return Ok(None);
    }
    Ok(Some(Box::new(TransposeKernel { op })))
}

impl Kernel for TransposeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let perm = self.op.perm(x.len())?;
        let strides = row_major_strides(x);
        let shape: Shape = perm.iter().map(|&axis| x[axis]).collect();
        let strides = perm.iter().map(|&axis| strides[axis]).collect();
        let axis = shape.iter().position(|&dim| dim != 1).unwrap_or(x.len());
        Ok(Prepared::new(State { shape, strides, axis }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { ref shape, ref strides, axis } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y: &mut [f32] = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        let inner = shape.get(axis + 1..).and_then(n_elements).unwrap_or(1).max(1);
        let rows = Rows { len: inner, cost: inner.saturating_mul(4) };
        rows.for_each(io.threads, y, |start, y| {
            let (mut shape, mut offset) = (shape.clone(), 0);
            if let (Some(dim), Some(stride)) = (shape.get_mut(axis), strides.get(axis)) {
                (*dim, offset) = (y.len() / inner, start / inner * stride);
            }
            let from = Strided::new(offset, strides);
            copy_slice(&shape, (x, &from), (y, &Strided::row_major(&shape)));
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "transpose_f32"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, exact, floats};

    #[test]
    fn every_element_finds_its_place() {
        let cases: [(&[usize], &[i64]); 8] = [
            (&[], &[]),
            (&[5], &[0]),
            (&[7, 9], &[1, 0]),
            (&[1, 3, 20, 30], &[0, 2, 3, 1]),
            (&[2, 3, 4, 5], &[3, 1, 0, 2]),
            (&[2, 0, 3], &[2, 0, 1]),
            (&[1, 1, 4], &[0, 2, 1]),
            (&[1, 300, 4, 200], &[0, 2, 1, 3]),
        ];
        for (shape, perm) in cases {
            let case = Case::new("Transpose", 25).input(floats(shape));
            case.attr("perm", Attr::Ints(perm.to_vec())).check(exact);
        }
        Case::new("Transpose", 25).input(floats(&[200, 300, 5])).check(exact);
    }
}
