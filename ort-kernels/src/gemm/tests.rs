//! Tests of `gemm`.

use super::{
    Element, Gemm, Lhs, Matrix, PackedB, Panels, Region, Start, Strided, Variant, pack_a, pack_b,
    packed_b_len, packed_b_len_of, row_panels,
};
use crate::isa::GENERIC_FMA;
use crate::{Activation, Isa};
use proptest::prelude::*;

/// The instruction sets for which every element is one chain.
fn without_tiles() -> impl Iterator<Item = Isa> {
    Isa::all().filter(|isa| isa.amx().is_none())
}

/// Seeded numbers in [−1, 1).
pub(super) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The contract, literally: one chain of multiply-adds in ascending `k`.
pub(super) fn chain(
    isa: Isa,
    a: &Matrix<'_>,
    b: &Matrix<'_>,
    start: impl Fn(usize, usize) -> f32,
) -> Vec<f32> {
    let fused = GENERIC_FMA || isa != Isa::Generic;
    let element = |m: &Matrix<'_>, i, j| m.data[i * m.row_stride + j * m.column_stride];
    let mut c = Vec::new();
    for i in 0..a.rows {
        for j in 0..b.columns {
            let mut sum: f32 = start(i, j);
            for k in 0..a.columns {
                let (a, b) = (element(a, i, k), element(b, k, j));
                sum = if fused { a.mul_add(b, sum) } else { a * b + sum };
            }
            c.push(sum);
        }
    }
    c
}

/// Called by the ladder for each variant: compares every edge size with the chain, bit by bit.
pub(super) fn agrees_with_generic(isa: Isa) {
    let super::Variant { mr, nr, .. } = super::best(isa);
    for m in 1..=2 * mr + 1 {
        for n in [1, nr / 2, nr / 2 + 1, nr - 1, nr, nr + 1, 2 * nr] {
            for k in [0, 1, 7, 300] {
                check(isa, [m, n, k]);
            }
        }
    }
}

#[test]
fn generic_is_the_chain() {
    agrees_with_generic(Isa::Generic);
}

fn check(isa: Isa, [m, n, k]: [usize; 3]) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
    let bias = numbers(m.max(n), 3);
    let old = numbers(m * n, 4);
    let start = [Start::Zero, Start::C, Start::ByColumn(&bias), Start::ByRow(&bias)][(m + n) % 4];
    let expected = chain(isa, &a, &b, |i, j| match start {
        Start::Zero => 0.0,
        Start::C => old[i * n + j],
        Start::ByColumn(bias) => bias[j],
        Start::ByRow(bias) => bias[i],
    });
    let lhs = Lhs::Strided { a, alpha: 1.0 };
    let gemm = Gemm { isa, m, n, k, a: lhs, b, start, activation: Activation::None };
    let mut c = old;
    let mut scratch = vec![f32::NAN; gemm.scratch_len(m)];
    gemm.run(&gemm.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
    assert_eq!(c, expected, "{isa:?} {m}x{n}x{k} {start:?}");
}

/// Runs the four regions that split rows at `rows` and columns at `columns`.
pub(super) fn run_in_four<B: Panels>(
    gemm: &Gemm<'_, B>,
    rows: usize,
    columns: usize,
    c: &mut [f32],
) {
    let mut scratch = vec![f32::NAN; gemm.scratch_len(gemm.m)];
    let (top, bottom) = c.split_at_mut(rows * gemm.n);
    for (rows, c) in [(0..rows, top), (rows..gemm.m, bottom)] {
        let (mut left, mut right): (Vec<_>, Vec<_>) =
            c.chunks_exact_mut(gemm.n).map(|row| row.split_at_mut(columns)).unzip();
        let region = Region { rows: rows.clone(), columns: 0..columns };
        gemm.run(&region, left.as_mut_slice(), &mut scratch);
        let region = Region { rows, columns: columns..gemm.n };
        gemm.run(&region, right.as_mut_slice(), &mut scratch);
    }
}

/// A matrix over `data`, optionally transposed in memory.
fn matrix<T>(data: &[T], rows: usize, columns: usize, is_transposed: bool) -> Matrix<'_, T> {
    if is_transposed {
        Matrix::row_major(data, columns, rows).transposed()
    } else {
        Matrix::row_major(data, rows, columns)
    }
}

