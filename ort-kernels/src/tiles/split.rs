//! Splitting of f32 into sums of three bfloat16.

use super::Line;
use crate::Isa;

/// The nearest number with the eight leading significand bits of a bfloat16; ties round away from zero.
#[inline(always)]
fn rounded(x: f32) -> f32 {
    f32::from_bits(x.to_bits().wrapping_add(0x8000) & 0xffff_0000)
}

/// The parts of `x`, which is their sum.
#[inline(always)]
fn parts(x: f32) -> [u32; 3] {
    let first = rounded(x);
    let rest = x - first;
    let second = rounded(rest);
    [first.to_bits(), second.to_bits(), (rest - second).to_bits()]
}

/// Splits the pairs of `low[i]` and `high[i]` into line `i` of each of three parts; `high` is
/// empty if it is zero.
pub(crate) fn split_run(isa: Isa, low: &[[f32; 16]], high: &[[f32; 16]], to: [&mut [Line]; 3]) {
    if high.is_empty() {
        split_low(isa, low, to);
    } else {
        split(isa, low, high, to);
    }
}

/// The lines of two vectors.
#[inline(always)]
fn lines(low: &[f32; 16], high: &[f32; 16]) -> [Line; 3] {
    let mut lines = [[0; 16]; 3];
    for lane in 0..16 {
        let (low, high) = (parts(low[lane]), parts(high[lane]));
        for part in 0..3 {
            lines[part][lane] = low[part] >> 16 | high[part];
        }
    }
    lines
}

per_isa! {
    /// Splits a row of A, times `alpha`: 32 terms per line, parts and lines at distances `apart`.
    /// Zeros follow its end.
    pub(crate) fn split_row<_FMA>(
        row: &[f32],
        alpha: f32,
        to: &mut [Line],
        apart: [usize; 2],
    ) {
        let [part, pitch] = apart;
        for (step, terms) in row.chunks(32).enumerate() {
            let mut padded = [[0.0; 16]; 2];
            for (to, x) in padded.as_flattened_mut().iter_mut().zip(terms) {
                *to = alpha * x;
            }
            let [low, high] = &padded;
            for (i, line) in lines(low, high).into_iter().enumerate() {
                to[step * pitch + i * part] = line;
            }
        }
    }

    /// Splits a panel of B, rows of two vectors, to the layout of [`Rhs`](super::Rhs). Zeros follow its last
    /// row.
    pub(crate) fn split_panel<_FMA>(rows: &[[[f32; 16]; 2]], to: &mut [Line]) {
        for (rows, to) in rows.chunks(32).zip(to.as_chunks_mut::<{ super::B_STEP }>().0) {
            let zero = [[0.0; 16]; 2];
            for j in 0..16 {
                let low = rows.get(j).unwrap_or(&zero);
                let high = rows.get(16 + j).unwrap_or(&zero);
                for tile in 0..2 {
                    for (i, line) in lines(&low[tile], &high[tile]).into_iter().enumerate() {
                        to[i * 32 + tile * 16 + j] = line;
                    }
                }
            }
        }
    }

    /// Splits pairs of `low[i][lane]` and `high[i][lane]` into line `i` of each of three parts, up to the
    /// shortest.
    pub(crate) fn split<_FMA>(
        low: &[[f32; 16]],
        high: &[[f32; 16]],
        to: [&mut [Line]; 3],
    ) {
        let [first, second, third] = to;
        let lines = first.iter_mut().zip(second).zip(third);
        for ((low, high), ((first, second), third)) in low.iter().zip(high).zip(lines) {
            for lane in 0..16 {
                let (low, high) = (parts(low[lane]), parts(high[lane]));
                first[lane] = low[0] >> 16 | high[0];
                second[lane] = low[1] >> 16 | high[1];
                third[lane] = low[2] >> 16 | high[2];
            }
        }
    }

    /// [`split`] for a `high` of zeros.
    fn split_low<_FMA>(
        low: &[[f32; 16]],
        to: [&mut [Line]; 3],
    ) {
        let [first, second, third] = to;
        let lines = first.iter_mut().zip(second).zip(third);
        for (low, ((first, second), third)) in low.iter().zip(lines) {
            for lane in 0..16 {
                let low = parts(low[lane]);
                first[lane] = low[0] >> 16;
                second[lane] = low[1] >> 16;
                third[lane] = low[2] >> 16;
            }
        }
    }

    /// Whether there is no infinity or NaN.
    pub(crate) fn all_finite<_FMA>(x: &[[f32; 16]]) -> bool {
        let bits = x.as_flattened().iter().map(|x| x.to_bits() & 0x7fff_ffff);
        bits.fold(0, u32::max) < f32::INFINITY.to_bits()
    }
}
