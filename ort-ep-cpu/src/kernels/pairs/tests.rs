//! Every function of every type equals the operator.

use ort_graph::Attr;
use ort_tensor::{Bool, DType, Number, Tensor, n_elements, with_dtype};

use crate::case::{Case, exact, ulps};

const SHAPES: [[&[usize]; 2]; 10] = [
    [&[], &[]],
    [&[3, 700], &[3, 700]],
    [&[3, 700], &[]],
    [&[1], &[2, 33]],
    [&[5, 2, 40], &[40]],
    [&[70, 3], &[3]],
    [&[7, 500], &[500]],
    [&[2, 3, 5, 7], &[1, 3, 1, 1]],
    [&[0, 3], &[1, 3]],
    [&[3, 1, 171, 211], &[3, 2, 1, 1]],
];

/// Numbers without zeros; floats include NaN.
fn numbers<T: Number>(shape: &[usize]) -> Tensor {
    let n = n_elements(shape).unwrap();
    let number = |i: usize| match i % 11 {
        0 => [f64::NAN, f64::INFINITY, -1e300, 1e300, 2_147_483_648.0][i / 11 % 5],
        _ => (i * 7919 % 509) as f64 - 254.5,
    };
    let nonzero = |x: T| if x == T::default() { T::from_f64(1.0) } else { x };
    let elements: Vec<T> = (0..n).map(|i| nonzero(T::from_f64(number(i + n)))).collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

fn of(dtype: DType, shape: &[usize]) -> Tensor {
    with_dtype!(dtype, number, T => numbers::<T>(shape), else => {
        let flags: Vec<Bool> =
            (0..n_elements(shape).unwrap()).map(|i| (i % 3 == 0).into()).collect();
        Tensor::from_slice(shape, &flags).unwrap()
    })
}

fn check(name: &'static str, version: i32, dtype: DType) {
    for [a, b] in SHAPES {
        for [a, b] in [[a, b], [b, a]] {
            let case = Case::new(name, version).input(of(dtype, a)).weight(of(dtype, b));
            match name {
                "Mod" => case.attr("fmod", Attr::Int(dtype.is_float().into())).check(exact),
                _ => case.check(exact),
            }
        }
    }
}

#[test]
fn arithmetic_of_every_type_equals_the_operator() {
    let names = [
        ("Add", 14),
        ("Sub", 14),
        ("Mul", 14),
        ("Div", 14),
        ("Mod", 13),
        ("Max", 13),
        ("Min", 13),
        ("Equal", 19),
        ("Greater", 13),
        ("LessOrEqual", 16),
        ("Less", 13),
        ("GreaterOrEqual", 16),
    ];
    for (name, version) in names {
        for dtype in DType::ALL.iter().filter(|dtype| dtype.is_number()) {
            check(name, version, *dtype);
        }
    }
}

#[test]
fn bits_and_booleans_equal_the_operators() {
    for dtype in DType::ALL.iter().filter(|dtype| dtype.is_integer()) {
        for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"] {
            check(name, 18, *dtype);
        }
    }
    for name in ["And", "Or", "Xor"] {
        check(name, 7, DType::Bool);
    }
    check("Equal", 19, DType::Bool);
}

#[test]
fn shifts_of_every_type_and_distance_equal_the_operator() {
    for &dtype in DType::ALL.iter().filter(|dtype| dtype.is_integer()) {
        let distances = with_dtype!(dtype, integer, T => {
            let distances: Vec<T> = (0..66).map(|n| T::from_f64(f64::from(n) - 1.0)).collect();
            Tensor::from_slice(&[66], &distances).unwrap()
        }, else => unreachable!("an integer type"));
        for direction in ["LEFT", "RIGHT"] {
            Case::new("BitShift", 28)
                .attr("direction", Attr::String(direction.into()))
                .input(of(dtype, &[7, 66]))
                .input(distances.clone())
                .check(exact);
        }
    }
}

#[test]
fn leaks_of_every_type_equal_the_operator() {
    let types = [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I32, DType::I64];
    for dtype in types.into_iter().chain([DType::U32, DType::U64]) {
        for [x, slope] in
            [[&[3, 700][..], &[3, 700]], [&[3, 700], &[]], [&[2, 3, 5, 7], &[3, 1, 1]]]
        {
            Case::new("PRelu", 16).input(of(dtype, x)).weight(of(dtype, slope)).check(exact);
        }
    }
}

#[test]
fn a_divisor_of_zero_is_an_error() {
    let zeros = Tensor::zeros(DType::I16, &[3]).unwrap();
    let case = |name| Case::new(name, 14).input(of(DType::I16, &[3])).input(zeros.clone());
    assert!(case("Div").error().to_string().contains("division by zero"));
}

/// Bases of either sign, zeros, ones and infinities to powers that are whole, odd, half and infinite.
#[test]
fn powers_equal_the_operator() {
    let values = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -2.5, f64::INFINITY, -1e30, f64::NAN, 7.0];
    let bases = |dtype: DType, shape: &[usize], stride: usize| {
        let value = |i: usize| match i * stride % 29 {
            at @ 0..12 => values[at],
            at => at as f64 / 3.0 - 5.0,
        };
        let n = n_elements(shape).unwrap();
        with_dtype!(dtype, number, T => {
            let elements: Vec<T> = (0..n).map(|i| T::from_f64(value(i))).collect();
            Tensor::from_slice(shape, &elements).unwrap()
        }, else => unreachable!())
    };
    for [a, b] in SHAPES {
        for [a, b] in [[a, b], [b, a]] {
            let case =
                |dtype| Case::new("Pow", 15).input(bases(dtype, a, 1)).weight(bases(dtype, b, 12));
            case(DType::F32).check(ulps(1));
            for dtype in [DType::F64, DType::I32, DType::I64] {
                case(dtype).check(exact);
            }
        }
    }
}
