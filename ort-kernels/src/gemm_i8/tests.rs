//! Tests of `gemm_i8`.

use super::{Bytes, Gemm, Variant, Zeros, column_sums, pack_b, packed_b_len, row_sum};
use crate::Isa;
use proptest::prelude::*;

/// Seeded bytes, extreme ones among them.
fn bytes(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        match state >> 28 {
            0 => 255,
            1 => 128,
            2 => 127,
            _ => state.to_le_bytes()[1],
        }
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The contract, literally.
fn product(a: &[u8], b: &[u8], start: &[i32], [m, n, k]: [usize; 3]) -> Vec<i32> {
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let term = |p: usize| i32::from(a[i * k + p]) * i32::from(b[p * n + j].cast_signed());
            c.push((0..k).fold(start[j], |sum, p| sum.wrapping_add(term(p))));
        }
    }
    c
}

fn packed(isa: Isa, b: &Bytes<'_>, flip: u8) -> Vec<i8> {
    let mut packed = vec![99; packed_b_len(isa, b.k, b.n)];
    pack_b(isa, b, flip, &mut packed);
    packed
}

/// Called by the ladder for each variant: every edge size, exactly.
pub(super) fn agrees_with_generic(isa: Isa) {
    let Variant { mr, nr, .. } = super::best(isa);
    for m in 1..=2 * mr + 1 {
        for n in [1, nr - 1, nr, nr + 1, 2 * nr] {
            for k in [0, 1, 3, 4, 7, 64, 257] {
                let (a, b) = (bytes(m * k, 1), bytes(k * n, 2));
                let start: Vec<_> = bytes(n, 3).into_iter().map(i32::from).collect();
                let expected = product(&a, &b, &start, [m, n, k]);
                let b = packed(isa, &Bytes { data: &b, k, n, strides: [n, 1] }, 0);
                let gemm = Gemm { isa, n, k, a: &a, a_stride: k, b: &b, start: &start };
                let mut c = vec![-1; m * n];
                gemm.run(0..m, 0..n, &mut c);
                assert_eq!(c, expected, "{isa:?} {m}x{n}x{k}");
            }
        }
    }
}

#[test]
fn generic_is_the_product() {
    agrees_with_generic(Isa::Generic);
}

#[test]
fn extreme_bytes_do_not_saturate() {
    for isa in Isa::all() {
        for (a, b) in [(255, 0x80), (255, 127), (128, 0x80)] {
            let (a, b, k) = (vec![a; 4096], vec![b; 4096], 4096);
            let expected = product(&a, &b, &[0], [1, 1, k]);
            let b = packed(isa, &Bytes { data: &b, k, n: 1, strides: [1, 1] }, 0);
            let gemm = Gemm { isa, n: 1, k, a: &a, a_stride: k, b: &b, start: &[0] };
            let mut c = [0];
            gemm.run(0..1, 0..1, &mut c);
            assert_eq!(c[..], expected, "{isa:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn regions_and_zero_points_give_the_centered_product(
        (m, n, k) in (1usize..40, 1usize..100, 0usize..300),
        (a_zero, b_zero) in any::<(u8, u8)>(),
        (row_cut, panel_cut) in (0usize..16, 0usize..4),
    ) {
        // B is unsigned and transposed: flipped when packed, as its zero point is.
        let (a, b) = (bytes(m * k, 1), bytes(k * n, 2));
        let view = Bytes { data: &b, k, n, strides: [1, k] };
        let zeros = Zeros { a: i32::from(a_zero), b: i32::from(b_zero) - 128 };
        let mut sums = vec![0; n];
        column_sums(&view, 0x80, &mut sums);
        let start: Vec<_> = sums.iter().map(|&sum| zeros.by_column(k, sum)).collect();
        for isa in Isa::all() {
            let packed = packed(isa, &view, 0x80);
            let gemm = Gemm { isa, n, k, a: &a, a_stride: k, b: &packed, start: &start };
            let column = (panel_cut * super::best(isa).nr).min(n / super::best(isa).nr * super::best(isa).nr);
            for rows in [0..row_cut.min(m), row_cut.min(m)..m] {
                for columns in [0..column, column..n] {
                    let mut c = vec![0; rows.len() * columns.len()];
                    gemm.run(rows.clone(), columns.clone(), &mut c);
                    for (at, &found) in c.iter().enumerate() {
                        let i = rows.start + at / columns.len();
                        let j = columns.start + at % columns.len();
                        let term = |p: usize| {
                            let a = i32::from(a[i * k + p]) - i32::from(a_zero);
                            a * (i32::from(b[j * k + p]) - i32::from(b_zero))
                        };
                        let found = found.wrapping_add(zeros.by_element(row_sum(&a[i * k..][..k])));
                        prop_assert_eq!(found, (0..k).map(term).sum::<i32>());
                    }
                }
            }
        }
    }
}
