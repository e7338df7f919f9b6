//! Scatters a strip of positions to the outputs.

// collects are bounded: by the remainders of a set

use std::ops::Range;

use ort_kernels::Isa;
use ort_kernels::transpose::transpose;
use smallvec::SmallVec;

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
        let lines = lines(axes, set, row);
        let q = set.first[2] + from;
        let run = Run::new((isa, &axes[2]), set, q..q + len);
        for (rows, y) in strip.chunks_exact(n_phases * n).zip(&mut part.pieces) {
            let mut rows = rows.chunks_exact(set.columns.len() * n);
            for (at, rows) in lines.iter().zip(&mut rows) {
                let Some(at) = at else { continue };
                run.write((&rows[position - start..], n), (at + run.output - part.start, y));
            }
        }
        position += len;
    }
}

/// Where the lines start that a row of positions along the first two axes writes, one for each pair of their remainders;
/// `None` for those that are cut off.
fn lines([d, h, w]: &[Transposed; 3], set: &Set, row: usize) -> SmallVec<[Option<usize>; 16]> {
    let [depth, height, _] = &set.classes;
    let [z, line] = [row / set.axes[1].output, row % set.axes[1].output];
    let z = depth.remainders.iter().map(|(r, _)| d.output_of(set.first[0] + z, *r));
    let at = |z: usize, line: usize| (z * h.output + line) * w.output;
    let of_layer = |z: Option<usize>| {
        let line = move |r: usize| h.output_of(set.first[1] + line, r);
        height.remainders.iter().map(move |(r, _)| Some(at(z?, line(*r)?)))
    };
    z.flat_map(of_layer).collect()
}

/// Consecutive positions of the last axis, and what they write of a line.
struct Run {
    isa: Isa,
    stride: usize,
    /// The first output of all.
    output: usize,
    /// The first position with outputs of all remainders, its first output, and their number.
    whole: [usize; 3],
    /// The other positions of a remainder: its row, the first, its output, and their number.
    others: SmallVec<[[usize; 4]; 4]>,
}

impl Run {
    fn new((isa, w): (Isa, &Transposed), set: &Set, positions: Range<usize>) -> Self {
        let within = |q: &Range<usize>| {
            let start = q.start.clamp(positions.start, positions.end);
            start..q.end.clamp(start, positions.end)
        };
        let output = |q: usize, remainder: usize| q * w.stride + remainder - w.pad;
        let whole = within(&set.whole);
        let mut others = SmallVec::<[[usize; 4]; 4]>::new();
        for (row, (remainder, q)) in set.columns.iter().enumerate() {
            let all = within(q);
            let before = all.start..whole.start.clamp(all.start, all.end);
            let after = whole.end.clamp(before.end, all.end)..all.end;
            for q in [before, after].into_iter().filter(|q| !q.is_empty()) {
                let to = output(q.start, *remainder);
                // bounded: two for each remainder
                others.push([row, q.start - positions.start, to, q.len()]);
            }
        }
        let mut whole = match whole.is_empty() {
            true => [0; 3],
            false => [whole.start - positions.start, output(whole.start, 0), whole.len()],
        };
        let outputs = others.iter().map(|other| other[2]);
        let first = outputs.chain((whole[2] > 0).then_some(whole[1])).min().unwrap_or(0);
        whole[1] = whole[1].saturating_sub(first);
        others.iter_mut().for_each(|other| other[2] -= first);
        Self { isa, stride: w.stride, output: first, whole, others }
    }

    /// Writes a line from rows of `n` elements, one for each remainder.
    fn write(&self, (rows, n): (&[f32], usize), (at, y): (usize, &mut [f32])) {
        let (stride, y) = (self.stride, &mut y[at..]);
        let [from, to, len] = self.whole;
        if len > 0 {
            transpose(self.isa, [stride, len], (&rows[from..], n), (&mut y[to..], stride));
        }
        for &[row, from, to, len] in &self.others {
            let (source, y) = (&rows[row * n + from..][..len], &mut y[to..]);
            match stride {
                1 => y[..len].copy_from_slice(source),
                stride => y.iter_mut().step_by(stride).zip(source).for_each(|(y, x)| *y = *x),
            }
        }
    }
}
