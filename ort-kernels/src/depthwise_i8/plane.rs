//! A plane of an image: lanes are the outputs of adjacent lines, one after the other.
//!
//! The inputs are copied with their padding and split into as many phases as the strides of both axes: phase
//! `(f, g)` holds the elements `f, f + stride, …` of the lines `g, g + stride, …`, so that each tap reads contiguous
//! elements. Phases that no tap reads are left out. Between the outputs of two lines are lanes that nobody needs.

use std::ops::Range;

use super::{LANES, Line, MAX_TAPS, Weights};
use crate::conv_f32::Axis;
use crate::{Isa, Task};

/// One plane and its weights.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// The axes, the same for all planes.
    pub axes: [Axis; 3],
    /// The inputs, row-major.
    pub x: &'a [u8],
    /// The value of padding.
    pub padding: u8,
    /// XORed with every byte: 0 or 0x80.
    pub flip: u8,
    /// The weights, packed by [`pack_shared`](super::pack_shared).
    pub weights: &'a [u8],
    /// The number of bytes that each weight was split into.
    pub parts: usize,
    /// The initial value of sums.
    pub start: i32,
}

/// Lanes that are computed at once, if a line is not longer.
const GROUP: usize = 512;

/// Elements per phase of an axis.
fn phase_len(axis: &Axis) -> usize {
    axis.output + (axis.kernel - 1) * axis.dilation / axis.stride
}

/// The number of phases of an axis, behind which no tap reads.
fn n_phases(axis: &Axis) -> usize {
    axis.stride.min((axis.kernel - 1) * axis.dilation + 1)
}

/// The copied inputs of a plane.
#[derive(Clone, Copy)]
struct Layout {
    /// Elements from one line to the next.
    pitch: usize,
    /// Bytes per phase.
    phase: usize,
    /// Bytes per index of the first axis.
    slab: usize,
    /// Lines that are computed at once.
    n_lines: usize,
    /// Their lanes: whole blocks.
    n_lanes: usize,
}

impl Layout {
    fn of([_, axis1, axis2]: &[Axis; 3]) -> Self {
        let pitch = phase_len(axis2);
        let phase = pitch * phase_len(axis1);
        let slab = phase * n_phases(axis1) * n_phases(axis2);
        let n_lines = (GROUP / pitch.max(1)).clamp(1, axis1.output.max(1));
        Self { pitch, phase, slab, n_lines, n_lanes: (n_lines * pitch).next_multiple_of(LANES) }
    }
}

impl Plane<'_> {
    /// Bytes of scratch for [`Plane::run`]: padding, all inputs, and what the last block reads beyond them.
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 3]) -> usize {
        let Layout { slab, n_lanes, .. } = Layout::of(axes);
        axes[0].input * slab + 2 * n_lanes
    }

    /// Elements of the sums that are computed at once: whole blocks.
    #[must_use]
    pub fn sums_len(axes: &[Axis; 3]) -> usize {
        Layout::of(axes).n_lanes
    }

    /// Calls `each(first line, sums)` for groups of these lines of outputs, whose sums are contiguous.
    ///
    /// # Panics
    /// If there are more than [`MAX_TAPS`], or operands, `scratch` or `sums` are too short.
    pub fn run(
        &self,
        isa: Isa,
        lines: Range<usize>,
        (scratch, sums): (&mut [u8], &mut [i32]),
        mut each: impl FnMut(usize, &[i32]),
    ) {
        let [axis0, axis1, axis2] = self.axes;
        let layout = Layout::of(&self.axes);
        let (padding, inputs) = scratch.split_at_mut(layout.n_lanes);
        padding.fill(self.padding);
        isa.run(LayOut { plane: self, layout, lines: lines.clone(), to: inputs });
        let (padding, inputs) = (&*padding, &*inputs);
        let mut taps = [&[][..]; MAX_TAPS];
        let mut line = lines.start;
        while line < lines.end {
            let (at0, at1) = (line / axis1.output, line % axis1.output);
            let n_lines = layout.n_lines.min(axis1.output - at1).min(lines.end - line);
            let n_lanes = ((n_lines - 1) * layout.pitch + axis2.output).next_multiple_of(LANES);
            let mut n_taps = 0;
            for t0 in 0..axis0.kernel {
                let slab = axis0.at(at0, t0).map(|i0| &inputs[i0 * layout.slab..]);
                for t1 in (0..axis1.kernel).map(|t1| t1 * axis1.dilation) {
                    let row = (at1 + t1 / axis1.stride) * layout.pitch;
                    for t2 in (0..axis2.kernel).map(|t2| t2 * axis2.dilation) {
                        let phase = t1 % axis1.stride * n_phases(&axis2) + t2 % axis2.stride;
                        let first = phase * layout.phase + row + t2 / axis2.stride;
                        taps[n_taps] = match slab {
                            Some(slab) => &slab[first..][..n_lanes],
                            None => &padding[..n_lanes],
                        };
                        n_taps += 1;
                    }
                }
            }
            let sums = &mut sums[..n_lanes];
            sums.fill(self.start);
            let (taps, weights) = (&taps[..n_taps], Weights::Shared(self.weights));
            Line { taps, flip: self.flip, weights, parts: self.parts }.add(isa, sums);
            for i in 1..n_lines {
                sums.copy_within(
                    i * layout.pitch..i * layout.pitch + axis2.output,
                    i * axis2.output,
                );
            }
            each(line, &sums[..n_lines * axis2.output]);
            line += n_lines;
        }
    }
}

