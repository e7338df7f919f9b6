//! Tests of `reduce`.

use ort_graph::{Attr, Dim, Fact, Facts, NodeSpec};
use ort_tensor::{Bool, DType, Element, Tensor, bf16, f16};

use super::DEFS;
use crate::case::{Case, tensor};

/// Reduces over all axes, dropping them.
fn all<T: Element>(name: &'static str, x: &[T]) -> T {
    let newest = DEFS.iter().find(|def| def.name == name).unwrap().versions.1;
    let case = Case::new(name, newest).attr("keepdims", Attr::Int(0));
    case.tensor(&[tensor(&[x.len()], x)]).unwrap().as_slice().unwrap()[0]
}

#[test]
fn each_form_follows_its_formula() {
    let x = [3.0_f32, -4.0, 0.5, 1.0];
    let cases = [
        ("ReduceL1", 8.5),
        ("ReduceL2", 26.25_f32.sqrt()),
        ("ReduceLogSum", 0.5_f32.ln()),
        ("ReduceMax", 3.0),
        ("ReduceMean", 0.125),
        ("ReduceMin", -4.0),
        ("ReduceProd", -6.0),
        ("ReduceSum", 0.5),
        ("ReduceSumSquare", 26.25),
    ];
    for (name, expected) in cases {
        assert_eq!(all(name, &x), expected, "{name}");
        assert_eq!(all(name, &x.map(f16::from_f32)), f16::from_f32(expected), "{name}");
        assert_eq!(all(name, &x.map(bf16::from_f32)), bf16::from_f32(expected), "{name}");
    }
    assert_eq!(all("ReduceLogSumExp", &[0.0_f64; 4]), 4_f64.ln());
}

#[test]
fn nothing_reduces_to_the_neutral_value() {
    let (inf, none) = (f32::INFINITY, f32::NEG_INFINITY);
    let cases = [
        ("ReduceL1", 0.0, 0),
        ("ReduceL2", 0.0, 0),
        ("ReduceLogSum", none, i32::MIN),
        ("ReduceLogSumExp", none, i32::MIN),
        ("ReduceMax", none, i32::MIN),
        ("ReduceMean", 0.0, 0),
        ("ReduceMin", inf, i32::MAX),
        ("ReduceProd", 1.0, 1),
        ("ReduceSum", 0.0, 0),
        ("ReduceSumSquare", 0.0, 0),
    ];
    for (name, float, int) in cases {
        assert_eq!(all::<f32>(name, &[]), float, "{name}");
        assert_eq!(all::<i32>(name, &[]), int, "{name}");
        let axis = Case::new(name, 11).attr("axes", Attr::Ints(vec![-2]));
        assert_eq!(axis.tensor(&[tensor::<f32>(&[0, 2], &[])]), Ok(tensor(&[1, 2], &[float; 2])));
    }
    assert_eq!(all("ReduceMax", &[] as &[Bool]), Bool::from(false));
    assert_eq!(all("ReduceMin", &[] as &[Bool]), Bool::from(true));
}

#[test]
fn integers_wrap_and_means_are_exact() {
    assert_eq!(all("ReduceSum", &[i32::MAX, 1]), i32::MIN);
    assert_eq!(all("ReduceSum", &[u64::MAX, 3]), 2);
    assert_eq!(all("ReduceProd", &[i64::MAX, 2]), -2);
    assert_eq!(all("ReduceL1", &[i64::MIN]), i64::MIN);
    assert_eq!(all("ReduceMean", &[i64::MAX, i64::MAX - 2]), i64::MAX - 1);
    assert_eq!(all("ReduceMean", &[-3, 0]), -1);
    assert_eq!(all("ReduceMax", &[i64::MAX, i64::MAX - 1]), i64::MAX);
    assert_eq!(all("ReduceMin", &[3_u8, 250, 7]), 3);
    assert_eq!(all("ReduceMax", &[Bool::from(false), Bool::from(true)]), Bool::from(true));
}

#[test]
fn infinities_and_nan_are_values() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (x, expected) in [([-inf, -inf], -inf), ([inf, 1.0], inf), ([1.0, -inf], 1.0)] {
        assert_eq!(all("ReduceLogSumExp", &x), expected, "{x:?}");
    }
    assert_eq!(all("ReduceLogSumExp", &[1e30_f32, 0.0]), 1e30);
    for name in ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceLogSumExp"] {
        for x in [[1.0, nan], [nan, 1.0]] {
            assert!(all(name, &x).is_nan(), "{name} of {x:?}");
        }
    }
}

#[test]
fn axes_are_an_attribute_first_and_an_input_later() {
    let x = tensor(&[2, 3], &[1_i64, 2, 3, 4, 5, 6]);
    let axes = |axes: &[i64]| Attr::Ints(axes.to_vec());
    let rows = tensor(&[2, 1], &[6_i64, 15]);
    let old = Case::new("ReduceSum", 11).attr("axes", axes(&[-1]));
    assert_eq!(old.tensor(std::slice::from_ref(&x)), Ok(rows.clone()));
    let new = Case::new("ReduceSum", 13);
    assert_eq!(new.tensor(&[x.clone(), tensor(&[1], &[1_i64])]), Ok(rows));
    let columns = Case::new("ReduceSum", 13).attr("keepdims", Attr::Int(0));
    let found = columns.tensor(&[x.clone(), tensor(&[1], &[-2_i64])]);
    assert_eq!(found, Ok(tensor(&[3], &[5_i64, 7, 9])));
    for axes in [[2].as_slice(), &[0, 0], &[i64::MIN]] {
        assert!(new.tensor(&[x.clone(), tensor(&[axes.len()], axes)]).is_err(), "{axes:?}");
    }
}

#[test]
fn no_axes_mean_all_or_none() {
    let x = tensor(&[1, 2], &[3_f32, -1.0]);
    let none = tensor::<i64>(&[0], &[]);
    for (noop, expected) in [(0, tensor(&[1, 1], &[10_f32])), (1, tensor(&[1, 2], &[9_f32, 1.0]))] {
        let case = Case::new("ReduceSumSquare", 18).attr("noop_with_empty_axes", Attr::Int(noop));
        assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(expected.clone()));
        assert_eq!(case.tensor(&[x.clone(), none.clone()]), Ok(expected));
    }
    let scalar = Tensor::scalar(4_f32);
    assert_eq!(Case::new("ReduceMean", 18).tensor(std::slice::from_ref(&scalar)), Ok(scalar));
}

#[test]
fn axes_that_come_later_leave_the_rank_known() {
    let attrs = ort_graph::Attrs::new().with("keepdims", Attr::Int(0));
    let spec = NodeSpec::new(18, &[true, true], 1, &attrs);
    let op = crate::registry().build("", "ReduceMax", &spec).unwrap();
    let (x, axes) = (Fact::shaped(DType::F32, &[2, 3]), Fact::shaped(DType::I64, &[1]));
    let found = op.infer(&Facts::new(&[Some(&x), Some(&axes)])).unwrap();
    assert_eq!(found, [Fact::tensor(DType::F32, [Dim::Unknown])]);
}
