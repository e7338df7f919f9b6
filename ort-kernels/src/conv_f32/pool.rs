//! Pooling of planes.

use super::{Axis, Finish, Fold, Layers, fold_rows};
use crate::Isa;
use crate::vec::greater;

/// Elements of lines that are folded as one: they stay in the first-level cache.
const SWEEP: usize = 1024;
/// The minimum number of such lines: store forwarding works only for loads of the same size as the store.
const LINES: usize = 4;

/// One value per window.
///
/// Windows are folded separably: first the rows of a window, a whole row of the plane at a time, then the columns of the
/// result, so that a window of k×k costs 2k steps and not k². With a stride, the columns of several results and the padding
/// between them are folded as one long row: vectors are full however narrow the result is.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// The instruction set.
    pub isa: Isa,
    /// Depth, height and width; a pooling of fewer dimensions has leading [`Axis::UNIT`]s.
    pub axes: [Axis; 3],
    /// The value of a window.
    pub kind: PoolKind,
}

/// The value of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The maximum, NaN if any input is; −∞ if there is no input.
    Max,
    /// The sum over the columns, in ascending order, of their sums in ascending order, divided by
    /// the number of counted taps. If there are none, 0.
    Average {
        /// Whether taps in the padding count; those beyond it never do.
        count_padding: bool,
    },
}

impl Pool {
    /// Elements of scratch for [`Pool::run`]: padded rows, in order and in phases, their folds, and the taps of each
    /// output. At most `usize::MAX`.
    #[must_use]
    pub fn scratch_len([_, _, width]: &[Axis; 3]) -> usize {
        // A part of a plane has shorter lines, but perhaps more of them.
        let lines = LINES.saturating_mul(line_len(width)).max(SWEEP);
        lines.saturating_mul(3).saturating_add(width.output)
    }

    /// Computes all outputs of as many planes as `out` holds: `planes: [n, depth, height, width]`, `out: [n, depth out,
    /// height out, width out]`, both contiguous.
    ///
    /// # Panics
    /// If the planes, `out` or the scratch is too short for the axes.
    pub fn run(&self, planes: &[f32], out: &mut [f32], scratch: &mut [f32]) {
        match self.kind {
            PoolKind::Max => greatest(self.isa, &self.axes, planes, out, scratch),
            PoolKind::Average { count_padding } => {
                mean(self.isa, (&self.axes, count_padding), planes, out, scratch);
            }
        }
    }
}

/// The maximum, NaN if any input is.
pub(crate) struct Max;

impl Fold for Max {
    #[inline(always)]
    fn start(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn outside(&self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, _: f32) -> f32 {
        greater(sum, x)
    }
}

/// The same for inputs without NaN: one instruction per step.
struct MaxOfNumbers;

impl Fold for MaxOfNumbers {
    #[inline(always)]
    fn start(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn outside(&self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, _: f32) -> f32 {
        if sum > x { sum } else { x }
    }
}

/// The sum of the inputs.
pub(crate) struct Sum;

impl Fold for Sum {
    #[inline(always)]
    fn start(&self) -> f32 {
        0.0
    }

    fn outside(&self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, _: f32) -> f32 {
        sum + x
    }
}

/// Converts sums to means: output `x` has `taps` taps in each of its rows.
#[derive(Clone, Copy)]
struct Divide<'a> {
    n_rows: f32,
    counts: &'a [f32],
}

impl Finish for Divide<'_> {
    #[inline(always)]
    fn apply<const L: usize>(self, at: usize, sums: &mut [f32; L]) {
        let counts = &self.counts[at..][..L];
        for i in 0..L {
            sums[i] /= self.n_rows * counts[i];
        }
    }
}

