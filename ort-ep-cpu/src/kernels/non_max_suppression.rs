//! NonMaxSuppression: threads share the classes; scores become keys, unsigned integers in the
//! same order, and only as many are sorted as boxes are examined. A box is compared with a register of selected ones.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{OpError, Operator};
use ort_kernels::vec::each;
use ort_kernels::{Isa, Task};
use ort_ops::ops::non_max_suppression::{Limits, NonMaxSuppression, Rectangle};
use ort_tensor::{DType, Output, go_on};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, numbers, per_part};
use crate::greatest::{select, sort};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of a box of a class, in multiply-adds.
const COST: usize = 128;
/// The number of best candidates that are sorted first; it doubles each time.
const FIRST: usize = 32;

#[derive(Debug)]
struct NonMaxSuppressionKernel {
    cpu: Cpu,
    op: NonMaxSuppression,
    /// The maximum number of boxes per class, if it is constant.
    n_boxes: Option<usize>,
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Images, classes and boxes.
    dims: [usize; 3],
    /// The maximum number of boxes per class that there is room for.
    most: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<NonMaxSuppression>() else { return Ok(None) };
    let n_boxes = compiler.constant(2).and_then(|x| x.as_slice::<i64>().ok()?.first().copied());
    let n_boxes = n_boxes.map(|n| usize::try_from(n).unwrap_or(0));
    let kernel = NonMaxSuppressionKernel { cpu: compiler.cpu, op, n_boxes };
    Ok((compiler.are_f32(0..2)).then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl Kernel for NonMaxSuppressionKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[boxes, scores, ..] = shapes else { return Err(KernelError::ForeignState) };
        let dims @ [_, _, s] = self.op.dims(boxes, scores)?;
        let state = State { dims, most: self.n_boxes.map_or(s, |n| n.min(s)) };
        let n_found = state.n_found_bytes().ok_or(OpError::TooLarge)?;
        let n_floats = s.saturating_mul(KEY_FLOATS).saturating_add(state.n_taken_floats());
        let per_thread = self.cpu.scratch_bytes(n_floats);
        Ok(Prepared::new(state).with_scratch(n_found.saturating_add(per_thread)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let [n, n_classes, s] = state.dims;
        let limits = Limits::of(io.inputs)?;
        let most = limits.n_boxes.min(state.most);
        if n * n_classes * most == 0 || u32::try_from(s).is_err() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        let (boxes, scores) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let (boxes, scores) = (boxes.as_slice::<f32>()?.as_chunks().0, scores.as_slice::<f32>()?);
        let (found, scratch) = io.scratch.split_at_mut(state.n_found_bytes().unwrap_or(0));
        let found: &mut [u32] = &mut numbers(found)[..n * n_classes * state.lane()];

        let n_parts = n_parts(io.threads, scores.len().saturating_mul(COST));
        let per_part = per_part(io.threads, n * n_classes, n_parts);
        let parts = scores.chunks(per_part * s).zip(found.chunks_mut(per_part * state.lane()));
        let n_floats = s * KEY_FLOATS + state.n_taken_floats();
        let team = Team::new(io.threads, parts.len()).with_scratch(scratch, n_floats);
        let class = Class { isa: self.cpu.isa, op: &self.op, limits: &limits, most };
        team.run(parts.enumerate(), |(part, (scores, found)), room| {
            let (keys, taken) = room.split_at_mut(s * KEY_FLOATS);
            let keys = bytemuck::cast_slice_mut(keys);
            let taken = bytemuck::cast_slice_mut(&mut taken[..state.n_taken_floats()]);
            let lanes = scores.chunks_exact(s).zip(found.chunks_exact_mut(state.lane()));
            for (i, (scores, found)) in lanes.enumerate() {
                let image = (part * per_part + i) / n_classes;
                class.select(&boxes[image * s..][..s], scores, (keys, taken), found);
            }
        });
        write(found.chunks_exact(state.lane()), n_classes, io.outputs)
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "non_max_suppression")
    }
}

/// Scratch per box: its key, and its key with its index.
const KEY_FLOATS: usize = 3;

impl State {
    /// Scratch for the results of a class: their number, and the boxes.
    fn lane(&self) -> usize {
        1 + self.most
    }

