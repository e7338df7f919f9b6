//! A tensor along one axis, as `[outer, len, inner]`. A lane is the elements along the axis: `len` elements, `inner`
//! apart.

use ort_tensor::{Number, Pace, TensorError, filled};

/// Elements so far apart take the time of two that are adjacent.
const APART: usize = 64;

/// The layout of the lanes along one axis of a row-major tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// How many blocks of `len·inner` elements there are.
    pub(crate) outer: usize,
    /// The elements of a lane.
    pub(crate) len: usize,
    /// How far apart they are, and how many lanes interleave in a block.
    pub(crate) inner: usize,
}

impl Lanes {
    /// The lanes along `axis`, which must be below the rank.
    pub(crate) fn along(shape: &[usize], axis: usize) -> Self {
        let (outer, inner) = (&shape[..axis], &shape[axis + 1..]);
        Self { outer: product(outer), len: shape[axis], inner: product(inner) }
    }

    /// The contiguous lanes that run along all dimensions from `axis` on, at most the rank.
    pub(crate) fn flattened(shape: &[usize], axis: usize) -> Self {
        Self { outer: product(&shape[..axis]), len: product(&shape[axis..]), inner: 1 }
    }

    /// Writes each lane of `x`, modified by `f`, to `y`.
    ///
    /// # Errors
    /// If there is no memory for one, or the run was cancelled.
    pub(crate) fn map<T: Number>(
        &self,
        x: &[T],
        y: &mut [T],
        mut f: impl FnMut(&mut [f64]) -> Result<(), TensorError>,
    ) -> Result<(), TensorError> {
        let Lanes { len, inner, .. } = *self;
        // Empty lanes have no elements to write, nor has an empty block.
        let Some(block) = len.checked_mul(inner).filter(|&block| block > 0) else { return Ok(()) };
        let (mut lane, mut pace) = (filled(0.0, len)?, Pace::new());
        // Elements far apart lie on pages that may be touched for the first time.
        let each = (inner / APART).clamp(1, Pace::STEP);
        let piece = Pace::STEP / each;
        for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
            for i in 0..inner {
                let mut from = x[i..].iter().step_by(inner);
                for lane in lane.chunks_mut(piece) {
                    pace.go(lane.len() * each)?;
                    lane.iter_mut().zip(&mut from).for_each(|(to, from)| *to = from.to_f64());
                }
                f(&mut lane)?;
                let mut to = y[i..].iter_mut().step_by(inner);
                for lane in lane.chunks(piece) {
                    pace.go(lane.len() * each)?;
                    lane.iter().zip(&mut to).for_each(|(&from, to)| *to = T::from_f64(from));
                }
            }
        }
        Ok(())
    }
}

/// `Π shape`; a tensor that exists has no product that overflows, unless a zero hides it.
fn product(shape: &[usize]) -> usize {
    ort_tensor::n_elements(shape).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ort_tensor::by_pieces;

    use super::*;
    use crate::case::once_cancelled;

    #[test]
    fn lanes_interleave_inside_a_block() {
        let lanes = Lanes::along(&[2, 3, 2], 1);
        assert_eq!(lanes, Lanes { outer: 2, len: 3, inner: 2 });
        let x: Vec<f32> = (0_u8..12).map(f32::from).collect();
        let mut y = vec![0_f32; 12];
        let reverse = |lane: &mut [f64]| {
            lane.reverse();
            Ok(())
        };
        lanes.map(&x, &mut y, reverse).unwrap();
        assert_eq!(y, [4., 5., 2., 3., 0., 1., 10., 11., 8., 9., 6., 7.]);
    }

    #[test]
    fn an_overflow_hidden_by_a_zero_gives_no_lanes() {
        let shape = [usize::MAX, 2, 0];
        assert_eq!(Lanes::along(&shape, 2), Lanes { outer: 0, len: 0, inner: 1 });
        assert!(Lanes::along(&shape, 0).map::<f32>(&[], &mut [], |_| Ok(())).is_ok());
    }

    #[test]
    fn a_long_lane_ends_after_a_piece() {
        for (len, n_done) in [(3, 3), (Pace::STEP, Pace::STEP), (Pace::STEP + 1, Pace::STEP)] {
            let (mut lane, mut n) = (vec![0.0; len], 0);
            let done = once_cancelled(|| by_pieces(&mut lane, |_, piece| n += piece.len()));
            assert_eq!((done.is_ok(), n), (len == n_done, n_done));
        }
    }
}
