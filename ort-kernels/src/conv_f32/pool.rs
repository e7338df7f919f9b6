//! Pooling of one plane.

use super::{Axis, Finish, Fold, Layers, fold_rows};
use crate::Isa;
use crate::vec::greater;

/// The number of result rows started before the first is finished: store forwarding works only for
/// loads of the same size as the store.
const LINES: usize = 4;

/// One value per window.
///
/// Windows are folded separably: first the rows of a window, a whole row of the plane at a
/// time, then the columns of the result, so that a window of k×k costs 2k steps and not k².
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
    /// Elements of scratch for [`Pool::run`]: padded rows. At most `usize::MAX`.
    #[must_use]
    pub fn scratch_len([_, _, width]: &[Axis; 3]) -> usize {
        let phases = width.stride.saturating_mul(phase_len(width));
        LINES.saturating_mul(width.padded()).saturating_add(phases).saturating_add(width.output)
    }

    /// Computes all outputs of one plane: `plane: [depth, height, width]`, `out: [depth out, height out,
    /// width out]`, both contiguous.
    ///
    /// # Panics
    /// If the plane, `out` or the scratch is too short for the axes.
    pub fn run(&self, plane: &[f32], out: &mut [f32], scratch: &mut [f32]) {
        let n_outputs: usize = self.axes.iter().map(|axis| axis.output).product();
        let out = &mut out[..n_outputs];
        match self.kind {
            PoolKind::Max => greatest(self.isa, &self.axes, plane, out, scratch),
            PoolKind::Average { count_padding } => {
                mean(self.isa, (&self.axes, count_padding), plane, out, scratch);
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
    fn greatest<FMA>(axes: &[Axis; 3], plane: &[f32], out: &mut [f32], scratch: &mut [f32]) {
        let finish = |_, _| ();
        if plane.iter().fold(false, |any, x| any | x.is_nan()) {
            fold_plane((&Max, finish), axes, plane, out, scratch);
        } else {
            fold_plane((&MaxOfNumbers, finish), axes, plane, out, scratch);
        }
    }

    fn mean<FMA>(
        window: (&[Axis; 3], bool),
        plane: &[f32],
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
        fold_plane((&Sum, finish), axes, plane, out, scratch);
    }
}

/// Computes each window of a plane, using `scratch`; `finish` converts the folds of a row of windows to
/// outputs.
#[inline(always)]
fn fold_plane<F: Fold, G: Finish>(
    (fold, finish): (&F, impl Fn(usize, usize) -> G),
    [depth, height, width]: &[Axis; 3],
    plane: &[f32],
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let (lines, phases) = scratch.split_at_mut(LINES * width.padded());
    for line in lines.chunks_exact_mut(width.padded()) {
        line[..width.pad[0]].fill(fold.outside());
        line[width.pad[0] + width.input..].fill(fold.outside());
    }
    let mut rows = out.chunks_exact_mut(width.output.max(1));
    for z in 0..depth.output {
        let (first_z, n_layers) = depth.inputs(z);
        for from in (0..height.output).step_by(LINES) {
            let ys = from..height.output.min(from + LINES);
            for (y, line) in ys.clone().zip(lines.chunks_exact_mut(width.padded())) {
                let (first_y, n_rows) = height.inputs(y);
                let start = |z, y| {
                    let (z, y) = (first_z + z * depth.dilation, first_y + y * height.dilation);
                    (z * height.input + y) * width.input
                };
                let rows = Layers { x: plane, n_layers, n_rows, start };
                let line = &mut line[width.pad[0]..][..width.input];
                fold_rows(fold, rows, (), line);
            }
            let lines = lines.chunks_exact(width.padded());
            for ((y, line), out) in ys.zip(lines).zip(&mut rows) {
                fold_line((fold, finish(z, y)), width, (line, &mut *phases), out);
            }
        }
    }
}

/// Computes each window of a line.
#[inline(always)]
fn fold_line<F: Fold>(
    how: (&F, impl Finish),
    width: &Axis,
    (line, phases): (&[f32], &mut [f32]),
    out: &mut [f32],
) {
    let len = phase_len(width);
    match width.stride {
        1 => fold_phases(how, width, (1, len), line, out),
        2 => {
            split_in::<2>(line, phases, len);
            fold_phases(how, width, (2, len), phases, out);
        }
        3 => {
            split_in::<3>(line, phases, len);
            fold_phases(how, width, (3, len), phases, out);
        }
        stride => {
            split(line, stride, phases, len);
            fold_phases(how, width, (stride, len), phases, out);
        }
    }
}

/// Computes each window of a line in phases: element `i·stride + p` is element `i` of phase `p`, each of `len`.
#[inline(always)]
fn fold_phases<F: Fold>(
    (fold, finish): (&F, impl Finish),
    width: &Axis,
    (stride, len): (usize, usize),
    phases: &[f32],
    out: &mut [f32],
) {
    let start = |_, tap| {
        let at = tap * width.dilation;
        at % stride * len + at / stride
    };
    let rows = Layers { x: phases, n_layers: 1, n_rows: width.kernel, start };
    fold_rows(fold, rows, finish, out);
}

/// The elements of a line at distance `stride`.
#[inline(always)]
fn phase_len(width: &Axis) -> usize {
    match width.stride {
        1 => width.padded(),
        2 => width.padded().div_ceil(2),
        stride => width.padded().div_ceil(stride),
    }
}

/// Copies element `i·stride + p` to element `i` of phase `p`, each of `len`.
#[inline(always)]
fn split(line: &[f32], stride: usize, phases: &mut [f32], len: usize) {
    for (p, phase) in phases.chunks_exact_mut(len.max(1)).take(stride.min(line.len())).enumerate() {
        let line = &line[p..];
        let phase = &mut phase[..line.len().div_ceil(stride)];
        for i in 0..phase.len() {
            phase[i] = line[i * stride];
        }
    }
}

/// The same for a constant stride, with vectors.
#[inline(always)]
fn split_in<const N: usize>(line: &[f32], phases: &mut [f32], len: usize) {
    const LANES: usize = 16;
    let n_blocks = line.len() / (N * LANES);
    for (p, phase) in phases.chunks_exact_mut(len.max(1)).take(N.min(line.len())).enumerate() {
        let phase = &mut phase[..(line.len() - p).div_ceil(N)];
        let (whole, rest) = phase.split_at_mut(n_blocks * LANES);
        let blocks = line.chunks_exact(N * LANES).zip(whole.as_chunks_mut::<LANES>().0);
        for (block, phase) in blocks {
            for i in 0..LANES {
                phase[i] = block[N * i + p];
            }
        }
        let line = &line[n_blocks * N * LANES..];
        for (i, x) in rest.iter_mut().enumerate() {
            *x = line[N * i + p];
        }
    }
}
