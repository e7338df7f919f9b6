//! Compares every variant with the plain convolution in f64 within the bound, and with `generic`.

use super::{Filters, Tile, Winograd, best, variant};
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, Form, Start};
use crate::{Activation, Isa};
use matrices::{Rows, along_both, matrices};

mod matrices;

/// Half the distance from 1 to the next float.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// Seeded numbers in [−1, 1).
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The supported taps.
const TAPS: [[usize; 2]; 10] =
    [[3, 3], [3, 1], [1, 3], [5, 1], [1, 5], [2, 2], [2, 1], [1, 2], [2, 3], [3, 2]];

/// An axis of 3 taps; with 5 taps one more pixel of padding on each side, with 1 tap none.
fn axis(kernel: usize, input: usize, pad: [usize; 2]) -> Axis {
    let pad = pad.map(|n| if kernel == 1 { 0 } else { n + kernel.saturating_sub(3) / 2 });
    let input = if kernel == 1 { input.max(1) } else { input };
    let output = input + pad[0] + pad[1] + 1 - kernel;
    Axis { input, output, kernel, stride: 1, dilation: 1, pad }
}

fn axes([r, s]: [usize; 2], height: (usize, [usize; 2]), width: (usize, [usize; 2])) -> [Axis; 2] {
    [axis(r, height.0, height.1), axis(s, width.0, width.1)]
}

/// No inner tile, edges of every width, more tiles than a register tile or a strip has, no input.
fn images(taps: [usize; 2]) -> Vec<[Axis; 2]> {
    let small = |n| axes(taps, (10 - n, [1, 1]), (n, [1, 1]));
    let mut images: Vec<_> = (1..=9).map(small).collect();
    images.extend([
        axes(taps, (6, [0, 0]), (70, [0, 0])),
        axes(taps, (3, [2, 5]), (11, [4, 0])),
        axes(taps, (16, [0, 2]), (60, [3, 1])),
        axes(taps, (0, [2, 2]), (5, [1, 1])),
        axes(taps, (2, [0, 0]), (5, [1, 1])),
    ]);
    images
}

struct Case {
    block: usize,
    inputs: usize,
    filters: usize,
    axes: [Axis; 2],
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    y: Vec<f32>,
    activation: Activation,
    is_sum: bool,
}

impl Case {
    fn new(block: usize, [inputs, filters]: [usize; 2], axes: [Axis; 2]) -> Self {
        let [image, outputs] =
            [axes[0].input * axes[1].input, axes[0].output * axes[1].output].map(|n| n * block);
        Self {
            block,
            inputs,
            filters,
            axes,
            x: numbers(inputs * image, 1),
            w: numbers(filters * inputs * axes[0].kernel * axes[1].kernel * block * block, 2),
            bias: numbers(filters * block, 3),
            y: numbers(filters * outputs, 4),
            activation: Activation::None,
            is_sum: true,
        }
    }

    fn tile(&self) -> Tile {
        Tile::of(self.block, &self.axes).unwrap()
    }

