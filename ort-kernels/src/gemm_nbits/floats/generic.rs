//! 2 rows by 8 columns, autovectorised.

use super::{Floats, MAX_NR, Panel, Variant};
use crate::gemm_nbits::{WORD, by_rows};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 2, nr: NR };
const NR: usize = 8;

pub(super) fn tile_of(panel: &Panel<'_>, a: &Floats<'_>, c: &mut [[f32; MAX_NR]]) {
    by_rows!(panel, c, [1 2] => sums(panel, a, c));
}

fn sums<const R: usize, const BITS: usize, const STEP: usize>(
    panel: &Panel<'_>,
    a: &Floats<'_>,
    c: &mut [[f32; MAX_NR]],
) {
    body::<R, BITS, STEP, NR, GENERIC_FMA>(panel, a, c);
}

/// `R` rows of panels of `NR` columns.
#[inline(always)]
pub(super) fn body<
    const R: usize,
    const BITS: usize,
    const STEP: usize,
    const NR: usize,
    const FMA: bool,
>(
    panel: &Panel<'_>,
    a: &Floats<'_>,
    c: &mut [[f32; MAX_NR]],
) {
    let (format, n_blocks) = (panel.format, panel.format.n_blocks());
    let per_block = format.block / STEP;
    let words = panel.quantized.as_chunks::<WORD>().0.as_chunks::<NR>().0;
    let (scales, zeros) = (panel.scales.as_chunks::<NR>().0, panel.zeros.as_chunks::<NR>().0);
    let (mask, middle) = ((1_u32 << BITS) - 1, format.middle() as f32);
    let rows: [_; R] =
        std::array::from_fn(|r| a.a[r * a.stride..][..format.padded_k()].as_chunks::<STEP>().0);
    let mut y = [[0.0; NR]; R];
    for (b, scales) in scales.iter().enumerate() {
        let mut dots = [[[0.0; NR]; 2]; R];
        for w in b * per_block..(b + 1) * per_block {
            let word = words[w].map(u32::from_le_bytes);
            for i in 0..STEP {
                let shift = 8 * (i % WORD) + BITS * (i / WORD);
                let value = word.map(|word| (word >> shift) & mask);
                let value = match panel.table {
                    None => value.map(|value| value.cast_signed() as f32 - middle),
                    Some(table) => value.map(|value| table[value as usize % table.len()]),
                };
                for r in 0..R {
                    let (a, dots) = (rows[r][w][i], &mut dots[r][i % 2]);
                    (0..NR).for_each(|j| dots[j] = mul_add::<FMA>(a, value[j], dots[j]));
                }
            }
        }
        for r in 0..R {
            for j in 0..NR {
                let mut dot = dots[r][0][j] + dots[r][1][j];
                if let Some(zeros) = zeros.get(b) {
                    dot = mul_add::<FMA>(-zeros[j], a.sums[r * n_blocks + b], dot);
                }
                y[r][j] = mul_add::<FMA>(dot, scales[j], y[r][j]);
            }
        }
    }
    c.iter_mut().zip(&y).for_each(|(c, y)| c[..NR].copy_from_slice(y));
}
