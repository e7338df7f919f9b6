//! Convolution of f32 images whose channels lie in blocks of B (NCHWc).
//!
//! `y[o,p] = act(start[o,p] + Σ_{c,t} w[o,c,t]·x[c, s·p + d·t − pad])` for one image and one group,
//! where positions `p` and taps `t` have two axes and x is zero outside.
//!
//! **Operands.** A call computes a *set* of F output blocks, at most [`Variant::filters`] of them.
//!
//! | [`Form`]  | x                | w                            |
//! |-----------|------------------|------------------------------|
//! | Blocks    | `[I/B][H][W][B]` | `[F][I/B][KH][KW][B in][B]`  |
//! | Planes    | `[I][H][W]`      | `[F][I][KH][KW][B]`          |
//! | Depthwise | `[F][H][W][B]`   | `[F][KH][KW][B]`             |
//!
//! y: F pieces `[positions][B]`. It may hold a summand, which is how the output of a convolution
//! with a residual aliases it. Filters are read as files store them: nothing is packed.
//!
//! **Order.** Every element is one chain of multiply-adds from its start, in the order in which the
//! filter lies in memory. So the bits depend on nothing but the operands and the block: not on how
//! callers split positions and sets among calls, and [`Avx512`](crate::Avx512) and
//! [`Avx2`](crate::Avx2) agree. `Generic` rounds the product too where the target has no fused
//! multiply-add. Error: at most `γ(k+1)·Σ|w·x|` for `k` terms, γ(j) = j·u/(1 − j·u).
//!
//! **Edges.** No input channels give `act(start)`. NaN and infinities follow IEEE 754. A tap beside
//! the image counts as zero; one above or below it is skipped.
//!
//! **Loops.** Slices of input blocks whose filters fit the first-level cache ▸ output rows ▸ tiles
//! of adjacent positions by all F blocks, in registers ▸ *runs*: taps of one row of the filter,
//! which lie side by side in the image, too. A convolution of 1×1 without padding and strides has
//! one long row.

mod line;

use crate::conv_f32::Axis;
use crate::{Activation, Isa};
use line::{Line, MAX_BLOCK, Merge};
use std::ops::Range;

/// Bytes of the filters of a slice: most of a first-level cache.
const SLICE: usize = 36 * 1024;

/// How inputs and filters lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every output sees every input channel, which are in blocks, too.
    Blocks,
    /// Every output sees every input channel, which are in planes.
    Planes,
    /// Every output sees the input channel of its own number.
    Depthwise,
}

/// What a convolution starts from, before the products are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// One element an output channel of the set, added to the summand; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether the summand is what y holds; else it is zero.
    pub is_sum: bool,
}

