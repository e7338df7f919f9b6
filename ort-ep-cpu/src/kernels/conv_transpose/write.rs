//! Scatters a strip of positions to the outputs.

use std::ops::Range;

use super::parts::Part;
use super::phases::{Set, Transposed};

/// `y[m, stride·q + r − pad] = strip[(m, r), q]` for the positions starting at column `start`.
pub(super) fn strip(
    axes: &[Transposed; 3],
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
        let run = Run { row, from, columns: position - start..position - start + len };
        for (rows, y) in strip.chunks_exact(n_phases * n).zip(&mut part.pieces) {
            run.write(axes, set, (rows, n), (part.start, y));
        }
        position += len;
    }
}

/// Consecutive positions of one row.
struct Run {
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
        let [depth, height, width] = &set.classes;
        let [z, line] = [self.row / set.axes[1].output, self.row % set.axes[1].output];
        let n_columns = width.remainders.len();
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
                let positions = q..q + self.columns.len();
                let sources = of_row.chunks_exact(n).map(|row| &row[self.columns.clone()]);
                line.write(w, width.remainders.iter().map(|(r, _)| *r).zip(sources), positions);
            }
        }
    }
}

/// A range of outputs of a line, starting at `first`.
struct Line<'y> {
    first: usize,
    elements: &'y mut [f32],
}

impl Line<'_> {
    /// Writes the outputs of `positions` and each remainder from its source.
    fn write<'a>(
        self,
        w: &Transposed,
        mut sources: impl Iterator<Item = (usize, &'a [f32])>,
        positions: Range<usize>,
    ) {
        let Self { first, elements } = self;
        // Outputs inside the result.
        let within = |remainder: usize| {
            let from = w.pad.saturating_sub(remainder).div_ceil(w.stride);
            let to = (w.pad + w.output).saturating_sub(remainder).div_ceil(w.stride);
            from.clamp(positions.start, positions.end)..to.clamp(positions.start, positions.end)
        };
        let output = |q: usize, remainder: usize| q * w.stride + remainder - w.pad - first;
        let mut spread = |remainder: usize, source: &[f32], q: Range<usize>| {
            if q.is_empty() {
                return;
            }
            let source = &source[q.start - positions.start..q.end - positions.start];
            let to = &mut elements[output(q.start, remainder)..];
            match w.stride {
                1 => to[..source.len()].copy_from_slice(source),
                stride => to.iter_mut().step_by(stride).zip(source).for_each(|(y, x)| *y = *x),
            }
        };
        while let Some((remainder, source)) = sources.next() {
            let is_first_of_pair = w.stride == 2 && remainder == 0;
            if let Some((_, odd)) = if is_first_of_pair { sources.next() } else { None } {
                // Pairs as far as both reach, and the excess on either side.
                let (a, b) = (within(0), within(1));
                let both = a.start.max(b.start)..a.end.min(b.end);
                let both = both.start..both.end.max(both.start);
                spread(0, source, a.start..both.start.min(a.end));
                spread(1, odd, b.start..both.start.min(b.end));
                spread(0, source, both.end.max(a.start)..a.end);
                spread(1, odd, both.end.max(b.start)..b.end);
                if !both.is_empty() {
                    let range = both.start - positions.start..both.end - positions.start;
                    let to = &mut elements[output(both.start, 0)..];
                    interleave(&source[range.clone()], &odd[range], to);
                }
                return;
            }
            spread(remainder, source, within(remainder));
        }
    }
}

/// `y = a[0], b[0], a[1], b[1], …`
fn interleave(a: &[f32], b: &[f32], y: &mut [f32]) {
    for ((y, a), b) in y.as_chunks_mut::<2>().0.iter_mut().zip(a).zip(b) {
        *y = [*a, *b];
    }
}
