//! As it is written.

use super::{Merge, Variant};

pub(super) const VARIANT: Variant = Variant { name: "generic" };

pub(super) fn merge(sums: &[[f32; 16]], merge: &Merge<'_>, y: &mut [[f32; 16]]) {
    for (sums, y) in sums.iter().zip(y) {
        for (lane, (sum, y)) in sums.iter().zip(y).enumerate() {
            let bias = merge.start.bias.map_or(0.0, |bias| bias[lane]);
            let sum = sum + if merge.start.is_sum { bias + *y } else { bias };
            // Neither bound replaces NaN.
            *y = if sum < merge.min { merge.min } else { sum };
            *y = if *y > merge.max { merge.max } else { *y };
        }
    }
}
