//! A few rows of A times a B whose columns are contiguous: dot products of the unpacked
//! operands.
//!
//! An element is the sum of [`CHAINS`] chains of multiply-adds; each has the terms whose index has the same
//! remainder. Chains are added pairwise: first those half of them apart, then neighbours,
//! neighbouring pairs, and finally the two halves.

use super::Matrix;
use crate::Isa;
use crate::isa::{GENERIC_FMA, mul_add};

/// Chains per element: a register of AVX-512.
const CHAINS: usize = 16;

/// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for at most four rows of `c`, of equal length;
/// A has column stride 1, B row stride 1. `left` is A and alpha.
pub(super) fn add_dots(
    isa: Isa,
    (a, alpha): (&Matrix<'_>, f32),
    b: &Matrix<'_>,
    c: &mut [&mut [f32]],
) {
    let mut rows = [&[][..]; 4];
    for (i, row) in rows.iter_mut().enumerate().take(c.len()) {
        *row = &a.from(i, 0)[..a.columns];
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx(token) => avx512::all(token.into(), (rows, alpha), b, c),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(token) => avx512::all(token, (rows, alpha), b, c),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(token) => avx2::all(token, (rows, alpha), b, c),
        _ => generic((rows, alpha), b, c),
    }
}

/// Column `j` of B, or the last.
#[inline(always)]
fn column<'a>(b: &Matrix<'a>, j: usize) -> &'a [f32] {
    &b.data[j.min(b.columns - 1) * b.column_stride..][..b.rows]
}

fn generic((rows, alpha): ([&[f32]; 4], f32), b: &Matrix<'_>, c: &mut [&mut [f32]]) {
    for (row, c) in rows.into_iter().zip(c) {
        c.iter_mut().enumerate().for_each(|(j, c)| *c += dot((row, alpha), column(b, j)));
    }
}

