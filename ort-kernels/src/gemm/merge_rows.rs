//! Rows of C from the sums of a product on matrix tiles.

use super::Start;
use crate::Isa;
use crate::tiles::{SIDE, Sums};

/// How sums are combined with C: the initial value, and the bounds of results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge<'a> {
    pub(super) start: Start<'a>,
    pub(super) min: f32,
    pub(super) max: f32,
}

/// `c[r][j] = clamp(start + sums[j / 16][r][j % 16])` for rows of at most 32 columns. NaN stays NaN.
pub(super) fn merge_rows(isa: Isa, sums: &Sums, merge: &Merge<'_>, c: &mut [&mut [f32]]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512() {
        return x86::avx512(token, sums, merge, c);
    }
    let _ = isa;
    generic(sums, merge, c);
}

fn generic(sums: &Sums, merge: &Merge<'_>, c: &mut [&mut [f32]]) {
    for (r, row) in c.iter_mut().enumerate() {
        for (j, c) in row.iter_mut().enumerate() {
            let start = match merge.start {
                Start::Zero => 0.0,
                Start::C => *c,
                Start::ByColumn(bias) => bias[j],
                Start::ByRow(bias) => bias[r],
            };
            let sum = start + sums[j / 16 * SIDE + r][j % 16];
            // Neither bound replaces NaN.
            let raised = if sum < merge.min { merge.min } else { sum };
            *c = if raised > merge.max { merge.max } else { raised };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Merge, SIDE, Start, Sums};
    use crate::isa::x86::{load16, store16};
    use std::arch::x86_64::{
        _mm512_add_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps,
    };

    kernel! {
        Avx512 => pub(super) fn avx512(sums: &Sums, merge: &Merge<'_>, c: &mut [&mut [f32]]) {
            let (min, max) = (_mm512_set1_ps(merge.min), _mm512_set1_ps(merge.max));
            for (r, row) in c.iter_mut().enumerate() {
                for (tile, c) in row.chunks_mut(16).enumerate() {
                    let start = match merge.start {
                        Start::Zero => _mm512_setzero_ps(),
                        Start::C => load16(c),
                        Start::ByColumn(bias) => load16(&bias[tile * 16..]),
                        Start::ByRow(bias) => _mm512_set1_ps(bias[r]),
                    };
                    let sum = _mm512_add_ps(start, load16(&sums[tile * SIDE + r]));
                    // Both return their second operand when either is NaN, so NaN passes through.
                    store16(c, _mm512_min_ps(max, _mm512_max_ps(min, sum)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Merge, Start, generic, merge_rows};
    use crate::Isa;

    #[test]
    fn variants_agree_bit_by_bit() {
        let mut sums = [[0.0; 16]; 64];
        sums.as_flattened_mut()
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| *x = i as f32 / 3.0 - 99.0);
        sums[5][3] = f32::NAN;
        let bias: Vec<f32> = (0..40).map(|i| 1.0 / (i + 1) as f32).collect();
        let starts = [Start::Zero, Start::C, Start::ByColumn(&bias), Start::ByRow(&bias)];
        for (isa, start) in Isa::all().flat_map(|isa| starts.map(|start| (isa, start))) {
            for (width, min, max) in [(32, -50.0, 50.0), (21, -1e9, f32::INFINITY), (7, -9.0, 9.0)]
            {
                let with = Merge { start, min, max };
                let rows = || vec![vec![0.75_f32; width]; 19];
                let (mut found, mut expected) = (rows(), rows());
                let mut pieces: Vec<_> = found.iter_mut().map(Vec::as_mut_slice).collect();
                merge_rows(isa, &sums, &with, &mut pieces);
                let mut pieces: Vec<_> = expected.iter_mut().map(Vec::as_mut_slice).collect();
                generic(&sums, &with, &mut pieces);
                let bits = |rows: Vec<Vec<f32>>| {
                    rows.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                assert_eq!(bits(found), bits(expected), "{isa:?} {with:?}");
            }
        }
    }
}
