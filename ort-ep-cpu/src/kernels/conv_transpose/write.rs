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
    let n_phases = set.n_phases();
    let n = strip.len() / (n_phases * part.channels.len()).max(1);
    let width = set.axes[2].output;
    let mut position = start;
    while position < start + n {
        let (row, from) = (position / width, position % width);
        let len = (width - from).min(start + n - position);
        let run = Run { isa, row, from, columns: position - start..position - start + len };
        for (rows, y) in strip.chunks_exact(n_phases * n).zip(&mut part.pieces) {
            run.write(axes, set, (rows, n), (part.start, y));
        }
        position += len;
    }
}

/// Consecutive positions of one row.
struct Run {
    isa: Isa,
    /// The row, along the first two axes.
    row: usize,
    /// The first position along the last axis.
    from: usize,
    /// Their columns in the strip.
    columns: Range<usize>,
}

impl Run {
    /// Writes one channel: `rows` of `n` columns each, one per remainder.
    fn write(
        &self,
        [d, h, w]: &[Transposed; 3],
        set: &Set,
        (rows, n): (&[f32], usize),
        (start, y): (usize, &mut [f32]),
    ) {
        let [depth, height, _] = &set.classes;
        let [z, line] = [self.row / set.axes[1].output, self.row % set.axes[1].output];
        let n_columns = set.columns.len();
        let mut rows = rows.chunks_exact(n_columns * n);
        for (remainder, _) in &depth.remainders {
            let z = d.output_of(set.first[0] + z, *remainder);
            for (remainder, _) in &height.remainders {
                let Some(of_row) = rows.next() else { return };
                let line = h.output_of(set.first[1] + line, *remainder);
                let Some((z, line)) = z.zip(line) else { continue };
                // If lines themselves are split, a piece is a range of the only line.
                let at = (z * h.output + line) * w.output;
                let begin = start.saturating_sub(at);
                let line = &mut y[at.saturating_sub(start)..];
                let end = w.output.min(begin + line.len());
                let line = Line { first: begin, elements: &mut line[..end - begin] };
                let q = set.first[2] + self.from;
                let sources = Sources {
                    isa: self.isa,
                    rows: &of_row[self.columns.start..],
                    n,
                    positions: q..q + self.columns.len(),
                };
                line.write((w, set), &sources);
            }
        }
    }
}

/// A range of outputs of a line, starting at `first`.
struct Line<'y> {
    first: usize,
    elements: &'y mut [f32],
}

/// Rows of `n` elements, one per remainder of a class, that start with these positions.
struct Sources<'a> {
    isa: Isa,
    rows: &'a [f32],
    n: usize,
    positions: Range<usize>,
}

impl Line<'_> {
    /// Writes the outputs of each remainder from its source.
    fn write(self, (w, set): (&Transposed, &Set), sources: &Sources<'_>) {
        let Self { first, elements } = self;
        let Sources { isa, rows, n, ref positions } = *sources;
        let within = |q: &Range<usize>| {
            let start = q.start.clamp(positions.start, positions.end);
            start..q.end.clamp(start, positions.end)
        };
        let output = |q: usize, remainder: usize| q * w.stride + remainder - w.pad - first;
        let whole = within(&set.whole);
        if !whole.is_empty() {
            let from = &rows[whole.start - positions.start..];
            let to = &mut elements[output(whole.start, 0)..];
            transpose(isa, [w.stride, whole.len()], (from, n), (to, w.stride));
        }
        for (i, (remainder, q)) in set.columns.iter().enumerate() {
            let all = within(q);
            let before = all.start..whole.start.clamp(all.start, all.end);
            let after = whole.end.clamp(before.end, all.end)..all.end;
            for q in [before, after].into_iter().filter(|q| !q.is_empty()) {
                let source = &rows[i * n + q.start - positions.start..][..q.len()];
                let to = &mut elements[output(q.start, *remainder)..];
                match w.stride {
                    1 => to[..source.len()].copy_from_slice(source),
                    stride => to.iter_mut().step_by(stride).zip(source).for_each(|(y, x)| *y = *x),
                }
            }
        }
    }
}
