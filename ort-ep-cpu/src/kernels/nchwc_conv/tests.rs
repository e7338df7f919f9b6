//! Tests of `nchwc_conv`.

use ort_graph::Attr;

use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;

use super::winograd::Sizes;
use crate::case::{Case, bound_of_tiles, exact, integers, ulps, within};
use crate::steps::assert_steps;
use crate::{CpuOptions, IsaChoice};

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A convolution of `x` with `w`; attributes are a name and one value per axis.
fn conv(block: i64, group: i64, x: [usize; 4], w: [usize; 4], attrs: &[(&str, &[i64])]) -> Case {
    let case = Case::new("Conv", 1).domain("com.microsoft.nchwc");
    let case = case.attr("block_size", Attr::Int(block)).attr("group", Attr::Int(group));
    attrs
        .iter()
        .fold(case, |case, (name, values)| case.attr(name, ints(values)))
        .input(integers(&x))
        .weight(integers(&w))
}

/// Without Winograd.
fn direct() -> CpuOptions {
    CpuOptions { winograd: false, ..without_matrix_tiles() }
}

/// The best instruction set without matrix tiles, which would always be selected.
fn without_matrix_tiles() -> CpuOptions {
    let isa = if Isa::best().amx().is_some() { IsaChoice::Avx512 } else { IsaChoice::Best };
    CpuOptions { isa, ..CpuOptions::default() }
}

#[test]
fn sums_of_small_integers_are_exact() {
    let pads: (&str, &[i64]) = ("pads", &[1, 1, 1, 1]);
    let cases = [
        // NCHWc inputs.
        conv(16, 1, [1, 32, 9, 9], [48, 32, 1, 1], &[]),
        conv(16, 1, [2, 16, 9, 7], [80, 16, 3, 3], &[pads]),
        conv(16, 1, [1, 64, 7, 7], [64, 64, 3, 3], &[pads, ("strides", &[2, 2])]),
        conv(8, 1, [1, 24, 10, 13], [40, 24, 3, 2], &[("dilations", &[2, 3]), pads]),
        conv(8, 1, [1, 8, 12, 5], [8, 8, 5, 1], &[("pads", &[2, 0, 3, 0])]),
        conv(8, 1, [1, 8, 3, 2], [16, 8, 5, 7], &[("pads", &[2, 4, 2, 3])]),
        conv(4, 1, [1, 12, 6, 6], [8, 12, 1, 1], &[("strides", &[2, 3])]),
        conv(1, 1, [1, 3, 6, 6], [5, 3, 3, 3], &[pads]),
        conv(16, 1, [1, 256, 14, 14], [160, 256, 1, 1], &[]),
        conv(16, 1, [1, 32, 1, 40], [16, 32, 1, 5], &[("pads", &[0, 2, 0, 2])]),
        // Large enough for several threads: a large image, many filters.
        conv(16, 1, [1, 16, 30, 31], [32, 16, 3, 3], &[pads]),
        conv(16, 1, [1, 64, 3, 3], [320, 64, 3, 3], &[pads]),
        conv(8, 1, [2, 16, 17, 17], [264, 16, 1, 1], &[]),
        conv(16, 80, [1, 80, 33, 34], [80, 1, 5, 5], &[("pads", &[2; 4])]),
        conv(16, 400, [1, 400, 14, 13], [400, 1, 3, 3], &[pads]),
        conv(16, 1, [1, 480, 7, 7], [160, 480, 1, 1], &[]),
        conv(16, 1, [1, 64, 1, 1], [1280, 64, 1, 1], &[]),
        // Groups.
        conv(16, 2, [2, 64, 5, 6], [96, 32, 3, 3], &[pads]),
        conv(8, 3, [1, 24, 5, 6], [24, 8, 3, 3], &[("strides", &[2, 1])]),
        // NCHW inputs.
        conv(16, 1, [2, 3, 17, 19], [32, 3, 7, 7], &[("strides", &[2, 2]), ("pads", &[3; 4])]),
        conv(8, 1, [1, 3, 17, 19], [8, 3, 3, 3], &[("dilations", &[1, 2])]),
        conv(8, 2, [1, 6, 9, 9], [32, 3, 3, 3], &[pads]),
        conv(16, 1, [1, 1, 8, 8], [16, 1, 3, 3], &[]),
        // Depthwise.
        conv(16, 48, [2, 48, 10, 9], [48, 1, 3, 3], &[pads]),
        conv(8, 24, [1, 24, 10, 33], [24, 1, 5, 5], &[("pads", &[2; 4]), ("strides", &[2, 2])]),
        conv(2, 6, [1, 6, 10, 33], [6, 1, 3, 3], &[("dilations", &[2, 3]), pads]),
        conv(16, 16, [1, 16, 5, 5], [16, 1, 1, 1], &[]),
        // Empty.
        conv(16, 1, [0, 16, 4, 4], [16, 16, 1, 1], &[]),
        conv(16, 1, [1, 16, 4, 4], [0, 16, 1, 1], &[]),
    ];
    cases.into_iter().for_each(|case| case.options(direct()).check(exact));
}

