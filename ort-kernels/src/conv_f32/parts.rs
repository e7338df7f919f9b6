//! Planes split into parts, so that a part is little work however many taps a window has.

use std::ops::Range;

use super::Axis;

/// A contiguous range of outputs of a plane, and the contiguous range of inputs that they read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanePart {
    /// The axes of these outputs and inputs.
    pub axes: [Axis; 3],
    /// Range of inputs in the plane.
    pub inputs: Range<usize>,
    /// Range of outputs in the plane.
    pub outputs: Range<usize>,
}

/// The parts of a plane, of at most `n_outputs` outputs each, but of at least one index of its outermost axis.
pub fn plane_parts(axes: [Axis; 3], n_outputs: usize) -> impl Iterator<Item = PlanePart> {
    let cut = axes.iter().position(|axis| *axis != Axis::UNIT).unwrap_or(2);
    let inner = &axes[cut + 1..];
    let n_inner = inner.iter().map(|axis| axis.output).product::<usize>();
    let n_read = inner.iter().map(|axis| axis.input).product::<usize>();
    let step = n_outputs.checked_div(n_inner).unwrap_or(usize::MAX).max(1);
    let output = axes[cut].output;
    (0..output).step_by(step).map(move |first| {
        let places = first..output.min(first.saturating_add(step));
        let (part, read) = axes[cut].part(places.clone());
        let mut axes = axes;
        axes[cut] = part;
        PlanePart {
            axes,
            inputs: read.start * n_read..read.end * n_read,
            outputs: places.start * n_inner..places.end * n_inner,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv_f32::{Depthwise, Pool, PoolKind};
    use crate::window_fold::{Largest, Windows};
    use crate::{Activation, Isa};

    fn numbers(n: usize) -> Vec<f32> {
        (0..n).map(|i| (i * 7919 % 251) as f32 - 120.0).collect()
    }

    /// Applies `run` to each part of a plane.
    fn by_parts(
        axes: [Axis; 3],
        most: usize,
        run: impl Fn([Axis; 3], &[f32], &mut [f32]),
    ) -> Vec<f32> {
        let n = |of: fn(&Axis) -> usize| axes.iter().map(of).product::<usize>();
        let (x, mut y) = (numbers(n(|axis| axis.input)), vec![9e9; n(|axis| axis.output)]);
        for part in plane_parts(axes, most) {
            run(part.axes, &x[part.inputs], &mut y[part.outputs]);
        }
        y
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "small integers")]
    fn parts_of_a_plane_are_those_of_the_whole() {
        let padded = |input, kernel, stride, dilation, pad: [usize; 2]| {
            let reach = (kernel - 1) * dilation + 1;
            let output = (input + pad[0] + pad[1] - reach) / stride + 1;
            Axis { input, output, kernel, stride, dilation, pad }
        };
        let line = [Axis::UNIT, Axis::UNIT, padded(70, 40, 3, 1, [30, 39])];
        let plane = [Axis::UNIT, padded(9, 3, 2, 2, [4, 3]), padded(21, 5, 1, 1, [2, 2])];
        let volume = [padded(5, 2, 1, 1, [1, 1]), padded(6, 3, 1, 1, [1, 0]), axis(7, 2)];
        for axes in [line, plane, volume] {
            let weights = numbers(axes.iter().map(|axis| axis.kernel).product());
            for isa in Isa::all() {
                let pool = |kind| {
                    move |axes, x: &[f32], y: &mut [f32]| {
                        let mut scratch = vec![9e9; Pool::scratch_len(&axes)];
                        Pool { isa, axes, kind }.run(x, y, &mut scratch);
                    }
                };
                let [all, own] =
                    [true, false].map(|count_padding| PoolKind::Average { count_padding });
                let convolve = |axes: [Axis; 3], x: &[f32], y: &mut [f32]| {
                    let mut scratch = vec![9e9; Depthwise::scratch_len(&axes)];
                    let (bias, activation) = (1.0, Activation::None);
                    let conv = Depthwise { isa, axes, weights: &weights, bias, activation };
                    conv.run(x, 0..axes[0].output * axes[1].output, y, &mut scratch);
                };
                let greatest = |axes: [Axis; 3], x: &[f32], y: &mut [f32]| {
                    let windows = Windows { axes };
                    let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                    let mut found = vec![0.0; y.len()];
                    let mut scratch = vec![9e9; windows.scratch_len()];
                    windows.run(isa, &x, (Largest { least: -1e9 }, &mut found), &mut scratch);
                    y.iter_mut().zip(found).for_each(|(y, found)| *y = found as f32);
                };
                for most in [1, 2, 7, 50] {
                    for kind in [PoolKind::Max, all, own] {
                        let whole = by_parts(axes, usize::MAX, pool(kind));
                        assert_eq!(by_parts(axes, most, pool(kind)), whole, "{kind:?} {axes:?}");
                    }
                    let whole = by_parts(axes, usize::MAX, convolve);
                    assert_eq!(by_parts(axes, most, convolve), whole, "{axes:?} {most}");
                    let whole = by_parts(axes, usize::MAX, greatest);
                    assert_eq!(by_parts(axes, most, greatest), whole, "{axes:?} {most}");
                }
            }
        }
    }

    /// The total number of inputs of the parts of a plane.
    fn n_read(axes: [Axis; 3], n_outputs: usize) -> usize {
        plane_parts(axes, n_outputs).map(|part| part.inputs.len()).sum()
    }

    fn axis(input: usize, kernel: usize) -> Axis {
        Axis { input, output: input - kernel + 1, kernel, stride: 1, dilation: 1, pad: [0, 0] }
    }

    #[test]
    fn parts_cover_a_plane_and_read_only_their_inputs() {
        let line = [Axis::UNIT, Axis::UNIT, axis(100, 90)];
        let plane = [Axis::UNIT, axis(8, 3), axis(9, 2)];
        for axes in [line, plane] {
            let n: usize = axes.iter().map(|axis| axis.output).product();
            for most in 1..=n + 1 {
                let parts: Vec<_> = plane_parts(axes, most).collect();
                let ends = parts.iter().map(|part| part.outputs.clone());
                assert!(ends.flatten().eq(0..n), "{axes:?} {most}");
                for part in parts {
                    let own: usize = part.axes.iter().map(|axis| axis.output).product();
                    assert_eq!(own, part.outputs.len());
                    let read: usize = part.axes.iter().map(|axis| axis.input).product();
                    assert_eq!(read, part.inputs.len());
                }
            }
        }
        // Each output of a line reads a window; a row of a plane, the rows of its windows.
        assert_eq!((n_read(line, 1), n_read(line, 11)), (11 * 90, 100));
        assert_eq!((n_read(plane, 1), n_read(plane, 16)), (6 * 3 * 9, 3 * 4 * 9));
    }
}
