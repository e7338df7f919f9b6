//! Compares every kernel with the formula, term by term, in f64: sums of small integers are exact.

use super::{Axis, Columns, Depthwise, Pool, PoolKind};
use crate::gemm::{Gemm, Lhs, Matrix, Panels, Region, Slice, Start, pack_a};
use crate::{Activation, Isa};
use std::ops::Range;

/// Small integers, so that every sum is exact in any order.
fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 2_654_435_761) >> 7) as f32 % 8.0 - 3.0).collect()
}

fn axis(input: usize, kernel: usize, stride: usize, dilation: usize, pad: [usize; 2]) -> Axis {
    let reach = (kernel - 1) * dilation;
    let output = (input + pad[0] + pad[1] - reach - 1) / stride + 1;
    Axis { input, output, kernel, stride, dilation, pad }
}

/// Heights and widths that cover every path: no interior, each block size, both edges, each stride.
fn planes() -> Vec<[Axis; 2]> {
    let axes = [
        axis(1, 1, 1, 1, [0, 0]),
        axis(5, 3, 1, 1, [1, 1]),
        axis(12, 3, 1, 2, [2, 2]),
        axis(40, 5, 1, 1, [2, 1]),
        axis(75, 3, 2, 1, [1, 1]),
        axis(19, 4, 2, 1, [0, 3]),
        axis(31, 3, 3, 1, [1, 2]),
        axis(3, 7, 1, 1, [3, 3]),
        axis(85, 5, 5, 1, [0, 0]),
        axis(41, 17, 4, 1, [2, 1]),
    ];
    axes.iter().flat_map(|h| axes.iter().map(|w| [*h, *w])).collect()
}

/// The same, some of them with a depth.
fn volumes() -> impl Iterator<Item = [Axis; 3]> {
    let flat = planes().into_iter().map(|[h, w]| [Axis::UNIT, h, w]);
    let depths = [axis(4, 2, 2, 1, [0, 0]), axis(5, 3, 1, 2, [3, 1])];
    let deep = planes().into_iter().step_by(7);
    flat.chain(deep.flat_map(move |[h, w]| depths.map(|d| [d, h, w])))
}

/// The inputs of the window of `[z, y, x]` with their taps.
fn window<'a>(
    [d, h, w]: [Axis; 3],
    plane: &'a [f32],
    [z, y, x]: [usize; 3],
) -> impl Iterator<Item = (usize, f32)> + 'a {
    let tap = move |t: usize| {
        let (of_y, of_x) = (t / w.kernel % h.kernel, t % w.kernel);
        let z = d.at(z, t / w.kernel / h.kernel)?;
        let (y, x) = (h.at(y, of_y)?, w.at(x, of_x)?);
        Some((t, plane[(z * h.input + y) * w.input + x]))
    };
    (0..d.kernel * h.kernel * w.kernel).filter_map(tap)
}

/// Every output of a plane.
fn outputs([d, h, w]: [Axis; 3]) -> impl Iterator<Item = [usize; 3]> {
    let rows = (0..d.output).flat_map(move |z| (0..h.output).map(move |y| [z, y]));
    rows.flat_map(move |[z, y]| (0..w.output).map(move |x| [z, y, x]))
}

#[test]
fn depthwise_is_the_sum_over_taps() {
    for axes in volumes() {
        let plane = integers(axes.iter().map(|axis| axis.input).product());
        let weights = integers(axes.iter().map(|axis| axis.kernel).product());
        let activation = Activation::Clip { min: -50.0, max: 60.0 };
        let sum = |at| -> f32 { window(axes, &plane, at).map(|(t, x)| weights[t] * x).sum() };
        let expected: Vec<f32> =
            outputs(axes).map(|at| (2.0 + sum(at)).clamp(-50.0, 60.0)).collect();
        for isa in Isa::all() {
            let depthwise = Depthwise { isa, axes, weights: &weights, bias: 2.0, activation };
            let mut out = vec![f32::NAN; expected.len()];
            let mut scratch = vec![f32::NAN; Depthwise::scratch_len(&axes)];
            let rows = axes[0].output * axes[1].output;
            let (top, rest) = out.split_at_mut(rows / 3 * axes[2].output);
            depthwise.run(&plane, 0..rows / 3, top, &mut scratch);
            depthwise.run(&plane, rows / 3..rows, rest, &mut scratch);
            assert_eq!(out, expected, "{isa:?} {axes:?}");
        }
    }
}

