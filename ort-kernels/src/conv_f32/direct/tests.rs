//! Comparison with the product with columns, bit by bit.

use super::{Direct, best};
use crate::conv_f32::{Axis, Columns};
use crate::gemm::{Gemm, Lhs, Matrix, Region, Start, Strided, pack_a, row_panels};
use crate::{Activation, Isa};

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 2_654_435_761 + seed) >> 7) as f32 % 97.0 / 16.0 - 3.0).collect()
}

fn axis(input: usize, kernel: usize, stride: usize, dilation: usize, pad: [usize; 2]) -> Axis {
    let output = (input + pad[0] + pad[1] - (kernel - 1) * dilation - 1) / stride + 1;
    Axis { input, output, kernel, stride, dilation, pad }
}

/// Called by the ladder for each variant.
pub(super) fn agrees_with_generic(isa: Isa) {
    let heights = [axis(1, 1, 1, 1, [0; 2]), axis(9, 3, 1, 1, [1; 2]), axis(11, 3, 2, 2, [2, 1])];
    let widths = [
        axis(40, 1, 1, 1, [0; 2]),
        axis(19, 3, 1, 1, [1; 2]),
        axis(75, 3, 2, 1, [1, 0]),
        axis(50, 5, 1, 3, [4, 9]),
        axis(64, 2, 3, 2, [1; 2]),
        axis(33, 3, 1, 1, [0; 2]),
        axis(20, 7, 2, 1, [9, 8]),
        axis(95, 7, 4, 1, [3; 2]),
        axis(90, 4, 5, 3, [0; 2]),
    ];
    for axes in heights.iter().flat_map(|h| widths.iter().map(|w| [*h, *w])) {
        for (channels, filters) in [(1, 1), (3, best(isa).mr), (5, 2 * best(isa).mr + 1), (0, 2)] {
            check(isa, channels, filters, axes);
        }
    }
    // Few filters, whose tiles are wide.
    for filters in 1..=4 {
        check(isa, 3, filters, [axis(4, 3, 1, 1, [1; 2]), axis(277, 5, 1, 1, [2; 2])]);
    }
    // Windows of one column: all rows are one, unless they do not fit a band, or have gaps.
    check(isa, 2, 9, [axis(60, 7, 1, 2, [6, 3]), axis(17, 1, 1, 1, [0; 2])]);
    check(isa, 9, 4, [axis(180, 3, 1, 1, [1; 2]), axis(41, 1, 1, 1, [0; 2])]);
    check(isa, 2, 3, [axis(21, 3, 1, 1, [0; 2]), axis(16, 1, 1, 1, [0; 2])]);
    // No window reaches the image.
    check(isa, 1, 2, [axis(1, 1, 1, 1, [0; 2]), axis(1, 3, 4, 1, [5, 0])]);
    // Several bands.
    check(isa, 40, 5, [axis(40, 3, 1, 1, [1; 2]), axis(130, 3, 1, 1, [1; 2])]);
}

fn check(isa: Isa, channels: usize, filters: usize, axes: [Axis; 2]) {
    let taps = axes[0].kernel * axes[1].kernel;
    let x = numbers(channels * axes[0].input * axes[1].input, 1);
    let (w, bias) = (numbers(filters * channels * taps, 2), numbers(filters, 3));
    let mut packed = vec![0.0; w.len()];
    pack_a(isa, &Matrix::row_major(&w, filters, channels * taps), 1.0, &mut packed);
    let n = axes[0].output * axes[1].output;
    for (start, activation) in [
        (Start::Zero, Activation::None),
        (Start::ByRow(&bias), Activation::Relu),
        (Start::C, Activation::Tanh),
    ] {
        let b = Columns::new(&x, channels, [Axis::UNIT, axes[0], axes[1]]);
        let (a, k) = (Lhs::Packed(&packed), b.k());
        let gemm = Gemm { isa, m: filters, n, k, a, b, start, activation };
        let mut expected = numbers(filters * n, 4);
        let mut found = expected.clone();
        let mut scratch = vec![0.0; gemm.scratch_len(filters)];
        let mut rows = Strided { data: &mut expected, stride: n };
        gemm.run(&gemm.whole(), &mut rows, &mut scratch);
        let bias = if let Start::ByRow(bias) = start { Some(bias) } else { None };
        let is_sum = matches!(start, Start::C);
        let (x, w) = (x.as_slice(), packed.as_slice());
        let direct = Direct { isa, filters, channels, axes, x, w, bias, is_sum, activation };
        let mut scratch = vec![f32::NAN; Direct::scratch_len(channels, &axes)];
        // In pieces: panels of filters, and ranges of positions.
        for rows in row_panels(isa, filters) {
            for columns in [0..n / 3, n / 3..n] {
                let data = &mut found[rows.start * n + columns.start..];
                let region = Region { rows: rows.clone(), columns };
                direct.run(&region, &mut Strided { data, stride: n }, &mut scratch);
            }
        }
        assert_eq!(found, expected, "{isa:?} {channels} to {filters}, {axes:?}");
    }
}

#[test]
fn generic_has_the_bits_of_products() {
    agrees_with_generic(Isa::Generic);
}