#[test]
fn bias_sum_and_activation_come_in_this_order() {
    for name in ["", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish"] {
        for (block, group, x, w) in [
            (16, 1, [2, 48, 9, 8], [32, 48, 3, 3]),
            (8, 2, [1, 16, 9, 8], [16, 8, 3, 3]),
            (8, 1, [1, 3, 9, 8], [16, 3, 3, 3]),
            (16, 32, [1, 32, 9, 8], [32, 1, 3, 3]),
            (16, 16, [1, 16, 90, 50], [16, 1, 3, 3]),
        ] {
            let fused =
                || conv(block, group, x, w, &[]).attr("activation", Attr::String(name.into()));
            let y = [x[0], w[0], x[2] - 2, x[3] - 2];
            fused().weight(integers(&[w[0]])).input(integers(&y)).check(ulps(4));
            fused().absent().input(integers(&y)).check(ulps(4));
            fused().weight(integers(&[w[0]])).check(ulps(4));
        }
    }
}

#[test]
fn tiles_are_within_their_bound() {
    let pads: (&str, &[i64]) = ("pads", &[1, 1, 1, 1]);
    for (case, channels) in [
        // One range of rows, several for several threads, clipped rows.
        (conv(16, 1, [1, 16, 30, 31], [32, 16, 3, 3], &[pads]), 16),
        (conv(16, 1, [1, 32, 48, 48], [16, 32, 3, 3], &[("pads", &[0, 1, 2, 1])]), 32),
        (conv(8, 1, [1, 16, 90, 22], [24, 16, 3, 3], &[pads]), 16),
        // More filters than image, and more than one part can have.
        (conv(16, 1, [1, 32, 16, 16], [288, 32, 3, 3], &[pads]), 32),
        // Groups and images.
        (conv(16, 2, [2, 64, 22, 22], [96, 32, 3, 3], &[pads]), 32),
    ] {
        let case = case.attr("activation", Attr::String("LeakyRelu".into()));
        let case = case.options(without_matrix_tiles());
        assert!(case.variant().starts_with("winograd_4x3/"), "{}", case.variant());
        case.check(within(bound_of_tiles(channels, [3, 3])));
    }
    let case = || {
        let case = conv(16, 1, [1, 32, 20, 24], [32, 32, 3, 3], &[pads]);
        case.options(without_matrix_tiles())
    };
    let sum = || integers(&[1, 32, 20, 24]);
    case().weight(integers(&[32])).input(sum()).check(within(bound_of_tiles(32, [3, 3])));
    case().absent().input(sum()).check(within(bound_of_tiles(32, [3, 3])));
}

#[test]
fn tiles_of_two_taps_are_within_their_bound() {
    for (taps, pads, name) in [
        ([2_u16, 2], [0, 1, 1, 0], "winograd_4x2/"),
        ([2, 3], [1, 1, 0, 1], "winograd_4x3/"),
        ([3, 2], [1, 0, 1, 1], "winograd_4x3/"),
    ] {
        let [kh, kw] = taps.map(usize::from);
        for (block, channels) in [(16, 32_u16), (8, 32)] {
            let c = usize::from(channels);
            let case = conv(block, 1, [2, c, 30, 27], [48, c, kh, kw], &[("pads", &pads)]);
            let case = case.options(without_matrix_tiles());
            assert!(case.variant().starts_with(name), "{}", case.variant());
            case.check(within(bound_of_tiles(channels, taps)));
        }
    }
}

