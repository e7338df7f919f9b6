//! 6 rows by 16 columns: 12 accumulators. Bytes are widened to 16 bits, so that no pair of products
//! saturates: the even bytes of each four in one register, the odd ones in another. Those of A are widened before
//! the products, a chunk of `k` at a time.

use super::{QUAD, Rows, Signs, Start, Tile, To, Variant, from_sums};
use crate::isa::x86::{load_bytes32, load_up_to32, load8, store_ints8, store8};
use crate::quantize::requantize::x86::avx2::quantized;
use crate::quantize::{Requantize, Scales};
use crate::{Avx2, Isa};
use std::arch::x86_64::{
    __m256, __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_madd_epi16, _mm256_permutevar8x32_epi32, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_slli_epi16,
    _mm256_srai_epi16, _mm256_srli_epi16,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x16", mr: MR, n_tiles: 1, nr: NR };
const MR: usize = 6;
const NR: usize = 16;
/// Bytes per register.
const BYTES: usize = 32;
/// Words of 32 bits per register.
const LANES: usize = 8;
/// Quads of A that are widened at once.
const CHUNK: usize = 2 * LANES;

pub(super) fn tile(token: Avx2, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    if let To::AnyQuantized(..) = tile.to {
        return from_sums::<MR>(Isa::Avx2(token), tile, |sums| {
            self::tile(token, rows, b, sums);
        });
    }
    by_rows!(rows, tile.n_rows, [1 2 3 4 5 6] => product(token, rows, b, tile));
}

features! { Avx2 enabled
    /// The even bytes as 16-bit integers.
    #[inline]
    fn even<const SIGNED: bool>(bytes: __m256i) -> __m256i {
        match SIGNED {
            true => _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
            false => _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
        }
    }
}

features! { Avx2 enabled
    /// The odd bytes as 16-bit integers.
    #[inline]
    fn odd<const SIGNED: bool>(bytes: __m256i) -> __m256i {
        match SIGNED {
            true => _mm256_srai_epi16::<8>(bytes),
            false => _mm256_srli_epi16::<8>(bytes),
        }
    }
}

/// 32 ones and 32 zeros: the bytes from `32 - n` are a mask of `n` bytes.
static MASKS: [u8; 64] = {
    let mut masks = [0; 64];
    let mut i = 0;
    while i < BYTES {
        masks[i] = u8::MAX;
        i += 1;
    }
    masks
};

features! { Avx2 enabled
    /// Masks of the first `n` bytes of a chunk.
    #[inline]
    fn masks(n: usize) -> [__m256i; 2] {
        [n, n.saturating_sub(BYTES)].map(|n| match MASKS[BYTES - n.min(BYTES)..].first_chunk() {
            Some(mask) => load_bytes32(mask),
            None => _mm256_setzero_si256(),
        })
    }
}

/// Quads of a row, as even and odd bytes.
type Widened = [[i32; CHUNK]; 2];

features! { Avx2 enabled
    /// Widens the bytes of a chunk that `masks` keep; the others become zeros.
    #[inline]
    fn widen<const SIGNED: bool>(x: &[u8], masks: [__m256i; 2], to: &mut Widened) {
        let [to_even, to_odd] = to;
        let registers = to_even.as_chunks_mut().0.iter_mut().zip(to_odd.as_chunks_mut().0);
        for (i, ((to_even, to_odd), mask)) in registers.zip(masks).enumerate() {
            let bytes = load_up_to32(x.get(i * BYTES..).unwrap_or_default());
            let bytes = _mm256_and_si256(bytes, mask);
            store_ints8(to_even, even::<SIGNED>(bytes));
            store_ints8(to_odd, odd::<SIGNED>(bytes));
        }
    }
}

features! { Avx2 enabled
    /// Loads up to 16 columns, followed by zeros.
    #[inline]
    fn load_columns(x: &[f32]) -> [__m256; 2] {
        let (low, high) = x.split_at(x.len().min(LANES));
        [load8(low), load8(high)]
    }
}

features! { Avx2 enabled
    /// Stores the quantized values of a row, up to 16, which are the bytes from `from`.
    #[inline]
    fn store_row(y: &mut [u8], bytes: &[u8; BYTES], from: usize) {
        let bytes = &bytes[from..][..NR];
        match y.as_mut_array::<NR>() {
            Some(y) => y.copy_from_slice(bytes),
            None => y.copy_from_slice(&bytes[..y.len()]),
        }
    }
}

/// 16 sums.
type Row = [__m256i; 2];

features! { Avx2 enabled
    /// The initial values of the sums of `n` columns.
    #[inline]
    fn initial<const R: usize>(start: Start<'_>, n: usize) -> [Row; R] {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        match start {
            Start::Zero => {}
            Start::ByColumn(start) => {
                let [low, high] = load_columns(bytemuck::cast_slice(&start[..n]));
                sums = [[_mm256_castps_si256(low), _mm256_castps_si256(high)]; R];
            }
            Start::ByRow(start) => {
                let start = &start[..R];
                for r in 0..R {
                    sums[r] = [_mm256_set1_epi32(start[r]); 2];
                }
            }
        }
        sums
    }
}

