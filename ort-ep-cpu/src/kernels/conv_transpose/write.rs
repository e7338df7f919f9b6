//! Scatters a strip of positions to the outputs.

use std::ops::Range;

use ort_kernels::Isa;
use ort_kernels::transpose::transpose;

use super::parts::Part;
use super::phases::{Set, Transposed};

/// `y[m, stride·q + r − pad] = strip[(m, r), q]` for the positions starting at column `start`.
pub(super) fn strip(
    (isa, axes): (Isa, &[Transposed; 3]),
    set: &Set,
    part: &mut Part<'_>,
    (start, strip): (usize, &[f32]),
) {
    let n = strip.len() / (set.n_phases() * part.channels.len()).max(1);
    let width = set.axes[2].output;
    let mut position = start;
    while position < start + n {
        let (row, from) = (position / width, position % width);
        let len = (width - from).min(start + n - position);
        let q = set.first[2] + from;
        for (i, at) in lines(axes, set, row).enumerate() {
            let Some(at) = at else { continue };
            let rows = &strip[i * set.columns.len() * n + position - start..];
            let line = Line { isa, rows, n, n_phases: set.n_phases(), positions: q..q + len, at };
            line.write((&axes[2], set), part);
        }
        position += len;
    }
}

/// Where the lines start that a row of positions along the first two axes writes, one for each pair of their remainders;
/// `None` for those that are cut off.
fn lines(
    [d, h, w]: &[Transposed; 3],
    set: &Set,
    row: usize,
) -> impl Iterator<Item = Option<usize>> {
    let [depth, height, _] = &set.classes;
    let [z, line] = [row / set.axes[1].output, row % set.axes[1].output];
    depth.remainders.iter().flat_map(move |(remainder, _)| {
        let z = d.output_of(set.first[0] + z, *remainder);
        height.remainders.iter().map(move |(remainder, _)| {
            let line = h.output_of(set.first[1] + line, *remainder)?;
            Some((z? * h.output + line) * w.output)
        })
    })
}

/// What consecutive positions write of a line, for all channels.
struct Line<'a> {
    isa: Isa,
    /// Those of the first channel: `n` elements for each remainder of the last axis.
    rows: &'a [f32],
    n: usize,
    /// The rows from one channel to the next.
    n_phases: usize,
    positions: Range<usize>,
    /// Where the line starts in a plane.
    at: usize,
}

impl Line<'_> {
    /// Writes the outputs of each remainder from its row.
    fn write(&self, (w, set): (&Transposed, &Set), part: &mut Part<'_>) {
        let Self { isa, n, ref positions, .. } = *self;
        let within = |q: &Range<usize>| {
            let start = q.start.clamp(positions.start, positions.end);
            start..q.end.clamp(start, positions.end)
        };
        let first = part.start;
        let output =
            |q: usize, remainder: usize| self.at + q * w.stride + remainder - w.pad - first;
        let whole = within(&set.whole);
        if !whole.is_empty() {
            let (size, to) = ([w.stride, whole.len()], output(whole.start, 0));
            self.each_channel(part, (whole.start - positions.start, to), |rows, y| {
                transpose(isa, size, (rows, n), (y, w.stride));
            });
        }
        for (i, (remainder, q)) in set.columns.iter().enumerate() {
            let all = within(q);
            let before = all.start..whole.start.clamp(all.start, all.end);
            let after = whole.end.clamp(before.end, all.end)..all.end;
            for q in [before, after].into_iter().filter(|q| !q.is_empty()) {
                let at = (i * n + q.start - positions.start, output(q.start, *remainder));
                self.each_channel(part, at, |row, y| {
                    let row = &row[..q.len()];
                    match w.stride {
                        1 => y[..row.len()].copy_from_slice(row),
                        stride => y.iter_mut().step_by(stride).zip(row).for_each(|(y, x)| *y = *x),
                    }
                });
            }
        }
    }

    /// Calls `f` with the rows and the outputs of each channel, from these elements on.
    fn each_channel(
        &self,
        part: &mut Part<'_>,
        (from, to): (usize, usize),
        f: impl Fn(&[f32], &mut [f32]),
    ) {
        for (channel, y) in part.pieces.iter_mut().enumerate() {
            f(&self.rows[channel * self.n_phases * self.n + from..], &mut y[to..]);
        }
    }
}