per_isa! {
    fn greatest<FMA>(axes: &[Axis; 3], planes: &[f32], out: &mut [f32], scratch: &mut [f32]) {
        let finish = |_, _| ();
        let mut lines = Lines::new(axes, Max.outside(), scratch);
        for (plane, out) in each_plane(axes, planes, out) {
            if plane.iter().fold(false, |any, x| any | x.is_nan()) {
                lines.fold_plane((&Max, finish), plane, out);
            } else {
                lines.fold_plane((&MaxOfNumbers, finish), plane, out);
            }
        }
    }

    fn mean<FMA>(
        window: (&[Axis; 3], bool),
        planes: &[f32],
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (axes @ [depth, height, width], count_padding) = window;
        let (counts, scratch) = scratch.split_at_mut(width.output);
        // Windows that do not reach an edge have all taps.
        let interior = width.interior();
        counts[interior.clone()].fill(width.kernel as f32);
        for x in (0..interior.start).chain(interior.end..width.output) {
            counts[x] = width.n_taps(x, count_padding).max(1) as f32;
        }
        let counts = &*counts;
        let finish = |z, y| {
            let n = depth.n_taps(z, count_padding) * height.n_taps(y, count_padding);
            Divide { n_rows: n.max(1) as f32, counts }
        };
        let mut lines = Lines::new(axes, Sum.outside(), scratch);
        for (plane, out) in each_plane(axes, planes, out) {
            lines.fold_plane((&Sum, finish), plane, out);
        }
    }
}

/// Each plane and its outputs.
#[inline(always)]
fn each_plane<'a>(
    axes: &[Axis; 3],
    planes: &'a [f32],
    out: &'a mut [f32],
) -> impl Iterator<Item = (&'a [f32], &'a mut [f32])> {
    let n_inputs: usize = axes.iter().map(|axis| axis.input).product();
    let n_outputs: usize = axes.iter().map(|axis| axis.output).product();
    let out = out.chunks_exact_mut(n_outputs.max(1)).enumerate();
    out.map(move |(i, out)| (&planes[i * n_inputs..][..n_inputs], out))
}

/// Rows of windows that are folded together.
struct Lines<'a> {
    axes: &'a [Axis; 3],
    /// Their number.
    n: usize,
    /// Elements of a line.
    len: usize,
    /// The folds of rows, with the padding around them.
    padded: &'a mut [f32],
    /// The same in phases.
    phases: &'a mut [f32],
    /// The folds of columns.
    folds: &'a mut [f32],
}

impl<'a> Lines<'a> {
    /// Fills the padding with `outside`.
    #[inline(always)]
    fn new(axes @ [_, height, width]: &'a [Axis; 3], outside: f32, scratch: &'a mut [f32]) -> Self {
        let len = line_len(width);
        let n = (SWEEP / len).max(LINES).min(height.output.max(1));
        let (padded, scratch) = scratch.split_at_mut(n * len);
        let (phases, folds) = scratch.split_at_mut(n * len);
        for line in padded.chunks_exact_mut(len) {
            line[..width.pad[0]].fill(outside);
            line[width.pad[0] + width.input..].fill(outside);
        }
        Self { axes, n, len, padded, phases, folds }
    }

    /// Computes each window of a plane; `finish` converts the folds of a row of windows to outputs.
    #[inline(always)]
    fn fold_plane<F: Fold, G: Finish>(
        &mut self,
        (fold, finish): (&F, impl Fn(usize, usize) -> G),
        plane: &[f32],
        out: &mut [f32],
    ) {
        let ([depth, height, width], len) = (self.axes, self.len);
        let mut rows = out.chunks_exact_mut(width.output.max(1));
        for z in 0..depth.output {
            let (first_z, n_layers) = depth.inputs(z);
            for from in (0..height.output).step_by(self.n) {
                let ys = from..height.output.min(from + self.n);
                for (y, line) in ys.clone().zip(self.padded.chunks_exact_mut(len)) {
                    let (first_y, n_rows) = height.inputs(y);
                    let start = |z, y| {
                        let (z, y) = (first_z + z * depth.dilation, first_y + y * height.dilation);
                        (z * height.input + y) * width.input
                    };
                    let rows = Layers { x: plane, n_layers, n_rows, start };
                    let line = &mut line[width.pad[0]..][..width.input];
                    fold_rows(fold, rows, (), line);
                }
                let lines = &self.padded[..ys.len() * len];
                if stride(width) == 1 {
                    for ((y, line), out) in ys.zip(lines.chunks_exact(len)).zip(&mut rows) {
                        fold_columns((fold, finish(z, y)), width, (1, line), out);
                    }
                    continue;
                }
                let len = len / stride(width);
                let folds = &mut self.folds[..(ys.len() - 1) * len + width.output];
                fold_lines(fold, width, (lines, &mut *self.phases), folds);
                for ((y, folds), out) in ys.zip(folds.chunks(len)).zip(&mut rows) {
                    let row = Layers { x: folds, n_layers: 1, n_rows: 1, start: |_, _| 0 };
                    fold_rows(fold, row, finish(z, y), out);
                }
            }
        }
    }
}