#[test]
fn pools_are_greatest_and_mean_of_the_window() {
    for axes in volumes() {
        let plane = integers(axes.iter().map(|axis| axis.input).product());
        let greatest = |at| window(axes, &plane, at).fold(f32::NEG_INFINITY, |m, (_, x)| m.max(x));
        let mean = |at| {
            let count = window(axes, &plane, at).count() as f32;
            window(axes, &plane, at).map(|(_, x)| x).sum::<f32>() / count
        };
        let greatest: Vec<f32> = outputs(axes).map(greatest).collect();
        let mean: Vec<f32> = outputs(axes).map(mean).collect();
        for isa in Isa::all() {
            for (kind, expected) in
                [(PoolKind::Max, &greatest), (PoolKind::Average { count_padding: false }, &mean)]
            {
                let mut out = vec![f32::NAN; expected.len()];
                let mut scratch = vec![f32::NAN; Pool::scratch_len(&axes)];
                Pool { isa, axes, kind }.run(&plane, &mut out, &mut scratch);
                assert_eq!(out, *expected, "{isa:?} {axes:?}");
            }
        }
    }
}

#[test]
fn taps_beyond_the_padding_are_not_counted() {
    // Two outputs of a window of four over [0, 1, 2, 3, 0]: the second extends one past the
    // padding.
    let width = Axis { output: 2, ..axis(3, 4, 2, 1, [1, 1]) };
    let axes = [Axis::UNIT, Axis::UNIT, width];
    let pool = Pool { isa: Isa::best(), axes, kind: PoolKind::Average { count_padding: true } };
    let mut out = [f32::NAN; 2];
    let mut scratch = vec![f32::NAN; Pool::scratch_len(&axes)];
    pool.run(&[1.0, 2.0, 3.0], &mut out, &mut scratch);
    assert_eq!(out, [6.0 / 4.0, 5.0 / 3.0]);
}

#[test]
fn the_stride_of_one_output_takes_no_memory() {
    let width = Axis { stride: usize::MAX / 2, ..axis(3, 3, 1, 1, [0, 0]) };
    let axes = [Axis::UNIT, Axis::UNIT, Axis { output: 1, ..width }];
    let mut scratch = vec![f32::NAN; Pool::scratch_len(&axes)];
    assert!(scratch.len() < 1 << 12);
    let mut out = [0.0; 2];
    let pool = Pool { isa: Isa::best(), axes, kind: PoolKind::Max };
    pool.run(&[1.0, 3.0, 2.0, 6.0, 5.0, 4.0], &mut out, &mut scratch);
    assert_eq!(out, [3.0, 6.0]);
}

#[test]
fn scratch_for_huge_axes_does_not_overflow() {
    let huge = Axis { pad: [usize::MAX / 2, 0], ..axis(1, 1, 1, 1, [0, 0]) };
    for width in [huge, Axis { stride: usize::MAX / 2, ..huge }] {
        let axes = [Axis::UNIT, huge, width];
        assert_eq!(Pool::scratch_len(&axes), usize::MAX);
        assert_eq!(Depthwise::scratch_len(&[axis(1, 3, 1, 1, [1, 1]), huge, width]), usize::MAX);
        let kind = PoolKind::Max;
        let blocked = crate::nchwc::Pool { isa: Isa::best(), block: 8, axes: [huge, width], kind };
        assert_eq!(blocked.scratch_len(), usize::MAX);
    }
}

#[test]
fn pools_keep_nan_and_windows_may_be_empty() {
    let width = Axis { output: 4, ..axis(3, 2, 1, 1, [2, 0]) };
    let axes = [Axis::UNIT, Axis::UNIT, width];
    for isa in Isa::all() {
        for (kind, expected) in [
            (PoolKind::Max, [f32::NEG_INFINITY, 1.0, f32::NAN, f32::NAN]),
            (PoolKind::Average { count_padding: false }, [0.0, 1.0, f32::NAN, f32::NAN]),
        ] {
            let mut out = [f32::NAN; 4];
            let mut scratch = vec![f32::NAN; Pool::scratch_len(&axes)];
            Pool { isa, axes, kind }.run(&[1.0, f32::NAN, 3.0], &mut out, &mut scratch);
            assert!(out.iter().zip(&expected).all(|(a, b)| a.total_cmp(b).is_eq()), "{out:?}");
        }
    }
}

