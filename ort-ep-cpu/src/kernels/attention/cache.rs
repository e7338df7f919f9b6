//! What is kept of keys and values for the next step: the past, and behind it what is new.

use ort_ep::{KernelError, Threads};
use ort_kernels::Isa;
use ort_tensor::{DType, Output, TensorView};

use super::floats::{Float, Floats, Source, Strides, with_float};
use crate::cpu::Team;

/// What it costs to copy an element, in multiply-adds.
const COPY: usize = 4;
/// Elements that are converted together.
const TILE: usize = 256;

/// The keys or the values of each head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache<'a> {
    /// `[B, heads, capacity, size]`, or nothing.
    pub(super) past: Floats<'a>,
    /// How many rows of the past count.
    pub(super) used: usize,
    pub(super) new: Source<'a>,
    /// How many rows are new.
    pub(super) n_new: usize,
    /// `[B, heads, rows, size]` of what is kept.
    pub(super) shape: [usize; 4],
}

/// What an output begins with: the past, unless the output holds it already.
pub(super) fn past_of<'a>(
    past: Option<TensorView<'a>>,
    output: &Output<'_>,
) -> Result<Floats<'a>, KernelError> {
    Ok(Floats::of_optional(past.filter(|_| output.to_extend().is_none()))?)
}

impl Cache<'_> {
    /// Writes it to an output, whose rows may have room behind them. What is behind the new rows is what the
    /// past has there.
    pub(super) fn write<'y>(
        &self,
        (isa, dtype): (Isa, DType),
        output: &'y mut Output<'_>,
        threads: &dyn Threads,
    ) -> Result<Source<'y>, KernelError> {
        let (view, _) = output.extended(dtype, &self.shape)?;
        let [_, heads, _, size] = self.shape;
        let strides = Strides::split([heads, view.shape()[2], size]);
        Ok(with_float!(dtype, T => {
            let y = view.into_slice::<T>()?;
            self.fill(isa, y, threads);
            Source::new(T::floats(y), strides)
        }))
    }

    /// Writes it to `y`.
    pub(super) fn fill<T: Float>(&self, isa: Isa, y: &mut [T], threads: &dyn Threads) {
        let [batch, n_heads, _, size] = self.shape;
        if y.is_empty() {
            return;
        }
        let n = batch * n_heads;
        let past = T::of(self.past).unwrap_or_default();
        let past_len = past.len() / n;
        let n_written = past.len().saturating_add(n * self.n_new * size);
        let team = Team::new(threads, n).if_worth(n_written.saturating_mul(COPY));
        let of_head = y.len() / n;
        team.run(y.chunks_exact_mut(of_head).enumerate(), |(i, y), _| {
            let kept = past_len.min(y.len());
            y[..kept].copy_from_slice(&past[i * past_len..][..kept]);
            let new = y.chunks_exact_mut(size).skip(self.used).take(self.n_new);
            for (row, y) in new.enumerate() {
                self.convert(isa, [i / n_heads, i % n_heads, row], y);
            }
        });
    }

    /// A new row.
    fn convert<T: Float>(&self, isa: Isa, at: [usize; 3], y: &mut [T]) {
        if let (Some(x), 0) = (T::of(self.new.data), self.new.bias.len()) {
            return y.copy_from_slice(&x[self.new.strides.at(at)..][..y.len()]);
        }
        let size = y.len();
        for (i, y) in y.chunks_mut(TILE).enumerate() {
            let mut tile = [0.0; TILE];
            let tile = &mut tile[..y.len()];
            self.new.piece(isa, at, [i * TILE, size], tile);
            T::narrow(isa, tile, y);
        }
    }
}
