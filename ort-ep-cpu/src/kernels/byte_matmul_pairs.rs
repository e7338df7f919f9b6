//! MatMulInteger and QLinearMatMul whose right operand is not a packed constant: batches of any rank, whose
//! matrices are packed in each run.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::gemm_i8::{Bytes, column_sums_while, pack_b_while, packed_b_len};
use ort_kernels::quantize::{Requantize, Scales};
use ort_ops::infer::matmul_shape;
use ort_ops::ops::matmul_integer::MatMulInteger;
use ort_ops::ops::qlinear_matmul::QLinearMatMul;
use ort_tensor::{DType, Inputs, Shape, broadcast_strides, go_on};

use super::{Compiled, Compiler, KernelDef};
use crate::bytes::{
    ByteProduct, FLIP, Left, RightView, flip_to_signed, flipped, split_floats, variant_name,
    zero_point,
};
use crate::cpu::{Cpu, numbers};
use crate::scheme::{is_scale, scale_at};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Products of two batches.
#[derive(Debug)]
struct ByteMatMulPairs {
    cpu: Cpu,
    /// Whether sums are requantized: the scales are inputs 1, 4 and 6, each before its zero point, and the right
    /// operand is input 3. Otherwise the zero points are inputs 2 and 3, and the right operand is input 1.
    is_requantized: bool,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    m: usize,
    n: usize,
    k: usize,
    /// The dimensions of the batch, and the stride of each operand along them, in elements.
    batch: Shape,
    steps: [Shape; 2],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_requantized = match (compiler.op::<MatMulInteger>(), compiler.op::<QLinearMatMul>()) {
        (Some(_), _) => false,
        (_, Some(_)) => true,
        _ => return Ok(None),
    };
    let dtype = match is_requantized {
        true => compiler.fact(7).and_then(Fact::dtype).filter(|dtype| dtype.is_byte()),
        false => Some(DType::I32),
    };
    let dtype_of = |input: usize| compiler.fact(input).and_then(Fact::dtype);
    let (right, scales): (_, &[usize]) = if is_requantized { (3, &[1, 4, 6]) } else { (1, &[]) };
    let are_bytes = [0, right].into_iter().all(|input| dtype_of(input).is_some_and(DType::is_byte));
    if !are_bytes || !scales.iter().all(|&scale| dtype_of(scale).is_some_and(is_scale)) {
        return Ok(None);
    }
    let singles: &[usize] = if is_requantized { &[1, 2, 4, 5, 6, 7] } else { &[2, 3] };
    let Some(dtype) =
        dtype.filter(|_| singles.iter().copied().all(|input| compiler.is_one_or_none(input)))
    else {
        return Ok(None);
    };
    Ok(Some(Box::new(ByteMatMulPairs { cpu: compiler.cpu, is_requantized, dtype })))
}

impl State {
    fn new(a: &[usize], b: &[usize]) -> Result<Self, KernelError> {
        let shape = matmul_shape(a, b).map_err(KernelError::Op)?;
        // Vectors become a row and a column.
        let (a, b) =
            (if a.len() == 1 { &[1, a[0]] } else { a }, if b.len() == 1 { &[b[0], 1] } else { b });
        let ([a_batch @ .., m, k], [b_batch @ .., _, n]) = (a, b) else {
            return Err(KernelError::ForeignState);
        };
        let batch = Shape::from_slice(&shape[..a_batch.len().max(b_batch.len())]);
        let steps = [(a_batch, m * k), (b_batch, k * n)].map(|(own, len)| -> Shape {
            broadcast_strides(own, &batch).iter().map(|stride| stride * len).collect()
        });
        Ok(Self { m: *m, n: *n, k: *k, batch, steps, shape })
    }

    /// The offsets of the operands of batch item `i`.
    fn starts(&self, mut i: usize) -> [usize; 2] {
        let mut starts = [0; 2];
        for (axis, &dim) in self.batch.iter().enumerate().rev() {
            let at = i % dim;
            i /= dim;
            starts
                .iter_mut()
                .zip(&self.steps)
                .for_each(|(start, steps)| *start += at * steps[axis]);
        }
        starts
    }

    fn product(&self, cpu: Cpu) -> ByteProduct<'static> {
        ByteProduct {
            cpu,
            m: self.m,
            right: RightView { k: self.k, n: self.n, ..RightView::default() },
        }
    }

    /// Bytes of scratch for a packed matrix, and for two values per column.
    fn packed_bytes(&self, cpu: Cpu) -> [usize; 2] {
        let panels = packed_b_len(cpu.isa, self.k, self.n).next_multiple_of(64);
        [panels, (2 * self.n * size_of::<i32>()).next_multiple_of(64)]
    }
}

impl ByteMatMulPairs {
    /// The zero points, those of flipped bytes, and the scale and zero point that requantize results.
    fn numbers(&self, inputs: Inputs<'_>) -> Result<([u8; 2], Option<(f32, i16)>), KernelError> {
        let zero = |index: usize| -> Result<u8, KernelError> {
            let bytes = inputs.optional_tensor(index)?.and_then(|x| x.as_bytes());
            Ok(bytes.and_then(|bytes| bytes.first().copied()).unwrap_or_default())
        };
        if !self.is_requantized {
            return Ok(([zero(2)?, zero(3)?], None));
        }
        let scale = |index| scale_at(inputs.tensor(index)?, 0);
        let factor = scale(1)? * scale(4)? / scale(6)?;
        Ok(([zero(2)?, zero(5)?], Some((factor, zero_point(inputs, 7)?))))
    }

