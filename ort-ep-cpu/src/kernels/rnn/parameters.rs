//! The weights of one direction, grouped by the gates that are multiplied at once.

use ort_tensor::{collected, filled};
use std::ops::Range;

use ort_ep::{KernelError, Packed, Recipe};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::gemm::{Matrix, pack_b, packed_b_len, variant};
use ort_ops::ops::rnn::Cell;
use smallvec::SmallVec;

use crate::kernels::Compiler;

/// The weights of a direction.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) groups: SmallVec<[Gates; 2]>,
    /// Added to the recurrent product of the last gates, if the reset is applied afterwards.
    pub(super) reset_bias: Vec<f32>,
}

/// Gates that are multiplied at once.
#[derive(Debug)]
pub(super) struct Gates {
    /// Elements of all these gates.
    pub(super) width: usize,
    /// `[input, width]`
    pub(super) w: Weights,
    /// `[hidden, width]`
    pub(super) r: Weights,
    pub(super) bias: Vec<f32>,
}

/// A right operand, packed.
#[derive(Debug)]
pub(super) enum Weights {
    /// Packed when the kernel is compiled.
    Constant(Packed),
    /// Packed by the run that supplies them.
    Given(Vec<f32>),
}

impl Weights {
    pub(super) fn elements(&self) -> &[f32] {
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
    pub(super) fn constant(self, compiler: &Compiler<'_>) -> Option<Parameters> {
        let bias = match compiler.fact(3) {
            Some(_) => compiler.constant(3)?.as_slice::<f32>().ok()?,
            None => &[],
        };
        self.parameters(bias, |input, rows| self.pack(compiler, input, rows))
    }

    /// The parameters that a run supplies: `w` and `r`, each with its number of columns.
    ///
    /// # Errors
    /// If there are fewer than the layer needs, or they cannot be allocated.
    pub(super) fn given(
        self,
        weights: [(&[f32], usize); 2],
        bias: &[f32],
    ) -> Result<Parameters, KernelError> {
        let rows_of = |input: usize, rows: Range<usize>| {
            let (w, k) = weights[input - 1];
            let first = self.d * self.cell.n_gates() * self.hidden;
            let b = w.get((first + rows.start) * k..(first + rows.end) * k)?;
            let mut packed = filled(0.0, packed_b_len(self.isa, k, rows.len())).ok()?;
            pack_b(self.isa, &Matrix::row_major(b, rows.len(), k).transposed(), &mut packed);
            Some(Weights::Given(packed))
        };
        self.parameters(bias, rows_of).ok_or_else(|| OpError::TooLarge.into())
    }

    fn parameters(
        self,
        bias: &[f32],
        weights: impl Fn(usize, Range<usize>) -> Option<Weights>,
    ) -> Option<Parameters> {
        let Self { cell, hidden, d, .. } = self;
        let n = cell.n_gates() * hidden;
        let bias = if bias.is_empty() { bias } else { bias.get(d * 2 * n..(d + 1) * 2 * n)? };
        let (mut groups, mut first) = (SmallVec::new(), 0);
        let is_reset_after = |first| first > 0 && cell == Cell::Gru { linear_before_reset: true };
        for width in Self::groups(cell).iter().map(|count| count * hidden) {
            let sum = |i| match bias.get(i) {
                Some(own) if is_reset_after(first) => *own,
                Some(own) => own + bias[n + i],
                None => 0.0,
            };
            let bias = collected((first..first + width).map(sum)).ok()?;
            let [w, r] = [1, 2].map(|input| weights(input, first..first + width));
            groups.push(Gates { width, w: w?, r: r?, bias });
            first += width;
        }
        let reset_bias = match bias.get(2 * n - hidden..) {
            Some(own) => collected(own.iter().copied()),
            None => filled(0.0, hidden),
        };
        let reset_bias = reset_bias.ok()?;
        Some(Parameters { groups, reset_bias })
    }

    /// `rows` of the direction's matrix at `input`, transposed and packed as a right operand.
    fn pack(self, compiler: &Compiler<'_>, input: usize, rows: Range<usize>) -> Option<Weights> {
        let Self { isa, d, .. } = self;
        let &[directions, all, k] = compiler.constant(input)?.shape() else { return None };
        if d >= directions || rows.end > all {
            return None;
        }
        let recipe = Recipe {
            name: "rnn_f32/b",
            parameters: [variant(isa).nr, d, rows.start, rows.end].map(|n| n as u64).to_vec(),
            n_bytes: packed_b_len(isa, k, rows.len()) * size_of::<f32>(),
        };
        let packed = compiler.pack_for_runs(input, &recipe, |w: &[f32], packed| {
            let b = &w[(d * all + rows.start) * k..(d * all + rows.end) * k];
            pack_b(isa, &Matrix::row_major(b, rows.len(), k).transposed(), packed);
        });
        packed.map(Weights::Constant)
    }
}
