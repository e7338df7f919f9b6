//! The same in 16-bit floats: a few rows at a time in f32, with parameters that each thread widens once.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_tensor::{DType, bf16, f16};

use super::super::halves::Half;
use super::{COST, NormKernel, Operands, SUM, State};
use crate::cpu::{Cpu, Team};
use crate::pieces::{Rows, first_and_output};

/// Tiles of rows per thread: the operand, the skip connection, and their
/// sum, which may be an output.
const N_TILES: usize = 3;
/// Elements of a few rows: 16 KiB of f32, so that widened values have left the store buffer.
const TILE: usize = 4096;
/// Parameter rows per thread.
const N_PARAMETERS: usize = 3;

/// Elements computed at a time: one or more whole rows of `len`.
fn tile_len(len: usize) -> usize {
    len.saturating_mul((TILE / len.max(1)).max(1))
}

/// Elements of scratch per thread.
fn room_len(len: usize) -> usize {
    tile_len(len).saturating_mul(N_TILES).saturating_add(len.saturating_mul(N_PARAMETERS))
}

#[derive(Debug)]
pub(super) struct HalfNormKernel {
    pub(super) cpu: Cpu,
    pub(super) norm: NormKernel,
    pub(super) dtype: DType,
}

impl Kernel for HalfNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.norm.state(shapes)?;
        let n_bytes = self.cpu.scratch_bytes(room_len(state.len));
        Ok(Prepared::new(state).with_scratch(n_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F16 => self.compute::<f16>(prepared.state()?, io),
            _ => self.compute::<bf16>(prepared.state()?, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "layer_norm_16_bits")
    }
}

impl HalfNormKernel {
    fn compute<T: Half>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (first, rest) = io.outputs.split_at_mut(1);
        let (x, y) = first_and_output::<T>(io.inputs, &mut first[0])?;
        let form = self.norm.form;
        let operands = Operands::<T>::new(form, x, io.inputs)?;
        let sum = rest.get_mut(SUM - 1).filter(|sum| form.has_skip && sum.is_wanted());
        let sum: &mut [T] = match sum {
            Some(sum) => sum.tensor(T::DTYPE, &state.shape)?.into_slice()?,
            None => &mut [],
        };
        if y.is_empty() {
            return Ok(());
        }
        let len = state.len;
        let rows = Rows { len, cost: len.saturating_mul(2 * COST) };
        let piece_len = rows.piece_len(io.threads, y.len());
        let team = Team::new(io.threads, y.len().div_ceil(piece_len));
        let team = team.with_scratch(io.scratch, room_len(len));
        let tile_len = tile_len(len);
        let mut sums = sum.chunks_mut(piece_len);
        let pieces = y.chunks_mut(piece_len).map(move |y| (y, sums.next().unwrap_or_default()));
        team.run(pieces.enumerate(), |(i, (y, sum)), room| {
            let (tiles, parameters) = room.split_at_mut(N_TILES * tile_len);
            let mut parameters = parameters.chunks_exact_mut(len);
            let wide = [(); N_PARAMETERS].map(|()| parameters.next().unwrap_or_default());
            let wide = self.widened(&operands, wide);
            let mut sums = sum.chunks_mut(tile_len);
            for (j, y) in y.chunks_mut(tile_len).enumerate() {
                let at = i * piece_len + j * tile_len;
                let sum = sums.next().unwrap_or_default();
                let mut tiles = tiles.chunks_exact_mut(tile_len);
                let tiles =
                    [(); N_TILES].map(|()| &mut tiles.next().unwrap_or_default()[..y.len()]);
                self.rows((state, at), (&operands, &wide), tiles, (y, sum));
            }
        });
        Ok(())
    }

    /// The parameters in f32.
    fn widened<'w, T: Half>(
        &self,
        operands: &Operands<'_, T>,
        [scale, bias, skip_bias]: [&'w mut [f32]; 3],
    ) -> Operands<'w, f32> {
        let isa = self.norm.isa;
        T::widen(isa, operands.scale, scale);
        let widen = |x: Option<&[T]>, y: &'w mut [f32]| {
            let x = x?;
            T::widen(isa, x, y);
            Some(&*y)
        };
        let bias = widen(operands.bias, bias);
        let skip_bias = widen(operands.skip_bias, skip_bias);
        Operands { x: None, skip: None, skip_bias, scale, bias }
    }

    /// Computes the rows that start at element `start`, through `tile`.
    fn rows<T: Half>(
        &self,
        (state, start): (&State, usize),
        (operands, wide): (&Operands<'_, T>, &Operands<'_, f32>),
        [tile, skip, kept]: [&mut [f32]; 3],
        (y, sum): (&mut [T], &mut [T]),
    ) {
        let isa = self.norm.isa;
        T::widen(isa, operands.x.map_or(&*y, |x| &x[start..start + y.len()]), tile);
        if let (Some(from), Some(runs)) = (operands.skip, &state.skip) {
            runs.for_each_within(start..start + y.len(), |piece, [at]| {
                let n = piece.len();
                let (tile, skip) = (&mut tile[piece.start - start..][..n], &mut skip[..n]);
                match runs.advances() {
                    [true] => T::widen(isa, &from[at..][..n], skip),
                    [false] => {
                        let mut one = [0.0];
                        T::widen(isa, &from[at..=at], &mut one);
                        skip.fill(one[0]);
                    }
                }
                ort_kernels::vec::add(isa, tile, skip);
            });
        }
        let kept = if sum.is_empty() { &mut [] } else { kept };
        let mut kept_rows = kept.chunks_mut(state.len);
        for tile in tile.chunks_mut(state.len) {
            self.norm.normalize(wide, None, (tile, kept_rows.next().unwrap_or_default()));
        }
        T::narrow(isa, kept, sum);
        T::narrow(isa, tile, y);
    }
}
