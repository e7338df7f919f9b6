//! Compares every form with the contract, literally: one chain of multiply-adds, bit by bit.

use super::{Conv, Form, Size, Start, best, suited, variant};
use crate::conv_f32::Axis;
use crate::isa::GENERIC_FMA;
use crate::{Activation, Isa};
use std::ops::Range;

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

pub(super) fn axis(
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pad: [usize; 2],
) -> Axis {
    let output = (input + pad[0] + pad[1] - (kernel - 1) * dilation - 1) / stride + 1;
    Axis { input, output, kernel, stride, dilation, pad }
}

/// Sizes that cover every path: one long row, no interior, both edges, strides and dilations,
/// every length of a tile.
pub(super) fn planes() -> Vec<[Axis; 2]> {
    let mut planes: Vec<_> =
        (1..=20).map(|n| [axis(1, 1, 1, 1, [0; 2]), axis(n, 1, 1, 1, [0; 2])]).collect();
    planes.extend([
        [axis(5, 1, 1, 1, [0; 2]), axis(7, 1, 1, 1, [0; 2])],
        [axis(5, 1, 2, 1, [0; 2]), axis(9, 1, 3, 1, [0; 2])],
        [axis(6, 3, 1, 1, [1; 2]), axis(11, 3, 1, 1, [1; 2])],
        [axis(7, 3, 2, 1, [1; 2]), axis(30, 3, 2, 1, [1, 0])],
        [axis(6, 2, 1, 3, [2; 2]), axis(9, 3, 1, 2, [3, 1])],
        [axis(2, 5, 1, 1, [4; 2]), axis(3, 5, 1, 1, [4; 2])],
        [axis(9, 5, 2, 1, [2; 2]), axis(21, 5, 1, 1, [2; 2])],
        [axis(0, 1, 1, 1, [1; 2]), axis(2, 1, 1, 1, [1; 2])],
        [axis(2, 1, 1, 1, [0; 2]), axis(0, 2, 1, 1, [1; 2])],
    ]);
    planes
}

/// One case: `inputs` counts blocks for Blocks, planes for Planes.
pub(super) struct Case {
    pub(super) isa: Isa,
    block: usize,
    form: Form,
    inputs: usize,
    filters: usize,
    pub(super) axes: [Axis; 2],
    pub(super) x: Vec<f32>,
    pub(super) w: Vec<f32>,
    bias: Vec<f32>,
    pub(super) y: Vec<f32>,
}

impl Case {
    pub(super) fn new(
        isa: Isa,
        block: usize,
        form: Form,
        [inputs, filters]: [usize; 2],
        axes: [Axis; 2],
    ) -> Self {
        let [plane, outputs, taps] = [
            axes[0].input * axes[1].input,
            axes[0].output * axes[1].output,
            axes[0].kernel * axes[1].kernel,
        ];
        let (x_len, w_len) = match form {
            Form::Blocks => (inputs * block, inputs * taps * block * block),
            Form::Planes => (inputs, inputs * taps * block),
            Form::Depthwise => (filters * block, taps * block),
        };
        Self {
            isa,
            block,
            form,
            inputs,
            filters,
            axes,
            x: numbers(x_len * plane, 1),
            w: numbers(filters * w_len, 2),
            bias: numbers(filters * block, 3),
            y: numbers(filters * outputs * block, 4),
        }
    }

    /// The contract: one chain of multiply-adds from bias and summand.
    fn element(&self, start: f32, [f, row, column, lane]: [usize; 4]) -> f32 {
        let fused = suited(self.isa, self.block) != Isa::Generic;
        let [h, w] = self.axes;
        let (lanes, inputs) = match self.form {
            Form::Blocks => (self.block, self.inputs),
            Form::Planes => (1, self.inputs),
            Form::Depthwise => (self.block, 1),
        };
        let is_depthwise = self.form == Form::Depthwise;
        let mut sum = start;
        for input in 0..inputs {
            for tap_y in (0..h.kernel).filter(|&tap| h.at(row, tap).is_some()) {
                for (tap_x, k) in (0..w.kernel).flat_map(|t| (0..lanes).map(move |k| (t, k))) {
                    if is_depthwise && k != lane {
                        continue;
                    }
                    let source = if is_depthwise { f } else { input };
                    let at = |x| {
                        ((source * h.input + h.at(row, tap_y).unwrap()) * w.input + x) * lanes + k
                    };
                    let x = w.at(column, tap_x).map_or(0.0, |x| self.x[at(x)]);
                    let tap = ((f * inputs + input) * h.kernel + tap_y) * w.kernel + tap_x;
                    let vector = if is_depthwise { tap } else { tap * lanes + k };
                    let w = self.w[vector * self.block + lane];
                    sum = if fused || GENERIC_FMA { x.mul_add(w, sum) } else { x * w + sum };
                }
            }
        }
        sum
    }

    pub(super) fn expected(
        &self,
        has_bias: bool,
        is_sum: bool,
        activation: Activation,
    ) -> Vec<f32> {
        let [height, width] = [self.axes[0].output, self.axes[1].output];
        let one = |(i, &y): (usize, &f32)| {
            let (lane, position) = (i % self.block, i / self.block);
            let (f, row) = (position / width / height, position / width % height);
            let bias = if has_bias { self.bias[f * self.block + lane] } else { 0.0 };
            let start = if is_sum { y + bias } else { bias };
            self.element(start, [f, row, position % width, lane])
        };
        let mut y: Vec<f32> = self.y.iter().enumerate().map(one).collect();
        activation.apply(self.isa, &mut y);
        y
    }

