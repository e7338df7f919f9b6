//! Squares of 16 bytes by as many rows: 16 rows of bytes, 8 of 16 bits, 2 of 64 bits. A register has rows of two squares.
//!
//! Interleaving the first half of the rows with the second moves the highest bit of an element's row behind its
//! column: after as many steps as the row has bits, rows and columns have changed places.

#![expect(clippy::needless_range_loop, reason = "constant indexes keep arrays in registers")]

use std::arch::x86_64::{
    __m128i, __m256i, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_setzero_si256,
    _mm256_unpackhi_epi8, _mm256_unpackhi_epi16, _mm256_unpackhi_epi64, _mm256_unpacklo_epi8,
    _mm256_unpacklo_epi16, _mm256_unpacklo_epi64,
};

use bytemuck::{Pod, bytes_of, cast_slice, cast_slice_mut};

use super::{each_corner, group};
use crate::isa::x86::load_up_to32;

/// The fewest rows and columns of elements of type `T` that [`squares`] transposes.
pub(super) const fn least<T>() -> [usize; 2] {
    [16 / size_of::<T>(), 32 / size_of::<T>()]
}

kernel! {
    /// [`transpose`](super::transpose), for elements of 1, 2 or 8 bytes, if there are at least [`least`].
    Avx2 => pub(super) fn squares[T: Pod](size: [usize; 2], x: (&[T], usize), y: (&mut [T], usize)) {
        match size_of::<T>() {
            1 => tiles::<16, T>(size, x, y),
            2 => tiles::<8, T>(size, x, y),
            _ => tiles::<2, T>(size, x, y),
        }
    }
}

features! { Avx2 enabled
    /// Two squares of `N` rows and columns at a time.
    #[inline]
    fn tiles<const N: usize, T: Pod>(
        [rows, columns]: [usize; 2],
        (x, x_stride): (&[T], usize),
        (y, y_stride): (&mut [T], usize),
    ) {
        each_corner([N, 2 * N], [rows, columns], group::<T>(y_stride), |i, j| {
            let x = (&x[i * x_stride + j..], x_stride);
            tile::<N, T>(x, (&mut y[j * y_stride + i..], y_stride));
        });
    }
}

features! { Avx2 enabled
    #[inline]
    fn tile<const N: usize, T: Pod>(
        (x, x_stride): (&[T], usize),
        (y, y_stride): (&mut [T], usize),
    ) {
        let mut rows = [_mm256_setzero_si256(); N];
        for i in 0..N {
            rows[i] = load_up_to32(cast_slice(&x[i * x_stride..][..2 * N]));
        }
        for _ in 0..N.ilog2() {
            let before = rows;
            for i in 0..N / 2 {
                [rows[2 * i], rows[2 * i + 1]] = interleaved::<N>(before[i], before[i + N / 2]);
            }
        }
        let mut set = |j: usize, column: __m128i| {
            let y = &mut y[j * y_stride..][..N];
            cast_slice_mut(y).copy_from_slice(bytes_of(&column));
        };
        for j in 0..N {
            set(j, _mm256_castsi256_si128(rows[j]));
            set(j + N, _mm256_extracti128_si256::<1>(rows[j]));
        }
    }
}

features! { Avx2 enabled
    /// The elements of both, alternately, in each half: first the lower ones.
    #[inline]
    fn interleaved<const N: usize>(a: __m256i, b: __m256i) -> [__m256i; 2] {
        match N {
            16 => [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)],
            8 => [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)],
            _ => [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)],
        }
    }
}