    fn conv(&self, isa: Isa) -> Conv<'_> {
        let Self { block, axes, is_sum, activation, .. } = *self;
        let start = Start { bias: Some(&self.bias), is_sum };
        let (x, w) = (&self.x, &self.w);
        Conv { isa, block, form: Form::Blocks, axes, x, w, start, activation }
    }

    fn y(&self) -> Vec<f32> {
        if self.is_sum { self.y.clone() } else { vec![f32::NAN; self.y.len()] }
    }

    /// In two ranges of rows, with the sets of output blocks one by one in the second.
    fn found(&self, isa: Isa, cut: usize) -> Vec<f32> {
        let set = variant(isa, self.block).filters;
        let channels = self.inputs * self.block;
        let tile = self.tile();
        let mut packed = vec![f32::NAN; tile.packed_len(self.filters * self.block, channels)];
        let filters = Filters { isa, block: self.block, set, inputs: channels, tile, w: &self.w };
        filters.pack(&mut packed);
        let mut scratch = vec![f32::NAN; tile.scratch_len(isa, self.block, channels, &self.axes)];
        let whole = Winograd { conv: self.conv(isa), packed: &packed };
        let [height, width] = self.axes.map(|axis| axis.output);
        let rows = tile.grid(&self.axes)[0];
        let mut y = self.y();
        let at = height.min(cut * tile.outputs()[0]) * width * self.block;
        let pieces = y.chunks_exact_mut((height * width * self.block).max(1));
        let (mut front, mut back): (Vec<_>, Vec<_>) = pieces.map(|y| y.split_at_mut(at)).unzip();
        whole.run(0..rows.min(cut), &mut front, &mut scratch);
        for (i, y) in back.chunks_mut(set).enumerate() {
            let mut part = whole;
            let filter_len = channels * self.block;
            part.conv.w = &part.conv.w[i * set * filter_len * tile.n_taps()..];
            part.conv.start.bias = part.conv.start.bias.map(|b| &b[i * set * self.block..]);
            part.packed = &part.packed[i * set * filter_len * tile.products()..];
            part.run(rows.min(cut)..rows, y, &mut scratch);
        }
        y
    }

    fn direct(&self, isa: Isa) -> Vec<f32> {
        let mut y = self.y();
        let positions = self.axes[0].output * self.axes[1].output;
        let mut pieces: Vec<_> = y.chunks_exact_mut((positions * self.block).max(1)).collect();
        self.conv(isa).run(0..positions, &mut pieces);
        y
    }

    /// Each output without an activation, and the error bound of its result.
    fn expected(&self) -> Vec<[f64; 2]> {
        let [height, width] = self.axes.map(|axis| axis.output);
        let [down, across] = self.tile().outputs();
        let mut expected = vec![[0.0; 2]; self.y.len()];
        for top in (0..height).step_by(down) {
            for left in (0..width).step_by(across) {
                let channels = 0..self.inputs * self.block;
                let windows: Vec<_> = channels.map(|c| self.window(c, [top, left])).collect();
                let sizes: Vec<_> = windows.iter().map(|x| self.absolute_pixels(x)).collect();
                for o in 0..self.filters * self.block {
                    self.expect_tile(o, [top, left], (&windows, &sizes), &mut expected);
                }
            }
        }
        expected
    }

    /// The same for a tile of output channel `o`, from its inputs and absolute transforms.
    fn expect_tile(
        &self,
        o: usize,
        [top, left]: [usize; 2],
        (windows, sizes): (&[Rows], &[Rows]),
        expected: &mut [[f64; 2]],
    ) {
        let [height, width] = self.axes.map(|axis| axis.output);
        let ([down, across], [kh, kw]) = (self.tile().outputs(), self.tile().taps());
        let filters: Vec<_> = (0..windows.len()).map(|c| self.taps(o, c)).collect();
        let [h, w] = self.tile().windows();
        let mut products = vec![vec![0.0; w]; h];
        for (u, v) in filters.iter().map(|w| self.absolute_filter(w)).zip(sizes) {
            for (i, row) in products.iter_mut().enumerate() {
                row.iter_mut().enumerate().for_each(|(j, sum)| *sum += u[i][j] * v[i][j]);
            }
        }
        let terms = (windows.len() + if kh > 1 && kw > 1 { 19 } else { 11 }) as f64;
        for row in top..height.min(top + down) {
            for column in left..width.min(left + across) {
                let (r, c) = (row - top, column - left);
                let place = (o / self.block * height + row) * width + column;
                let at = place * self.block + o % self.block;
                let before = if self.is_sum { f64::from(self.y[at]) } else { 0.0 };
                let bias = f64::from(self.bias[o]);
                let taps = |(w, x): (&Rows, &Rows)| -> f64 {
                    (0..kh * kw).map(|i| w[i / kw][i % kw] * x[r + i / kw][c + i % kw]).sum()
                };
                let sum: f64 = filters.iter().zip(windows).map(taps).sum();
                let size = bias.abs() + before.abs() + self.back(&products, [r, c]);
                expected[at] = [sum + bias + before, terms * U / (1.0 - terms * U) * size];
            }
        }
    }

    /// The inputs of a tile.
    fn window(&self, channel: usize, [top, left]: [usize; 2]) -> Rows {
        let [h, w] = self.tile().windows();
        let row = |r| (0..w).map(|c| self.pixel(channel, [top + r, left + c])).collect();
        (0..h).map(row).collect()
    }

    fn taps(&self, o: usize, channel: usize) -> Rows {
        let (b, [kh, kw]) = (self.block, self.tile().taps());
        let filter = (o / b * self.inputs + channel / b) * kh * kw;
        let at = |tap| ((filter + tap) * b + channel % b) * b + o % b;
        let row = |r| (0..kw).map(|c| f64::from(self.w[at(r * kw + c)])).collect();
        (0..kh).map(row).collect()
    }

    /// `|G|·|w|·|Gᵀ|`.
    fn absolute_filter(&self, w: &Rows) -> Rows {
        let [down, across] = self.tile().taps().map(|taps| matrices(taps).1);
        along_both(&down, w, &across)
    }

    /// `|Bᵀ|·|x|·|B|`.
    fn absolute_pixels(&self, x: &Rows) -> Rows {
        let [down, across] = self.tile().taps().map(|taps| matrices(taps).2);
        along_both(&down, x, &across)
    }

    /// `|Aᵀ|·m·|A|` at one place of a tile.
    fn back(&self, m: &Rows, [r, c]: [usize; 2]) -> f64 {
        let [down, across] = self.tile().taps().map(|taps| matrices(taps).0);
        along_both(&vec![down[r].clone()], m, &vec![across[c].clone()])[0][0]
    }

    /// The pixel at a place, counted from the padding.
    fn pixel(&self, channel: usize, [row, column]: [usize; 2]) -> f64 {
        let [height, width] = &self.axes;
        let at = height.at(row, 0).zip(width.at(column, 0));
        at.map_or(0.0, |(row, column)| {
            let place = (channel / self.block * height.input + row) * width.input + column;
            f64::from(self.x[place * self.block + channel % self.block])
        })
    }

    fn check(&self) {
        let mut exact = self.expected();
        #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
        let mut results: Vec<f32> = exact.iter().map(|&[y, _]| y as f32).collect();
        self.activation.apply(Isa::Generic, &mut results);
        // None of the activations of these tests is steeper than the identity; they add
        // one rounding of their result, and that of the exact result.
        for ([_, error], y) in exact.iter_mut().zip(&results) {
            *error += 8.0 * U * f64::from(y.abs());
        }
        let rows = self.tile().grid(&self.axes)[0];
        for isa in Isa::all() {
            let found = self.found(isa, rows.div_ceil(3));
            assert_eq!(found, self.found(isa, rows), "cut or whole: {:?} {isa:?}", self.axes);
            let expected = results.iter().zip(&exact).enumerate();
            for (found, (i, (&y, [_, error]))) in found.into_iter().zip(expected) {
                let is_close = (f64::from(found) - f64::from(y)).abs() <= *error;
                assert!(is_close, "{i}: {found} for {y} ± {error}, {:?} {isa:?}", self.axes);
            }
        }
    }
}

