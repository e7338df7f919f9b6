//! The product by its definition, in f32.

use super::{B_STEP, Lhs, Line, Rhs, SIDE, Sums, Variant};

pub(super) const VARIANT: Variant = Variant { name: "generic" };

pub(super) fn multiply(a: Lhs<'_>, steps: &[u32], b: Rhs<'_>, sums: &mut [Sums]) {
    for (n, sums) in sums.iter_mut().enumerate() {
        sums.fill([0.0; 16]);
        for (&step, b) in steps.iter().zip(b.lines.as_chunks::<B_STEP>().0) {
            for (i, j) in [(0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)] {
                let a = &a.lines[step as usize + n * SIDE + i * a.part..][..SIDE];
                for (tile, sums) in sums.chunks_exact_mut(SIDE).enumerate() {
                    let b = &b[j * SIDE + tile * 16..][..16];
                    a.iter().zip(sums).for_each(|(a, sums)| add_products(a, b, sums));
                }
            }
        }
    }
}

/// `sums[f] += Σ_k a[k]·b[k][f]`.
fn add_products(a: &Line, b: &[Line], sums: &mut [f32; 16]) {
    for (&a, b) in a.iter().zip(b) {
        for (sum, &b) in sums.iter_mut().zip(b) {
            *sum += low(a) * low(b) + high(a) * high(b);
        }
    }
}

fn low(pair: u32) -> f32 {
    f32::from_bits(pair << 16)
}

fn high(pair: u32) -> f32 {
    f32::from_bits(pair & 0xffff_0000)
}
