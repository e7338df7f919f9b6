//! Products with packed 16-bit operands have the bits of those with the same numbers in f32.

use super::{Half, PackedHalves, pack_halves_while, piece_len};
use crate::gemm::{Gemm, Lhs, Matrix, PackedB, Start, Strided, pack_b, packed_b_len, variant};
use crate::{Activation, Isa};

pub(super) fn agrees_with_generic(isa: Isa) {
    let nr = variant(isa).nr;
    for half in [Half::F16, Half::Bf16] {
        for m in 1..=variant(isa).mr + 1 {
            for (k, n) in [(0, 3), (1, 1), (7, nr / 2 + 1), (401, 3 * nr - 1), (1100, nr)] {
                check(isa, half, [m, k, n]);
            }
        }
        for n in (nr / 2..10 * nr).step_by(nr / 2 + 1) {
            check(isa, half, [1, 130, n]);
        }
        check(isa, half, [400, 500, 40]);
    }
}

#[test]
fn every_instruction_set_widens() {
    for isa in [Isa::Generic, Isa::best()] {
        agrees_with_generic(isa);
    }
}

/// Every number of the format, among them NaN, infinities and denormals.
fn numbers(isa: Isa, half: Half, len: usize) -> Vec<f32> {
    let bits: Vec<u16> =
        (0..len).map(|i| u16::try_from((i * 40_503 + 11) % 65_536).unwrap()).collect();
    let mut numbers = vec![0.0; len];
    half.widen(isa, &bits, &mut numbers);
    numbers
}

fn check(isa: Isa, half: Half, [m, k, n]: [usize; 3]) {
    let a: Vec<f32> = (0..m * k).map(|i| (i % 31) as f32 - 14.5).collect();
    let b = numbers(isa, half, k * n);
    let b = Matrix::row_major(&b, k, n);
    let (mut whole, mut halves) = (vec![0.0; packed_b_len(isa, k, n)], Vec::new());
    halves.resize(whole.len(), 0);
    pack_b(isa, &b, &mut whole);
    let mut panel = vec![0.0; piece_len(isa, k)];
    pack_halves_while((isa, half), &b, (&mut halves, &mut panel), || true);
    let (whole, halves) = (PackedB { data: &whole, k }, PackedHalves { data: &halves, half, k });
    let a = Lhs::Strided { a: Matrix::row_major(&a, m, k), alpha: 1.0 };
    let (start, activation) = (Start::Zero, Activation::Relu);
    let (mut expected, mut found) = (vec![0.0; m * n], vec![1.0; m * n]);
    let gemm = Gemm { isa, m, n, k, a, b: whole, start, activation };
    let mut scratch = vec![0.0; gemm.scratch_len(m)];
    gemm.run(&gemm.whole(), &mut Strided { data: &mut expected, stride: n }, &mut scratch);
    let gemm = Gemm { isa, m, n, k, a, b: halves, start, activation };
    scratch.resize(gemm.scratch_len(m), 0.0);
    gemm.run(&gemm.whole(), &mut Strided { data: &mut found, stride: n }, &mut scratch);
    let same = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    assert!(expected.iter().zip(&found).all(same), "{isa:?} {half:?} {m}x{k}x{n}");
}

#[test]
fn long_panels_are_packed_piece_by_piece() {
    check(Isa::best(), Half::F16, [2, 20_000, 3]);
}

#[test]
fn a_format_is_known_by_the_numbers() {
    let isa = Isa::best();
    let bf16 = [1e-40_f32, -3e38].map(|x| f32::from_bits(x.to_bits() & 0xffff_0000));
    for (x, expected) in [
        (&[][..], [true, true]),
        (&[-0.0, 5.960_464_5e-8, f32::INFINITY, f32::NAN], [true, true]),
        (&[65504.0], [true, false]),
        (&bf16, [false, true]),
        (&[1.0, 65505.0], [false, false]),
        (&[0.1], [false, false]),
    ] {
        for n in [1, 999] {
            let x = x.repeat(n);
            assert_eq!(Half::ALL.map(|half| half.represents(isa, &x)), expected, "{x:?}");
        }
    }
}
