//! The same of 16-bit floats: row by row in f32, with parameters that each thread widens once.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_tensor::{DType, bf16, f16};

use super::super::halves::Half;
use super::{COST, NormKernel, Operands, SUM, State};
use crate::cpu::{Cpu, Team};
use crate::pieces::{Rows, first_and_output};

/// The rows of a thread: what is normalized, the skip connection, what is given back of it, and three
/// parameters.
const ROWS: usize = 6;

#[derive(Debug)]
pub(super) struct HalfNormKernel {
    pub(super) cpu: Cpu,
    pub(super) norm: NormKernel,
    pub(super) dtype: DType,
}

impl Kernel for HalfNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.norm.state(shapes)?;
        let n_bytes = self.cpu.scratch_bytes(state.len.saturating_mul(ROWS));
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
        let team = team.with_scratch(io.scratch, len * ROWS);
        let mut sums = sum.chunks_mut(piece_len);
        let pieces = y.chunks_mut(piece_len).map(move |y| (y, sums.next().unwrap_or_default()));
        team.run(pieces.enumerate(), |(i, (y, sum)), room| {
            let mut room = room.chunks_exact_mut(len);
            let mut next = || room.next().unwrap_or_default();
            let (tile, skip, kept) = (next(), next(), next());
            let wide = self.widened(&operands, [next(), next(), next()]);
            let mut sums = sum.chunks_mut(len);
            for (j, y) in y.chunks_mut(len).enumerate() {
                let at = i * piece_len + j * len;
                let sum = sums.next().unwrap_or_default();
                let tiles = [&mut *tile, &mut *skip, &mut *kept];
                self.row((state, at), (&operands, &wide), tiles, (y, sum));
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

    /// The row that begins at element `start`, through `tile`.
    fn row<T: Half>(
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
        self.norm.normalize(wide, (tile, &mut *kept));
        T::narrow(isa, kept, sum);
        T::narrow(isa, tile, y);
    }
}
