//! A plane of an image: lanes are the outputs of a line, along the last axis.
//!
//! The input lines are copied with their padding and split into as many phases as the stride:
//! phase `f` holds the elements `f, f + stride, …`, so that each tap reads contiguous elements.

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

/// Elements per phase of a line.
fn phase_len(axis: &Axis) -> usize {
    axis.output + (axis.kernel - 1) * axis.dilation / axis.stride
}

/// Bytes of a line in phases.
fn line_len(axis: &Axis) -> usize {
    phase_len(axis) * axis.stride
}

impl Plane<'_> {
    /// Bytes of scratch for [`Plane::run`]: all lines, and one of padding.
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 3]) -> usize {
        (axes[0].input * axes[1].input + 1) * line_len(&axes[2])
    }

    /// Elements of a line of sums: whole blocks.
    #[must_use]
    pub fn sums_len(axes: &[Axis; 3]) -> usize {
        axes[2].output.next_multiple_of(LANES)
    }

    /// Calls `each(line, sums)` for these lines of outputs.
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
        let len = line_len(&axis2);
        let (padding, inputs) = scratch.split_at_mut(len);
        padding.fill(self.padding);
        self.lay_out(isa, &lines, inputs);
        let (padding, inputs) = (&*padding, &*inputs);
        let (mut taps, phase) = ([&[][..]; MAX_TAPS], phase_len(&axis2));
        let sums = &mut sums[..Self::sums_len(&self.axes)];
        for line in lines {
            let (at0, at1) = (line / axis1.output, line % axis1.output);
            let mut n_taps = 0;
            for t0 in 0..axis0.kernel {
                for t1 in 0..axis1.kernel {
                    let from = match axis0.at(at0, t0).zip(axis1.at(at1, t1)) {
                        Some((i0, i1)) => &inputs[(i0 * axis1.input + i1) * len..][..len],
                        None => padding,
                    };
                    for t2 in 0..axis2.kernel {
                        let at = t2 * axis2.dilation;
                        let first = at % axis2.stride * phase + at / axis2.stride;
                        taps[n_taps] = &from[first..][..axis2.output];
                        n_taps += 1;
                    }
                }
            }
            sums.fill(self.start);
            let (taps, weights) = (&taps[..n_taps], Weights::Shared(self.weights));
            Line { taps, flip: self.flip, weights, parts: self.parts }.add(isa, sums);
            each(line, &sums[..axis2.output]);
        }
    }

    /// Copies the lines that these outputs read, in phases.
    fn lay_out(&self, isa: Isa, lines: &Range<usize>, to: &mut [u8]) {
        let [axis0, axis1, axis2] = self.axes;
        let is_read = |axis: &Axis, i: usize, outputs: Range<usize>| {
            let from = (outputs.start * axis.stride).saturating_sub(axis.pad[0]);
            let last = outputs.end.saturating_sub(1) * axis.stride;
            let end = (last + (axis.kernel - 1) * axis.dilation + 1).saturating_sub(axis.pad[0]);
            (from..end).contains(&i)
        };
        let (first, last) = (lines.start, lines.end.max(1) - 1);
        let of0 = first / axis1.output..last / axis1.output + 1;
        let of1 = match of0.len() {
            1 => first % axis1.output..last % axis1.output + 1,
            _ => 0..axis1.output,
        };
        let len = line_len(&axis2);
        let lines = self.x.chunks_exact(axis2.input.max(1)).zip(to.chunks_exact_mut(len.max(1)));
        for (i, (from, to)) in lines.enumerate().take(axis0.input * axis1.input) {
            let (i0, i1) = (i / axis1.input, i % axis1.input);
            if is_read(&axis0, i0, of0.clone()) && is_read(&axis1, i1, of1.clone()) {
                isa.run(Phases { axis: &axis2, from, padding: self.padding, to });
            }
        }
    }
}

/// A line to be split into phases.
struct Phases<'a> {
    axis: &'a Axis,
    from: &'a [u8],
    padding: u8,
    to: &'a mut [u8],
}

impl Task for Phases<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { axis, from, padding, to } = self;
        let (len, stride, pad) = (phase_len(axis), axis.stride, axis.pad[0]);
        for (phase, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
            // Element `i` is at `i·stride + phase − pad` of the line.
            let left = pad.saturating_sub(phase).div_ceil(stride).min(len);
            let right = (pad + from.len()).saturating_sub(phase).div_ceil(stride).clamp(left, len);
            to[..left].fill(padding);
            to[right..].fill(padding);
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
    }
}
