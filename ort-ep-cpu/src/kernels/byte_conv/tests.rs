//! Tests of the convolution of bytes.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, bytes, exact, floats};
use crate::steps::assert_steps;

fn case(x: Tensor, zero: Tensor, w: &[usize]) -> Case {
    let scale = |value: f32| Tensor::scalar(value);
    Case::new("QLinearConv", 10)
        .input(x)
        .input(scale(0.05))
        .input(zero)
        .constant(bytes(w, u8::cast_signed))
        .constant(floats(&w[..1]))
        .constant(Tensor::scalar(0_i8))
        .input(scale(20.0))
}

#[test]
fn results_equal_eval() {
    let ints = |values: &[i64]| Attr::Ints(values.to_vec());
    let x = |shape: &[usize]| bytes(shape, |bits| bits);
    let attrs = |case: Case| case.attr("pads", ints(&[1, 1, 2, 0])).attr("strides", ints(&[1, 2]));
    for filters in [1, 12] {
        let case = attrs(case(x(&[2, 5, 9, 20]), Tensor::scalar(3_u8), &[filters, 5, 3, 2]));
        case.clone().input(Tensor::scalar(100_u8)).check(exact);
        let bias = bytes(&[filters], |bits| i32::from(bits) * 50);
        case.input(Tensor::scalar(-7_i8)).constant(bias).check(exact);
    }
}

#[test]
fn groups_signed_images_and_pointwise_kernels_equal_eval() {
    let x = |shape: &[usize]| bytes(shape, u8::cast_signed);
    let grouped = case(x(&[1, 6, 40, 15]), Tensor::scalar(-3_i8), &[9, 2, 3, 3]);
    let grouped = grouped.attr("group", Attr::Int(3)).attr("dilations", Attr::Ints(vec![2, 1]));
    grouped.input(Tensor::scalar(5_i8)).check(exact);
    let point = case(x(&[1, 64, 30, 30]), Tensor::scalar(9_i8), &[40, 64, 1, 1]);
    point.input(Tensor::scalar(128_u8)).check(exact);
    let line = case(x(&[2, 3, 30]), Tensor::scalar(9_i8), &[4, 3, 5]);
    line.input(Tensor::scalar(0_i8)).check(exact);
}

#[test]
fn channels_may_be_the_last_dimension() {
    let x = |shape: &[usize]| bytes(shape, |bits| bits);
    let case = |x: Tensor, zero: Tensor, w: &[usize]| {
        let case = case(x, zero, w).domain("com.microsoft").version(1);
        case.attr("channels_last", Attr::Int(1))
    };
    let pads = Attr::Ints(vec![1, 1, 2, 0]);
    let conv = case(x(&[2, 9, 20, 5]), Tensor::scalar(3_u8), &[12, 5, 3, 2]).attr("pads", pads);
    let conv = conv.attr("strides", Attr::Ints(vec![1, 2]));
    let bias = bytes(&[12], |bits| i32::from(bits) * 50);
    conv.input(Tensor::scalar(100_u8)).constant(bias).check(exact);
    let point = case(x(&[1, 30, 30, 64]), Tensor::scalar(9_u8), &[40, 64, 1, 1]);
    point.input(Tensor::scalar(-5_i8)).check(exact);
    let signed = bytes(&[1, 30, 3], u8::cast_signed);
    let line = case(signed, Tensor::scalar(9_i8), &[4, 3, 5]);
    line.input(Tensor::scalar(0_i8)).check(exact);
}

/// Quantized values of 8 bits, int8 or uint8.
fn quantized(shape: &[usize], is_signed: bool) -> Tensor {
    if is_signed { bytes(shape, u8::cast_signed) } else { bytes(shape, |bits| bits) }
}

fn zero(value: i8, is_signed: bool) -> Tensor {
    if is_signed { Tensor::scalar(value) } else { Tensor::scalar(value.cast_unsigned()) }
}

/// `[shape of x, shape of w]`, then strides, dilations and pads.
type Sizes<'a> = (&'a [usize], &'a [usize], [i64; 2], [i64; 2], [i64; 4]);

