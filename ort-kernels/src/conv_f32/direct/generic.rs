//! 4 rows by 8 columns, autovectorised.

use super::{Merge, Taps, Variant};
use crate::isa::{GENERIC_FMA, mul_add};
use crate::vec::clamp;

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 4, nr: NR };
const NR: usize = 8;

pub(super) fn tile(w: &[f32], x: &Taps<'_>, c: &mut [&mut [f32]], merge: &Merge<'_>) {
    for at in (0..c[0].len()).step_by(NR) {
        let merge = &Merge { at, ..*merge };
        match c.len() {
            1 => rows::<1>(w, x, c, merge),
            2 => rows::<2>(w, x, c, merge),
            3 => rows::<3>(w, x, c, merge),
            _ => rows::<4>(w, x, c, merge),
        }
    }
}

fn rows<const R: usize>(w: &[f32], x: &Taps<'_>, c: &mut [&mut [f32]], merge: &Merge<'_>) {
    let at = merge.at;
    let width = NR.min(c[0].len() - at);
    let mut sums = [[0.0; NR]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        match merge.bias {
            _ if merge.is_sum => sums[..width].copy_from_slice(&c[r][at..at + width]),
            bias => sums.fill(bias.map_or(0.0, |bias| bias[r])),
        }
    }
    let mut weights = w.as_chunks::<R>().0.iter();
    for channel in 0..x.channels {
        for row in 0..x.rows {
            let line = &x.band[channel * x.channel_len + row * x.row_len + at..];
            for (&column, w) in x.columns.iter().zip(&mut weights) {
                let from = &line[column..];
                let lanes = match from.first_chunk::<NR>() {
                    Some(lanes) => *lanes,
                    None => std::array::from_fn(|j| from.get(j).copied().unwrap_or(0.0)),
                };
                for r in 0..R {
                    for j in 0..NR {
                        sums[r][j] = mul_add::<GENERIC_FMA>(w[r], lanes[j], sums[r][j]);
                    }
                }
            }
        }
    }
    for (c, sums) in c.iter_mut().zip(&sums) {
        for (c, &sum) in c[at..].iter_mut().zip(sums) {
            *c = clamp(sum, merge.min, merge.max);
        }
    }
}