    /// Scratch for the selected boxes of a class, as [`Block`]s.
    fn n_taken_floats(&self) -> usize {
        self.most.div_ceil(LANES).saturating_mul(4 * LANES)
    }

    fn n_found_bytes(&self) -> Option<usize> {
        let [n, n_classes, _] = self.dims;
        let lanes = n.checked_mul(n_classes)?.checked_mul(self.lane())?;
        lanes.checked_mul(size_of::<u32>())?.checked_next_multiple_of(64)
    }
}

/// The selection of boxes of one class.
struct Class<'a> {
    isa: Isa,
    op: &'a NonMaxSuppression,
    limits: &'a Limits,
    most: usize,
}

impl Class<'_> {
    /// Writes to `found` how many boxes are selected, and which.
    fn select(
        &self,
        boxes: &[[f32; 4]],
        scores: &[f32],
        (keys, taken): (&mut [u32], &mut [Block]),
        found: &mut [u32],
    ) {
        let (placed, keys) = keys.split_at_mut(2 * scores.len());
        let placed = bytemuck::cast_slice_mut::<_, u64>(placed);
        each(self.isa, scores, keys, key);
        let mut candidates = self.candidates(scores, keys, placed);

        let (count, found) = found.split_at_mut(1);
        let (mut n, mut n_sorted) = (0, FIRST);
        while !candidates.is_empty() {
            let n_best = n_sorted.min(candidates.len());
            if select(candidates, n_best).and_then(|()| sort(&mut candidates[..n_best])).is_err() {
                // the result is not read.
                return;
            }
            let (best, rest) = candidates.split_at_mut(n_best);
            for place in best.iter().map(|&placed| place(placed)) {
                if n == self.most {
                    break;
                }
                if n.is_multiple_of(64) && go_on().is_err() {
                    // the result is not read.
                    return;
                }
                let candidate = self.op.rectangle(&boxes[place as usize]);
                let taken_so_far = &taken[..n.div_ceil(LANES)];
                let limit = self.limits.overlap;
                if !self.isa.run(Overlaps { candidate, taken: taken_so_far, limit }) {
                    put(taken, n, &candidate);
                    found[n] = place;
                    n += 1;
                }
            }
            candidates = if n == self.most { &mut [] } else { rest };
            n_sorted *= 2;
        }
        count[0] = u32::try_from(n).unwrap_or(u32::MAX);
    }

    /// The boxes whose scores exceed the threshold, as keys with indices.
    fn candidates<'p>(&self, scores: &[f32], keys: &[u32], placed: &'p mut [u64]) -> &'p mut [u64] {
        let mut n = 0;
        for (i, (score, key)) in (0_u32..).zip(scores.iter().zip(keys)) {
            // Of equal scores the first is better.
            placed[n] = u64::from(*key) << 32 | u64::from(!i);
            n += usize::from(self.limits.score.is_none_or(|least| *score > least));
        }
        &mut placed[..n]
    }
}

/// The boxes of a [`Block`].
const LANES: usize = 16;

/// The least x and y and the greatest x and y of boxes.
type Block = [[f32; LANES]; 4];

/// Puts the `n`th box into its lane, and into the rest of its block: all lanes of a block are boxes.
fn put(taken: &mut [Block], n: usize, rectangle: &Rectangle) {
    let coordinates = rectangle.least.into_iter().chain(rectangle.greatest);
    for (lanes, x) in taken[n / LANES].iter_mut().zip(coordinates) {
        lanes[n % LANES..].fill(x);
    }
}

/// Whether a box overlaps one that is selected, as [`Rectangle::overlap`] computes it.
struct Overlaps<'a> {
    candidate: Rectangle,
    taken: &'a [Block],
    limit: f32,
}

