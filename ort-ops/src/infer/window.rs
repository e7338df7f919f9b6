//! The windows of a convolution or pool, and which elements each of them covers.

use std::ops::Range;

use ort_graph::OpError;
use ort_tensor::{Pace, Room, Shape, TensorError, n_elements};

/// The windows over an input of known size. Every field has one value per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The spatial shape of the input.
    pub input: Shape,
    /// The spatial shape of the output.
    pub output: Shape,
    /// The size of the window.
    pub kernel: Shape,
    /// The steps between windows.
    pub strides: Shape,
    /// The steps inside a window.
    pub dilations: Shape,
    /// The padding before the input.
    pub pads_begin: Shape,
    /// The padding after the input; a window may exceed it if the output was rounded up.
    pub pads_end: Shape,
}

/// Marks an element outside the input in [`Window::offsets`].
pub const PADDING: usize = usize::MAX;

impl Window {
    /// How many positions a window has.
    pub fn n_taps(&self) -> usize {
        n_elements(&self.kernel).unwrap_or(usize::MAX)
    }

    /// How many windows there are.
    pub fn n_outputs(&self) -> usize {
        n_elements(&self.output).unwrap_or(usize::MAX)
    }

    /// The distance between the first and the last element of a window: `(kernel − 1)·dilation`.
    ///
    /// # Errors
    /// If it overflows.
    pub fn extent(&self, axis: usize) -> Result<usize, OpError> {
        let steps = self.kernel[axis].saturating_sub(1);
        steps.checked_mul(self.dilations[axis]).ok_or(OpError::TooLarge)
    }

    /// The windows, row-major, in runs short enough that a value per tap and window of a run takes little memory,
    /// unless a single window has many taps.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        const N_TAPS_OF_A_RUN: usize = 1 << 16;
        let n = self.n_outputs();
        let len = (N_TAPS_OF_A_RUN / self.n_taps().max(1)).clamp(1, 256);
        (0..n).step_by(len).map(move |start| start..(start + len).min(n))
    }

    /// `offsets[tap, window]`: the row-major index of the input element at `tap` of each of these windows, or
    /// [`PADDING`].
    ///
    /// # Errors
    /// If there is no memory for them, or the run was cancelled.
    pub fn offsets(&self, windows: Range<usize>) -> Result<Room<usize>, TensorError> {
        let (len, mut pace) = (windows.len(), Pace::new());
        let mut offsets = Room::filled(PADDING, self.n_taps().saturating_mul(len))?;
        for (column, window) in windows.enumerate() {
            let position = unravel(window, &self.output);
            for tap in 0..self.n_taps() {
                pace.go(1)?;
                if let Some(offset) = self.offset(&position, &unravel(tap, &self.kernel)) {
                    offsets[tap * len + column] = offset;
                }
            }
        }
        Ok(offsets)
    }

    /// The row-major index of the input element at `tap` of the window at `position`; `None` for padding.
    pub fn offset(&self, position: &[usize], tap: &[usize]) -> Option<usize> {
        let mut offset = 0;
        for axis in 0..self.input.len() {
            let start = position[axis].saturating_mul(self.strides[axis]);
            let ahead = start.saturating_add(tap[axis].saturating_mul(self.dilations[axis]));
            let i = ahead.checked_sub(self.pads_begin[axis])?;
            if i >= self.input[axis] {
                return None;
            }
            offset = offset * self.input[axis] + i;
        }
        Some(offset)
    }

    /// How many taps of the window at `position` are in the input or its padding, and not beyond.
    pub fn n_taps_within_padding(&self, position: &[usize]) -> usize {
        let inside = |axis: usize| {
            let end = self.input[axis] + self.pads_begin[axis] + self.pads_end[axis];
            let start = position[axis].saturating_mul(self.strides[axis]);
            let room = end.saturating_sub(start);
            room.div_ceil(self.dilations[axis]).min(self.kernel[axis])
        };
        (0..self.input.len()).map(inside).product()
    }
}

/// The index whose row-major position in `shape` is `position`.
pub(crate) fn unravel(mut position: usize, shape: &[usize]) -> Shape {
    // bounded: rank
    let mut index = Shape::from_elem(0, shape.len());
    for (axis, &dim) in shape.iter().enumerate().rev() {
        index[axis] = position % dim.max(1);
        position /= dim.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use ort_tensor::within;

    use super::*;

    #[test]
    fn taps_outside_the_input_are_padding() {
        let one = || Shape::from_elem(1, 1);
        let three = || Shape::from_elem(3, 1);
        let window = Window {
            input: three(),
            output: three(),
            kernel: three(),
            strides: one(),
            dilations: one(),
            pads_begin: one(),
            pads_end: one(),
        };
        let p = PADDING;
        assert_eq!(window.offsets(0..3).unwrap()[..], [p, 0, 1, 0, 1, 2, 1, 2, p]);
        assert_eq!(window.n_taps_within_padding(&[0]), 3);
        // The size of a window comes from the node.
        let huge = Window { kernel: Shape::from_slice(&[1 << 40]), ..window };
        let limit = 1 << 20;
        let found = within(limit, limit, || huge.offsets(0..1).map(|_| ()));
        let n_bytes = (1 << 40) * size_of::<usize>();
        assert_eq!(found, Err(TensorError::NoMemory { n_bytes, limit: Some(limit) }));
    }
}
