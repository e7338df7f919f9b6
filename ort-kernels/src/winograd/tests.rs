//! Every variant against the plain convolution in f64 and the bound, and against `generic`.

use super::{
    POINTS, PRODUCTS, TILE, WINDOW, Winograd, best, pack, packed_len, scratch_len, takes, variant,
};
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, Form, Start};
use crate::{Activation, Isa};

/// Half the distance of 1 to the next float.
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

fn axis(input: usize, pad: [usize; 2]) -> Axis {
    Axis { input, output: input + pad[0] + pad[1] - 2, kernel: 3, stride: 1, dilation: 1, pad }
}

/// No inner tile, edges of every width, more tiles than a register tile or a strip has, no input.
fn images() -> Vec<[Axis; 2]> {
    let mut images: Vec<_> = (1..=9).map(|n| [axis(10 - n, [1, 1]), axis(n, [1, 1])]).collect();
    images.extend([
        [axis(6, [0, 0]), axis(70, [0, 0])],
        [axis(3, [2, 5]), axis(11, [4, 0])],
        [axis(16, [0, 2]), axis(60, [3, 1])],
        [axis(0, [2, 2]), axis(5, [1, 1])],
        [axis(2, [0, 0]), axis(5, [1, 1])],
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
            w: numbers(filters * inputs * 9 * block * block, 2),
            bias: numbers(filters * block, 3),
            y: numbers(filters * outputs, 4),
            activation: Activation::None,
            is_sum: true,
        }
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

    /// In two ranges of rows, and with the sets of output blocks one by one in the second.
    fn found(&self, isa: Isa, cut: usize) -> Vec<f32> {
        let set = variant(isa, self.block).filters;
        let channels = self.inputs * self.block;
        let mut packed = vec![f32::NAN; packed_len(self.filters * self.block, channels)];
        pack(self.block, set, channels, &self.w, &mut packed);
        let mut scratch = vec![f32::NAN; scratch_len(isa, self.block, channels, &self.axes)];
        let whole = Winograd { conv: self.conv(isa), packed: &packed };
        let [height, width] = self.axes.map(|axis| axis.output);
        let rows = height.div_ceil(TILE);
        let mut y = self.y();
        let at = height.min(cut * TILE) * width * self.block;
        let pieces = y.chunks_exact_mut((height * width * self.block).max(1));
        let (mut front, mut back): (Vec<_>, Vec<_>) = pieces.map(|y| y.split_at_mut(at)).unzip();
        whole.run(0..rows.min(cut), &mut front, &mut scratch);
        for (i, y) in back.chunks_mut(set).enumerate() {
            let mut part = whole;
            let filter_len = channels * self.block;
            part.conv.w = &part.conv.w[i * set * filter_len * 9..];
            part.conv.start.bias = part.conv.start.bias.map(|b| &b[i * set * self.block..]);
            part.packed = &part.packed[i * set * filter_len * PRODUCTS..];
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

    /// What each output is without an activation, and how far a result may be from it.
    fn expected(&self) -> Vec<[f64; 2]> {
        let [height, width] = self.axes.map(|axis| axis.output);
        let mut expected = vec![[0.0; 2]; self.y.len()];
        for top in (0..height).step_by(TILE) {
            for left in (0..width).step_by(TILE) {
                let channels = 0..self.inputs * self.block;
                let windows: Vec<_> = channels.map(|c| self.window(c, [top, left])).collect();
                let sizes: Vec<_> = windows.iter().map(absolute_pixels).collect();
                for o in 0..self.filters * self.block {
                    self.tile(o, [top, left], (&windows, &sizes), &mut expected);
                }
            }
        }
        expected
    }

    /// The same for a tile of output channel `o`, from what it reads and its transformed sizes.
    fn tile(
        &self,
        o: usize,
        [top, left]: [usize; 2],
        (windows, sizes): (&[Window], &[Window]),
        expected: &mut [[f64; 2]],
    ) {
        let [height, width] = self.axes.map(|axis| axis.output);
        let filters: Vec<_> = (0..windows.len()).map(|c| self.taps(o, c)).collect();
        let mut products = [[0.0; WINDOW]; WINDOW];
        for (u, v) in filters.iter().map(absolute_filter).zip(sizes) {
            for i in 0..PRODUCTS {
                products[i / WINDOW][i % WINDOW] +=
                    u[i / WINDOW][i % WINDOW] * v[i / WINDOW][i % WINDOW];
            }
        }
        let terms = (windows.len() + 19) as f64;
        for row in top..height.min(top + TILE) {
            for column in left..width.min(left + TILE) {
                let (r, c) = (row - top, column - left);
                let place = (o / self.block * height + row) * width + column;
                let at = place * self.block + o % self.block;
                let before = if self.is_sum { f64::from(self.y[at]) } else { 0.0 };
                let bias = f64::from(self.bias[o]);
                let taps = |(w, x): (&[[f64; 3]; 3], &Window)| -> f64 {
                    (0..9).map(|i| w[i / 3][i % 3] * x[r + i / 3][c + i % 3]).sum()
                };
                let sum: f64 = filters.iter().zip(windows).map(taps).sum();
                let size = bias.abs() + before.abs() + back(&products, [r, c]);
                expected[at] = [sum + bias + before, terms * U / (1.0 - terms * U) * size];
            }
        }
    }

    /// The pixels that a tile reads.
    fn window(&self, channel: usize, [top, left]: [usize; 2]) -> Window {
        std::array::from_fn(|r| std::array::from_fn(|c| self.pixel(channel, [top + r, left + c])))
    }

    fn taps(&self, o: usize, channel: usize) -> [[f64; 3]; 3] {
        let b = self.block;
        let filter = (o / b * self.inputs + channel / b) * 9;
        std::array::from_fn(|r| {
            std::array::from_fn(|c| {
                f64::from(self.w[((filter + r * 3 + c) * b + channel % b) * b + o % b])
            })
        })
    }

    /// The pixel at a place that counts from the padding on.
    fn pixel(&self, channel: usize, [row, column]: [usize; 2]) -> f64 {
        let [height, width] = &self.axes;
        let at = height.at(row, 0).zip(width.at(column, 0));
        at.map_or(0.0, |(row, column)| {
            let place = (channel / self.block * height.input + row) * width.input + column;
            f64::from(self.x[place * self.block + channel % self.block])
        })
    }

    fn check(&self, isa: Isa) {
        let rows = self.axes[0].output.div_ceil(TILE);
        let found = self.found(isa, rows.div_ceil(3));
        assert_eq!(found, self.found(isa, rows), "cut or whole: {:?} {isa:?}", self.axes);
        let mut exact = self.expected();
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is meant")]
        let mut results: Vec<f32> = exact.iter().map(|&[y, _]| y as f32).collect();
        self.activation.apply(Isa::Generic, &mut results);
        // None of the activations of these tests is steeper than the identity; what they add
        // themselves is one more rounding of what they give, and that of the exact result.
        for ([_, error], y) in exact.iter_mut().zip(&results) {
            *error += 8.0 * U * f64::from(y.abs());
        }
        for (i, (&found, (&y, [_, error]))) in
            found.iter().zip(results.iter().zip(&exact)).enumerate()
        {
            let is_close = (f64::from(found) - f64::from(y)).abs() <= *error;
            assert!(is_close, "{i}: {found} for {y} ± {error}, {:?} {isa:?}", self.axes);
        }
    }
}

/// What a tile reads of a channel.
type Window = [[f64; WINDOW]; WINDOW];

/// |Aᵀ|, |G| and |Bᵀ|.
type Matrices = ([[f64; WINDOW]; TILE], [[f64; 3]; WINDOW], [[f64; WINDOW]; WINDOW]);

/// As the contract gives them.
fn matrices() -> Matrices {
    let [a, b] = POINTS.map(f64::from);
    let power = |i: i32| [a.powi(i), a.powi(i), b.powi(i), b.powi(i)];
    let row = |first: f64, i, last: f64| {
        let [p0, p1, p2, p3] = power(i);
        [first, p0, p1, p2, p3, last]
    };
    let at = [row(1.0, 0, 0.0), row(0.0, 1, 0.0), row(0.0, 2, 0.0), row(0.0, 3, 1.0)];
    let p = 1.0 / (2.0 * a * a * (b * b - a * a));
    let q = 1.0 / (2.0 * b * b * (b * b - a * a));
    let (pa, qb) = ([p, p * a, p * a * a], [q, q * b, q * b * b]);
    let g = [[1.0 / (a * b).powi(2), 0.0, 0.0], pa, pa, qb, qb, [0.0, 0.0, 1.0]];
    let (sum, product) = (a * a + b * b, (a * b).powi(2));
    let (ra, rb) = ([0.0, a * b * b, b * b, a, 1.0, 0.0], [0.0, a * a * b, a * a, b, 1.0, 0.0]);
    let first = [product, 0.0, sum, 0.0, 1.0, 0.0];
    let last = [0.0, product, 0.0, sum, 0.0, 1.0];
    (at, g, [first, ra, ra, rb, rb, last])
}

/// `|G|·|w|·|Gᵀ|`.
fn absolute_filter(w: &[[f64; 3]; 3]) -> [[f64; WINDOW]; WINDOW] {
    let (_, g, _) = matrices();
    let along = |row: &[f64; 3], w: [f64; 3]| (0..3).map(|i| row[i] * w[i].abs()).sum::<f64>();
    let half = g.map(|row| std::array::from_fn(|c| along(&row, [w[0][c], w[1][c], w[2][c]])));
    half.map(|half: [f64; 3]| g.map(|row| along(&row, half)))
}

/// `|Bᵀ|·|x|·|B|`.
fn absolute_pixels(x: &[[f64; WINDOW]; WINDOW]) -> [[f64; WINDOW]; WINDOW] {
    let (.., bt) = matrices();
    let along = |row: &[f64; WINDOW], x: [f64; WINDOW]| {
        (0..WINDOW).map(|i| row[i] * x[i].abs()).sum::<f64>()
    };
    let half = bt.map(|row| std::array::from_fn(|c| along(&row, x.map(|x| x[c]))));
    half.map(|half: [f64; WINDOW]| bt.map(|row| along(&row, half)))
}

/// `|Aᵀ|·m·|A|` at one place of a tile.
fn back(m: &[[f64; WINDOW]; WINDOW], [r, c]: [usize; 2]) -> f64 {
    let (at, ..) = matrices();
    (0..PRODUCTS).map(|i| at[r][i / WINDOW] * m[i / WINDOW][i % WINDOW] * at[c][i % WINDOW]).sum()
}

/// Called by the ladder for each variant: the same as `generic` within the bound of both.
pub(super) fn agrees_with_generic(isa: Isa) {
    let super::Variant { block, filters, .. } = best(isa);
    for (i, axes) in images().into_iter().enumerate() {
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
    for isa in Isa::all() {
        for (i, axes) in images().into_iter().enumerate() {
            for block in [8, 16] {
                let mut case = Case::new(block, [1 + i % 3, 1 + i % 4], axes);
                (case.is_sum, case.activation) = (i % 3 != 0, activations[i % 4]);
                case.check(isa);
            }
        }
        // Several strips; an image without channels.
        Case::new(16, [4, 3], [axis(42, [1, 1]), axis(43, [1, 1])]).check(isa);
        Case::new(8, [0, 3], [axis(5, [1, 1]), axis(6, [1, 1])]).check(isa);
    }
}

#[test]
fn the_amplification_is_what_the_contract_says() {
    let (at, g, bt) = matrices();
    let most = |rows: &[&[f64]]| rows.iter().map(|row| row.iter().sum()).fold(0.0, f64::max);
    let norms = [
        most(&at.each_ref().map(|row| &row[..])),
        most(&g.each_ref().map(|row| &row[..])),
        most(&bt.each_ref().map(|row| &row[..])),
    ];
    let limits = [8.4, 1.3, 5.5];
    assert!(norms.iter().zip(limits).all(|(norm, limit)| *norm <= limit), "{norms:?}");
    assert!(norms.iter().product::<f64>().powi(2) <= 3610.0, "{norms:?}");
}

#[test]
fn the_error_in_the_mean_is_at_most_three_times_that_of_the_direct_convolution() {
    for isa in Isa::all() {
        let mut case = Case::new(16, [4, 1], [axis(24, [1, 1]), axis(24, [1, 1])]);
        case.is_sum = false;
        let expected = case.expected();
        let square = |found: Vec<f32>| -> f64 {
            found.iter().zip(&expected).map(|(y, [exact, _])| (f64::from(*y) - exact).powi(2)).sum()
        };
        let (found, direct) = (square(case.found(isa, 1)), square(case.direct(isa)));
        assert!(found <= 9.0 * direct, "{isa:?}: {}", (found / direct).sqrt());
    }
}

#[test]
fn what_is_not_finite_comes_out_as_of_the_direct_convolution() {
    for isa in Isa::all() {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX / 4.0] {
            for place in [0, 5, 77, 13 * 11 - 1] {
                let mut case = Case::new(16, [2, 3], [axis(13, [1, 1]), axis(11, [1, 1])]);
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

#[test]
fn only_three_by_three_without_steps_is_taken() {
    let good = axis(9, [1, 1]);
    assert!(takes(16, &[good, good]) && takes(8, &[good, good]));
    let strided = Axis { stride: 2, ..good };
    let (wide, dilated) = (Axis { kernel: 5, ..good }, Axis { dilation: 2, ..good });
    assert!([strided, wide, dilated].iter().all(|&bad| !takes(16, &[good, bad])));
    assert!(!takes(4, &[good, good]));
}
