//! RotaryEmbedding of f32, and of 16-bit floats through f32: head by head, each
//! rotated by the cosines and sines of its step.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::vec;
use ort_ops::ops::rotary_embedding::{RotaryEmbedding, Rows as TableRows, Sizes};
use ort_tensor::{DType, Element, TensorError, bf16, f16};

use super::halves::Half;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of rotating an element, in multiply-adds.
const COST: usize = 8;

#[derive(Debug)]
struct RotaryKernel {
    cpu: Cpu,
    op: RotaryEmbedding,
    dtype: DType,
}

/// The tensors of a run.
struct Operands<'a, T> {
    x: &'a [T],
    cos: &'a [T],
    sin: &'a [T],
    rows: TableRows<'a>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<RotaryEmbedding>() else { return Ok(None) };
    let dtype = compiler.dtype_of(0..1);
    let Some(dtype) = dtype.filter(|dtype| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16))
    else {
        return Ok(None);
    };
    let kernel = RotaryKernel { cpu: compiler.cpu, op, dtype };
    // Sections use several positions per pair; they are not supported.
    Ok(op.sections.is_none().then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl RotaryKernel {
    fn operands<'a, T: Element>(
        &self,
        sizes: Sizes,
        io: &Io<'a, '_>,
    ) -> Result<Operands<'a, T>, KernelError> {
        let tensor = |input| -> Result<_, TensorError> { io.inputs.tensor(input)?.as_slice() };
        let (cos, sin) = (self.op.operands.cos, self.op.operands.sin);
        let rows = self.op.rows(io.inputs, sizes)?;
        Ok(Operands { x: tensor(0)?, cos: tensor(cos)?, sin: tensor(sin)?, rows })
    }

    /// Rotates one head by these cosines and sines.
    fn rotate(&self, x: &[f32], table: [&[f32]; 2], y: &mut [f32]) {
        vec::rotate(self.cpu.isa, x, table, self.op.is_interleaved, y);
    }

    fn rotate_all(&self, sizes: Sizes, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Operands { x, cos, sin, rows } = self.operands::<f32>(sizes, io)?;
        let y = io.outputs[0].tensor(DType::F32, io.inputs.tensor(0)?.shape())?.into_slice()?;
        each_head(sizes).for_each(io.threads, y, |start, y| {
            let x = &x[start..][..y.len()];
            let heads = x.chunks_exact(sizes.size).zip(y.chunks_exact_mut(sizes.size));
            for (i, (x, y)) in (start / sizes.size..).zip(heads) {
                let at = rows.of(sizes.step_of(i)) * sizes.pairs;
                self.rotate(x, [cos, sin].map(|table| &table[at..][..sizes.pairs]), y);
            }
        });
        Ok(())
    }

    fn rotate_halves<T: Half>(&self, sizes: Sizes, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let isa = self.cpu.isa;
        let Operands { x, cos, sin, rows } = self.operands::<T>(sizes, io)?;
        let y = io.outputs[0].tensor(T::DTYPE, io.inputs.tensor(0)?.shape())?.into_slice()?;
        let scratch = (&mut *io.scratch, room_len(sizes));
        each_head(sizes).for_each_with(io.threads, scratch, y, |start, y, room| {
            let (wide_x, room) = room.split_at_mut(sizes.size);
            let (wide_y, room) = room.split_at_mut(sizes.size);
            let (wide_cos, room) = room.split_at_mut(sizes.pairs);
            let wide_sin = &mut room[..sizes.pairs];
            let x = &x[start..][..y.len()];
            let heads = x.chunks_exact(sizes.size).zip(y.chunks_exact_mut(sizes.size));
            let mut step = None;
            for (i, (x, y)) in (start / sizes.size..).zip(heads) {
                let row = rows.of(sizes.step_of(i));
                if step.replace(row) != Some(row) {
                    let [cos, sin] = [cos, sin].map(|of| &of[row * sizes.pairs..][..sizes.pairs]);
                    T::widen(isa, cos, wide_cos);
                    T::widen(isa, sin, wide_sin);
                }
                T::widen(isa, x, wide_x);
                self.rotate(wide_x, [wide_cos, wide_sin], wide_y);
                T::narrow(isa, wide_y, y);
            }
        });
        Ok(())
    }
}

