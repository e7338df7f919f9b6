//! Compares every function with the operator.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, exact, floats, ulps, within};

const SHAPES: [&[usize]; 5] = [&[], &[0, 3], &[17], &[2, 3, 5], &[3, 331, 333]];
/// Operands are at most 4, and errors a few units of the operand.
const UNITS_OF_X: f32 = 4.0 * 4.0 * (f32::EPSILON / 2.0);

fn edges() -> Tensor {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    Tensor::from_slice(&[6], &[0.0_f32, -0.0, inf, 100.0, -100.0, nan]).unwrap()
}

#[test]
fn exact_functions_are_exact() {
    for (name, version) in [
        ("Abs", 13),
        ("Ceil", 13),
        ("Floor", 13),
        ("LeakyRelu", 16),
        ("Neg", 13),
        ("Reciprocal", 13),
        ("Relu", 14),
        ("Round", 22),
        ("Shrink", 9),
        ("Sqrt", 13),
        ("ThresholdedRelu", 22),
    ] {
        for shape in SHAPES {
            Case::new(name, version).input(floats(shape)).check(exact);
        }
        Case::new(name, version).input(edges()).check(exact);
    }
}

#[test]
fn a_square_is_exact() {
    let two = Tensor::scalar(2.0_f32);
    for shape in SHAPES {
        Case::new("Pow", 15).input(floats(shape)).constant(two.clone()).check(exact);
    }
}

#[test]
fn exponents_of_any_type_are_constants() {
    let one = Tensor::from_slice(&[1, 1], &[5_i32]).unwrap();
    for e in [Tensor::scalar(5_i64), Tensor::scalar(-2_i8), Tensor::scalar(0.5_f64), one] {
        let case = |x| Case::new("Pow", 15).input(x).constant(e.clone());
        case(floats(&[3, 331])).check(ulps(1));
        case(edges()).check(ulps(1));
    }
}

#[test]
fn approximate_functions_keep_their_bounds() {
    // The bound of the kernel, and half a unit for the rounding of the expected value.
    for (name, version, n) in [
        ("Acos", 22, 3),
        ("Asin", 22, 3),
        ("Atan", 22, 2),
        ("Erf", 13, 2),
        ("Exp", 13, 2),
        ("Sigmoid", 13, 3),
        ("Softsign", 22, 2),
        ("Tanh", 13, 2),
    ] {
        for shape in SHAPES {
            Case::new(name, version).input(floats(shape)).check(ulps(n));
        }
        Case::new(name, version).input(edges()).check(ulps(n));
    }
}

#[test]
fn errors_of_functions_in_f64_are_one_rounding() {
    for (name, version) in [
        ("Acosh", 22),
        ("Asinh", 22),
        ("Atanh", 22),
        ("Celu", 12),
        ("Cos", 22),
        ("Cosh", 22),
        ("Elu", 22),
        ("Log", 13),
        ("Mish", 22),
        ("Selu", 22),
        ("Sin", 22),
        ("Sinh", 22),
        ("Softplus", 22),
        ("Tan", 22),
    ] {
        for shape in SHAPES {
            Case::new(name, version).input(floats(shape)).check(ulps(1));
        }
        Case::new(name, version).input(edges()).check(ulps(1));
    }
    for e in [0.0_f32, 0.5, 3.0, -1.0, -2.5] {
        for x in [floats(&[3, 331]), edges()] {
            // A cube is two products.
            let n = if e == 3.0 { 2 } else { 1 };
            Case::new("Pow", 15).input(x).constant(Tensor::scalar(e)).check(ulps(n));
        }
    }
}

#[test]
fn gated_functions_keep_their_bounds() {
    for (domain, name, version) in [
        ("", "Gelu", 20),
        ("", "HardSigmoid", 22),
        ("", "HardSwish", 22),
        ("", "Swish", 24),
        ("com.microsoft", "FastGelu", 1),
        ("com.microsoft", "Gelu", 1),
        ("com.microsoft", "QuickGelu", 1),
    ] {
        let case = || Case::new(name, version).domain(domain);
        for shape in SHAPES {
            case().input(floats(shape)).check(within(UNITS_OF_X));
        }
        // Differences of the operand, too, have an error of a few of its units.
        case().input(edges()).check(within(100.0 * UNITS_OF_X));
    }
    let tanh = Case::new("Gelu", 20).attr("approximate", Attr::String("tanh".into()));
    tanh.input(floats(&[4, 100])).check(within(UNITS_OF_X));
}

#[test]
fn a_bias_comes_first() {
    for name in ["BiasGelu", "FastGelu"] {
        for shape in [&[7][..], &[0, 5], &[5, 1], &[3, 33], &[2, 300, 200]] {
            let bias = floats(&shape[shape.len() - 1..]);
            let case = Case::new(name, 1).domain("com.microsoft");
            // The sum, at most 8, is rounded before the function, whose slope is below 1.2.
            case.input(floats(shape)).weight(bias).check(within(4.0 * UNITS_OF_X));
        }
    }
}

#[test]
fn clip_takes_bounds_from_attributes_and_inputs() {
    let scalar = |x: f32| Tensor::scalar(x);
    let x = || floats(&[3, 50]);
    Case::new("Clip", 6).attr("max", Attr::Float(1.5)).input(x()).check(exact);
    let case = || Case::new("Clip", 13).input(x());
    case().check(exact);
    case().weight(scalar(-1.0)).weight(scalar(0.5)).check(exact);
    case().absent().weight(scalar(0.5)).check(exact);
    case().weight(scalar(2.0)).weight(scalar(-2.0)).check(exact);
    case().weight(scalar(f32::NAN)).check(exact);
    Case::new("Clip", 13).input(edges()).weight(scalar(0.0)).check(exact);
}
