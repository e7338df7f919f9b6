//! Tests of `moe`.

use ort_graph::Attr;
use ort_tensor::{Number, Tensor};

use crate::case::{Case, floats};

const N_EXPERTS: usize = 5;

fn numbers<T: Number>(shape: &[usize], scale: f32) -> Tensor {
    let wide = floats(shape);
    let numbers = wide.as_slice::<f32>().unwrap().iter();
    let numbers: Vec<T> = numbers.map(|x| T::from_f64(f64::from(x * scale))).collect();
    Tensor::from_slice(shape, &numbers).unwrap()
}

/// A mixture; weights are at most a quarter.
fn case<T: Number>(
    [m, hidden, inner]: [usize; 3],
    (activation, fusion): (&str, usize),
    is_full: bool,
) -> Case {
    let int = |size: usize| Attr::Int(i64::try_from(size).unwrap());
    let first = if fusion > 0 { 2 * inner } else { inner };
    let mut x = numbers::<T>(&[m, hidden], 1.0).as_slice::<T>().unwrap().to_vec();
    if let Some(x) = x.get_mut(3 * hidden) {
        *x = T::from_f64(f64::NAN);
    }
    let layer = |case: Case, n: usize, k: usize| {
        let case = case.weight(numbers::<T>(&[N_EXPERTS, n, k], 1.0 / 16.0));
        if is_full { case.input(numbers::<T>(&[N_EXPERTS, n], 1.0)) } else { case.absent() }
    };
    let case = Case::new("MoE", 1)
        .domain("com.microsoft")
        .attr("k", int(2))
        .attr("normalize_routing_weights", int(usize::from(is_full)))
        .attr("activation_type", Attr::String(activation.into()))
        .attr("swiglu_fusion", int(fusion))
        .input(Tensor::from_slice(&[m, hidden], &x).unwrap())
        .input(numbers::<T>(&[m, N_EXPERTS], 1.0));
    layer(layer(case, first, hidden), hidden, inner)
}

/// Numbers between the layers are below 200, or their squares; sums of 160 products of them with weights are below
/// 2²⁰.
fn is_close(epsilon: f32) -> impl Fn(f64, f64) -> bool {
    move |found, expected| {
        let bound = 2_f64.powi(10) * f64::from(epsilon) * (1.0 + expected.abs());
        (found - expected).abs() <= bound
            || found.is_nan() && expected.is_nan()
            || found == expected
    }
}

#[test]
fn results_equal_eval() {
    let plain = ["relu", "gelu", "silu", "identity"].map(|name| (name, 0));
    let gates = [("swiglu", 1), ("swiglu", 2), ("geglu", 1), ("geglu", 2)];
    for sizes in [[1, 64, 96], [7, 33, 17], [150, 48, 160], [0, 5, 3], [6, 1, 2]] {
        for of in plain.into_iter().chain(gates) {
            for is_full in [false, true] {
                case::<f32>(sizes, of, is_full).check(is_close(f32::EPSILON));
            }
        }
        case::<ort_tensor::f16>(sizes, ("silu", 0), true).check(is_close(1e-6));
    }
}

#[test]
fn a_gate_has_its_limits() {
    for after in [0, 1] {
        let case = case::<f32>([20, 40, 150], ("swiglu", 1), true);
        let case = case.attr("swiglu_limit", Attr::Float(1.5));
        let case = case.attr("swiglu_limit_after_activation", Attr::Int(after));
        let case = case.attr("activation_alpha", Attr::Float(1.702));
        case.attr("activation_beta", Attr::Float(1.0)).check(is_close(f32::EPSILON));
    }
}
