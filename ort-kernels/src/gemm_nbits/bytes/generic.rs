//! 2 rows by 8 columns, autovectorised.

use super::{Bytes, MAX_NR, Panel, Variant};
use crate::gemm_nbits::{WORD, by_rows};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 2, nr: NR };
const NR: usize = 8;

pub(super) fn tile_of(panel: &Panel<'_>, a: &Bytes<'_>, c: &mut [[f32; MAX_NR]]) {
    by_rows!(panel, c, [1 2] => sums(panel, a, c));
}

fn sums<const R: usize, const BITS: usize, const STEP: usize>(
    panel: &Panel<'_>,
    a: &Bytes<'_>,
    c: &mut [[f32; MAX_NR]],
) {
    let (format, n_blocks) = (panel.format, panel.format.n_blocks());
    let per_block = format.block / STEP;
    let words = panel.quantized.as_chunks::<WORD>().0.as_chunks::<NR>().0;
    let (scales, zeros) = (panel.scales.as_chunks::<NR>().0, panel.zeros.as_chunks::<NR>().0);
    let (mask, middle) = ((1_u32 << BITS) - 1, format.middle() as f32);
    let k = format.padded_k();
    for (r, c) in c[..R].iter_mut().enumerate() {
        let a_words = a.a[r * k..][..k].as_chunks::<STEP>().0;
        let mut y = [0.0; NR];
        for (b, scales) in scales.iter().enumerate() {
            let mut dots = [0_i32; NR];
            for w in b * per_block..(b + 1) * per_block {
                for (i, &a) in a_words[w].iter().enumerate() {
                    let shift = 8 * (i % WORD) + BITS * (i / WORD);
                    let a = i32::from(a);
                    for j in 0..NR {
                        let value = (u32::from_le_bytes(words[w][j]) >> shift) & mask;
                        dots[j] += value.cast_signed() * a;
                    }
                }
            }
            let (scale, sum) = (a.scales[r * n_blocks + b], a.sums[r * n_blocks + b]);
            for j in 0..NR {
                let zero = middle + zeros.get(b).map_or(0.0, |zeros| zeros[j]);
                let dot = mul_add::<GENERIC_FMA>(-zero, sum, dots[j] as f32);
                y[j] = mul_add::<GENERIC_FMA>(dot, scales[j] * scale, y[j]);
            }
        }
        c[..NR].copy_from_slice(&y);
    }
}