#[test]
fn tiles_along_one_axis_are_within_their_bound() {
    for (channels, [height, width], taps) in [
        // Ranges of rows, one row and more filters than image, both axes with a clipped end.
        (128_u16, [203, 1], [3_u16, 1]),
        (128, [1, 206], [1, 3]),
        (64, [90, 22], [5, 1]),
        (64, [45, 45], [1, 5]),
        (128, [60, 3], [5, 1]),
        (256, [203, 1], [2, 1]),
        (256, [1, 206], [1, 2]),
    ] {
        let ([down, across], [kh, kw]) = (taps.map(|n| i64::from(n / 2)), taps.map(usize::from));
        let c = usize::from(channels);
        let case = conv(
            16,
            1,
            [2, c, height, width],
            [c, c, kh, kw],
            &[("pads", &[down, across, down, across])],
        );
        let case = case.options(without_matrix_tiles());
        let name = format!("winograd_4x{}/", kh.max(kw));
        assert!(case.variant().starts_with(&name), "{}", case.variant());
        case.check(within(bound_of_tiles(channels, taps)));
    }
}

#[test]
fn tiles_can_be_switched_off() {
    let case = conv(16, 1, [1, 16, 30, 31], [32, 16, 3, 3], &[("pads", &[1; 4])]);
    let case = case.options(without_matrix_tiles());
    assert!(case.variant().starts_with("winograd_4x3/"), "{}", case.variant());
    let case = case.options(direct());
    assert!(case.variant().starts_with("conv_nchwc/"), "{}", case.variant());
}

#[test]
fn tiles_are_used_where_they_are_faster() {
    for (channels, filters, side, is_faster) in [
        (64, 64, 56, true),
        (128, 128, 28, true),
        (256, 256, 14, true),
        (512, 512, 7, false),
        (64, 64, 9, false),
        (16, 16, 160, true),
        (16, 16, 8, false),
        (96, 32, 160, true),
    ] {
        for isa in Isa::all() {
            let block = if isa.avx512().is_some() { 16 } else { 8 };
            let axis = Axis { input: side, output: side, kernel: 3, pad: [1, 1], ..Axis::UNIT };
            let sizes = |axes| Sizes { isa, block, channels, filters, axes };
            let found = sizes([axis, axis]).is_faster(None);
            assert_eq!(found, is_faster, "{channels} to {filters} of {side}, {isa:?}");
            assert!(!sizes([axis, Axis { stride: 2, ..axis }]).is_faster(None));
        }
    }
    // Along one axis: fewer products are saved.
    for (channels, kernel, length, is_faster) in [
        (256, 5, 508, true),
        (64, 5, 512, true),
        (16, 5, 4096, false),
        (256, 3, 508, true),
        (32, 3, 512, false),
    ] {
        let axis =
            Axis { input: length, output: length, kernel, pad: [kernel / 2; 2], ..Axis::UNIT };
        for axes in [[axis, Axis::UNIT], [Axis::UNIT, axis]] {
            let sizes = Sizes { isa: Isa::best(), block: 16, channels, filters: channels, axes };
            let found = sizes.is_faster(None);
            assert_eq!(found, is_faster, "{channels} channels, {kernel} taps of {length}");
        }
    }
}

#[test]
fn constants_after_an_activation_are_fused() {
    for activation in ["Relu", "HardSwish"] {
        assert_steps(
            &format!(
                "graph(x: float[1,32,9,37], z: float[1,32,9,37]) -> (b, c, e, f, k) {{
                   w = const float[32,32,1,1] fill 0.125
                   v = const float[32,1,3,3] fill 0.5
                   scale = const float[] -1.75
                   shift = const float[1] [0.3]
                   y = com.microsoft.nchwc:Conv-1 [activation: \"{activation}\", block_size: 16] (x, w, _, z)
                   a = Mul-14 (scale, y)
                   b = Add-14 (a, shift)
                   d = com.microsoft.nchwc:Conv-1 [activation: \"{activation}\", block_size: 16, group: 32, pads: [1, 1, 1, 1]] (b, v)
                   c = Add-14 (shift, d)
                   g = com.microsoft.nchwc:Conv-1 [activation: \"{activation}\", block_size: 8] (c, w)
                   e = Mul-14 (g, shift)
                   h = com.microsoft.nchwc:Conv-1 [activation: \"Sigmoid\", block_size: 16] (c, w)
                   f = Mul-14 (h, shift)
                   i = com.microsoft.nchwc:Conv-1 [activation: \"{activation}\", block_size: 16] (c, w)
                   j = Mul-14 (i, shift)
                   k = Mul-14 (i, j)
                 }}"
            ),
            &[3, 2, 2, 1, 1, 1, 2],
        );
    }
}
