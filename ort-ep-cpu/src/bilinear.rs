//! Bilinear samples of planes: the neighbours of points are found once, and then summed in each plane.

use std::ops::{Add, Mul};

use bytemuck::cast_slice_mut;
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

/// The four neighbours of points.
pub(crate) struct Neighbours<'a, T> {
    /// The first of the two adjacent neighbours in either row.
    pairs: &'a mut [[u32; 2]],
    weights: &'a mut [[T; 4]],
    /// Points whose neighbours are not two such pairs, and these; their weights above are 0.
    edges: &'a mut [[u32; 5]],
    edge_weights: &'a mut [[T; 4]],
    n_edges: usize,
}

/// Memory for the neighbours of `N` points.
pub(crate) struct Points<T, const N: usize> {
    pairs: [[u32; 2]; N],
    weights: [[[T; 4]; N]; 2],
    edges: [[u32; 5]; N],
}

impl<T: Weight, const N: usize> Points<T, N> {
    pub(crate) fn new() -> Self {
        let weights = [[[T::default(); 4]; N]; 2];
        Self { pairs: [[0; 2]; N], weights, edges: [[0; 5]; N] }
    }

    /// The neighbours of no point.
    pub(crate) fn neighbours(&mut self) -> Neighbours<'_, T> {
        let [weights, edge_weights] = &mut self.weights;
        let (pairs, edges) = (&mut self.pairs, &mut self.edges);
        Neighbours { pairs, weights, edges, edge_weights, n_edges: 0 }
    }
}

impl<'a, T: Weight> Neighbours<'a, T> {
    /// Scratch for each point, in elements of f32.
    pub(crate) const SCRATCH: usize = 7 + 8 * (size_of::<T>() / size_of::<f32>());

    /// The neighbours of no point, with room for `n`, an even number.
    ///
    /// # Panics
    /// If the scratch is too short.
    pub(crate) fn within(scratch: &'a mut [f32], n: usize) -> Self {
        let len = n * 8 * (size_of::<T>() / size_of::<f32>());
        let (weights, places) = scratch[..n * Self::SCRATCH].split_at_mut(len);
        let weights = cast_slice_mut::<f32, T>(weights).as_chunks_mut::<4>().0;
        let (weights, edge_weights) = weights.split_at_mut(n);
        let (pairs, edges) = cast_slice_mut::<f32, u32>(places).split_at_mut(2 * n);
        let (pairs, edges) = (pairs.as_chunks_mut().0, edges.as_chunks_mut().0);
        Self { pairs, weights, edges, edge_weights, n_edges: 0 }
    }

    /// Forgets all points.
    pub(crate) fn clear(&mut self) {
        self.n_edges = 0;
    }

    /// Lists those of a point, in planes whose rows have `width` elements. Each point, of at most as many as there is
    /// room for, is set once.
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
            let [a, b, c, d] = at;
            // There are fewer than 2³² points at once.
            self.edges[self.n_edges] = [u32::try_from(point).unwrap_or(OUTSIDE), a, b, c, d];
            self.edge_weights[self.n_edges] = weights;
            self.n_edges += 1;
        }
    }

    /// `y[i]` is the sum of the neighbours of point `i`, times their weights, in a plane with an element.
    #[inline(always)]
    pub(crate) fn sum(&self, plane: &[T], y: &mut [T]) {
        // A smaller plane has no pairs.
        if let Some(last) = plane.len().checked_sub(2) {
            for ((y, pairs), weights) in y.iter_mut().zip(&*self.pairs).zip(&*self.weights) {
                let (above, below) = (last.min(pairs[0] as usize), last.min(pairs[1] as usize));
                // In this order, the two columns are two lanes.
                let left = plane[above] * weights[0] + plane[below] * weights[2];
                let right = plane[above + 1] * weights[1] + plane[below + 1] * weights[3];
                *y = left + right;
            }
        }
        let edges = self.edges[..self.n_edges].iter().zip(&*self.edge_weights);
        for ([point, at @ ..], weights) in edges {
            let mut sum = T::default();
            for (at, weight) in at.iter().zip(weights) {
                let at = *at as usize;
                // Without a branch, which could not be predicted.
                let term = *weight * plane[at.min(plane.len() - 1)];
                sum = sum + if at < plane.len() { term } else { T::default() };
            }
            y[*point as usize] = sum;
        }
    }
}