const DEPTHWISE: [Sizes<'_>; 5] = [
    (&[2, 70, 9, 33], &[70, 1, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
    (&[1, 16, 14, 80], &[16, 1, 5, 5], [2, 2], [1, 1], [2, 1, 2, 1]),
    (&[1, 3, 40, 60], &[3, 1, 3, 3], [1, 3], [2, 1], [0, 2, 1, 0]),
    (&[1, 130, 60, 33], &[130, 1, 3, 3], [2, 2], [1, 1], [1, 1, 1, 1]),
    (&[1, 4, 20, 30], &[4, 1, 12, 11], [1, 1], [1, 1], [5, 5, 5, 5]),
];

fn windows(case: Case, (_, w, strides, dilations, pads): Sizes<'_>) -> Case {
    let case = case.attr("strides", Attr::Ints(strides.to_vec()));
    let case = case.attr("dilations", Attr::Ints(dilations.to_vec()));
    case.attr("pads", Attr::Ints(pads.to_vec())).attr("group", Attr::Int(w[0].try_into().unwrap()))
}

#[test]
fn depthwise_equals_eval() {
    for (i, sizes) in DEPTHWISE.into_iter().enumerate() {
        let (x, w, ..) = sizes;
        let (of_x, of_w) = (i % 2 == 1, i % 3 != 1);
        let signs = [false, true];
        for (x_sign, w_sign) in [(of_x, of_w), (signs[i % 2], !of_w)] {
            let case = Case::new("QLinearConv", 10)
                .input(quantized(x, x_sign))
                .input(Tensor::scalar(0.05_f32))
                .input(zero(3, x_sign))
                .constant(quantized(w, w_sign))
                .constant(floats(&w[..1]))
                .constant(zero(if w_sign { 0 } else { -120 }, w_sign))
                .input(Tensor::scalar(9_f32))
                .input(zero(100, x_sign))
                .constant(bytes(&w[..1], |bits| i32::from(bits) * 50));
            windows(case, sizes).check(exact);
            let case = Case::new("ConvInteger", 10).input(quantized(x, x_sign));
            let case = case.constant(quantized(w, w_sign)).input(zero(-7, x_sign));
            windows(case.clone(), sizes).check(exact);
            windows(case.constant(quantized(&w[..1], w_sign)), sizes).check(exact);
        }
    }
}

#[test]
fn channels_last_depthwise_equals_eval() {
    for sizes in &DEPTHWISE[..4] {
        let (&(x, w, ..), [n, c, h, width]) = (sizes, [0, 1, 2, 3].map(|i| sizes.0[i]));
        assert_eq!(x.len(), 4);
        for (x_sign, w_sign) in [(false, true), (true, false)] {
            let case = Case::new("QLinearConv", 1)
                .domain("com.microsoft")
                .attr("channels_last", Attr::Int(1))
                .input(quantized(&[n, h, width, c], x_sign))
                .input(Tensor::scalar(0.05_f32))
                .input(zero(3, x_sign))
                .constant(quantized(w, w_sign))
                .constant(Tensor::scalar(0.1_f32))
                .constant(zero(if w_sign { 0 } else { -120 }, w_sign))
                .input(Tensor::scalar(1_f32))
                .input(zero(100, x_sign))
                .constant(bytes(&w[..1], |bits| i32::from(bits) * 50));
            windows(case, *sizes).check(exact);
        }
    }
}

#[test]
fn weights_of_either_sign_and_any_zero_point_equal_eval() {
    for (x_sign, w_sign) in [(false, false), (true, false), (false, true), (true, true)] {
        for (x, w, group) in [
            (&[2, 33, 9, 10][..], &[7, 33, 3, 3][..], 1),
            (&[1, 8, 12, 40], &[12, 4, 1, 1], 2),
            (&[1, 3, 300], &[32, 3, 7], 1),
            (&[1, 4, 5, 6, 7], &[9, 4, 3, 2, 3], 1),
        ] {
            let case = Case::new("ConvInteger", 10).attr("group", Attr::Int(group));
            let case = case.input(quantized(x, x_sign)).constant(quantized(w, w_sign));
            case.clone().check(exact);
            let case = case.input(zero(5, x_sign));
            case.clone().constant(zero(-3, w_sign)).check(exact);
            case.constant(quantized(&w[..1], w_sign)).check(exact);
            if group == 1 {
                let mut last = x.to_vec();
                last[1..].rotate_left(1);
                let case = Case::new("QLinearConv", 1)
                    .domain("com.microsoft")
                    .attr("channels_last", Attr::Int(1))
                    .input(quantized(&last, x_sign))
                    .input(Tensor::scalar(0.05_f32))
                    .input(zero(3, x_sign))
                    .constant(quantized(w, w_sign))
                    .constant(Tensor::scalar(0.1_f32));
                let case = case.constant(quantized(&w[..1], w_sign));
                case.input(Tensor::scalar(7_f32)).input(zero(3, x_sign)).check(exact);
            }
        }
    }
}

#[test]
fn the_epilogue_of_a_dynamically_quantized_convolution_is_fused() {
    let text = |rest: &str| {
        format!(
            "graph(x: float[2,6,9,10]) -> (y) {{
               w = const uint8[12,6,3,3] fill 200
               d = const uint8[6,1,3,3] fill 3
               wz = const uint8[] 120
               s = const float[] 0.001
               b = const float[1,12,1,1] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
               p = const float[6] [1, 2, 3, 4, 5, 6]
               low = const float[] 0
               high = const float[] 6
               xs = const float[] 0.01
               qz = const uint8[] 100
               q = QuantizeLinear-13 (x, xs, qz)
               ss = Mul-14 (xs, s)
               {rest}
             }}"
        )
    };
    let plain = "c = ConvInteger-10 [pads: [1, 1, 1, 1]] (q, w, qz, wz)
                 f = Cast-13 [to: 1] (c)";
    let grouped = "c = ConvInteger-10 [group: 6] (q, d, qz, wz)
                   f = Cast-13 [to: 1] (c)";
    for (steps, rest) in [
        (&[1, 1, 3][..], format!("{plain}\n y = Mul-14 (f, ss)")),
        (&[1, 1, 4], format!("{plain}\n m = Mul-14 (f, ss)\n y = Add-14 (m, b)")),
        (&[1, 1, 5], format!("{plain}\n m = Mul-14 (ss, f)\n a = Add-14 (b, m)\n y = Relu-14 (a)")),
        (
            &[1, 1, 5],
            format!(
                "{grouped}\n m = Mul-14 (f, ss)\n n = BatchNormalization-15 (m, p, p, p, p)
                 y = Clip-13 (n, low, high)"
            ),
        ),
    ] {
        assert_steps(&text(&rest), steps);
    }
}
