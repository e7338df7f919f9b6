//! Comparison with the product with columns, bit by bit.

use super::{Narrow, best};
use crate::conv_f32::{Axis, Columns};
use crate::gemm::{Gemm, Lhs, Matrix, Region, Start, Strided, pack_a, row_panels};
use crate::{Activation, Isa};

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 2_654_435_761 + seed) >> 7) as f32 % 97.0 / 16.0 - 3.0).collect()
}

/// Called by the ladder for each variant.
pub(super) fn agrees_with_generic(isa: Isa) {
    let mr = best(isa).mr;
    for n in 1..=8 {
        for (channels, filters) in [(1, mr), (3, 2 * mr), (33, 3 * mr + 1), (7, 1), (0, mr)] {
            check(isa, channels, filters, n);
        }
    }
}

fn check(isa: Isa, channels: usize, filters: usize, n: usize) {
    let (input, pad) = (2 * n - 1, [1, 1]);
    let axis = Axis { input, output: n, kernel: 3, stride: 2, dilation: 1, pad };
    let x = numbers(channels * input, 1);
    let (w, bias) = (numbers(filters * channels * 3, 2), numbers(filters, 3));
    let mut packed = vec![0.0; w.len()];
    pack_a(isa, &Matrix::row_major(&w, filters, channels * 3), 1.0, &mut packed);
    let columns = Columns::new(&x, channels, [Axis::UNIT, Axis::UNIT, axis]);
    for (start, activation) in [
        (Start::Zero, Activation::None),
        (Start::ByRow(&bias), Activation::Relu),
        (Start::C, Activation::Sigmoid),
    ] {
        let (a, k) = (Lhs::Packed(&packed), columns.k());
        let gemm = Gemm { isa, m: filters, n, k, a, b: columns, start, activation };
        let mut expected = numbers(filters * n, 4);
        let mut found = expected.clone();
        let mut scratch = vec![0.0; gemm.scratch_len(filters)];
        let mut rows = Strided { data: &mut expected, stride: n };
        gemm.run(&gemm.whole(), &mut rows, &mut scratch);
        let bias = if let Start::ByRow(bias) = start { Some(bias) } else { None };
        let (w, is_sum) = (packed.as_slice(), matches!(start, Start::C));
        let narrow = Narrow { isa, filters, w, columns, bias, is_sum, activation };
        let mut scratch = vec![f32::NAN; Narrow::scratch_len(k)];
        // In pieces: some panels, then the rest.
        let all: Vec<_> = row_panels(isa, filters).collect();
        for panels in [&all[..1], &all[1..]] {
            let (Some(first), Some(last)) = (panels.first(), panels.last()) else { continue };
            let region = Region { rows: first.start..last.end, columns: 0..n };
            let data = &mut found[first.start * n..last.end * n];
            narrow.run(&region, &mut Strided { data, stride: n }, &mut scratch);
        }
        assert_eq!(found, expected, "{isa:?} {channels} to {filters}, {n} positions");
    }
}

#[test]
fn generic_has_the_bits_of_products() {
    agrees_with_generic(Isa::Generic);
}