/// The inputs that these lines of outputs read, to be copied in phases.
struct LayOut<'a> {
    plane: &'a Plane<'a>,
    layout: Layout,
    lines: Range<usize>,
    to: &'a mut [u8],
}

impl Task for LayOut<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { plane, layout: Layout { pitch, phase, slab, .. }, lines, to } = self;
        let [axis0, axis1, axis2] = &plane.axes;
        let of0 = lines.start / axis1.output..lines.end.div_ceil(axis1.output);
        let mut of1 = 0..axis1.output;
        if of0.len() == 1 {
            of1 = lines.start % axis1.output..(lines.end - 1) % axis1.output + 1;
        }
        let rows = of1.start..of1.end + (axis1.kernel - 1) * axis1.dilation / axis1.stride;
        let is_read =
            |i0| of0.clone().any(|at| (0..axis0.kernel).any(|tap| axis0.at(at, tap) == Some(i0)));
        let planes = plane.x.chunks_exact((axis1.input * axis2.input).max(1));
        let slabs = planes.zip(to.chunks_exact_mut(slab.max(1))).take(axis0.input).enumerate();
        for (_, (x, to)) in slabs.filter(|(i0, _)| is_read(*i0)) {
            for (f, to) in to.chunks_exact_mut(phase).enumerate() {
                let (phase1, phase2) = (f / n_phases(axis2), f % n_phases(axis2));
                to[rows.start * pitch..rows.end * pitch].fill(plane.padding);
                for row in rows.clone() {
                    let i1 = (row * axis1.stride + phase1).checked_sub(axis1.pad[0]);
                    let Some(i1) = i1.filter(|&i1| i1 < axis1.input) else { continue };
                    let from = &x[i1 * axis2.input..][..axis2.input];
                    copy_phase(axis2, phase2, from, &mut to[row * pitch..][..pitch]);
                }
            }
        }
    }
}

/// Copies the elements of a line that are in a phase, without its padding.
#[inline(always)]
fn copy_phase(axis: &Axis, phase: usize, from: &[u8], to: &mut [u8]) {
    let (stride, pad) = (axis.stride, axis.pad[0]);
    // Element `i` is at `i·stride + phase − pad` of the line.
    let left = pad.saturating_sub(phase).div_ceil(stride).min(to.len());
    let right = (pad + from.len()).saturating_sub(phase).div_ceil(stride).clamp(left, to.len());
    let (to, first) = (&mut to[left..right], left * stride + phase);
    let from = first.checked_sub(pad).and_then(|first| from.get(first..));
    let from = from.unwrap_or_default();
    match stride {
        1 => to.copy_from_slice(&from[..to.len()]),
        2 => {
            let (pairs, rest) = from.as_chunks::<2>();
            to.iter_mut().zip(pairs).for_each(|(to, pair)| *to = pair[0]);
            if let (Some(to), Some(last)) = (to.get_mut(pairs.len()), rest.first()) {
                *to = *last;
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, x)| *to = *x),
    }
}
