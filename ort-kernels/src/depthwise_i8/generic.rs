//! Lane by lane, autovectorised.

use super::{LANES, Line, QUAD, Variant, Weights};

pub(super) const VARIANT: Variant = Variant { name: "depthwise_i8/generic" };

pub(super) fn add(line: &Line<'_>, sums: &mut [[i32; LANES]]) {
    for (block, sums) in sums.iter_mut().enumerate() {
        let weights = line.block(block).as_chunks::<QUAD>().0;
        for t in 0..line.taps.len() {
            let x = line.tap(t, block * LANES);
            for part in 0..line.parts {
                let quad = t / QUAD * line.parts + part;
                let weight = |lane: usize| match line.weights {
                    Weights::Each(_) => weights[quad * LANES + lane][t % QUAD],
                    Weights::Shared(_) => weights[quad][t % QUAD],
                };
                for (lane, (sum, &x)) in sums.iter_mut().zip(x).enumerate() {
                    let product = i32::from(x ^ line.flip) * i32::from(weight(lane).cast_signed());
                    *sum = sum.wrapping_add(product);
                }
            }
        }
    }
}
