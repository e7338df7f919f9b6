//! MatMul, FusedMatMul and TransposeMatMul in f32, f64 and integers of 32 and 64 bits.

// collects are bounded: by the rank

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Dim;
use ort_kernels::gemm::{Start, packed_b_len_of};
use ort_ops::infer::matmul_shape;
use ort_ops::ops::matmul::{Arrangement, MatMul};
use ort_tensor::{DType, Element, Shape, row_major_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::product::{
    Operands, PackedRight, Product, RightOperand, pack_right, row_needs_no_packing,
};
use crate::summand::{Summand, is_factor, is_summand, with_summand};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A batch of products; the right operands are packed if they are constant.
#[derive(Debug)]
pub(super) struct MatMulKernel {
    pub(super) cpu: Cpu,
    pub(super) dtype: DType,
    pub(super) op: MatMul,
    pub(super) b: Option<PackedRight>,
}

/// Prepared state for one shape signature.
pub(super) struct State {
    pub(super) product: Product,
    pub(super) shape: Shape,
    /// The shapes of the operands as stored.
    stored: [Shape; 2],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MatMul>() else { return Ok(None) };
    let Some(dtype) = compiler.dtype_of(0..2).filter(|&dtype| is_summand(dtype)) else {
        return Ok(None);
    };
    if !is_factor(dtype, op.alpha) {
        return Ok(None);
    }
    let is_row = compiler.fact(0).and_then(|a| Some(is_row(a.dims()?, op.a))).unwrap_or(false);
    let is_row_alone = is_row && !op.b.is_transposed && row_needs_no_packing(compiler, 1);
    let is_left_alone = op.b.is_batch_transposed || is_row_alone;
    let pack = || with_summand!(dtype, (_S, T) => pack_right::<T>(compiler, 1, op.b.is_transposed));
    let b = if is_left_alone { None } else { pack() };
    Ok(Some(Box::new(MatMulKernel { cpu: compiler.cpu, dtype, op, b })))
}

/// Whether the left operand is certainly a single row.
fn is_row(dims: &[Dim], arrangement: Arrangement) -> bool {
    let perm = arrangement.perm(dims.len());
    let rows = perm.split_last().map_or(&[][..], |(_, rows)| rows);
    rows.iter().all(|&axis| dims[axis] == Dim::Known(1))
}

/// An operand in the order that the product reads it.
struct Operand {
    shape: Shape,
    strides: Shape,
}

impl Operand {
    /// An operand of this shape, stored in memory for a tensor of shape `room`.
    fn new(stored: &[usize], arrangement: Arrangement, room: &[usize]) -> Self {
        let (perm, own) = (arrangement.perm(stored.len()), row_major_strides(room));
        Self {
            shape: perm.iter().map(|&axis| stored[axis]).collect(),
            strides: perm.iter().map(|&axis| own[axis]).collect(),
        }
    }

    /// The rank of the batch.
    fn n_batch(&self) -> usize {
        self.shape.len().saturating_sub(2)
    }

    /// The stride along dimension `i` of a batch of `n_batch` dimensions; 0 where it is broadcast.
    fn batch_stride(&self, i: usize, n_batch: usize) -> usize {
        match (i + self.n_batch()).checked_sub(n_batch) {
            Some(i) if self.shape[i] != 1 => self.strides[i],
            _ => 0,
        }
    }
}

impl MatMulKernel {
    /// The state for operands of these shapes, the second in memory for a tensor of shape `room`.
    pub(super) fn state(
        &self,
        a: &[usize],
        b: &[usize],
        room: &[usize],
    ) -> Result<State, KernelError> {
        let stored = [a, b].map(Shape::from_slice);
        let (a, mut b) = (Operand::new(a, self.op.a, a), Operand::new(b, self.op.b, room));
        let shape = matmul_shape(&a.shape, &b.shape).map_err(KernelError::Op)?;
        let n_batch = a.n_batch().max(b.n_batch());
        let matrix = |x: &Operand| {
            let (at, rank) = (x.n_batch(), x.shape.len());
            ([x.shape[at], x.shape[rank - 1]], [x.strides[at], x.strides[rank - 1]])
        };
        // An operand of rank 1 is a row on the left and a column on the right.
        let ([m, k], a_strides) = match a.shape.len() {
            1 => ([1, a.shape[0]], [a.shape[0], 1]),
            _ => matrix(&a),
        };
        let ([_, n], b_strides) = match b.shape.len() {
            1 => ([b.shape[0], 1], [1, 1]),
            _ => matrix(&b),
        };
        if self.b.is_some() {
            let stored = row_major_strides(&b.shape[..b.n_batch()]);
            let isa = self.cpu.isa;
            let each = with_summand!(self.dtype, (_S, T) => packed_b_len_of::<T>(isa, k, n));
            b.strides.iter_mut().zip(stored).for_each(|(to, index)| *to = index * each);
        }
        let batch = (0..n_batch)
            .map(|i| (shape[i], a.batch_stride(i, n_batch), b.batch_stride(i, n_batch)))
            .collect();
        let (cpu, a, b) = (self.cpu, a_strides, b_strides);
        let mut product = Product { cpu, m, n, k, a, b, batch, is_exchanged: false };
        product.merge_rows();
        product.exchange_column();
        Ok(State { product, shape, stored })
    }

    /// Computes the products of tensors of `S` in `T`.
    fn multiply<S: Element + Pod, T: Summand>(
        &self,
        State { product, shape, .. }: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let operands = Operands {
            a: cast_slice(io.inputs.tensor(0)?.as_slice::<S>()?),
            alpha: T::factor(self.op.alpha),
            b: match &self.b {
                Some(packed) => packed.operand(),
                None => RightOperand::Plain(cast_slice(io.inputs.tensor(1)?.as_slice::<S>()?)),
            },
            start: Start::Zero,
            epilogue: T::no_epilogue(),
        };
        let y = io.outputs[0].tensor(S::DTYPE, shape)?.into_slice::<S>()?;
        product.run(&operands, cast_slice_mut(y), (io.threads, io.scratch), |_| {});
        Ok(())
    }
}

impl Kernel for MatMulKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let state = self.state(a, b, b)?;
        let product = &state.product;
        let len = with_summand!(self.dtype, (_S, T) => product.scratch_len_of::<T>());
        let scratch_bytes = self.cpu.scratch_bytes(len);
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let mut state: &State = prepared.state()?;
        let room = io.inputs.tensor(1)?.shape();
        let in_room;
        if *room != *state.stored[1] {
            let [a, b] = &state.stored;
            in_room = self.state(a, b, room)?;
            state = &in_room;
        }
        with_summand!(self.dtype, (S, T) => self.multiply::<S, T>(state, io))
    }

    // The scratch of a run depends on the strides of the left operand.
    fn reads_room(&self, input: usize, _axis: usize) -> bool {
        input == 1 && self.b.is_none()
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.b.is_none()
    }

    fn variant(&self) -> &'static str {
        with_summand!(self.dtype, (_S, T) => T::variant_name(self.cpu.isa))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use ort_tensor::DType;

    use crate::case::{Case, exact, integers};
    use crate::summand::of_type;

    #[test]
    fn batches_of_any_rank_broadcast() {
        let cases: [(&[usize], &[usize]); 14] = [
            (&[3], &[3]),
            (&[7], &[7, 5]),
            (&[6, 7], &[7]),
            (&[2, 6, 7], &[7]),
            (&[20, 40], &[40, 33]),
            (&[1, 256], &[256, 300]),
            (&[2, 17, 40], &[40, 33]),
            (&[2, 3, 17, 8], &[2, 3, 8, 9]),
            (&[2, 1, 5, 4], &[3, 4, 6]),
            (&[3, 5, 4], &[2, 1, 4, 6]),
            (&[1, 2, 1, 3], &[4, 1, 3, 2]),
            (&[0, 3], &[3, 2]),
            (&[2, 0, 3], &[2, 3, 4]),
            (&[2, 3, 0], &[2, 0, 4]),
        ];
        for (a, b) in cases {
            Case::new("MatMul", 13).input(integers(a)).weight(integers(b)).check(exact);
        }
    }

    #[test]
    fn a_large_product_is_the_same_on_any_number_of_threads() {
        for (m, k, n) in [(150, 300, 100), (1, 1400, 1700), (700, 160, 16)] {
            let case = Case::new("MatMul", 13);
            case.input(integers(&[m, k])).weight(integers(&[k, n])).check(exact);
        }
    }

    #[test]
    fn every_type_is_multiplied_exactly() {
        let sizes: [(&[usize], &[usize]); 6] = [
            (&[37, 70], &[70, 45]),
            (&[1, 256], &[256, 300]),
            (&[300, 256], &[256, 1]),
            (&[3, 1, 17, 8], &[2, 8, 9]),
            (&[200, 500], &[500, 120]),
            (&[4, 0], &[0, 5]),
        ];
        for (a, b) in sizes {
            for dtype in [DType::F64, DType::I32, DType::U32, DType::I64, DType::U64] {
                let some = |shape| of_type(dtype, shape);
                Case::new("MatMul", 13).input(some(a)).weight(some(b)).check(exact);
                Case::new("MatMul", 13).input(some(a)).input(some(b)).check(exact);
            }
        }
        for m in 1..=5 {
            let case = Case::new("FusedMatMul", 1).domain("com.microsoft");
            let case = case.attr("transB", Attr::Int(1)).attr("alpha", Attr::Float(0.5));
            let some = |shape: &[usize]| of_type(DType::F64, shape);
            case.input(some(&[m, 77])).input(some(&[130, 77])).check(exact);
        }
    }

    #[test]
    fn attributes_transpose_operands() {
        let flag = |i: u32, name| (name, Attr::Int(i64::from(i & 1)));
        for bits in 0..16_u32 {
            let attrs = [
                flag(bits, "transA"),
                flag(bits >> 1, "transB"),
                flag(bits >> 2, "transBatchA"),
                flag(bits >> 3, "transBatchB"),
            ];
            let case = Case::new("FusedMatMul", 1).domain("com.microsoft");
            let case = attrs.into_iter().fold(case, |case, (name, attr)| case.attr(name, attr));
            let stored = |mut shape: Vec<usize>, is_transposed: bool, is_batch: bool| {
                if is_transposed {
                    shape.swap(2, 3);
                }
                if is_batch {
                    shape[..3].rotate_right(1);
                }
                integers(&shape)
            };
            case.attr("alpha", Attr::Float(0.25))
                .input(stored(vec![2, 3, 9, 5], bits & 1 == 1, bits >> 2 & 1 == 1))
                .weight(stored(vec![2, 3, 5, 34], bits >> 1 & 1 == 1, bits >> 3 & 1 == 1))
                .check(exact);
        }
    }
}
