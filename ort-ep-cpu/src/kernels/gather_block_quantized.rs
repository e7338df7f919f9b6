//! GatherBlockQuantized: rows of integers of a few bits, selected by indices and dequantized on all threads. Other
//! types and axes run `eval`.

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_kernels::few_bits::{FewBits, dequantize_bits};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::microsoft::gather_block_quantized::GatherBlockQuantized;
use ort_tensor::{DType, Element, Shape, bf16, f16, n_elements};

use super::halves::{Half, TILE};
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;
use crate::places::{IndexedAxis, Indices, PLACE};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of a value, in multiply-adds.
const COST: usize = 8;

#[derive(Debug)]
struct GatherQuantized {
    isa: Isa,
    op: GatherBlockQuantized,
    /// The type of the quantized values.
    quantized: DType,
    bits: usize,
    /// The type of scales and results.
    dtype: DType,
    eval: Arc<dyn Operator>,
}

/// Prepared state for one shape signature: an entry of the first axis is `n_rows` rows.
struct State {
    shape: Shape,
    n_entries: usize,
    n_rows: usize,
    /// Quantized values per row, in whole bytes.
    len: usize,
    n_blocks: usize,
    /// Zero points per row, with padding.
    n_zeros: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let &[id] = compiler.claim.nodes.as_slice() else { return Ok(None) };
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    let (Some(&op), Some(quantized)) = (compiler.op::<GatherBlockQuantized>(), dtype(0)) else {
        return Ok(None);
    };
    let bits = match quantized {
        DType::U8 => op.bits,
        DType::I4 | DType::U4 => 4,
        _ => return Ok(None),
    };
    let Some(dtype) = dtype(2).filter(|d| matches!(d, DType::F32 | DType::F16 | DType::Bf16))
    else {
        return Ok(None);
    };
    let (isa, eval) = (compiler.cpu.isa, compiler.graph.node(id).op.clone());
    Ok(Some(Box::new(GatherQuantized { isa, op, quantized, bits, dtype, eval })))
}

impl GatherQuantized {
    /// `None` if rows are not gathered along the first axis, in whole bytes and blocks along the last, or shapes
    /// do not match.
    fn state(&self, shapes: &[&[usize]]) -> Option<State> {
        let (&[x, indices, scales], zeros) = shapes.split_first_chunk()?;
        let (&[n_entries], [rows @ .., last]) = x.split_first_chunk()? else { return None };
        let axis = |axis| normalize_axis(axis, x.len()).ok();
        let axes = [axis(self.op.gather_axis)?, axis(self.op.quantize_axis)?];
        let per_byte = if self.quantized == DType::U8 { 8 / self.bits } else { 1 };
        let len = last.checked_mul(per_byte)?;
        let n_blocks = len.div_ceil(self.op.block_size);
        let is_whole = len.checked_mul(self.bits)?.is_multiple_of(8) && len > 0;
        let has = |shape: &[usize], last: usize| {
            shape
                .split_last()
                .is_some_and(|(own, rest)| *own == last && rest == &x[..rows.len() + 1])
        };
        let are_zeros = match zeros {
            [] | [[]] => true,
            [zeros] => has(zeros, n_blocks.div_ceil(per_byte)),
            _ => false,
        };
        let shape = [indices, rows, &[len]].concat();
        n_elements(&shape)?.checked_mul(size_of::<f32>())?;
        let is_taken = axes == [0, x.len() - 1] && is_whole && has(scales, n_blocks) && are_zeros;
        is_taken.then_some(State {
            shape: Shape::from_slice(&shape),
            n_entries,
            n_rows: n_elements(rows)?,
            len,
            n_blocks,
            n_zeros: n_blocks.next_multiple_of(per_byte),
        })
    }

    /// Rows of `T`; `write` dequantizes a part of a block.
    fn gather<T: Element + Into<f32>>(
        &self,
        state: &State,
        io: &mut Io<'_, '_>,
        write: impl Fn(FewBits<'_>, [f32; 2], &mut [T]) + Sync,
    ) -> Result<(), KernelError> {
        let (bits, block, inputs) = (self.bits, self.op.block_size, io.inputs);
        let x = inputs.tensor(0)?.as_bytes().ok_or(KernelError::ForeignState)?;
        let indices = Indices::new(inputs.tensor(1)?)?;
        let scales = inputs.tensor(2)?.as_slice::<T>()?;
        let zeros = inputs.optional_tensor(3)?.map(|zeros| zeros.as_bytes().unwrap_or_default());
        let flip = if self.quantized == DType::I4 { 8 } else { 0 };
        let middle = if self.quantized == DType::U4 { 0 } else { 1_u8 << (bits - 1) };
        let value = |bytes: &[u8], i: usize| {
            (bytes[i * bits / 8] >> (i * bits % 8) & (u8::MAX >> (8 - bits))) ^ flip
        };
        let y = io.outputs[0].tensor(self.dtype, &state.shape)?.into_slice::<T>()?;
        let &State { n_rows, len, n_blocks, n_zeros, .. } = state;
        let axis = [IndexedAxis::new(state.n_entries, n_rows)];
        let rows = Rows { len, cost: PLACE + len.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (row, y) in (start / len..).zip(y.chunks_exact_mut(len)) {
                let mut place = [row % n_rows];
                if !indices.add_offsets(&axis, row / n_rows, &mut place) {
                    // As `eval`: an index out of range selects zeros.
                    y.fill(T::default());
                    continue;
                }
                let [row] = place;
                let bytes = &x[row * len * bits / 8..];
                for (b, y) in y.chunks_mut(block).enumerate() {
                    let zero = zeros.map_or(middle, |zeros| value(zeros, row * n_zeros + b));
                    let by = [f32::from(zero), scales[row * n_blocks + b].into()];
                    for (i, y) in y.chunks_mut(TILE).enumerate() {
                        let bytes = &bytes[(b * block + i * TILE) * bits / 8..];
                        write(FewBits { bits, bytes, flip }, by, y);
                    }
                }
            }
        });
        Ok(())
    }

