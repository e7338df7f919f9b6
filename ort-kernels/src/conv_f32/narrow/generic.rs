//! Panels of 4 filters, one after the other.

use super::{MAX_POSITIONS, Panel, Sums, Variant};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 4 };

pub(super) fn tile(panels: &[Panel<'_>], x: &[[f32; MAX_POSITIONS]], n: usize, sums: &mut Sums) {
    for (p, panel) in panels.iter().enumerate() {
        for (w, x) in panel.w.chunks_exact(panel.filters).zip(x) {
            for (sums, &x) in sums[p * n..][..n].iter_mut().zip(x) {
                for (sum, &w) in sums.iter_mut().zip(w) {
                    *sum = mul_add::<GENERIC_FMA>(x, w, *sum);
                }
            }
        }
    }
}
