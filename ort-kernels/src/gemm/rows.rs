//! The rows of C that a call may write, as slices.

use std::fmt::Debug;

/// Rows to write, in order and disjoint.
///
/// A thread that computes a range of rows passes a [`Strided`] chunk of C. A thread that computes a
/// range of columns passes a list of row pieces, split with `split_at_mut`.
pub trait Rows<T = f32> {
    /// The rows starting at `first`; the caller uses at least `count` of them.
    fn rows(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]>
    where
        T: 'static;

    /// All rows as one slice and their stride, if they are equally spaced.
    fn strided(&mut self) -> Option<(&mut [T], usize)> {
        None
    }
}

/// Row `i` starts at `data[i·stride]`; the last may be shorter than the stride.
#[derive(Debug)]
pub struct Strided<'a, T = f32> {
    /// The elements.
    pub data: &'a mut [T],
    /// The row stride.
    pub stride: usize,
}

impl<T: 'static> Rows<T> for Strided<'_, T> {
    fn rows(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut [T]> {
        // Clamped: a C without columns has no elements to skip.
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
    /// Number of rows.
    pub(super) count: usize,
    /// Elements per row.
    pub(super) width: usize,
}

/// The locations of rows.
#[derive(Debug)]
pub(super) enum Place<'a, T = f32> {
    /// With this row stride: needs no setup per row.
    Strided(&'a mut [T], usize),
    /// At any locations.
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