/// `Σ_k alpha·row[k]·column[k]`.
fn dot((row, alpha): (&[f32], f32), column: &[f32]) -> f32 {
    let mut chains = [0.0; CHAINS];
    let (rows, row) = row.as_chunks::<CHAINS>();
    let (columns, column) = column.as_chunks::<CHAINS>();
    for (row, column) in rows.iter().zip(columns) {
        for i in 0..CHAINS {
            chains[i] = mul_add::<GENERIC_FMA>(alpha * row[i], column[i], chains[i]);
        }
    }
    for ((sum, a), b) in chains.iter_mut().zip(row).zip(column) {
        *sum = mul_add::<GENERIC_FMA>(alpha * a, *b, *sum);
    }
    let half: [f32; 8] = std::array::from_fn(|i| chains[i] + chains[i + 8]);
    let pairs: [f32; 4] = std::array::from_fn(|i| half[2 * i] + half[2 * i + 1]);
    (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
}

/// `sums[i][r] += alpha·left[r]·right[i]`, for one register of each row and column.
#[cfg(target_arch = "x86_64")]
macro_rules! step {
    ($sums:ident, $alpha:ident, ($left:ident, $right:ident), $w:ident => $at:expr) => {
        for $w in 0..W {
            let mut a = [zero(); R];
            for r in 0..R {
                a[r] = mul($alpha, load(&$left[r][$at..]));
            }
            for i in 0..C {
                let b = load(&$right[i][$at..]);
                for r in 0..R {
                    $sums[i][r][$w] = fmadd(a[r], b, $sums[i][r][$w]);
                }
            }
        }
    };
}

/// The kernels of an instruction set, `ELEMENTS` elements at a time. The invocation must provide `LANES`, the
/// floats per register, `load`, which loads a possibly shorter slice, the instructions `zero`, `splat`, `mul` and
/// `fmadd`, and `halved`, which adds the upper half of the chains to the lower. Written as loops,
/// because closures would not be inlined.
#[cfg(target_arch = "x86_64")]
macro_rules! kernels {
    ($isa:ident) => {
        const W: usize = CHAINS / LANES;

        pub(super) fn all(
            token: $isa,
            (rows, alpha): ([&[f32]; 4], f32),
            b: &Matrix<'_>,
            c: &mut [&mut [f32]],
        ) {
            let [first, second, third, fourth] = rows;
            match c.len() {
                0 => {}
                1 => some::<1, ELEMENTS>(token, &[first], alpha, b, c),
                2 => some::<2, { ELEMENTS / 2 }>(token, &[first, second], alpha, b, c),
                3 => {
                    some::<2, { ELEMENTS / 2 }>(token, &[first, second], alpha, b, &mut c[..2]);
                    some::<1, ELEMENTS>(token, &[third], alpha, b, &mut c[2..]);
                }
                _ => {
                    let rows = [first, second, third, fourth];
                    some::<4, { ELEMENTS / 4 }>(token, &rows, alpha, b, c);
                }
            }
        }

        kernel! {
            /// `R` rows, `C` columns at a time.
            $isa => fn some<const R: usize, const C: usize>(
                rows: &[&[f32]; R],
                alpha: f32,
                b: &Matrix<'_>,
                c: &mut [&mut [f32]],
            ) {
                let (width, alpha) = (c[0].len(), splat(alpha));
                let mut first = 0;
                while first < width {
                    let mut columns = [&[][..]; C];
                    for i in 0..C {
                        columns[i] = column(b, first + i);
                    }
                    let mut sums = [[[zero(); W]; R]; C];
                    let whole = b.rows / CHAINS;
                    for k in 0..whole {
                        let (mut left, mut right) = ([&[0.0; CHAINS]; R], [&[0.0; CHAINS]; C]);
                        for r in 0..R {
                            left[r] = &rows[r].as_chunks::<CHAINS>().0[k];
                        }
                        for i in 0..C {
                            right[i] = &columns[i].as_chunks::<CHAINS>().0[k];
                        }
                        step!(sums, alpha, (left, right), w => w * LANES);
                    }
                    let rest = b.rows - whole * CHAINS;
                    if rest > 0 {
                        let (mut left, mut right) = ([&[][..]; R], [&[][..]; C]);
                        for r in 0..R {
                            left[r] = &rows[r][whole * CHAINS..];
                        }
                        for i in 0..C {
                            right[i] = &columns[i][whole * CHAINS..];
                        }
                        step!(sums, alpha, (left, right), w => rest.min(w * LANES));
                    }
                    let mut halves = [[zero_half(); R]; C];
                    for i in 0..C {
                        for r in 0..R {
                            halves[i][r] = halved(sums[i][r]);
                        }
                    }
                    let mut found = [[0.0; R]; C];
                    let to = found.as_flattened_mut().as_chunks_mut::<4>().0;
                    for (to, four) in to.iter_mut().zip(halves.as_flattened().as_chunks::<4>().0) {
                        *to = sums_of(*four);
                    }
                    for i in 0..C.min(width - first) {
                        for r in 0..R {
                            c[r][first + i] += found[i][r];
                        }
                    }
                    first += C;
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::avx2::sums_of;
    use super::{CHAINS, Matrix, column};
    use crate::Avx512;
    use crate::isa::x86::load16 as load;
    use std::arch::x86_64::{
        __m256, __m512, _mm256_add_ps, _mm256_setzero_ps as zero_half, _mm512_castps512_ps256,
        _mm512_extractf32x8_ps, _mm512_fmadd_ps as fmadd, _mm512_mul_ps as mul,
        _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
    };

    const LANES: usize = 16;
    const ELEMENTS: usize = 8;

    features! { Avx512 enabled
        #[inline]
        fn halved([sum]: [__m512; 1]) -> __m256 {
            _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum))
        }
    }

    kernels! { Avx512 }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{CHAINS, Matrix, column};
    use crate::Avx2;
    use crate::isa::x86::load8 as load;
    use std::arch::x86_64::{
        __m256, _mm_add_ps, _mm_cvtss_f32, _mm_permute_ps, _mm256_add_ps, _mm256_castps256_ps128,
        _mm256_extractf128_ps, _mm256_fmadd_ps as fmadd, _mm256_hadd_ps, _mm256_mul_ps as mul,
        _mm256_set1_ps as splat, _mm256_setzero_ps as zero, _mm256_setzero_ps as zero_half,
    };

    const LANES: usize = 8;
    const ELEMENTS: usize = 4;

    features! { Avx2 enabled
        #[inline]
        fn halved([low, high]: [__m256; 2]) -> __m256 {
            _mm256_add_ps(low, high)
        }
    }

    features! { Avx2 enabled
        /// The sum of the lanes of each register.
        #[inline]
        pub(super) fn sums_of([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
            let pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let (low, high) = (_mm256_castps256_ps128(pairs), _mm256_extractf128_ps::<1>(pairs));
            let sums = _mm_add_ps(low, high);
            [
                _mm_cvtss_f32(sums),
                _mm_cvtss_f32(_mm_permute_ps::<1>(sums)),
                _mm_cvtss_f32(_mm_permute_ps::<2>(sums)),
                _mm_cvtss_f32(_mm_permute_ps::<3>(sums)),
            ]
        }
    }

    kernels! { Avx2 }
}

#[cfg(test)]
mod tests {
    use super::{CHAINS, Matrix};
    use crate::gemm::tests::{numbers, run_in_four};
    use crate::gemm::{Gemm, Lhs, Start};
    use crate::{Activation, Isa};

    /// For one to four rows, the sums are close to those of f64, and bits do not depend on how
    /// columns are split.
    #[test]
    fn dot_products_are_close_and_do_not_depend_on_regions() {
        for isa in Isa::all() {
            for m in 1..=4 {
                for [n, k] in [[1, 5], [7, 16], [33, 0], [40, 131], [5, 4099]] {
                    check(isa, [m, n, k]);
                }
            }
        }
    }

    fn check(isa: Isa, [m, n, k]: [usize; 3]) {
        let (a_data, b_data, bias) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 3));
        let a = Lhs::Strided { a: Matrix::row_major(&a_data, m, k), alpha: 0.75 };
        let b = Matrix::row_major(&b_data, n, k).transposed();
        let (start, activation) = (Start::ByColumn(&bias), Activation::None);
        let gemm = Gemm { isa, m, n, k, a, b, start, activation };
        let [mut whole, mut parts] = [(); 2].map(|()| vec![f32::NAN; m * n]);
        run_in_four(&gemm, m, n, &mut whole);
        run_in_four(&gemm, m / 2, n / 2, &mut parts);
        assert_eq!(whole, parts, "{isa:?} {m}x{n}x{k}");
        for (index, found) in whole.iter().enumerate() {
            let (i, j) = (index / n, index % n);
            let terms = || a_data[i * k..][..k].iter().zip(&b_data[j * k..][..k]);
            let products = || terms().map(|(&a, &b)| 0.75 * f64::from(a) * f64::from(b));
            let expected = f64::from(bias[j]) + products().sum::<f64>();
            let size = f64::from(bias[j]).abs() + products().map(f64::abs).sum::<f64>();
            // A chain of ⌈k / 16⌉ + 16 roundings, each of half a unit of at most the sum of magnitudes.
            let bound = (k / CHAINS + 2 * CHAINS) as f64 * f64::from(f32::EPSILON) / 2.0 * size;
            assert!((f64::from(*found) - expected).abs() <= bound, "{isa:?} {m}x{n}x{k}");
        }
    }
}
