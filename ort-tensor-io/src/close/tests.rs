//! Which values are close, and the reports of mismatches.

use ort_tensor::{Complex, Element, F8E4M3Fn, f16};

use super::*;

fn tensor<T: Element>(data: &[T]) -> Value {
    Value::Tensor(Tensor::from_slice(&[data.len()], data).unwrap())
}

fn close(expected: &Value, found: &Value, rtol: f64, atol: f64) -> bool {
    compare(expected, found, Tolerance { rtol, atol }).is_ok()
}

#[test]
fn numbers_within_the_tolerance_are_close() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let cases = [
        (1.0, 1.0, 0.0, 0.0, true),
        (0.0, -0.0, 0.0, 0.0, true),
        (100.0, 101.0, 0.01, 0.0, true),
        (100.0, 101.5, 0.01, 0.0, false),
        (0.0, 0.5, 1.0, 0.5, true),
        (NAN, NAN, 0.0, 0.0, true),
        (NAN, 1.0, 1.0, 1.0, false),
        (1.0, NAN, 1.0, 1.0, false),
        (INF, INF, 0.0, 0.0, true),
        (INF, -INF, 1.0, 1.0, false),
        (INF, 1.0, 1.0, 1.0, false),
        (1.0, INF, 1.0, 1.0, false),
        (f64::MAX, -f64::MAX, 1.0, 1.0, false),
    ];
    for (expected, found, rtol, atol, is_close) in cases {
        let (x, y) = (tensor(&[expected]), tensor(&[found]));
        assert_eq!(close(&x, &y, rtol, atol), is_close, "{expected} and {found}");
    }
}

#[test]
fn every_element_type_is_compared_by_its_value() {
    let eight = |x: f32| F8E4M3Fn::from_f32(x, true);
    let cases = [
        (tensor(&[2_u8]), tensor(&[3_u8]), 1.0),
        (tensor(&[i64::MAX]), tensor(&[i64::MAX - 1]), 1.0),
        (tensor(&[u64::MAX]), tensor(&[0_u64]), 18_446_744_073_709_551_615.0),
        (tensor(&[f16::ONE]), tensor(&[f16::from_f32(1.5)]), 0.5),
        (tensor(&[eight(1.0)]), tensor(&[eight(2.0)]), 1.0),
        (tensor(&[Complex::new(0_f32, 0.0)]), tensor(&[Complex::new(3_f32, 4.0)]), 5.0),
        (packed(&[0x1f]), packed(&[0x2f]), 1.0),
    ];
    for (expected, found, error) in cases {
        assert!(close(&expected, &expected, 0.0, 0.0), "{expected:?}");
        assert!(close(&expected, &found, 0.0, error), "{expected:?} within {error}");
        assert!(!close(&expected, &found, 0.0, error * 0.99), "{expected:?} below {error}");
    }
}

fn packed(bytes: &'static [u8]) -> Value {
    Tensor::from_bytes(DType::I4, &[bytes.len() * 2], bytes.into()).unwrap().into()
}

#[test]
fn bool_and_strings_are_equal_or_not_whatever_the_tolerance() {
    use ort_tensor::Bool;
    let strings = |s: &str| Value::Tensor(Tensor::from_strings(&[], vec![s.to_owned()]).unwrap());
    assert!(!close(&strings("a"), &strings("b"), 9.0, 9.0));
    assert!(close(&strings("a"), &strings("a"), 0.0, 0.0));
    assert!(!close(&tensor(&[Bool::from(true)]), &tensor(&[Bool::from(false)]), 9.0, 9.0));
}

#[test]
fn a_mismatch_names_the_first_wrong_element() {
    let grid = |data: &[f32]| Value::Tensor(Tensor::from_slice(&[2, 2], data).unwrap());
    let (expected, found) = (grid(&[1.0, 2.0, 3.0, 4.0]), grid(&[1.0, 2.0, 3.5, 6.0]));
    let mismatch = compare(&expected, &found, Tolerance::default()).unwrap_err();
    let text = "element [1, 0]: expected 3.0, found 3.5 (2 of 4 differ, at most by 2e0)";
    assert_eq!(mismatch.to_string(), text);
}

#[test]
fn a_mismatch_reports_other_differences() {
    let (one, two) = (tensor(&[1_i32]), tensor(&[1_i32, 2]));
    let sequence = |values: &[&Value]| Value::Sequence(values.iter().map(|&v| v.clone()).collect());
    let some = |value: &Value| Value::Optional(Some(Box::new(value.clone())));
    let map = |key: i64| {
        let keys = Tensor::from_slice(&[1], &[key]).unwrap();
        Value::Map(Map { keys, values: Tensor::from_slice(&[1], &[0_f32]).unwrap() })
    };
    let cases = [
        (one.clone(), tensor(&[1_i64]), "expected elements of type int32, found int64"),
        (one.clone(), two.clone(), "expected shape [1], found [2]"),
        (one.clone(), sequence(&[]), "expected a tensor, found a sequence"),
        (sequence(&[&one]), sequence(&[]), "expected 1 values, found 0"),
        (
            sequence(&[&one, &sequence(&[&one])]),
            sequence(&[&one, &sequence(&[&two])]),
            "at [1][0]: expected shape [1], found [2]",
        ),
        (some(&one), Value::Optional(None), "expected a value, found none"),
        (some(&one), some(&two), "expected shape [1], found [2]"),
        (
            map(1),
            map(2),
            "at keys: element [0]: expected 1, found 2 (1 of 1 differ, at most by 1e0)",
        ),
    ];
    for (expected, found, text) in cases {
        let mismatch = compare(&expected, &found, Tolerance::default()).unwrap_err();
        assert_eq!(mismatch.to_string(), text);
        assert!(close(&expected, &expected, 0.0, 0.0));
    }
}

#[test]
fn a_tolerance_is_two_numbers() {
    assert_eq!("1e-3 0\n".parse(), Ok(Tolerance { rtol: 1e-3, atol: 0.0 }));
    for text in ["", "1", "1 2 3", "a b", "-1 0", "NaN 0"] {
        assert_eq!(text.parse::<Tolerance>(), Err(ParseToleranceError(text.to_owned())));
    }
}
