//! Squares whose rows are registers of 64 bytes: 64 rows of bytes, 32 of 16 bits, 8 of 64 bits.
//!
//! Four bytes or two 16-bit elements are moved as one of 32 bits, sixteen rows at a time. Then a register has several
//! columns of sixteen rows, interleaved: a shuffle separates them, and parts of registers are joined to whole columns.

#![expect(clippy::needless_range_loop, reason = "constant indexes keep arrays in registers")]

use std::arch::x86_64::{
    __m512, __m512i, _mm_set_epi8, _mm512_broadcast_i32x4, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_permutexvar_epi32, _mm512_set_epi32,
    _mm512_setzero_ps, _mm512_shuffle_epi8, _mm512_shuffle_f32x4, _mm512_unpackhi_pd,
    _mm512_unpacklo_pd,
};

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::avx512_16x16::{quarters, transpose16};
use super::starts;
use crate::isa::x86::{load_bytes, store_bytes};

/// Rows moved as 32-bit elements at a time.
const ROWS: usize = 16;

/// The first rows and columns of a square, in slices with these row strides.
struct Square<'a, T> {
    size: [usize; 2],
    x: (&'a [T], usize),
    y: (&'a mut [T], usize),
}

kernel! {
    /// [`transpose`](super::transpose), for elements of 1, 2 or 8 bytes.
    Avx512 => pub(super) fn squares[T: Pod](size: [usize; 2], x: (&[T], usize), y: (&mut [T], usize)) {
        let ([rows, columns], (x, x_stride), (y, y_stride)) = (size, x, y);
        let n = 64 / size_of::<T>();
        let size = size.map(|side| side.min(n));
        for j in starts(n, columns) {
            for i in starts(n, rows) {
                let x = (&x[i * x_stride + j..], x_stride);
                let y = (&mut y[j * y_stride + i..], y_stride);
                let square = Square { size, x, y };
                match size_of::<T>() {
                    1 => bytes(square),
                    2 => halves(square),
                    _ => doubles(square),
                }
            }
        }
    }
}

impl<T: Pod> Square<'_, T> {
    features! { Avx512 enabled
        /// Loads a row; zeros if it does not exist.
        #[inline]
        fn row(&self, i: usize) -> __m512 {
            let [rows, columns] = self.size;
            if i >= rows {
                return _mm512_setzero_ps();
            }
            let row = &self.x.0[i * self.x.1..][..columns];
            _mm512_castsi512_ps(load_bytes(cast_slice(row)))
        }
    }

    features! { Avx512 enabled
        /// Stores a column, if it exists.
        #[inline]
        fn set_column(&mut self, j: usize, lanes: __m512) {
            let [rows, columns] = self.size;
            if j < columns {
                let column = &mut self.y.0[j * self.y.1..][..rows];
                store_bytes(cast_slice_mut(column), _mm512_castps_si512(lanes));
            }
        }
    }
}

impl<T: Pod> Square<'_, T> {
    features! { Avx512 enabled
        /// Stores the columns of at most 16 rows; each register holds several of them.
        #[inline]
        fn set_parts(&mut self, registers: [__m512; 16]) {
            let [rows, columns] = self.size;
            let (y_stride, n) = (self.y.1, 64 / size_of::<T>() / ROWS);
            // Aligned for any element.
            let mut buffer = [0_u64; 8];
            for j in 0..columns.div_ceil(n) {
                let lanes = _mm512_castps_si512(registers[j]);
                let y = &mut self.y.0[j * n * y_stride..];
                if rows == ROWS && y_stride == ROWS && columns - j * n >= n {
                    store_bytes(cast_slice_mut(&mut y[..n * ROWS]), lanes);
                    continue;
                }
                store_bytes(cast_slice_mut(&mut buffer), lanes);
                let parts = cast_slice::<u64, T>(&buffer).chunks_exact(ROWS);
                for (k, part) in parts.enumerate().take(columns - j * n) {
                    let y = &mut y[k * y_stride..][..rows];
                    match (y.as_chunks_mut::<ROWS>().0, part.as_chunks::<ROWS>().0) {
                        ([y], [part]) => *y = *part,
                        _ => y.iter_mut().zip(part).for_each(|(y, x)| *y = *x),
                    }
                }
            }
        }
    }
}