features! { Avx2 enabled
    /// The quantized values of two rows of sums, one after the other.
    #[inline]
    fn quantized_rows(sums: [Row; 2], factors: [[__m256; 2]; 2], requantize: &Requantize<'_>) -> [u8; BYTES] {
        let [[a, b], [c, d]] = sums;
        let [[fa, fb], [fc, fd]] = factors;
        let bytes = quantized([a, b, c, d], [fa, fb, fc, fd], requantize);
        // Each 128 bits hold four of the first 8 columns and four of the others, of either row.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let mut rows = [0; LANES];
        store_ints8(&mut rows, _mm256_permutevar8x32_epi32(bytes, order));
        bytemuck::cast(rows)
    }
}

/// Writes the quantized values of the rows of a tile: a macro, because passing sums to a function would keep them in memory.
macro_rules! write_quantized {
    ($sums:ident of $rows:ident, $tile:ident, $to:ident, $y:ident) => {
        let mut factors = [[_mm256_setzero_ps(); 2]; 2];
        if let Scales::ByColumn(all) = $to.factors {
            factors = [load_columns(&all[..$tile.n]); 2];
        }
        each_row!(r of pairs of $rows => {
            // The last row may be a pair with itself.
            let other = if r + 1 < $rows { r + 1 } else { r };
            if let Scales::ByRow(all) = $to.factors {
                factors = [[_mm256_set1_ps(all[r]); 2], [_mm256_set1_ps(all[other]); 2]];
            }
            let bytes = quantized_rows([$sums[r], $sums[other]], factors, &$to);
            store_row(&mut $y[r * $tile.stride..][..$tile.n], &bytes, 0);
            if other > r {
                store_row(&mut $y[other * $tile.stride..][..$tile.n], &bytes, NR);
            }
        });
    };
}

kernel! {
    /// The results of `R` rows; `b: [k/4][16][4]`.
    Avx2 => fn product<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        tile: Tile<'_>,
    ) {
        let mut sums: [Row; R] = initial(tile.start, tile.n);
        let quads = b.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        for (chunk, b) in quads.chunks(CHUNK).enumerate() {
            let at = chunk * CHUNK * QUAD;
            let masks = masks(rows.k - at);
            let mut a: [Widened; R] = [[[0; CHUNK]; 2]; R];
            for (r, a) in a.iter_mut().enumerate() {
                widen::<SIGNED>(&rows.a[r * rows.stride + at..], masks, a);
            }
            // One half of the bytes after the other, because the widened bytes of both do not fit the registers.
            for half in 0..2 {
                for (q, b) in (0..CHUNK).zip(b) {
                    let mut lanes = [_mm256_setzero_si256(); 2];
                    for w in 0..2 {
                        let bytes = load_bytes32(&b[w]);
                        lanes[w] = match (half, SIGNED) {
                            (0, true) => even::<false>(bytes),
                            (0, false) => even::<true>(bytes),
                            (_, true) => odd::<false>(bytes),
                            (_, false) => odd::<true>(bytes),
                        };
                    }
                    for r in 0..R {
                        let a = _mm256_set1_epi32(a[r][half][q]);
                        for w in 0..2 {
                            let products = _mm256_madd_epi16(a, lanes[w]);
                            sums[r][w] = _mm256_add_epi32(sums[r][w], products);
                        }
                    }
                }
            }
        }
        match tile.to {
            To::Sums(c) => {
                each_row!(r of R => {
                    let c = bytemuck::cast_slice_mut(&mut c[r * tile.stride..][..tile.n]);
                    let (low, high) = c.split_at_mut(c.len().min(LANES));
                    store8(low, _mm256_castsi256_ps(sums[r][0]));
                    store8(high, _mm256_castsi256_ps(sums[r][1]));
                });
            }
            To::Quantized(to, y) | To::AnyQuantized(to, y) => {
                write_quantized!(sums of R, tile, to, y);
            }
        }
    }
}