/// Called by the ladder for each variant: equals `generic` within the bound of both.
pub(super) fn agrees_with_generic(isa: Isa) {
    let super::Variant { block, filters, .. } = best(isa);
    for (i, axes) in TAPS.into_iter().flat_map(images).enumerate() {
        for filters in 1..=2 * filters + 1 {
            let mut case = Case::new(block, [1 + i % 3, filters], axes);
            case.is_sum = i % 2 == 0;
            let (found, generic) = (case.found(isa, 1), case.found(Isa::Generic, 1));
            for ((found, generic), [_, error]) in found.iter().zip(generic).zip(case.expected()) {
                assert!(f64::from((found - generic).abs()) <= 2.0 * error, "{axes:?} {filters}");
            }
        }
    }
}

#[test]
fn errors_are_within_the_bound() {
    let clip = Activation::Clip { min: -0.5, max: 0.75 };
    let activations = [Activation::None, Activation::Relu, clip, Activation::Tanh];
    for (i, axes) in TAPS.into_iter().flat_map(images).enumerate() {
        for block in [8, 16] {
            let mut case = Case::new(block, [1 + i % 3, 1 + i % 4], axes);
            (case.is_sum, case.activation) = (i % 3 != 0, activations[i % 4]);
            case.check();
        }
    }
    // Several strips; an image without channels.
    for taps in TAPS {
        Case::new(16, [4, 3], axes(taps, (42, [1, 1]), (43, [1, 1]))).check();
        Case::new(8, [0, 3], axes(taps, (5, [1, 1]), (6, [1, 1]))).check();
    }
}