/// Small integers, some of them times `large`.
fn integers<T: Element + From<i8>>(count: usize, seed: usize, large: T) -> Vec<T> {
    let small = |i: usize| {
        T::from(i8::try_from((i * 7919 + seed * 104_729) % 101).unwrap_or_default() - 50)
    };
    (0..count).map(|i| if i % 17 == 3 { small(i).times(large) } else { small(i) }).collect()
}

/// Called by the ladder for each variant of an element: as for f32, with unpacked, transposed
/// and packed operands. Integer factors are large enough for their products to wrap.
pub(super) fn agrees_with_chain<T: Element<Activation = ()> + From<i8>>(isa: Isa, large: T) {
    let Variant { mr, nr, .. } = T::variant(isa);
    for m in (1..=2 * mr + 1).chain([90]) {
        for n in [1, nr / 2, nr / 2 + 1, nr - 1, nr, nr + 1, 2 * nr] {
            for k in [0, 1, 7, 300, 900] {
                if m * k < 30_000 {
                    check_element::<T>(isa, [m, n, k], large);
                }
            }
        }
    }
}

fn check_element<T: Element<Activation = ()> + From<i8>>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    large: T,
) {
    let (a_data, b_data) = (integers::<T>(m * k, 1, large), integers::<T>(k * n, 2, large));
    let (a_transposed, b_transposed) = (n % 2 == 0, m % 2 == 0);
    let (a, b) = (matrix(&a_data, m, k, a_transposed), matrix(&b_data, k, n, b_transposed));
    let bias = integers::<T>(m.max(n), 3, T::ONE);
    let start = [Start::Zero, Start::ByColumn(&bias), Start::ByRow(&bias)][(m + n) % 3];
    let at = |x: &Matrix<'_, T>, i, j| x.data[i * x.row_stride + j * x.column_stride];
    let alpha = T::from(3);
    let element = |i: usize, j: usize| {
        let start = match start {
            Start::ByColumn(bias) => bias[j],
            Start::ByRow(bias) => bias[i],
            _ => T::zeroed(),
        };
        (0..k)
            .fold(start, |sum, k| T::mul_add::<true>(alpha.times(at(&a, i, k)), at(&b, k, j), sum))
    };
    let expected: Vec<T> = (0..m * n).map(|at| element(at / n, at % n)).collect();
    let lhs = Lhs::Strided { a, alpha };
    let mut packed = vec![T::ONE; packed_b_len_of::<T>(isa, k, n)];
    pack_b(isa, &b, &mut packed);
    let rhs = PackedB { data: &packed, k };
    let plain = Gemm { isa, m, n, k, a: lhs, b, start, activation: () };
    let stored = Gemm { isa, m, n, k, a: lhs, b: rhs, start, activation: () };
    let mut c = vec![T::ONE; m * n];
    let mut scratch = vec![T::ONE; plain.scratch_len(m).max(stored.scratch_len(m))];
    plain.run(&plain.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
    // Integers below 2⁵³ are exact in any order, also in f64.
    assert_eq!(c, expected, "{isa:?} {m}x{n}x{k} {start:?}");
    c.fill(T::ONE);
    stored.run(&stored.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
    assert_eq!(c, expected, "{isa:?} {m}x{n}x{k} {start:?} packed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn strides_packing_and_regions_do_not_change_a_bit(
        // With fewer rows, a transposed B is multiplied by dot products.
        (m, n, k) in (5usize..70, 1usize..150, 0usize..600),
        (a_transposed, b_transposed) in any::<(bool, bool)>(),
        (row_cut, column_cut) in (0usize..16, 0usize..16),
    ) {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (a, b) = (matrix(&a, m, k, a_transposed), matrix(&b, k, n, b_transposed));
        let bias = numbers(m, 3);
        let (start, activation) = (Start::ByRow(&bias), Activation::Relu);
        for isa in without_tiles() {
            let mut expected = chain(isa, &a, &b, |i, _| bias[i]);
            expected.iter_mut().for_each(|x| *x = x.max(0.0));
            let cut = |sixteenths: usize, of: usize| sixteenths * of / 16;
            let strided = Lhs::Strided { a, alpha: 1.0 };
            let gemm = Gemm { isa, m, n, k, a: strided, b, start, activation };
            let mut c = vec![f32::NAN; m * n];
            run_in_four(&gemm, cut(row_cut, m), cut(column_cut, n), &mut c);
            prop_assert_eq!(&c, &expected, "strided, {:?}", isa);

            let mut packed_a = vec![f32::NAN; m * k];
            let mut packed_b = vec![f32::NAN; packed_b_len(isa, k, n)];
            pack_a(isa, &a, 1.0, &mut packed_a);
            pack_b(isa, &b, &mut packed_b);
            let (a, b) = (Lhs::Packed(&packed_a), PackedB { data: &packed_b, k });
            let gemm = Gemm { isa, m, n, k, a, b, start, activation };
            let panels: Vec<_> = row_panels(isa, m).collect();
            let row = panels[cut(row_cut, panels.len())].start;
            let nr = super::best(isa).nr;
            c.fill(f32::NAN);
            run_in_four(&gemm, row, cut(column_cut, n / nr) * nr, &mut c);
            prop_assert_eq!(&c, &expected, "packed, {:?}", isa);
        }
    }
}

#[test]
fn packed_operands_have_the_bits_of_strided_ones() {
    for isa in without_tiles() {
        // More rows than a block of A has, and more of B than one pass.
        let [m, n, k] = [350, 40, 1100];
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
        let mut packed_a = vec![f32::NAN; m * k];
        pack_a(isa, &a, 0.5, &mut packed_a);
        let mut packed_b = vec![f32::NAN; packed_b_len(isa, k, n)];
        pack_b(isa, &b, &mut packed_b);
        let mut expected = vec![f32::NAN; m * n];
        let activation = Activation::Tanh;
        let lhs = Lhs::Strided { a, alpha: 0.5 };
        let gemm = Gemm { isa, m, n, k, a: lhs, b, start: Start::Zero, activation };
        let mut scratch = vec![f32::NAN; gemm.scratch_len(m)];
        let c = &mut Strided { data: &mut expected, stride: n };
        gemm.run(&gemm.whole(), c, &mut scratch);
        let rhs = PackedB { data: &packed_b, k };
        let lhs = Lhs::Packed(&packed_a);
        let gemm = Gemm { isa, m, n, k, a: lhs, b: rhs, start: Start::Zero, activation };
        let mut actual = vec![f32::NAN; m * n];
        let mut scratch = vec![f32::NAN; gemm.scratch_len(m)];
        let c = &mut Strided { data: &mut actual, stride: n };
        gemm.run(&gemm.whole(), c, &mut scratch);
        assert_eq!(actual, expected, "{isa:?}");
    }
}

/// Callers that compute a result block by block allocate scratch for the largest.
#[test]
fn scratch_for_a_product_suffices_for_fewer_rows() {
    for isa in Isa::all() {
        for [n, k] in [[128, 2048], [128, 1024], [64, 300], [700, 64]] {
            let a = Lhs::Strided { a: Matrix::row_major(&[], 0, 0), alpha: 1.0 };
            let (b, start): (Matrix<'_>, _) = (Matrix::row_major(&[], 0, 0), Start::Zero);
            let len = |m| {
                let activation = Activation::None;
                Gemm { isa, m, n, k, a, b, start, activation }.scratch_len(m)
            };
            assert!((1..300).all(|m| len(m) <= len(m + 1)), "{isa:?} {n} {k}");
        }
    }
}

/// More rows than a piece has in one panel, and more panels than a piece.
#[test]
fn large_matrices_are_packed_in_pieces() {
    for isa in Isa::all() {
        let nr = f32::variant(isa).nr;
        for (k, n) in [(70_000, 3), (700, 2 * 1500)] {
            let data: Vec<f32> = (0..k * n).map(|i| (i % 8191) as f32).collect();
            let mut packed = vec![f32::NAN; packed_b_len(isa, k, n)];
            pack_b(isa, &Matrix::row_major(&data, k, n), &mut packed);
            for (at, found) in packed.into_iter().enumerate() {
                let (column, row) = (at / (k * nr) * nr + at % nr, at / nr % k);
                let expected = if column < n { data[row * n + column] } else { 0.0 };
                assert!(found == expected, "{isa:?} {k} {n}: row {row}, column {column}");
            }
        }
    }
}