/// The convolution of one group of one image with one set of filters.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a> {
    /// Which instructions to use.
    pub isa: Isa,
    /// B, see [`is_block`].
    pub block: usize,
    /// How the operands lie in memory.
    pub form: Form,
    /// Height and width.
    pub axes: [Axis; 2],
    /// The image.
    pub x: &'a [f32],
    /// The filters of the set.
    pub w: &'a [f32],
    /// What the sums start from.
    pub start: Start<'a>,
    /// What is applied to the sums.
    pub activation: Activation,
}

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<positions>x<filters>`, the name of its file.
    pub name: &'static str,
    /// The block it is made for.
    pub block: usize,
    /// The most output blocks of a set.
    pub filters: usize,
}

/// Calls `$tile::<R, F>` for as many positions and output blocks as there are.
#[cfg(target_arch = "x86_64")]
macro_rules! by_size {
    (($r:expr, $f:expr): [$($size:literal)+] x $filters:tt => $tile:ident $args:tt) => {
        match $r {
            $($size => by_size!(@filters $f, $filters => $tile $size $args),)+
            _ => {}
        }
    };
    (@filters $f:expr, [$($filters:literal)+] => $tile:ident $r:literal $args:tt) => {
        match $f {
            $($filters => by_size!(@call $tile $r $filters $args),)+
            _ => {}
        }
    };
    (@call $tile:ident $r:literal $f:literal ($($arg:expr),+)) => { $tile::<$r, $f>($($arg),+) };
}
#[cfg(target_arch = "x86_64")]
use by_size;

/// Calls `$tile::<R>` for as many positions as there are.
#[cfg(target_arch = "x86_64")]
macro_rules! by_len {
    ($r:expr, [$($size:literal)+] => $tile:ident $window:tt $args:tt) => {
        match $r {
            $($size => by_len!(@call $tile $size $window $args),)+
            _ => {}
        }
    };
    (@call $tile:ident $r:literal [$($window:literal),*] ($($arg:expr),+)) => {
        $tile::<$r $(, $window)*>($($arg),+)
    };
}
#[cfg(target_arch = "x86_64")]
use by_len;

ladder! {
    // The positions of a line, by as many output blocks as `y` has pieces.
    fn line(line: &Line<'_>, y: &mut [&mut [f32]]);
    Avx512 => avx512_6x4, Avx2 => avx2_6x2; generic
}

/// Whether there is a kernel for blocks of `block` channels: powers of two up to 64.
#[must_use]
pub fn is_block(block: usize) -> bool {
    block.is_power_of_two() && block <= MAX_BLOCK
}

/// Describes the tile that serves blocks of `block` channels on `isa`.
#[must_use]
pub fn variant(isa: Isa, block: usize) -> Variant {
    best(suited(isa, block))
}

/// The instructions whose registers are blocks of `block` channels: those that serve them.
#[must_use]
pub fn suited(isa: Isa, block: usize) -> Isa {
    match (block, isa.avx512(), isa.avx2()) {
        (16, Some(token), _) => token.into(),
        (8, _, Some(token)) => token.into(),
        _ => Isa::Generic,
    }
}

impl Conv<'_> {
    /// Computes `positions`, which count row-major over the output. `y` has a piece for each output
    /// block of the set: `[positions.len(), block]`.
    ///
    /// # Panics
    /// If an operand or a piece is shorter than the axes say, there are more than
    /// [`Variant::filters`] pieces, or the block is none of [`is_block`].
    pub fn run(&self, positions: Range<usize>, y: &mut [&mut [f32]]) {
        assert!(is_block(self.block), "a block of {} channels", self.block);
        let flat = Conv { axes: flattened(self.axes), ..*self };
        match self.form {
            Form::Blocks => flat.dense(self.block, &positions, y),
            Form::Planes => flat.dense(1, &positions, y),
            Form::Depthwise => flat.depthwise(&positions, y),
        }
    }

    fn dense(&self, lanes: usize, positions: &Range<usize>, y: &mut [&mut [f32]]) {
        let isa = suited(self.isa, self.block);
        assert!(y.len() <= best(isa).filters, "{} blocks in a set", y.len());
        let per_input = self.taps() * lanes * self.block;
        let filter_len = self.w.len() / y.len().max(1);
        let inputs = filter_len / per_input;
        let slice_bytes = per_input * y.len() * size_of::<f32>();
        let slices = inputs.div_ceil((SLICE / slice_bytes.max(1)).max(1)).max(1);
        let [height, width] = self.axes;
        for s in 0..slices {
            let slice = s * inputs / slices..(s + 1) * inputs / slices;
            let start = if s == 0 { self.start } else { Start { bias: None, is_sum: true } };
            let whole = Line {
                x: &self.x[slice.start * height.input * width.input * lanes..],
                w: &self.w[slice.start * per_input..],
                lanes,
                depth: lanes,
                inputs: slice.len(),
                filter_len,
                ..self.line(start, s + 1 == slices)
            };
            self.each_line(&whole, positions, y, |args, y| line(isa, args, y));
        }
    }

    fn depthwise(&self, positions: &Range<usize>, y: &mut [&mut [f32]]) {
        let [height, width] = self.axes;
        let x_len = height.input * width.input * self.block;
        let filter_len = self.taps() * self.block;
        for (f, y) in y.iter_mut().enumerate() {
            let bias = self.start.bias.map(|bias| &bias[f * self.block..]);
            let start = Start { bias, ..self.start };
            let whole = Line {
                x: &self.x[f * x_len..(f + 1) * x_len],
                w: &self.w[f * filter_len..(f + 1) * filter_len],
                lanes: self.block,
                depth: 1,
                inputs: 1,
                filter_len,
                ..self.line(start, true)
            };
            self.each_line(&whole, positions, std::slice::from_mut(y), |args, y| {
                line(suited(self.isa, self.block), args, y);
            });
        }
    }

    /// A line whose operands and place are left open.
    fn line<'s>(&self, start: Start<'s>, is_last: bool) -> Line<'s> {
        let clamp = if is_last { self.activation.as_clamp() } else { None };
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        let merge = Merge { start, min, max };
        let after = if is_last && clamp.is_none() { self.activation } else { Activation::None };
        Line { block: self.block, axes: self.axes, merge, after, ..Line::default() }
    }

    /// Calls `compute` for the part of each output row that lies in `positions`, and applies the
    /// activation it leaves.
    fn each_line(
        &self,
        line: &Line<'_>,
        positions: &Range<usize>,
        y: &mut [&mut [f32]],
        mut compute: impl FnMut(&Line<'_>, &mut [&mut [f32]]),
    ) {
        let width = self.axes[1].output;
        let mut position = positions.start;
        while position < positions.end {
            let (row, first) = (position / width, position % width);
            let outputs = first..width.min(first + positions.end - position);
            let place = position - positions.start;
            position += outputs.len();
            let elements = place * self.block..(position - positions.start) * self.block;
            compute(&Line { row, outputs, place, ..line.clone() }, y);
            for y in &mut *y {
                line.after.apply(self.isa, &mut y[elements.clone()]);
            }
        }
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }
}

/// One long row, where every output is the input at the same place.
fn flattened(axes: [Axis; 2]) -> [Axis; 2] {
    let [height, width] = &axes;
    if !axes.iter().all(Axis::is_pointwise) {
        return axes;
    }
    let plane = height.input * width.input;
    [Axis::UNIT, Axis { input: plane, output: plane, ..Axis::UNIT }]
}

#[cfg(test)]
mod tests;
