//! Every function of every type equals the operator.

use ort_graph::Attr;
use ort_tensor::{Bool, DType, Number, Tensor, with_dtype};

use crate::case::{Case, exact, relative};

fn numbers<T: Number>(n: usize) -> Tensor {
    let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 0.0, 0.5, -2.5, 1e300];
    let number = |i: usize| match i % 5 {
        0 => special[i / 5 % 8],
        _ => (i * 7919 % 511) as f64 / 2.0 - 128.0,
    };
    let elements: Vec<T> = (0..n).map(|i| T::from_f64(number(i))).collect();
    Tensor::from_slice(&[n], &elements).unwrap()
}

/// Every function for every supported type.
#[test]
fn elements_equal_the_operators() {
    let floats = [DType::F32, DType::F64, DType::F16, DType::Bf16];
    let doubles = [DType::F64];
    let integers = [DType::I8, DType::I16, DType::I32, DType::I64];
    let unsigned = [DType::U8, DType::U16, DType::U32, DType::U64];
    let cases: [(&str, i32, &[&[DType]]); 14] = [
        ("Abs", 13, &[&doubles, &integers, &unsigned]),
        ("Neg", 13, &[&doubles, &integers]),
        ("Relu", 14, &[&doubles, &integers]),
        ("Sign", 13, &[&floats, &integers, &unsigned]),
        ("BitwiseNot", 18, &[&integers, &unsigned]),
        ("Ceil", 13, &[&doubles]),
        ("Floor", 13, &[&doubles]),
        ("Reciprocal", 13, &[&doubles]),
        ("Round", 11, &[&doubles]),
        ("Sqrt", 13, &[&doubles]),
        ("IsNaN", 20, &[&floats]),
        ("IsInf", 20, &[&floats]),
        ("Clip", 13, &[&doubles, &integers, &unsigned]),
        ("Shrink", 9, &[&doubles, &integers, &unsigned]),
    ];
    for (name, version, types) in cases {
        for dtype in types.iter().copied().flatten() {
            for n in [0, 1, 1001, 200_001] {
                let x = with_dtype!(*dtype, number, T => numbers::<T>(n), else => panic!());
                Case::new(name, version).input(x).check(exact);
            }
        }
    }
}

#[test]
fn bounds_and_flags() {
    let clip = || Case::new("Clip", 13).input(numbers::<i32>(1001));
    clip().weight(Tensor::scalar(-5_i32)).weight(Tensor::scalar(7_i32)).check(exact);
    clip().absent().weight(Tensor::scalar(7_i32)).check(exact);
    clip().weight(Tensor::scalar(9_i32)).check(exact);
    for e in [2_u8, 3] {
        let case = || Case::new("Pow", 15).input(numbers::<f64>(1001));
        case().constant(Tensor::scalar(f32::from(e))).check(relative(4e-16));
        case().constant(Tensor::scalar(i32::from(e))).check(relative(4e-16));
        for x in [numbers::<i32>(1001), numbers::<i64>(1001)] {
            let case = || Case::new("Pow", 15).input(x.clone());
            case().constant(Tensor::scalar(i64::from(e))).check(exact);
            if e == 2 || x.dtype() == DType::I32 {
                case().constant(Tensor::scalar(f32::from(e))).check(exact);
            }
        }
    }
    for (negative, positive) in [(0, 0), (0, 1), (1, 0)] {
        let case = Case::new("IsInf", 20).input(numbers::<f32>(1001));
        let case = case.attr("detect_negative", Attr::Int(negative));
        case.attr("detect_positive", Attr::Int(positive)).check(exact);
    }
    let flags: Vec<Bool> = (0..1001).map(|i| Bool::from(i % 3 == 0)).collect();
    Case::new("Not", 1).input(Tensor::from_slice(&[1001], &flags).unwrap()).check(exact);
}

#[test]
fn numbers_shrink_by_whole_and_other_biases() {
    use DType::{F64, I8, I16, I32, I64, U8, U16, U32, U64};

    let settings = [(3.5, -1.25), (3.5, 1.0), (0.0, 5.0), (-2.0, 1.0), (1e9, 100.0), (7.0, -60.0)];
    for dtype in [F64, I8, I16, I32, I64, U8, U16, U32, U64] {
        for (lambd, bias) in settings {
            let x = with_dtype!(dtype, number, T => numbers::<T>(1001), else => panic!());
            let case = Case::new("Shrink", 9).attr("lambd", Attr::Float(lambd)).input(x);
            case.attr("bias", Attr::Float(bias)).check(exact);
        }
    }
}
