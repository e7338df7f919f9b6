//! The weights of one direction, grouped by the gates that are multiplied at once.

use std::ops::Range;

use ort_ep::{KernelError, Packed, Recipe};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::gemm::{Matrix, pack_b, packed_b_len_of};
use ort_ops::ops::rnn::Cell;
use ort_tensor::{collected, filled};
use smallvec::SmallVec;

use super::real::Real;
use crate::kernels::Compiler;

/// The weights of a direction.
#[derive(Debug)]
pub(super) struct Parameters<T> {
    pub(super) groups: SmallVec<[Gates<T>; 2]>,
    /// Added to the recurrent product of the last gates, if the reset is applied afterwards.
    pub(super) reset_bias: Vec<T>,
}

/// Gates that are multiplied at once.
#[derive(Debug)]
pub(super) struct Gates<T> {
    /// Elements of all these gates.
    pub(super) width: usize,
    /// `[input, width]`
    pub(super) w: Weights<T>,
    /// `[hidden, width]`
    pub(super) r: Weights<T>,
    pub(super) bias: Vec<T>,
}

/// A right operand, packed.
#[derive(Debug)]
pub(super) enum Weights<T> {
    /// Packed when the kernel is compiled.
    Constant(Packed),
    /// Packed by the run that supplies them.
    Given(Vec<T>),
}

impl<T: Real> Weights<T> {
    pub(super) fn elements(&self) -> &[T] {
        match self {
            Self::Constant(packed) => bytemuck::cast_slice(packed.bytes()),
            Self::Given(packed) => packed,
        }
    }
}

/// A direction, and the layout of its weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) isa: Isa,
    pub(super) cell: Cell,
    pub(super) hidden: usize,
    /// The index of the direction.
    pub(super) d: usize,
}

impl Layer {
    /// The gates that are multiplied at once, as counts.
    pub(super) const fn groups(cell: Cell) -> &'static [usize] {
        match cell {
            Cell::Simple => &[1],
            Cell::Gru { .. } => &[2, 1],
            Cell::Lstm { .. } => &[4],
        }
    }

    /// The parameters, if they are all constant.
    pub(super) fn constant<T: Real>(self, compiler: &Compiler<'_>) -> Option<Parameters<T>> {
        let bias = match compiler.fact(3) {
            Some(_) => compiler.constant(3)?.as_slice::<T>().ok()?,
            None => &[],
        };
        self.parameters(bias, |input, rows| self.pack(compiler, input, rows))
    }

    /// The parameters that a run supplies: `w` and `r`, each with its number of columns.
    ///
    /// # Errors
    /// If there are fewer than the layer needs, or they cannot be allocated.
    pub(super) fn given<T: Real>(
        self,
        weights: [(&[T], usize); 2],
        bias: &[T],
    ) -> Result<Parameters<T>, KernelError> {
        let rows_of = |input: usize, rows: Range<usize>| {
            let (w, k) = weights[input - 1];
            let first = self.d * self.cell.n_gates() * self.hidden;
            let b = w.get((first + rows.start) * k..(first + rows.end) * k)?;
            let mut packed =
                filled(T::zeroed(), packed_b_len_of::<T>(self.isa, k, rows.len())).ok()?;
            pack_b(self.isa, &Matrix::row_major(b, rows.len(), k).transposed(), &mut packed);
            Some(Weights::Given(packed))
        };
        self.parameters(bias, rows_of).ok_or_else(|| OpError::TooLarge.into())
    }

    fn parameters<T: Real>(
        self,
        bias: &[T],
        weights: impl Fn(usize, Range<usize>) -> Option<Weights<T>>,
    ) -> Option<Parameters<T>> {
        let Self { cell, hidden, d, .. } = self;
        let n = cell.n_gates() * hidden;
        let bias = if bias.is_empty() { bias } else { bias.get(d * 2 * n..(d + 1) * 2 * n)? };
        let (mut groups, mut first) = (SmallVec::new(), 0);
        let is_reset_after = |first| first > 0 && cell == Cell::Gru { linear_before_reset: true };
        for width in Self::groups(cell).iter().map(|count| count * hidden) {
            let sum = |i: usize| match bias.get(i) {
                Some(own) if is_reset_after(first) => *own,
                Some(own) => own.plus(bias[n + i]),
                None => T::zeroed(),
            };
            let bias = collected((first..first + width).map(sum)).ok()?;
            let [w, r] = [1, 2].map(|input| weights(input, first..first + width));
            groups.push(Gates { width, w: w?, r: r?, bias });
            first += width;
        }
        let reset_bias = match bias.get(2 * n - hidden..) {
            Some(own) => collected(own.iter().copied()),
            None => filled(T::zeroed(), hidden),
        };
        let reset_bias = reset_bias.ok()?;
        Some(Parameters { groups, reset_bias })
    }

    /// `rows` of the direction's matrix at `input`, transposed and packed as a right operand.
    fn pack<T: Real>(
        self,
        compiler: &Compiler<'_>,
        input: usize,
        rows: Range<usize>,
    ) -> Option<Weights<T>> {
        let Self { isa, d, .. } = self;
        let &[directions, all, k] = compiler.constant(input)?.shape() else { return None };
        if d >= directions || rows.end > all {
            return None;
        }
        let recipe = Recipe {
            name: T::WEIGHTS,
            parameters: [T::variant(isa).nr, d, rows.start, rows.end].map(|n| n as u64).to_vec(),
            n_bytes: packed_b_len_of::<T>(isa, k, rows.len()) * size_of::<T>(),
        };
        let packed = compiler.pack_for_runs(input, &recipe, |w: &[T], packed| {
            let b = &w[(d * all + rows.start) * k..(d * all + rows.end) * k];
            pack_b(isa, &Matrix::row_major(b, rows.len(), k).transposed(), packed);
        });
        packed.map(Weights::Constant)
    }
}
