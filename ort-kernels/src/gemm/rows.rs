//! The rows of C a call may write, as slices.

use std::fmt::Debug;

/// Rows to write, in order and disjoint.
///
/// A thread that computes a range of rows takes a [`Strided`] chunk of C. A thread that computes a
/// range of columns takes a list of row pieces, cut with `split_at_mut`.
pub trait Rows<T = f32> {
    /// The rows from `first` on; at least `count` of them are asked for.
    fn rows(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]>
    where
        T: 'static;

    /// All rows as one slice, if they are equally far apart, and how far.
    fn strided(&mut self) -> Option<(&mut [T], usize)> {
        None
    }
}

/// Row `i` starts at `data[i·stride]`; the last may be shorter than the stride.
#[derive(Debug)]
pub struct Strided<'a, T = f32> {
    /// The elements.
    pub data: &'a mut [T],
    /// From one row to the next.
    pub stride: usize,
}

impl<T: 'static> Rows<T> for Strided<'_, T> {
    fn rows(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]> {
        // Clipped: a C of no columns has no elements to skip.
        let from = (first * self.stride).min(self.data.len());
        self.data[from..].chunks_mut(self.stride.max(1)).take(count)
    }

    fn strided(&mut self) -> Option<(&mut [T], usize)> {
        Some((self.data, self.stride))
    }
}

impl<T: 'static> Rows<T> for [&mut [T]] {
    fn rows(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]> {
        self[first..first + count].iter_mut().map(|row| &mut **row)
    }
}

/// The rows of C that a tile writes.
#[derive(Debug)]
pub struct Target<'a, T = f32> {
    pub(super) place: Place<'a, T>,
    /// How many rows.
    pub(super) count: usize,
    /// Elements of each.
    pub(super) width: usize,
}

/// Where rows begin.
#[derive(Debug)]
pub(super) enum Place<'a, T = f32> {
    /// As many elements as this apart: nothing is done for each before the tile is.
    Strided(&'a mut [T], usize),
    /// Anywhere.
    Apart(&'a mut [&'a mut [T]]),
}

impl<T> Target<'_, T> {
    /// Row `r`.
    pub(super) fn row(&mut self, r: usize) -> &mut [T] {
        match &mut self.place {
            Place::Strided(data, stride) => &mut data[r * *stride..][..self.width],
            Place::Apart(rows) => &mut rows[r][..self.width],
        }
    }
}
