//! Tests of `conv`.

use ort_graph::Attr;
use ort_kernels::Isa;

use crate::CpuOptions;
use crate::case::{Case, bound_of_tiles, exact, integers, ulps, within};

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A convolution of `x` with `w`; attributes are a name and one value per axis.
fn conv(group: i64, x: &[usize], w: &[usize], attrs: &[(&str, &[i64])]) -> Case {
    let case = Case::new("Conv", 22).attr("group", Attr::Int(group));
    attrs
        .iter()
        .fold(case, |case, (name, values)| case.attr(name, ints(values)))
        .input(integers(x))
        .weight(integers(w))
}

#[test]
fn sums_of_small_integers_are_exact() {
    let cases = [
        conv(1, &[1, 8, 9, 9], &[16, 8, 1, 1], &[]),
        conv(1, &[2, 3, 17, 19], &[5, 3, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        conv(1, &[1, 3, 30, 31], &[20, 3, 3, 3], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
        conv(1, &[1, 4, 12, 13], &[6, 4, 3, 2], &[("dilations", &[2, 3])]),
        conv(1, &[1, 2, 7, 5], &[3, 2, 5, 1], &[("pads", &[2, 0, 3, 0])]),
        conv(4, &[2, 8, 9, 11], &[12, 2, 3, 3], &[("pads", &[0, 1, 1, 0])]),
        conv(1, &[1, 1, 8, 8], &[17, 1, 3, 3], &[]),
        conv(1, &[1, 5, 40], &[33, 5, 4], &[("strides", &[3])]),
        conv(1, &[1, 2, 4, 5, 6], &[3, 2, 2, 3, 3], &[("pads", &[1, 1, 1, 0, 1, 1])]),
        conv(1, &[1, 40, 20, 20], &[64, 40, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        conv(1, &[1, 64, 7, 7], &[128, 64, 1, 1], &[]),
        conv(1, &[1, 8, 60, 1], &[20, 8, 5, 1], &[]),
        conv(1, &[2, 3, 1, 7], &[5, 3, 1, 3], &[("pads", &[0, 1, 0, 1])]),
        conv(1, &[1, 3, 1, 7], &[5, 3, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        // Few filters, whose image is read directly, and few positions.
        conv(1, &[2, 12, 30, 37], &[24, 12, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        conv(1, &[1, 40, 33, 35], &[5, 40, 1, 1], &[]),
        conv(2, &[1, 10, 120], &[30, 5, 5], &[("strides", &[2]), ("dilations", &[2])]),
        conv(1, &[1, 129, 4], &[128, 129, 3], &[("pads", &[1, 1])]),
        conv(1, &[2, 1, 640], &[258, 1, 256], &[("strides", &[128])]),
        // Patches: some beyond the edges, lines of 16, 11, 7 and 4 taps, several slices of k.
        conv(1, &[1, 3, 112, 128], &[20, 3, 16, 16], &[("strides", &[16, 16])]),
        conv(1, &[1, 3, 63, 64], &[20, 3, 11, 11], &[("strides", &[4, 4]), ("pads", &[2; 4])]),
        conv(1, &[2, 4, 41, 56], &[24, 4, 7, 7], &[("strides", &[4, 4]), ("pads", &[3; 4])]),
        conv(
            1,
            &[1, 5, 9, 9, 60],
            &[18, 5, 2, 3, 4],
            &[("strides", &[2, 1, 4]), ("pads", &[1; 6])],
        ),
        conv(1, &[1, 1, 3, 5], &[20, 1, 3, 9], &[("strides", &[1, 5]), ("pads", &[1, 4, 1, 4])]),
        conv(2, &[1, 64, 1, 1], &[2048, 32, 1, 1], &[]),
        conv(1, &[0, 3, 4, 4], &[2, 3, 1, 1], &[]),
        conv(1, &[1, 3, 4, 4], &[0, 3, 1, 1], &[]),
        conv(2, &[1, 2, 3, 5, 5], &[2, 1, 2, 2, 2], &[]),
    ];
    cases.into_iter().for_each(|case| case.check(exact));
}

/// Convolutions in three dimensions, whose channels fill blocks: groups, shapes of `x` and `w`, and attributes.
const VOLUMES: [(i64, &[usize], &[usize], &[(&str, &[i64])]); 13] = [
    (1, &[1, 16, 6, 20, 21], &[16, 16, 3, 3, 3], &[("pads", &[1; 6])]),
    // Some lanes without a channel, few channels, parts of filters, several images.
    (1, &[2, 13, 5, 17, 16], &[14, 13, 3, 3, 3], &[("pads", &[1, 1, 1, 1, 1, 1])]),
    (1, &[1, 1, 9, 14, 15], &[16, 1, 3, 3, 3], &[("pads", &[1, 1, 1, 1, 1, 1])]),
    (
        1,
        &[2, 3, 9, 24, 25],
        &[32, 3, 3, 7, 7],
        &[("strides", &[1, 2, 2]), ("pads", &[1, 3, 3, 1, 3, 3])],
    ),
    (1, &[1, 32, 3, 9, 9], &[144, 32, 3, 3, 3], &[("pads", &[1, 1, 1, 1, 1, 1])]),
    (1, &[1, 16, 6, 20, 21], &[3, 16, 3, 3, 3], &[("pads", &[1, 1, 1, 1, 1, 1])]),
    (1, &[1, 17, 4, 9, 10], &[24, 17, 3, 5, 5], &[("pads", &[1, 2, 2, 1, 2, 2])]),
    // Strides and dilations, and padding that no tap of the depth leaves.
    (
        1,
        &[1, 16, 9, 12, 13],
        &[32, 16, 3, 3, 3],
        &[("strides", &[2, 2, 2]), ("pads", &[1, 1, 1, 1, 1, 1])],
    ),
    (
        1,
        &[1, 16, 4, 12, 13],
        &[16, 16, 2, 3, 3],
        &[("dilations", &[1, 2, 3]), ("pads", &[4, 2, 3, 5, 2, 3])],
    ),
    // Groups, and taps along some axes only.
    (2, &[1, 32, 4, 20, 20], &[96, 16, 1, 3, 3], &[("pads", &[0, 1, 1, 0, 1, 1])]),
    (1, &[1, 16, 12, 7, 7], &[32, 16, 3, 1, 1], &[("pads", &[1, 0, 0, 1, 0, 0])]),
    (1, &[1, 16, 12, 1, 30], &[16, 16, 3, 1, 3], &[("pads", &[1, 0, 1, 1, 0, 1])]),
    // A plane in several chunks, and more planes than are stored at a time.
    (1, &[1, 16, 5, 180, 200], &[16, 16, 2, 3, 3], &[("pads", &[0, 1, 1, 1, 1, 1])]),
];

#[test]
fn volumes_are_exact_or_within_the_bound_of_their_tiles() {
    let direct = CpuOptions { winograd: false, ..CpuOptions::default() };
    for (group, x, w, attrs) in VOLUMES {
        let plain = conv(group, x, w, attrs);
        let has_planes = plain.variant().starts_with("conv_planes_");
        assert!(has_planes || Isa::best() == Isa::Generic, "{x:?} {w:?}");
        plain.clone().options(direct).check(exact);
        if w[0] < 8 {
            assert!(plain.clone().options(direct).variant().starts_with("conv_f32/"));
        }
        let channels = u16::try_from(w[1] * w[2]).unwrap();
        plain.check(within(bound_of_tiles(channels, [3, 3])));
    }
}

#[test]
fn a_summand_is_added_to_volumes() {
    let (x, w) = ([1, 16, 4, 20, 20], [24, 16, 3, 3, 3]);
    for winograd in [true, false] {
        let case = Case::new("FusedConv", 1).domain("com.microsoft");
        let case = case.attr("activation", Attr::String("Relu".into())).attr("pads", ints(&[1; 6]));
        let case = case.input(integers(&x)).weight(integers(&w)).weight(integers(&[24]));
        let case = case.input(integers(&[1, 24, 4, 20, 20]));
        let case = case.options(CpuOptions { winograd, ..CpuOptions::default() });
        assert!(case.variant().starts_with("conv_planes_") || Isa::best() == Isa::Generic);
        case.check(within(if winograd { 0.1 } else { 0.0 }));
    }
}

#[test]
fn planes_of_small_integers_are_exact() {
    let cases = [
        conv(3, &[2, 3, 10, 9], &[3, 1, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        conv(3, &[1, 3, 10, 9], &[6, 1, 3, 3], &[("strides", &[2, 2])]),
        conv(5, &[1, 5, 33], &[5, 1, 7], &[("pads", &[3, 3])]),
        conv(2, &[1, 2, 40, 50], &[2, 1, 5, 5], &[("dilations", &[2, 1]), ("pads", &[4, 2, 4, 2])]),
        conv(64, &[1, 64, 56, 56], &[64, 1, 3, 3], &[("pads", &[1, 1, 1, 1])]),
        conv(2, &[1, 2, 1, 5, 5], &[4, 1, 1, 3, 3], &[]),
        conv(2, &[0, 2, 4, 4], &[2, 1, 1, 1], &[]),
    ];
    cases.into_iter().for_each(|case| case.check(exact));
}

#[test]
fn padding_follows_its_name() {
    for name in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        let case = conv(1, &[1, 2, 6, 7], &[3, 2, 2, 4], &[("strides", &[1, 2])]);
        case.attr("auto_pad", Attr::String(name.into())).check(exact);
    }
}

#[test]
fn bias_residual_and_activation_come_in_this_order() {
    for name in ["", "Relu", "LeakyRelu", "Sigmoid", "HardSwish", "Softsign"] {
        for (group, x, w) in [
            (1, [2, 6, 9, 8], [20, 6, 3, 3]),
            (1, [1, 6, 9, 32], [20, 6, 3, 3]),
            (1, [1, 6, 3, 5], [20, 6, 3, 3]),
            (2, [1, 6, 9, 8], [4, 3, 3, 3]),
            (6, [1, 6, 9, 8], [6, 1, 3, 3]),
        ] {
            let fused = || {
                Case::new("FusedConv", 1)
                    .domain("com.microsoft")
                    .attr("group", Attr::Int(group))
                    .attr("activation", Attr::String(name.into()))
                    .input(integers(&x))
                    .weight(integers(&w))
            };
            let y = [x[0], w[0], x[2] - 2, x[3] - 2];
            fused().weight(integers(&[w[0]])).input(integers(&y)).check(ulps(4));
            fused().absent().input(integers(&y)).check(ulps(4));
            fused().weight(integers(&[w[0]])).check(ulps(4));
        }
    }
}

/// Sums are at most 54 products of 9 and a bias of 3, and exact; the function's magnitude is at most its argument's,
/// with an error of less than four roundings of it.
#[test]
fn quick_gelu_comes_last() {
    for alpha in [1.0, 1.702] {
        Case::new("FusedConv", 1)
            .domain("com.microsoft")
            .attr("activation", Attr::String("QuickGelu".into()))
            .attr("activation_params", Attr::Floats(vec![alpha]))
            .input(integers(&[2, 6, 9, 8]))
            .weight(integers(&[20, 6, 3, 3]))
            .weight(integers(&[20]))
            .check(within(512.0 * 4.0 * f32::EPSILON / 2.0));
    }
}