/// Elements of f32 scratch per thread: a head before and after, cosines and sines.
fn room_len(sizes: Sizes) -> usize {
    2 * sizes.size + 2 * sizes.pairs
}

fn each_head(sizes: Sizes) -> Rows {
    Rows { len: sizes.size, cost: sizes.size.saturating_mul(COST) }
}

impl Kernel for RotaryKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let (cos, sin) = (shape(self.op.operands.cos), shape(self.op.operands.sin));
        if cos != sin {
            let (left, right) = (cos.to_vec(), sin.to_vec());
            return Err(
                ort_graph::OpError::Shapes { what: "cosines and sines", left, right }.into()
            );
        }
        let sizes = self.op.sizes(shape(0), cos)?;
        let is_wide = self.dtype == DType::F32;
        let room = if is_wide { 0 } else { self.cpu.scratch_bytes(room_len(sizes)) };
        Ok(Prepared::new(sizes).with_scratch(room))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &sizes: &Sizes = prepared.state()?;
        if sizes.size == 0 {
            // Positions are validated even if unused.
            self.op.rows(io.inputs, sizes)?;
            io.outputs[0].tensor(self.dtype, io.inputs.tensor(0)?.shape())?;
            return Ok(());
        }
        match self.dtype {
            DType::F32 => self.rotate_all(sizes, io),
            DType::F16 => self.rotate_halves::<f16>(sizes, io),
            _ => self.rotate_halves::<bf16>(sizes, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "rotary_embedding")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, bytes, floats, relative, within};

    /// Two roundings of sums of two products of numbers up to 4.
    const ERROR: f32 = 2.0 * 32.0 * f32::EPSILON;

    fn ids(shape: &[usize], ids: &[i64]) -> Tensor {
        Tensor::from_slice(shape, ids).unwrap()
    }

    #[test]
    fn heads_of_any_layout_are_rotated() {
        // Batch, steps, heads, size, pairs.
        for [b, s, h, d, p] in
            [[1, 1, 1, 2, 1], [2, 3, 4, 16, 8], [1, 77, 3, 40, 9], [2, 0, 1, 4, 2], [0, 2, 2, 4, 2]]
        {
            for (shape, is_interleaved) in
                [(vec![b, s, h * d], 0), (vec![b, h, s, d], 0), (vec![b, h, s, d], 1)]
            {
                let case = Case::new("RotaryEmbedding", 23)
                    .attr("num_heads", Attr::Int(i64::try_from(h).unwrap()))
                    .attr("rotary_embedding_dim", Attr::Int(i64::try_from(2 * p).unwrap()))
                    .attr("interleaved", Attr::Int(is_interleaved));
                let at: Vec<_> = (0..b * s).map(|i| (i as i64 * 7) % 11).collect();
                let wide = case.clone().input(floats(&shape));
                let own = [floats(&[b, s, p]), floats(&[b, s, p])];
                own.into_iter().fold(wide.clone(), Case::input).check(within(ERROR));
                let table = [floats(&[11, p]), floats(&[11, p]), ids(&[b, s], &at)];
                table.into_iter().fold(wide, Case::input).check(within(ERROR));
                let narrow = [
                    bytes(&shape, f16::from),
                    bytes(&[11, p], |x| f16::from(x % 3)),
                    bytes(&[11, p], |x| f16::from(x % 2)),
                ];
                let narrow = narrow.into_iter().fold(case.clone(), Case::input);
                narrow.input(ids(&[b, s], &at)).check(relative(2e-3));
                let narrow = [
                    bytes(&shape, bf16::from),
                    bytes(&[11, p], |x| bf16::from(x % 3)),
                    bytes(&[11, p], |x| bf16::from(x % 2)),
                ];
                let narrow = narrow.into_iter().fold(case, Case::input);
                narrow.input(ids(&[b, s], &at)).check(relative(2e-2));
            }
        }
    }

    #[test]
    fn com_microsoft_counts_from_one_position() {
        let case =
            Case::new("RotaryEmbedding", 1).domain("com.microsoft").input(floats(&[2, 4, 12]));
        let case = |first| {
            case.clone().input(ids(&[1], &[first])).input(floats(&[9, 2])).input(floats(&[9, 2]))
        };
        case(5).check(within(ERROR));
        for first in [6, -1, i64::MAX] {
            let error = case(first).error();
            assert!(error.to_string().contains("cosines"), "{error}");
        }
    }
}
