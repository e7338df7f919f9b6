//! Tests of the convolution of bytes.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, bytes, exact, floats};

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
fn results_are_those_of_eval() {
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
fn groups_signed_images_and_points() {
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
