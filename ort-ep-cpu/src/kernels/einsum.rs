//! Einsum of two operands in f32, f64 and integers of 32 and 64 bits, if it is a batch of matrix products.

// collects are bounded: by the rank

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::gemm::Start;
use ort_ops::ops::einsum::{Einsum, Index};
use ort_tensor::{DType, Element, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::product::{Operands, Product, RightOperand};
use crate::summand::{Summand, is_summand, with_summand};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A sum of products of two operands.
#[derive(Debug)]
struct EinsumKernel {
    cpu: Cpu,
    dtype: DType,
    op: Einsum,
}

/// Prepared state for one shape signature, if it is a batch of matrix products.
struct State {
    product: Product,
    shape: Shape,
    /// Whether the second operand is the left one of the product.
    is_swapped: bool,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Einsum>() else { return Ok(None) };
    let Some(dtype) = compiler.dtype_of(0..2).filter(|&dtype| is_summand(dtype)) else {
        return Ok(None);
    };
    if op.equation.inputs.len() != 2 {
        return Ok(None);
    }
    Ok(Some(Box::new(EinsumKernel { cpu: compiler.cpu, dtype, op: op.clone() })))
}

/// Removes and merges the trailing indices that satisfy `is_taken` and are contiguous with each other
/// in the operands that have them.
fn merged(indices: &mut Vec<Index>, is_taken: impl Fn(&Index) -> bool) -> Option<Index> {
    let mut found = indices.pop_if(|last| is_taken(last))?;
    let whole =
        |found: &Index, i: usize, outer: &Index| outer.strides[i] == found.len * found.strides[i];
    while let Some(outer) =
        indices.pop_if(|it| is_taken(it) && whole(&found, 0, it) && whole(&found, 1, it))
    {
        found.len *= outer.len;
    }
    Some(found)
}

/// The batch of products, with the rows and columns of the left operand first; `None` if it is not a batch of products.
fn product(cpu: Cpu, indices: &[Index]) -> Option<(Product, bool)> {
    if indices.iter().any(|index| index.len == 0) {
        return None;
    }
    let (mut summed, mut kept): (Vec<Index>, Vec<Index>) =
        indices.iter().filter(|index| index.len != 1).partition(|index| index.is_summed);
    summed.sort_by_key(|index| std::cmp::Reverse(index.strides));
    let k = merged(&mut summed, |index| index.strides[0] != 0 && index.strides[1] != 0)?;
    if !summed.is_empty() {
        return None;
    }
    // Columns belong to the only operand that has the last index of the result.
    let last = kept.last()?.strides;
    let is_swapped = last[1] == 0;
    let [left, right] = if is_swapped { [1, 0] } else { [0, 1] };
    let only = |of: usize, other: usize| {
        move |index: &Index| index.strides[of] != 0 && index.strides[other] == 0
    };
    let n = merged(&mut kept, only(right, left))?;
    let m = merged(&mut kept, only(left, right));
    let (rows, row_stride) = m.map_or((1, 0), |m| (m.len, m.strides[left]));
    let batch = kept.iter().map(|it| (it.len, it.strides[left], it.strides[right])).collect();
    let mut product = Product {
        cpu,
        m: rows,
        n: n.len,
        k: k.len,
        a: [row_stride, k.strides[left]],
        b: [k.strides[right], n.strides[right]],
        batch,
        is_exchanged: false,
    };
    product.merge_rows();
    product.exchange_column();
    Some((product, is_swapped))
}

impl State {
    /// Computes the products of tensors of `S` in `T`.
    fn multiply<S: Element + Pod, T: Summand>(
        &self,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let [left, right] = if self.is_swapped { [1, 0] } else { [0, 1] };
        let operands = Operands {
            a: cast_slice(io.inputs.tensor(left)?.as_slice::<S>()?),
            alpha: T::ONE,
            b: RightOperand::Plain(cast_slice(io.inputs.tensor(right)?.as_slice::<S>()?)),
            start: Start::Zero,
            epilogue: T::no_epilogue(),
        };
        let y = io.outputs[0].tensor(S::DTYPE, &self.shape)?.into_slice::<S>()?;
        self.product.run(&operands, cast_slice_mut(y), (io.threads, io.scratch), |_| {});
        Ok(())
    }
}

impl Kernel for EinsumKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let (shape, indices) = self.op.indices_of_pair([a, b])?;
        let state = product(self.cpu, &indices).map(|(product, is_swapped)| State {
            product,
            shape,
            is_swapped,
        });
        let len = |state: &State| with_summand!(self.dtype, (_S, T) => state.product.scratch_len_of::<T>());
        let scratch_len = state.as_ref().map_or(0, len);
        Ok(Prepared::new(state).with_scratch(self.cpu.scratch_bytes(scratch_len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let Some(state) = state else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        with_summand!(self.dtype, (S, T) => state.multiply::<S, T>(io))
    }

    fn variant(&self) -> &'static str {
        with_summand!(self.dtype, (_S, T) => T::variant_name(self.cpu.isa))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_kernels::Isa;
    use ort_ops::ops::einsum::Index;

    use super::product;
    use ort_tensor::DType;

    use crate::case::{Case, exact, integers};
    use crate::cpu::Cpu;
    use crate::summand::of_type;

    #[test]
    fn sums_of_products_of_small_integers_are_exact() {
        let cases: [(&str, &[usize], &[usize]); 17] = [
            ("ij,jk->ik", &[37, 40], &[40, 33]),
            ("ij,kj->ik", &[37, 40], &[33, 40]),
            ("ij,jk->ki", &[37, 40], &[40, 33]),
            ("ji,jk", &[40, 37], &[40, 33]),
            ("bhid,bhjd->bhij", &[2, 3, 17, 8], &[2, 3, 19, 8]),
            ("bhij,bhjd->bhid", &[2, 3, 17, 19], &[2, 3, 19, 8]),
            ("bihd,bjhd->bhij", &[2, 17, 3, 8], &[2, 19, 3, 8]),
            ("bhij,bjhd->bihd", &[2, 3, 17, 19], &[2, 19, 3, 8]),
            ("bij,jkl->bikl", &[2, 5, 7], &[7, 3, 4]),
            ("bijk,jkl->bil", &[2, 5, 7, 3], &[7, 3, 4]),
            ("...ij,jk->...ik", &[2, 3, 5, 4], &[4, 6]),
            ("b...ij,b...jk->b...ik", &[2, 1, 5, 4], &[2, 3, 4, 6]),
            ("j,jk->k", &[40], &[40, 33]),
            // Not matrix products: element-wise products, two separate sums, a diagonal, empty operands.
            ("ij,ij->ij", &[5, 6], &[5, 6]),
            ("ij,k->", &[5, 6], &[7]),
            ("iij,jk->ik", &[4, 4, 5], &[5, 6]),
            ("ij,jk->ik", &[3, 0], &[0, 4]),
        ];
        for (equation, a, b) in cases {
            let case = Case::new("Einsum", 12).attr("equation", Attr::String(equation.into()));
            case.input(integers(a)).input(integers(b)).check(exact);
        }
    }

    #[test]
    fn every_type_is_multiplied_exactly() {
        for dtype in [DType::F64, DType::I32, DType::I64] {
            let equation = Attr::String("bhid,bhjd->bhij".into());
            let case = Case::new("Einsum", 12).attr("equation", equation);
            let some = |shape: &[usize]| of_type(dtype, shape);
            case.input(some(&[2, 3, 17, 8])).input(some(&[2, 3, 19, 8])).check(exact);
        }
    }

    #[test]
    fn contiguous_indices_are_merged() {
        let cpu = Cpu { isa: Isa::Generic, max_threads: 1, winograd: false, int8_blocks: true };
        let index = |len, strides, is_summed| Index { len, strides, is_summed };
        let found = product(
            cpu,
            &[
                index(2, [120, 84], false),
                index(5, [24, 0], false),
                index(3, [0, 4], false),
                index(4, [0, 1], false),
                index(8, [3, 36], true),
                index(3, [1, 12], true),
            ],
        );
        let (product, is_swapped) = found.unwrap();
        assert_eq!([product.m, product.n, product.k], [5, 12, 24]);
        assert_eq!((product.a, product.b, is_swapped), ([24, 1], [12, 1], false));
        assert_eq!(product.batch.as_slice(), [(2, 120, 84)]);
    }
}