#[test]
fn epilogues_have_the_bits_of_the_activation() {
    let (scale, shift) = (-1.75, 0.3);
    for isa in Isa::all() {
        for activation in [
            Activation::HardSwish,
            Activation::ScaledRelu { scale, shift },
            Activation::ScaledHardSwish { scale, shift },
            Activation::Sigmoid,
        ] {
            for taps in TAPS {
                let image = axes(taps, (13, [1, 1]), (11, [1, 1]));
                let mut case = Case::new(best(isa).block, [2, 3], image);
                case.x[777] = f32::NAN;
                let mut expected = case.found(isa, 2);
                activation.apply(isa, &mut expected);
                case.activation = activation;
                for (found, expected) in case.found(isa, 2).iter().zip(&expected) {
                    let is_same = found.to_bits() == expected.to_bits();
                    assert!(
                        is_same || found.is_nan() && expected.is_nan(),
                        "{activation:?} {taps:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_amplification_equals_the_contract() {
    for (taps, limits, along_one, along_both) in [
        (2, [7.3, 1.6, 4.9], 60.1, Some(3610.0)),
        (3, [8.4, 1.3, 5.5], 60.1, Some(3610.0)),
        (5, [19.3, 1.4, 15.0], 398.0, None),
    ] {
        let (at, g, bt) = matrices(taps);
        let most = |rows: Rows| rows.iter().map(|row| row.iter().sum()).fold(0.0, f64::max);
        let norms = [most(at), most(g), most(bt)];
        assert!(norms.iter().zip(limits).all(|(norm, limit)| *norm <= limit), "{norms:?}");
        let factor: f64 = norms.iter().product();
        assert!(factor <= along_one, "{factor}");
        assert!(along_both.is_none_or(|limit| factor.powi(2) <= limit), "{factor}");
    }
}

#[test]
fn the_rms_error_is_at_most_three_times_that_of_direct_convolution() {
    for (isa, taps) in Isa::all().flat_map(|isa| TAPS.map(|taps| (isa, taps))) {
        let mut case = Case::new(16, [4, 1], axes(taps, (24, [1, 1]), (24, [1, 1])));
        case.is_sum = false;
        let expected = case.expected();
        let square = |found: Vec<f32>| -> f64 {
            found.iter().zip(&expected).map(|(y, [exact, _])| (f64::from(*y) - exact).powi(2)).sum()
        };
        let (found, direct) = (square(case.found(isa, 1)), square(case.direct(isa)));
        assert!(found <= 9.0 * direct, "{taps:?} {isa:?}: {}", (found / direct).sqrt());
    }
}

#[test]
fn non_finite_results_equal_the_direct_convolutions() {
    for isa in Isa::all() {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX / 4.0] {
            for place in [0, 5, 77, 13 * 11 - 1] {
                for taps in TAPS {
                    let mut case = Case::new(16, [2, 3], axes(taps, (13, [1, 1]), (11, [1, 1])));
                    case.activation = Activation::Relu;
                    case.x[place * 16 + 3] = value;
                    let (found, direct) = (case.found(isa, 2), case.direct(isa));
                    for (found, direct) in found.iter().zip(&direct) {
                        let is_same = found == direct || found.is_nan() && direct.is_nan();
                        let are_finite = found.is_finite() && direct.is_finite();
                        assert!(is_same || are_finite, "{found} for {direct}: {value} at {place}");
                    }
                }
            }
        }
    }
}

#[test]
fn strides_and_other_taps_are_not_supported() {
    let takes = |block, axes: [Axis; 2]| Tile::of(block, &axes).is_some();
    let good = axis(3, 9, [1, 1]);
    assert!(takes(16, [good, good]) && takes(8, [good, Axis { kernel: 1, ..good }]));
    let strided = Axis { stride: 2, ..good };
    let (wide, dilated) = (Axis { kernel: 5, ..good }, Axis { dilation: 2, ..good });
    assert!([strided, wide, dilated].iter().all(|&bad| !takes(16, [good, bad])));
    let one = Axis { kernel: 1, ..good };
    assert!(takes(16, [wide, one]) && !takes(16, [one, one]) && !takes(16, [wide, strided]));
    assert!(!takes(4, [good, good]));
}
