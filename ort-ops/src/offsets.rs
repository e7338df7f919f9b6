//! The offsets of the elements of a strided tensor.

use ort_tensor::Shape;

/// `Σ index(i)·stride(i)` for the row-major indices of `shape`, in order.
pub(crate) struct Offsets<'a> {
    shape: &'a [usize],
    strides: &'a [usize],
    index: Shape,
    next: Option<usize>,
}

impl<'a> Offsets<'a> {
    /// The offsets of all elements of `shape`; `strides` has as many entries.
    pub(crate) fn new(shape: &'a [usize], strides: &'a [usize]) -> Self {
        let next = (!shape.contains(&0)).then_some(0);
        // bounded: rank
        Self { shape, strides, index: Shape::from_elem(0, shape.len()), next }
    }
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let current = self.next?;
        let mut next = current;
        self.next = None;
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            next += self.strides[axis];
            if self.index[axis] < self.shape[axis] {
                self.next = Some(next);
                break;
            }
            next -= self.strides[axis] * self.index[axis];
            self.index[axis] = 0;
        }
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_visited_and_none_of_an_empty_shape() {
        let cases: [(&[usize], &[usize], &[usize]); 4] = [
            (&[2, 2], &[1, 2], &[0, 2, 1, 3]),
            (&[2, 3], &[0, 1], &[0, 1, 2, 0, 1, 2]),
            (&[], &[], &[0]),
            (&[3, 0], &[1, 1], &[]),
        ];
        for (shape, strides, expected) in cases {
            assert_eq!(Offsets::new(shape, strides).collect::<Vec<_>>(), expected);
        }
    }
}
