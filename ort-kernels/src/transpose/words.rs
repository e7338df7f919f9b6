//! `y[j, i] = x[i, j]` for elements of other widths, compiled for instruction sets without a register tile for them, and for
//! sizes below such a tile.
//!
//! A few elements of a row are a 64-bit word; squares of elements in such words are transposed by exchanging
//! halves, then halves of those, in eight squares at a time.

use bytemuck::Pod;

#[cfg(target_arch = "x86_64")]
use super::avx2_words;
use super::pixels;
use crate::isa::{Isa, Task};

/// Adjacent squares, in words of a row.
const SQUARES: usize = 8;

/// An element of another width than f32.
pub trait Transposed: Copy {
    /// [`transpose`](super::transpose) for such elements.
    ///
    /// # Panics
    /// If `x` or `y` is too short.
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize));

    /// A word of elements.
    fn pack(elements: &[Self]) -> u64;
    /// The elements of a word.
    fn unpack(word: u64, elements: &mut [Self]);
}

impl Transposed for u8 {
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
        words::<Self, 8>(isa, size, x, y);
    }

    #[inline(always)]
    fn pack(elements: &[Self]) -> u64 {
        elements.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn unpack(word: u64, elements: &mut [Self]) {
        elements[..8].copy_from_slice(&word.to_le_bytes());
    }
}

impl Transposed for u16 {
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
        words::<Self, 4>(isa, size, x, y);
    }

    #[inline(always)]
    fn pack(elements: &[Self]) -> u64 {
        let pack = |x: &[u16; 4]| (0..4).fold(0, |word, i| word | u64::from(x[i]) << (16 * i));
        elements.first_chunk().map_or(0, pack)
    }

    #[inline(always)]
    fn unpack(word: u64, elements: &mut [Self]) {
        for (i, x) in elements[..4].iter_mut().enumerate() {
            *x = (word >> (16 * i) & 0xffff) as u16;
        }
    }
}

impl Transposed for u64 {
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
        words::<Self, 1>(isa, size, x, y);
    }

    #[inline(always)]
    fn pack(elements: &[Self]) -> u64 {
        elements[0]
    }

    #[inline(always)]
    fn unpack(word: u64, elements: &mut [Self]) {
        elements[0] = word;
    }
}

fn words<T: Transposed + Pod, const N: usize>(
    isa: Isa,
    size: [usize; 2],
    x: (&[T], usize),
    y: (&mut [T], usize),
) {
    if pixels::transpose(isa, size, x, (&mut *y.0, y.1)) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        let [rows, columns] = avx2_words::least::<T>();
        if size[0] >= rows && size[1] >= columns {
            return avx2_words::squares(token, size, x, y);
        }
    }
    isa.run(Words::<T, N> { size, x, y });
}

/// A word has `N` elements, and a square `N` rows and columns.
struct Words<'a, T, const N: usize> {
    size: [usize; 2],
    x: (&'a [T], usize),
    y: (&'a mut [T], usize),
}

impl<T: Transposed, const N: usize> Task for Words<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { size: [rows, columns], x: (x, x_stride), y: (y, y_stride) } = self;
        let width = SQUARES * N;
        for j in (0..columns).step_by(width) {
            for i in (0..rows).step_by(N) {
                if rows - i >= N && columns - j >= width {
                    let x = &x[i * x_stride + j..];
                    squares::<T, N>(x, x_stride, &mut y[j * y_stride + i..], y_stride);
                    continue;
                }
                for j in j..columns.min(j + width) {
                    for i in i..rows.min(i + N) {
                        y[j * y_stride + i] = x[i * x_stride + j];
                    }
                }
            }
        }
    }
}

/// Transposes whole squares: the first `N` rows of `8·N` columns.
#[inline(always)]
fn squares<T: Transposed, const N: usize>(x: &[T], x_stride: usize, y: &mut [T], y_stride: usize) {
    let mut words = [[0_u64; SQUARES]; N];
    for r in 0..N {
        let row = &x[r * x_stride..][..SQUARES * N];
        for s in 0..SQUARES {
            words[r][s] = T::pack(&row[s * N..][..N]);
        }
    }
    for distance in [4, 2, 1] {
        exchange(&mut words, distance);
    }
    for s in 0..SQUARES {
        for c in 0..N {
            T::unpack(words[c][s], &mut y[(s * N + c) * y_stride..][..N]);
        }
    }
}

/// Exchanges elements `distance` columns to the right with those as many rows below, if the square has them.
#[inline(always)]
fn exchange<const N: usize>(words: &mut [[u64; SQUARES]; N], distance: usize) {
    if distance >= N {
        return;
    }
    let shift = 64 / N * distance;
    // Of every two runs of `shift` bits, the lower.
    let mask = u64::MAX / ((1_u64 << shift) + 1);
    for r in 0..N {
        if r & distance != 0 {
            continue;
        }
        let (above, below) = words.split_at_mut(r + distance);
        for (low, high) in above[r].iter_mut().zip(&mut below[0]) {
            let exchanged = ((*low >> shift) ^ *high) & mask;
            *high ^= exchanged;
            *low ^= exchanged << shift;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Transposed + PartialEq + Default + std::fmt::Debug>(of: fn(usize) -> T) {
        for isa in Isa::all() {
            let sizes = [
                (0, 5),
                (1, 1),
                (8, 64),
                (9, 65),
                (16, 200),
                (24, 130),
                (32, 32),
                (3, 200),
                (70, 31),
                (130, 70),
                (4096, 40),
                // Pixels and planes.
                (2, 99),
                (3, 70),
                (4, 33),
                (130, 2),
                (65, 3),
                (33, 4),
            ];
            let rooms = [[0, 0], [2, 2], [0, 2], [2, 0]];
            for ((rows, columns), room) in
                sizes.into_iter().flat_map(|size| rooms.map(|room| (size, room)))
            {
                let (from, to) = (columns + room[0], rows + room[1]);
                let x: Vec<T> = (0..rows * from + 1).map(of).collect();
                let mut y = vec![T::default(); columns * to + 1];
                T::transpose(isa, [rows, columns], (&x, from), (&mut y, to));
                for (at, found) in y.iter().enumerate() {
                    let (j, i) = (at / to.max(1), at % to.max(1));
                    let is_inside = i < rows && j < columns;
                    let expected = if is_inside { x[i * from + j] } else { T::default() };
                    assert_eq!(*found, expected, "[{i}, {j}] of [{rows}, {columns}]");
                }
            }
        }
    }

    #[test]
    fn rows_of_every_width_become_columns() {
        check::<u8>(|i| u8::try_from(i * 7919 % 251).unwrap() + 1);
        check::<u16>(|i| u16::try_from(i * 7919 % 65_521).unwrap() + 1);
        check::<u64>(|i| i as u64 + 1);
    }
}