impl Task for Overlaps<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let Rectangle { least: [x0, y0], greatest: [x1, y1] } = self.candidate;
        let area = (x1 - x0) * (y1 - y0);
        for [least_x, least_y, greatest_x, greatest_y] in self.taken {
            let mut overlaps = false;
            for i in 0..LANES {
                let width = x1.min(greatest_x[i]) - x0.max(least_x[i]);
                let height = y1.min(greatest_y[i]) - y0.max(least_y[i]);
                let taken = (greatest_x[i] - least_x[i]) * (greatest_y[i] - least_y[i]);
                let common = width * height;
                let union = area + taken - common;
                let is_nothing = (width <= 0.0)
                    | (height <= 0.0)
                    | (area <= 0.0)
                    | (taken <= 0.0)
                    | (union <= 0.0);
                let overlap = if is_nothing { 0.0 } else { common / union };
                overlaps |= overlap > self.limit;
            }
            if overlaps {
                return true;
            }
        }
        false
    }
}

/// The index of a key with index.
#[allow(clippy::cast_possible_truncation, reason = "the index is in the lower bits")]
fn place(placed: u64) -> u32 {
    !(placed as u32)
}

/// A greater score has a greater key; NaN has that of −∞.
#[inline(always)]
fn key(score: f32) -> u32 {
    let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
    let bits = score.to_bits();
    if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 }
}

/// Writes the results of each class: image, class and box.
fn write<'f>(
    found: impl Iterator<Item = &'f [u32]> + Clone,
    n_classes: usize,
    outputs: &mut [Output<'_>],
) -> Result<(), KernelError> {
    let taken = |lane: &'f [u32]| &lane[1..1 + lane[0] as usize];
    let n = found.clone().map(|lane| taken(lane).len()).sum();
    let [output, ..] = outputs else { return Err(KernelError::ForeignState) };
    let triples = output.tensor(DType::I64, &[n, 3])?.into_slice::<i64>()?;
    let rows = found.enumerate().flat_map(|(row, lane)| taken(lane).iter().map(move |i| (row, i)));
    for (triple, (row, &i)) in triples.as_chunks_mut::<3>().0.iter_mut().zip(rows) {
        let whole = |n: usize| i64::try_from(n).map_err(|_| OpError::TooLarge);
        *triple = [whole(row / n_classes)?, whole(row % n_classes)?, i64::from(i)];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats};

    /// Boxes of two images and five classes; many scores are equal and some are NaN.
    fn case(n_boxes: usize, limits: (i64, f32), is_centered: bool) -> Case {
        let scores = floats(&[2, 5, n_boxes]);
        let with_duplicates = |(i, score): (usize, &f32)| match i % 41 {
            0 => f32::NAN,
            _ => (score * 16.0).round(),
        };
        let scores: Vec<_> =
            scores.as_slice().unwrap().iter().enumerate().map(with_duplicates).collect();
        Case::new("NonMaxSuppression", 11)
            .attr("center_point_box", Attr::Int(is_centered.into()))
            .input(floats(&[2, n_boxes, 4]))
            .input(Tensor::from_slice(&[2, 5, n_boxes], &scores).unwrap())
            .weight(Tensor::from_slice(&[1], &[limits.0]).unwrap())
            .weight(Tensor::from_slice(&[1], &[limits.1]).unwrap())
    }

    #[test]
    fn boxes_equal_the_operators() {
        for (n_boxes, most) in [(1, 1), (33, 3), (1000, 20), (700, 1000), (64, 0), (0, 5)] {
            for (overlap, is_centered) in [(0.5, false), (0.05, true), (1.0, false), (-0.5, true)] {
                case(n_boxes, (most, overlap), is_centered).check(exact);
                let least = Tensor::from_slice(&[1], &[3.0_f32]).unwrap();
                case(n_boxes, (most, overlap), is_centered).input(least).check(exact);
            }
        }
    }
}
