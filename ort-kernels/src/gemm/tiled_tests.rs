//! Compares products on tiles with the chain of multiply-adds.

use super::tests::{chain, numbers, run_in_four};
use super::{Gemm, Lhs, Matrix, PackedB, Panels, Start, pack_b, packed_b_len};
use crate::{Activation, Isa};

/// Sizes that cover every path: one tile and parts of it, several products, blocks of rows, slices
/// of `k`, no whole step.
const SIZES: [[usize; 3]; 10] = [
    [96, 128, 96],
    [128, 160, 126],
    [127, 93, 224],
    [95, 125, 160],
    [128, 96, 384],
    [128, 93, 600],
    [350, 96, 160],
    [640, 90, 96],
    [256, 96, 128],
    [96, 125, 1100],
];

/// The instruction set with tiles, if this machine has it; otherwise prints that the test is skipped.
fn isa() -> Option<Isa> {
    let isa = Isa::by_name("amx");
    if isa.is_none() {
        println!("skipped: this machine has no tiles");
    }
    isa
}

/// The result of the whole product and of regions, which must agree.
fn found<B: Panels>(gemm: &Gemm<'_, B>, old: &[f32]) -> Vec<f32> {
    assert!(gemm.is_tiled(), "{} x {} x {}", gemm.m, gemm.n, gemm.k);
    let [mut whole, mut cut] = [old.to_vec(), old.to_vec()];
    run_in_four(gemm, gemm.m, gemm.n, &mut whole);
    run_in_four(gemm, gemm.m / 3, gemm.n / 64 * 32, &mut cut);
    let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&whole), bits(&cut), "{} x {} x {}", gemm.m, gemm.n, gemm.k);
    // So few rows that without tiles they would use a different algorithm.
    let mut few = old.to_vec();
    run_in_four(gemm, 2, 0, &mut few);
    assert_eq!(bits(&whole), bits(&few), "{} x {} x {}", gemm.m, gemm.n, gemm.k);
    whole
}

#[test]
fn errors_are_within_the_bound_and_regions_do_not_change_a_bit() {
    let Some(isa) = isa() else { return };
    for (i, [m, n, k]) in SIZES.into_iter().enumerate() {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let absolute = |x: &[f32]| x.iter().map(|x| x.abs()).collect::<Vec<_>>();
        let (a_abs, b_abs) = (absolute(&a), absolute(&b));
        let magnitudes = chain(
            isa,
            &Matrix::row_major(&a_abs, m, k),
            &Matrix::row_major(&b_abs, k, n),
            |_, _| 0.0,
        );
        let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
        let mut packed = vec![f32::NAN; packed_b_len(isa, k, n)];
        pack_b(isa, &b, &mut packed);
        let bias = numbers(m.max(n), 3);
        let old = numbers(m * n, 4);
        let start = [Start::Zero, Start::C, Start::ByColumn(&bias), Start::ByRow(&bias)][i % 4];
        let (alpha, activation) = (if i % 2 == 0 { 1.0 } else { -0.75 }, Activation::None);
        let lhs = Lhs::Strided { a, alpha };
        let strided = Gemm { isa, m, n, k, a: lhs, b, start, activation };
        let found_strided = found(&strided, &old);
        let rhs = PackedB { data: &packed, k };
        let found = found(&Gemm { isa, m, n, k, a: lhs, b: rhs, start, activation }, &old);
        assert_eq!(found, found_strided, "packed, {m} x {n} x {k}");
        let products = chain(isa, &a, &b, |_, _| 0.0);
        for (at, (found, product)) in found.into_iter().zip(products).enumerate() {
            let from = match start {
                Start::Zero => 0.0,
                Start::C => old[at],
                Start::ByColumn(bias) => bias[at % n],
                Start::ByRow(bias) => bias[at / n],
            };
            let expected = from + alpha * product;
            let bound = (7 * k + 9) as f32 * f32::EPSILON / 2.0 * (magnitudes[at] + from.abs());
            assert!((found - expected).abs() <= bound, "{found}, not {expected}: {m} x {n} x {k}");
        }
    }
}

#[test]
fn non_finite_results_equal_those_without_tiles() {
    let Some(isa) = isa() else { return };
    let [m, n, k] = [95, 125, 600];
    for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, -f32::MAX] {
        let (mut a, mut b) = (numbers(m * k, 5), numbers(k * n, 6));
        (a[37 * k + 550], b[7 * n + 65]) = (odd, odd);
        let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
        let (lhs, activation) = (Lhs::Strided { a, alpha: 1.0 }, Activation::None);
        let gemm = Gemm { isa, m, n, k, a: lhs, b, start: Start::Zero, activation };
        let found = found(&gemm, &vec![0.0; m * n]);
        for (found, expected) in found.into_iter().zip(chain(isa, &a, &b, |_, _| 0.0)) {
            assert_eq!(found.is_nan(), expected.is_nan(), "{odd}: {found}, not {expected}");
            assert_eq!(found.is_finite(), expected.is_finite(), "{odd}: {found}, not {expected}");
            assert!(found.is_finite() || found.is_nan() || found == expected, "{odd}: {found}");
        }
    }
}

#[test]
fn an_activation_is_applied_to_whole_sums() {
    let Some(isa) = isa() else { return };
    let [m, n, k] = [96, 96, 1100];
    let (a, b) = (numbers(m * k, 7), numbers(k * n, 8));
    let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
    let lhs = Lhs::Strided { a, alpha: 1.0 };
    let gemm = Gemm { isa, m, n, k, a: lhs, b, start: Start::Zero, activation: Activation::None };
    let sums = found(&gemm, &vec![0.0; m * n]);
    for activation in [Activation::Relu, Activation::Clip { min: -1.0, max: 2.0 }, Activation::Tanh]
    {
        let found = found(&Gemm { activation, ..gemm }, &vec![0.0; m * n]);
        let mut expected = sums.clone();
        activation.apply(isa, &mut expected);
        assert_eq!(found, expected, "{activation:?}");
    }
}
