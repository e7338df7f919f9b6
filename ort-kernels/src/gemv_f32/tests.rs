//! Tests of `gemv_f32`.

use super::{Walk, add_row_times_panels, best, variant};
use crate::gemm::{self, Gemm, Lhs, Matrix, Start, Strided, pack_b, packed_b_len};
use crate::{Activation, Isa};

/// Pseudo-random numbers in [−1, 1], different in each panel.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// Called by the ladder for each variant: compares every edge size, in both directions, with the matrix
/// product, bit by bit.
pub(super) fn agrees_with_generic(isa: Isa) {
    let super::Variant { panels, nr, .. } = best(isa);
    for n in 1..=2 * panels * nr + 1 {
        for k in [0, 1, 7, 130] {
            for walk in [Walk::Forward, Walk::Backward] {
                check(isa, n, k, walk);
            }
        }
    }
}

#[test]
fn generic_has_the_bits_of_the_product() {
    agrees_with_generic(Isa::Generic);
}

#[test]
fn panels_equal_those_of_the_product() {
    for isa in Isa::all() {
        assert_eq!(variant(isa).nr, gemm::variant(isa).nr, "{isa:?}");
    }
}

fn check(isa: Isa, n: usize, k: usize, walk: Walk) {
    let (x, b, old) = (numbers(k, 1), numbers(k * n, 2), numbers(n, 3));
    let mut packed = vec![f32::NAN; packed_b_len(isa, k, n)];
    // An unpacked B, because a packed one is multiplied by the kernel under test.
    let b = Matrix::row_major(&b, k, n);
    pack_b(isa, &b, &mut packed);
    let a = Lhs::Strided { a: Matrix::row_major(&x, 1, k), alpha: 1.0 };
    let gemm = Gemm { isa, m: 1, n, k, a, b, start: Start::C, activation: Activation::None };
    let (mut expected, mut y) = (old.clone(), old);
    let mut scratch = vec![f32::NAN; gemm.scratch_len(1)];
    gemm.run(&gemm.whole(), &mut Strided { data: &mut expected, stride: n }, &mut scratch);
    add_row_times_panels(isa, &x, &packed, &mut y, walk);
    assert_eq!(y, expected, "{isa:?} {n} columns, k = {k}, {walk:?}");
}