features! { Avx512 enabled
    /// Transposes 64 rows.
    #[inline]
    fn bytes<T: Pod>(mut square: Square<'_, T>) {
        // Byte `k` of each of four elements, then of each of four such groups.
        let within = _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let across = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let (within, [rows, columns]) = (_mm512_broadcast_i32x4(within), square.size);
        if rows <= ROWS {
            let [group] = groups::<1, T>(&square, within, across);
            return square.set_parts(group);
        }
        if rows <= 2 * ROWS {
            let [first, second] = groups::<2, T>(&square, within, across);
            let none = _mm512_setzero_ps();
            for j in 0..columns.div_ceil(4) {
                let four = quarters([first[j], second[j], none, none]);
                for k in 0..4 {
                    square.set_column(4 * j + k, four[k]);
                }
            }
            return;
        }
        let groups = groups::<4, T>(&square, within, across);
        for j in 0..columns.div_ceil(4) {
            let four = quarters([groups[0][j], groups[1][j], groups[2][j], groups[3][j]]);
            for k in 0..4 {
                square.set_column(4 * j + k, four[k]);
            }
        }
    }
}

features! { Avx512 enabled
    /// Transposes 32 rows.
    #[inline]
    fn halves<T: Pod>(mut square: Square<'_, T>) {
        // The lower half of each of four elements, then of each of four such groups.
        let within = _mm_set_epi8(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0);
        let across = _mm512_set_epi32(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0);
        let (within, [rows, columns]) = (_mm512_broadcast_i32x4(within), square.size);
        if rows <= ROWS {
            let [group] = groups::<1, T>(&square, within, across);
            return square.set_parts(group);
        }
        let groups = groups::<2, T>(&square, within, across);
        for j in 0..columns.div_ceil(2) {
            let (a, b) = (groups[0][j], groups[1][j]);
            square.set_column(2 * j, _mm512_shuffle_f32x4::<0b0100_0100>(a, b));
            square.set_column(2 * j + 1, _mm512_shuffle_f32x4::<0b1110_1110>(a, b));
        }
    }
}

features! { Avx512 enabled
    /// Transposes sixteen rows at a time to sixteen columns of 32 bits, and separates each by shuffling bytes within 128
    /// bits and then elements.
    #[inline]
    fn groups<const N: usize, T: Pod>(
        square: &Square<'_, T>,
        within: __m512i,
        across: __m512i,
    ) -> [[__m512; 16]; N] {
        let mut groups = [[_mm512_setzero_ps(); 16]; N];
        for g in 0..N {
            if ROWS * g < square.size[0] {
                let mut rows = [_mm512_setzero_ps(); 16];
                for i in 0..ROWS {
                    rows[i] = square.row(ROWS * g + i);
                }
                let columns = transpose16(rows);
                for j in 0..16 {
                    let column = _mm512_shuffle_epi8(_mm512_castps_si512(columns[j]), within);
                    groups[g][j] = _mm512_castsi512_ps(_mm512_permutexvar_epi32(across, column));
                }
            }
        }
        groups
    }
}

features! { Avx512 enabled
    /// Transposes 8 rows.
    #[inline]
    fn doubles<T: Pod>(mut square: Square<'_, T>) {
        let mut even = [_mm512_setzero_ps(); 4];
        let mut odd = even;
        for i in 0..4 {
            let a = _mm512_castps_pd(square.row(2 * i));
            let b = _mm512_castps_pd(square.row(2 * i + 1));
            even[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            odd[i] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
        let (even, odd) = (quarters(even), quarters(odd));
        for q in 0..4 {
            square.set_column(2 * q, even[q]);
            square.set_column(2 * q + 1, odd[q]);
        }
    }
}
