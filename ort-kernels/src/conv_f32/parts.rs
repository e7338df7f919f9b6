//! Planes cut into parts, so that a window may have as many taps as it likes and a part of the work is small all the same.

use std::ops::Range;

use super::Axis;

/// Some outputs of a plane, which lie one after the other, and the inputs that they read, which do so, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanePart {
    /// The axes of a plane of these outputs and inputs alone.
    pub axes: [Axis; 3],
    /// Of the plane.
    pub inputs: Range<usize>,
    /// Of the plane.
    pub outputs: Range<usize>,
}

/// The parts of a plane, of at most `n_outputs` outputs each, but of at least one place on its outermost axis.
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

    /// The inputs that the parts of a plane are over.
    fn n_read(axes: [Axis; 3], n_outputs: usize) -> usize {
        plane_parts(axes, n_outputs).map(|part| part.inputs.len()).sum()
    }

    fn axis(input: usize, kernel: usize) -> Axis {
        Axis { input, output: input - kernel + 1, kernel, stride: 1, dilation: 1, pad: [0, 0] }
    }

    #[test]
    fn parts_cover_a_plane_and_their_work_is_that_of_their_outputs() {
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
        // Each place of a line reads a window; a row of a plane, the rows of its windows.
        assert_eq!((n_read(line, 1), n_read(line, 11)), (11 * 90, 100));
        assert_eq!((n_read(plane, 1), n_read(plane, 16)), (6 * 3 * 9, 3 * 4 * 9));
    }
}
