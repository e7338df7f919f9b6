//! Bilinear samples of planes: the neighbours of points are found once, and then summed in each plane.

use std::ops::{Add, Mul};

use ort_tensor::{Element, Number};

/// An index of no element of an axis.
pub(crate) const FAR: usize = usize::MAX;
/// An index of no element of a plane, which therefore has fewer elements.
const OUTSIDE: u32 = u32::MAX;

/// A float type that samples are computed in.
pub(crate) trait Weight: Element + Number + Add<Output = Self> + Mul<Output = Self> {}

impl Weight for f32 {}
impl Weight for f64 {}

/// Two elements of an axis with their weights: [`FAR`] for one outside, which is not read.
pub(crate) type Axis = [(usize, f64); 2];

/// The four neighbours of up to `N` points.
pub(crate) struct Neighbours<T, const N: usize> {
    /// The first of the two adjacent neighbours in either row.
    pairs: [[u32; 2]; N],
    weights: [[T; 4]; N],
    /// Points whose neighbours are not two such pairs; their weights above are 0.
    edges: [Edge<T>; N],
    n_edges: usize,
}

#[derive(Clone, Copy)]
struct Edge<T> {
    point: usize,
    at: [u32; 4],
    weights: [T; 4],
}

impl<T: Weight, const N: usize> Neighbours<T, N> {
    /// Of no point.
    pub(crate) fn new() -> Self {
        let weights = [T::default(); 4];
        let edge = Edge { point: 0, at: [OUTSIDE; 4], weights };
        Self { pairs: [[0; 2]; N], weights: [weights; N], edges: [edge; N], n_edges: 0 }
    }

    /// Forgets all points.
    pub(crate) fn clear(&mut self) {
        self.n_edges = 0;
    }

    /// Lists those of a point, in planes whose rows have `width` elements. Each point is set once.
    #[inline(always)]
    pub(crate) fn set(&mut self, point: usize, [rows, columns]: [Axis; 2], width: usize) {
        let (mut at, mut weights) = ([OUTSIDE; 4], [T::default(); 4]);
        for k in 0..4 {
            let ((row, of_row), (column, of_column)) = (rows[k / 2], columns[k % 2]);
            let element = row.saturating_mul(width).saturating_add(column);
            at[k] = u32::try_from(element).unwrap_or(OUTSIDE);
            weights[k] = <T as Number>::from_f64(of_row * of_column);
        }
        let is_pair = |i: usize| at[i + 1] != OUTSIDE && at[i].wrapping_add(1) == at[i + 1];
        if is_pair(0) && is_pair(2) {
            (self.pairs[point], self.weights[point]) = ([at[0], at[2]], weights);
        } else {
            (self.pairs[point], self.weights[point]) = ([0; 2], [T::default(); 4]);
            self.edges[self.n_edges] = Edge { point, at, weights };
            self.n_edges += 1;
        }
    }

    /// `y[i]` is the sum of the neighbours of point `i`, times their weights, in a plane with an element.
    #[inline(always)]
    pub(crate) fn sum(&self, plane: &[T], y: &mut [T]) {
        // A smaller plane has no pairs.
        if let Some(last) = plane.len().checked_sub(2) {
            for (i, y) in y.iter_mut().enumerate() {
                let (pairs, weights) = (&self.pairs[i], &self.weights[i]);
                let (above, below) = (last.min(pairs[0] as usize), last.min(pairs[1] as usize));
                // In this order, the two columns are two lanes.
                let left = plane[above] * weights[0] + plane[below] * weights[2];
                let right = plane[above + 1] * weights[1] + plane[below + 1] * weights[3];
                *y = left + right;
            }
        }
        for Edge { point, at, weights } in &self.edges[..self.n_edges] {
            let mut sum = T::default();
            for (at, weight) in at.iter().zip(weights) {
                let at = *at as usize;
                // Without a branch, which could not be predicted.
                let term = *weight * plane[at.min(plane.len() - 1)];
                sum = sum + if at < plane.len() { term } else { T::default() };
            }
            y[*point] = sum;
        }
    }
}