/// Folds the columns of each window of several lines as if they were one, which is of no use where a window reaches from a
/// line to the next.
#[inline(always)]
fn fold_lines<F: Fold>(
    fold: &F,
    width: &Axis,
    (lines, phases): (&[f32], &mut [f32]),
    folds: &mut [f32],
) {
    match width.stride {
        2 => fold_columns((fold, ()), width, (2, split_2(lines, phases)), folds),
        3 => fold_columns((fold, ()), width, (3, split_3(lines, phases)), folds),
        4 => fold_columns((fold, ()), width, (4, split_to::<4>(lines, phases)), folds),
        5 => fold_columns((fold, ()), width, (5, split_to::<5>(lines, phases)), folds),
        stride => fold_columns((fold, ()), width, (stride, split(lines, stride, phases)), folds),
    }
}

/// Folds the columns of each window of a line in as many phases as the stride: element `i·stride + p` of the line is element
/// `i` of phase `p`.
#[inline(always)]
fn fold_columns<F: Fold>(
    (fold, finish): (&F, impl Finish),
    width: &Axis,
    (stride, phases): (usize, &[f32]),
    folds: &mut [f32],
) {
    let len = phases.len() / stride;
    let start = |_, tap| {
        let at = tap * width.dilation;
        at % stride * len + at / stride
    };
    let columns = Layers { x: phases, n_layers: 1, n_rows: width.kernel, start };
    fold_rows(fold, columns, finish, folds);
}

/// The distance between outputs, if there are several.
#[inline(always)]
fn stride(width: &Axis) -> usize {
    if width.output > 1 { width.stride } else { 1 }
}

/// The elements of a line: all that windows read, at least one, and a multiple of the stride.
fn line_len(width: &Axis) -> usize {
    width.padded().div_ceil(stride(width)).saturating_mul(stride(width))
}

/// Copies element `i·stride + p` to element `i` of phase `p`.
#[inline(always)]
fn split<'a>(lines: &[f32], stride: usize, phases: &'a mut [f32]) -> &'a [f32] {
    let len = lines.len() / stride;
    for (p, phase) in phases.chunks_exact_mut(len).take(stride).enumerate() {
        for i in 0..len {
            phase[i] = lines[i * stride + p];
        }
    }
    &phases[..lines.len()]
}

/// The same for a short stride, with vectors.
#[inline(always)]
fn split_to<'a, const S: usize>(lines: &[f32], phases: &'a mut [f32]) -> &'a [f32] {
    let n = lines.len() / S;
    let lines = &lines.as_chunks::<S>().0[..n];
    for (p, phase) in phases.chunks_exact_mut(n.max(1)).take(S).enumerate() {
        for (to, from) in phase.iter_mut().zip(lines) {
            *to = from[p];
        }
    }
    &phases[..S * n]
}

/// The same for a stride of two, with vectors.
#[inline(always)]
fn split_2<'a>(lines: &[f32], phases: &'a mut [f32]) -> &'a [f32] {
    let n = lines.len() / 2;
    let lines = &lines.as_chunks::<2>().0[..n];
    let (first, second) = phases.split_at_mut(n);
    let second = &mut second[..n];
    for i in 0..n {
        [first[i], second[i]] = lines[i];
    }
    &phases[..2 * n]
}

/// The same for a stride of three, with vectors.
#[inline(always)]
fn split_3<'a>(lines: &[f32], phases: &'a mut [f32]) -> &'a [f32] {
    let n = lines.len() / 3;
    let lines = &lines.as_chunks::<3>().0[..n];
    let (first, rest) = phases.split_at_mut(n);
    let (second, third) = rest.split_at_mut(n);
    let third = &mut third[..n];
    for i in 0..n {
        [first[i], second[i], third[i]] = lines[i];
    }
    &phases[..3 * n]
}