#[test]
fn a_product_with_columns_is_the_convolution() {
    for axes in planes() {
        let [h, w] = axes;
        let axes = [Axis::UNIT, h, w];
        let (channels, filters) = (3, 5);
        let image = integers(channels * h.input * w.input);
        let taps = h.kernel * w.kernel;
        let weights = integers(filters * channels * taps);
        let bias = integers(filters);
        let mut expected = Vec::new();
        for o in 0..filters {
            for at in outputs(axes) {
                let mut sum = bias[o];
                for c in 0..channels {
                    let plane = &image[c * h.input * w.input..][..h.input * w.input];
                    let weights = &weights[(o * channels + c) * taps..];
                    sum += window(axes, plane, at).map(|(t, x)| weights[t] * x).sum::<f32>();
                }
                expected.push(sum.max(0.0));
            }
        }
        let columns = Columns::new(&image, channels, axes);
        for isa in Isa::all() {
            assert_eq!(convolve(isa, &columns, &weights, &bias), expected, "{isa:?} {axes:?}");
        }
    }
}

#[test]
fn a_slice_of_rows_is_part_of_the_whole() {
    for axes in [
        [Axis::UNIT, axis(9, 3, 1, 1, [1, 1]), axis(40, 4, 1, 1, [0, 2])],
        [Axis::UNIT, axis(8, 2, 1, 1, [0, 0]), axis(61, 5, 5, 1, [0, 0])],
        [axis(4, 2, 2, 1, [0, 0]), axis(5, 3, 1, 2, [3, 1]), axis(9, 1, 1, 1, [0, 0])],
    ] {
        for channels in [1, 3] {
            let image = integers(channels * axes.iter().map(|axis| axis.input).product::<usize>());
            let columns = Columns::new(&image, channels, axes);
            for isa in Isa::all() {
                let nr = crate::gemm::variant(isa).nr;
                let written = |k: Range<usize>| {
                    let mut panel = vec![-9.0; k.len() * nr];
                    columns.write(&Slice { isa, k, column: nr, nr }, &mut panel);
                    panel
                };
                let whole = written(0..columns.k());
                for start in 0..columns.k() {
                    for end in start + 1..=columns.k() {
                        let expected = &whole[start * nr..end * nr];
                        assert_eq!(written(start..end), expected, "{axes:?} {start}..{end}");
                    }
                }
            }
        }
    }
}

#[test]
fn columns_of_a_volume_are_its_inputs() {
    let axes = [axis(3, 2, 1, 1, [1, 0]), axis(4, 3, 2, 1, [1, 1]), axis(5, 2, 1, 2, [0, 1])];
    let image = integers(2 * 60);
    let columns = Columns::new(&image, 2, axes);
    let mut identity = vec![0.0; columns.k() * columns.k()];
    identity.iter_mut().step_by(columns.k() + 1).for_each(|x| *x = 1.0);
    let [d, h, w] = axes;
    let element = |row: usize, position: usize| {
        let (c, tap) = (row / 12, row % 12);
        let z = d.at(position / (h.output * w.output), tap / 6)?;
        let y = h.at(position / w.output % h.output, tap / 2 % 3)?;
        let x = w.at(position % w.output, tap % 2)?;
        Some(image[((c * 3 + z) * 4 + y) * 5 + x])
    };
    let rows = (0..columns.k()).flat_map(|row| (0..columns.n()).map(move |p| (row, p)));
    let expected: Vec<f32> = rows.map(|(row, p)| element(row, p).unwrap_or(0.0)).collect();
    for isa in Isa::all() {
        assert_eq!(
            convolve(isa, &columns, &identity, &vec![0.0; columns.k()]),
            expected.iter().map(|x| x.max(0.0)).collect::<Vec<_>>()
        );
    }
}

/// `relu(bias + weights·columns)`, computed in two ranges of positions.
fn convolve(isa: Isa, columns: &Columns<'_>, weights: &[f32], bias: &[f32]) -> Vec<f32> {
    let (m, n, k) = (bias.len(), columns.n(), columns.k());
    let mut packed = vec![f32::NAN; m * k];
    pack_a(isa, &Matrix::row_major(weights, m, k), 1.0, &mut packed);
    let (a, start) = (Lhs::Packed(&packed), Start::ByRow(bias));
    let gemm = Gemm { isa, m, n, k, a, b: *columns, start, activation: Activation::Relu };
    let mut scratch = vec![f32::NAN; gemm.scratch_len(m)];
    let mut c = vec![f32::NAN; m * n];
    let cut = n / 3;
    let (mut left, mut right): (Vec<_>, Vec<_>) =
        c.chunks_exact_mut(n).map(|row| row.split_at_mut(cut)).unzip();
    gemm.run(&Region { rows: 0..m, columns: 0..cut }, left.as_mut_slice(), &mut scratch);
    gemm.run(&Region { rows: 0..m, columns: cut..n }, right.as_mut_slice(), &mut scratch);
    c
}