    fn gather_halves<T: Half + Into<f32>>(
        &self,
        state: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        self.gather(state, io, |x, [zero, scale], y: &mut [T]| {
            let mut tile = [0.0; TILE];
            let tile = &mut tile[..y.len()];
            dequantize_bits(self.isa, x, zero, scale, tile);
            T::narrow(self.isa, tile, y);
        })
    }
}

impl Kernel for GatherQuantized {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(self.state(shapes)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        match (state, self.dtype) {
            (None, _) => Ok(self.eval.eval(io.inputs, io.outputs)?),
            (Some(state), DType::F16) => self.gather_halves::<f16>(state, io),
            (Some(state), DType::Bf16) => self.gather_halves::<bf16>(state, io),
            (Some(state), _) => self.gather(state, io, |x, [zero, scale], y: &mut [f32]| {
                dequantize_bits(self.isa, x, zero, scale, y);
            }),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "gather_block_quantized")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Element, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, bytes, exact, floats, indices};

    /// A tensor of quantized values of this type.
    fn quantized(dtype: DType, shape: &[usize]) -> Tensor {
        let n_bytes = dtype.n_bytes(n_elements(shape).unwrap()).unwrap();
        let random = bytes(&[n_bytes], |bits| bits);
        let random = random.as_slice::<u8>().unwrap().to_vec();
        Tensor::from_bytes(dtype, shape, bytes::Bytes::from(random)).unwrap()
    }

    fn check<T: Element>(dtype: DType, [bits, block]: [usize; 2], of: fn(f32) -> T) {
        let sizes: [(&[usize], usize, &[usize]); 4] = [
            (&[7], 64, &[5, 3]),
            (&[3, 5], 48, &[4]),
            (&[2], 272, &[]),
            // Large enough for several threads.
            (&[90], 1024, &[300]),
        ];
        for (outer, len, of_indices) in sizes {
            let (per_byte, n_blocks) = (8 / bits, len.div_ceil(block));
            let (own, zeros) = match dtype {
                DType::U8 => (len / per_byte, n_blocks.div_ceil(per_byte)),
                _ => (len, n_blocks),
            };
            let shape = |last: usize| [outer, &[last]].concat();
            let scales = floats(&shape(n_blocks));
            let scales: Vec<T> = scales.as_slice().unwrap().iter().copied().map(of).collect();
            let case = Case::new("GatherBlockQuantized", 1)
                .domain("com.microsoft")
                .attr("bits", Attr::Int(i64::try_from(bits).unwrap()))
                .attr("block_size", Attr::Int(i64::try_from(block).unwrap()))
                .attr("quantize_axis", Attr::Int(-1))
                .weight(quantized(dtype, &shape(own)));
            let scales = Tensor::from_slice(&shape(n_blocks), &scales).unwrap();
            let with = |indices: Tensor| case.clone().input(indices).weight(scales.clone());
            with(indices::<i64>(of_indices, &[outer[0]])).check(exact);
            // Some are out of range.
            with(indices::<i32>(of_indices, &[outer[0] + 2]))
                .weight(quantized(dtype, &shape(zeros)))
                .check(exact);
        }
    }

    #[test]
    fn rows_equal_eval() {
        let types =
            [(DType::U8, 8), (DType::U8, 4), (DType::U8, 2), (DType::I4, 4), (DType::U4, 4)];
        for (dtype, bits) in types {
            for block in [16, 32, 128, 2048] {
                check::<f32>(dtype, [bits, block], |x| x);
                check::<f16>(dtype, [bits, block], f16::from_f32);
                check::<bf16>(dtype, [bits, block], bf16::from_f32);
            }
        }
    }

    #[test]
    fn other_axes_and_rows_of_half_a_byte_equal_eval() {
        let case = |dtype, axes: [i64; 2]| {
            Case::new("GatherBlockQuantized", 1)
                .domain("com.microsoft")
                .attr("block_size", Attr::Int(16))
                .attr("gather_axis", Attr::Int(axes[0]))
                .attr("quantize_axis", Attr::Int(axes[1]))
                .weight(quantized(dtype, &[19, 33]))
                .input(indices::<i64>(&[4], &[19]))
        };
        case(DType::I4, [0, 1]).weight(floats(&[19, 3])).check(exact);
        case(DType::U4, [1, 0]).weight(floats(&[2, 33])).check(exact);
    }
}