    /// Computed in two ranges of positions.
    fn found(&self, has_bias: bool, is_sum: bool, activation: Activation) -> Vec<f32> {
        let conv = self.conv(has_bias, is_sum, activation);
        self.by_parts(is_sum, |positions, pieces| conv.run(positions, pieces))
    }

    /// The y of two calls of `run`.
    pub(super) fn by_parts(
        &self,
        is_sum: bool,
        mut run: impl FnMut(Range<usize>, &mut [&mut [f32]]),
    ) -> Vec<f32> {
        let mut y = if is_sum { self.y.clone() } else { vec![f32::NAN; self.y.len()] };
        let positions = self.axes[0].output * self.axes[1].output;
        let cut = positions / 3;
        let pieces = y.chunks_exact_mut((positions * self.block).max(1));
        let (mut front, mut back): (Vec<_>, Vec<_>) =
            pieces.map(|piece| piece.split_at_mut(cut * self.block)).unzip();
        run(0..cut, &mut front);
        run(cut..positions, &mut back);
        y
    }

    pub(super) fn size(&self) -> Size {
        Size { axes: self.axes, inputs: self.inputs, filters: self.filters }
    }

    pub(super) fn conv(&self, has_bias: bool, is_sum: bool, activation: Activation) -> Conv<'_> {
        Conv {
            isa: self.isa,
            block: self.block,
            form: self.form,
            axes: self.axes,
            x: &self.x,
            w: &self.w,
            start: Start { bias: has_bias.then_some(&self.bias), is_sum },
            activation,
        }
    }

    fn check(&self, has_bias: bool, is_sum: bool, activation: Activation) {
        let found = self.found(has_bias, is_sum, activation);
        let expected = self.expected(has_bias, is_sum, activation);
        let Self { isa, block, form, inputs, filters, axes, .. } = self;
        let what = format!("{isa:?} {form:?} of {block}, {inputs} to {filters}, {axes:?}");
        assert_eq!(found, expected, "{what}");
    }
}

/// Called by the ladder for each variant.
pub(super) fn agrees_with_generic(isa: Isa) {
    let super::Variant { block, filters, .. } = best(isa);
    check(isa, block, 2 * filters + 1);
}

#[test]
fn generic_is_the_chain() {
    for block in [1, 2, 4, 8, 16, 64] {
        check(Isa::Generic, block, 2);
    }
}

#[test]
fn a_block_is_computed_by_the_variant_for_its_size() {
    for isa in Isa::all() {
        for block in [4, 8, 16] {
            let suited = suited(isa, block);
            assert!(suited == Isa::Generic || best(suited).block == block, "{isa:?} {block}");
            check(isa, block, variant(isa, block).filters);
        }
    }
}

fn check(isa: Isa, block: usize, most: usize) {
    let relu = Activation::Relu;
    for (i, axes) in planes().into_iter().enumerate() {
        let filters = 1 + i % most;
        for (form, inputs) in
            [(Form::Blocks, 1 + i % 3), (Form::Planes, i % 4), (Form::Depthwise, 1)]
        {
            let case = Case::new(isa, block, form, [inputs, filters], axes);
            case.check(i % 2 == 0, i % 3 == 0, if i % 5 == 0 { relu } else { Activation::None });
        }
    }
    for filters in 1..=most {
        // Filters that span several slices.
        let axes = [axis(4, 3, 1, 1, [1; 2]), axis(13, 3, 1, 1, [1; 2])];
        let inputs = 40_000 / (9 * block * block * filters) + 2;
        let case = Case::new(isa, block, Form::Blocks, [inputs.min(9), filters], axes);
        case.check(true, true, Activation::Clip { min: -0.5, max: 0.75 });
        case.check(true, false, Activation::Tanh);
    }
}

#[test]
fn epilogues_have_the_bits_of_the_activation() {
    let (scale, shift) = (-1.75, 0.3);
    for isa in Isa::all() {
        for activation in [
            Activation::Relu,
            Activation::Clip { min: -0.5, max: 0.75 },
            Activation::HardSwish,
            Activation::ScaledRelu { scale, shift },
            Activation::ScaledHardSwish { scale, shift },
            Activation::Sigmoid,
        ] {
            for form in [Form::Blocks, Form::Planes, Form::Depthwise] {
                let axes = [axis(9, 3, 1, 1, [1; 2]), axis(13, 3, 1, 1, [1; 2])];
                let mut case = Case::new(isa, best(isa).block, form, [1, best(isa).filters], axes);
                (case.x[40], case.x[70], case.x[105]) =
                    (f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
                let mut expected = case.found(true, false, Activation::None);
                activation.apply(isa, &mut expected);
                let found = case.found(true, false, activation);
                for (found, expected) in found.iter().zip(&expected) {
                    let is_same = found.to_bits() == expected.to_bits();
                    assert!(
                        is_same || found.is_nan() && expected.is_nan(),
                        "{activation:?} {form:?}"
                    );
                }
            }
        }
    }
}