    const fn right(&self) -> usize {
        if self.is_requantized { 3 } else { 1 }
    }
}

impl Kernel for ByteMatMulPairs {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let (Some(a), Some(b)) = (shapes.first(), shapes.get(self.right())) else {
            return Err(KernelError::ForeignState);
        };
        let state = State::new(a, b)?;
        let packed: usize = state.packed_bytes(self.cpu).iter().sum();
        let factors = (state.n * size_of::<f32>()).next_multiple_of(64);
        let scratch = packed + factors + state.product(self.cpu).scratch_bytes();
        Ok(Prepared::new(state).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let (isa, inputs, &State { m, n, k, .. }) = (self.cpu.isa, io.inputs, state);
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(self.right())?);
        let a_flip = if a.dtype() == DType::I8 { FLIP } else { 0 };
        let b_flip = flip_to_signed(b.dtype()).unwrap_or_default();
        let (a, b) = (a.as_bytes().unwrap_or_default(), b.as_bytes().unwrap_or_default());
        let ([a_zero, b_zero], scaling) = self.numbers(inputs)?;
        let [panels_len, numbers_len] = state.packed_bytes(self.cpu);
        let (panels, scratch) = io.scratch.split_at_mut(panels_len);
        let (by_column, scratch) = scratch.split_at_mut(numbers_len);
        let (sums, zeros) = numbers::<i32>(by_column).split_at_mut(n);
        zeros.fill(i32::from((b_zero ^ b_flip).cast_signed()));
        let (factors, scratch) = split_floats(scratch, n);
        factors.fill(scaling.map_or(0.0, |(factor, _)| factor));
        let y = io.outputs[0].tensor(self.dtype, &state.shape)?;
        let y = y.into_bytes().unwrap_or_default();
        if y.is_empty() {
            return Ok(());
        }
        let item_len = y.len() / state.batch.iter().product::<usize>();
        for (i, y) in y.chunks_exact_mut(item_len).enumerate() {
            let [a_start, b_start] = state.starts(i);
            let (a, b) = (&a[a_start..][..m * k], &b[b_start..][..k * n]);
            let b = Bytes { data: b, k, n, strides: [n, 1] };
            pack_b_while(isa, &b, b_flip, panels, || go_on().is_ok());
            column_sums_while(isa, &b, b_flip, sums, || go_on().is_ok());
            go_on()?;
            let right = RightView { panels, sums, zeros: &zeros[..n], k, n };
            let product = ByteProduct { cpu: self.cpu, m, right };
            let (room, scratch) = product.room(scratch);
            let bytes = flipped(a, a_flip, room);
            let left = Left { bytes, zero: i32::from(a_zero ^ a_flip) };
            let rest = (io.threads, scratch);
            match scaling {
                Some((_, zero_point)) => {
                    let (factors, is_signed) = (Scales::ByColumn(factors), self.dtype == DType::I8);
                    let requantize = Requantize { factors, zero_point, is_signed };
                    product.run_quantized((left, None), y, rest, &requantize);
                }
                None => {
                    let y: &mut [i32] = bytemuck::cast_slice_mut(y);
                    product.run((left, None), y, rest, |_, sums, y| y.copy_from_slice(sums));
                }
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        // That of long ones: their lengths are those of a run.
        variant_name(self.cpu.isa, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, bytes, exact};

    const SHAPES: [[&[usize]; 2]; 9] = [
        [&[3, 5], &[5, 7]],
        [&[5], &[5, 70]],
        [&[3, 5], &[5]],
        [&[2, 3, 40, 33], &[2, 3, 33, 65]],
        [&[2, 1, 9, 64], &[3, 64, 32]],
        [&[4, 50, 31], &[31, 20]],
        [&[0, 3, 4], &[4, 2]],
        [&[2, 3, 0], &[2, 0, 4]],
        [&[130, 300], &[300, 90]],
    ];

    #[test]
    fn products_of_two_activations_equal_eval() {
        for [a, b] in SHAPES {
            let operand = |shape: &[usize], is_signed| match is_signed {
                true => (bytes(shape, u8::cast_signed), Tensor::scalar(-9_i8)),
                false => (bytes(shape, |bits| bits), Tensor::scalar(200_u8)),
            };
            for signs in 0..4 {
                let (a, a_zero) = operand(a, signs & 1 != 0);
                let (b, b_zero) = operand(b, signs & 2 != 0);
                let integers = Case::new("MatMulInteger", 10).input(a.clone()).input(b.clone());
                integers.clone().check(exact);
                integers.input(a_zero.clone()).input(b_zero.clone()).check(exact);
                let halves = Case::new("QLinearMatMul", 21).input(a.clone());
                let half = |x: f32| Tensor::scalar(f16::from_f32(x));
                let halves = halves.input(half(0.05)).input(a_zero.clone()).input(b.clone());
                let halves = halves.input(half(0.02)).input(b_zero.clone()).input(half(1.5));
                halves.input(a_zero.clone()).check(exact);
                let case = Case::new("QLinearMatMul", 21).input(a).input(Tensor::scalar(0.05_f32));
                let case = case.input(a_zero.clone()).input(b).input(Tensor::scalar(0.02_f32));
                let case = case.input(b_zero).input(Tensor::scalar(1.5_f32));
                case.input(a_zero).check(exact);
            }
        }
    }
}
