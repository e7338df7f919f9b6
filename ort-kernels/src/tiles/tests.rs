//! Tests of `tiles`.

use super::{B_STEP, Lhs, Line, Rhs, SIDE, multiply, split};
use crate::Isa;

/// Seeded numbers of many magnitudes.
fn numbers(count: usize, seed: u32) -> Vec<[f32; 16]> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let exponent = f32::powi(2.0, (state % 13) as i32 - 6);
        ((state >> 8) as f32 / 8_388_608.0 - 1.0) * exponent
    };
    (0..count).map(|_| std::array::from_fn(|_| next())).collect()
}

fn half(pair: u32, is_high: bool) -> f32 {
    f32::from_bits(if is_high { pair & 0xffff_0000 } else { pair << 16 })
}

#[test]
fn a_number_is_the_sum_of_its_parts() {
    for isa in Isa::all() {
        let (low, high) = (numbers(40, 1), numbers(40, 2));
        let mut parts = [const { [[0; 16]; 40] }; 3];
        let [first, second, third] = &mut parts;
        split(isa, &low, &high, [first, second, third]);
        for i in 0..40 * 16 {
            for (is_high, x) in [(false, &low), (true, &high)] {
                let x = x.as_flattened()[i];
                let part = |part: usize| half(parts[part].as_flattened()[i], is_high);
                assert_eq!(part(0) + (part(1) + part(2)), x, "{isa:?}");
                assert!(part(1).abs() <= part(0).abs() / 256.0, "{isa:?} {x}");
                assert!(part(2).abs() <= part(1).abs() / 256.0, "{isa:?} {x}");
            }
        }
    }
}

/// Called by the ladder for each variant: compares every product with f64.
pub(super) fn agrees_with_generic(isa: Isa) {
    for n_steps in [0, 1, 2, 5, 18] {
        // Positions of a step overlap those of the step before, like those of adjacent taps.
        let n_lines = 7 * n_steps + 3 * SIDE;
        let (low, high) = (numbers(n_lines, 3), numbers(n_lines, 4));
        let mut a = vec![[0; 16]; 3 * n_lines];
        let (first, rest) = a.split_at_mut(n_lines);
        let (second, third) = rest.split_at_mut(n_lines);
        split(isa, &low, &high, [first, second, third]);
        let (w_low, w_high) = (numbers(SIDE * n_steps, 5), numbers(SIDE * n_steps, 6));
        let mut b: Vec<Line> = vec![[0; 16]; B_STEP * n_steps];
        for (step, b) in b.chunks_exact_mut(B_STEP).enumerate() {
            let (first, rest) = b.split_at_mut(SIDE);
            let (second, third) = rest.split_at_mut(SIDE);
            let rows = step * SIDE..(step + 1) * SIDE;
            split(isa, &w_low[rows.clone()], &w_high[rows], [first, second, third]);
        }
        let steps: Vec<u32> = (0..).step_by(7).take(n_steps).collect();
        for isa in [isa, Isa::Generic] {
            let mut sums = [[[f32::NAN; 16]; 64]; 3];
            multiply(
                isa,
                Lhs { lines: &a, part: n_lines },
                &steps,
                Rhs { lines: &b, later: &[] },
                &mut sums,
            );
            for (f, p) in (0..SIDE).flat_map(|f| (0..3 * SIDE).map(move |p| (f, p))) {
                let terms =
                    (0..n_steps).flat_map(|s| (0..16).map(move |k| (s, k))).map(|(s, k)| {
                        let (line, row) = (7 * s + p, s * SIDE + f / 16 * 16 + k);
                        let product = |x: &[[f32; 16]], w: &[[f32; 16]]| {
                            f64::from(x[line][k]) * f64::from(w[row][f % 16])
                        };
                        (product(&low, &w_low), product(&high, &w_high))
                    });
                let exact: f64 = terms.clone().map(|(x, y)| x + y).sum();
                let magnitude: f64 = terms.map(|(x, y)| x.abs() + y.abs()).sum();
                let bound =
                    (6 * 32 * n_steps + 2) as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude;
                let found = f64::from(sums[p / SIDE][f / 16 * SIDE + p % SIDE][f % 16]);
                assert!((found - exact).abs() <= bound, "{isa:?} {n_steps}: {found}, not {exact}");
            }
        }
    }
}

#[test]
fn generic_is_the_product() {
    agrees_with_generic(Isa::Generic);
}
