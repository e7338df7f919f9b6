//! Tests of `attention`.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor, f16};

use crate::case::{Case, tensor};

fn case(name: &'static str, n_outputs: usize) -> Case {
    let case = Case::new(name, 1).domain("com.microsoft").outputs(n_outputs);
    case.attr("num_heads", Attr::Int(1))
}

fn floats(values: &[ort_tensor::Value], i: usize) -> Vec<f32> {
    values[i].as_tensor().unwrap().as_slice().unwrap().to_vec()
}

/// Queries and keys are zeros, so that a query returns the mean of the values that it sees.
fn inputs(values: &[f32], rest: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let own =
        [Some(tensor(&[1, values.len(), 1], values)), Some(tensor(&[1, 3], &[0_f32, 0.0, 1.0]))];
    [&own[..], rest].concat()
}

#[test]
fn a_bias_is_optional_and_masks_hide_keys() {
    let causal = || case("Attention", 1).attr("unidirectional", Attr::Int(1));
    let bias = Some(tensor(&[3], &[0_f32, 0.0, 10.0]));
    let mask = |shape: &[usize], flags: &[i32]| vec![None, Some(tensor(shape, flags))];
    let added = tensor(&[1, 1, 2, 2], &[0_f32, f32::NEG_INFINITY, 0.0, 0.0]);
    let cases: [(Case, Vec<Option<Tensor>>, [f32; 2]); 6] = [
        (case("Attention", 1), vec![], [3.0, 3.0]),
        (case("Attention", 1), vec![bias], [13.0, 13.0]),
        (causal(), vec![], [2.0, 3.0]),
        (case("Attention", 1), mask(&[1, 2], &[0, 1]), [4.0, 4.0]),
        (causal(), mask(&[1], &[1]), [2.0, 2.0]),
        (case("Attention", 1), vec![None, None, None, Some(added)], [2.0, 3.0]),
    ];
    for (case, rest, expected) in cases {
        let found = case.run_optional(&inputs(&[2.0, 4.0], &rest)).unwrap();
        assert_eq!(floats(&found, 0), expected, "{rest:?}");
    }
}

#[test]
fn the_past_comes_first_and_is_kept() {
    let past = |n: usize, values: &[f32]| Some(tensor(&[2, 1, 1, n, 1], values));
    let rest = [None, None, past(1, &[0.0, 8.0])];
    let found = case("Attention", 2).run_optional(&inputs(&[2.0], &rest)).unwrap();
    assert_eq!([floats(&found, 0), floats(&found, 1)], [vec![5.0], vec![0.0, 0.0, 8.0, 2.0]]);
    let shared = || case("Attention", 2).attr("past_present_share_buffer", Attr::Int(1));
    let buffer = past(3, &[1.0, 1.0, 1.0, 8.0, 9.0, 7.0]);
    let used = |n: i32| [None, None, buffer.clone(), None, Some(tensor(&[1], &[n]))];
    let found = shared().run_optional(&inputs(&[2.0], &used(1))).unwrap();
    assert_eq!(floats(&found, 0), [5.0]);
    assert_eq!(floats(&found, 1), [1.0, 0.0, 1.0, 8.0, 2.0, 7.0]);
    for n in [-1, 3, 4, i32::MAX] {
        assert!(shared().run_optional(&inputs(&[2.0], &used(n))).is_err(), "{n}");
    }
    assert!(shared().run_optional(&inputs(&[2.0], &[])).is_err());
}

#[test]
fn heads_are_rotated_by_their_position() {
    // One head of two features, which position 1 rotates by one radian: the second query, which is the
    // first one rotated, matches both keys like the first query without positions.
    let x = tensor(&[1, 2, 1], &[1_f32, 1.0]);
    let w = tensor(&[1, 6], &[1_f32, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let case = case("Attention", 2).attr("do_rotary", Attr::Int(1));
    let found = case.run(&[x, w]).unwrap();
    let (sin, cos) = 1_f32.sin_cos();
    assert_eq!(floats(&found, 1), [1.0, 0.0, cos, sin, 0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn quantized_values_are_scaled_and_centered() {
    let inputs = [
        Some(tensor(&[1, 2, 1], &[12_u8, 14])),
        Some(tensor(&[1, 3], &[5_i8, 5, 7])),
        Some(tensor(&[3], &[0_f32; 3])),
        Some(tensor(&[], &[0.5_f32])),
        Some(tensor(&[3], &[1_f32, 1.0, 3.0])),
        None,
        Some(tensor(&[], &[10_u8])),
        Some(tensor(&[], &[5_i8])),
    ];
    let found = case("QAttention", 1).run_optional(&inputs).unwrap();
    assert_eq!(floats(&found, 0), [9.0, 9.0]);
}

#[test]
fn values_can_have_a_width_of_their_own() {
    let widths = |widths: &[i64]| {
        let case = case("Attention", 1).attr("qkv_hidden_sizes", Attr::Ints(widths.to_vec()));
        let half = |values: &[f32]| values.iter().copied().map(f16::from_f32).collect::<Vec<_>>();
        let x = tensor(&[1, 1, 1], &half(&[2.0]));
        case.tensor(&[x, tensor(&[1, 4], &half(&[1.0, 1.0, 3.0, 4.0]))])
    };
    assert_eq!(widths(&[1, 1, 2]), Ok(tensor(&[1, 1, 2], &[6.0, 8.0].map(f16::from_f32))));
    for wrong in [&[1, 2, 1][..], &[1, 1, 1], &[-1, -1, 6], &[1, 1]] {
        assert!(widths(wrong).is_err(), "{wrong:?}");
    }
    let empty = Tensor::zeros(DType::F32, &[2, 0, 1]).unwrap();
    let y = case("Attention", 1).tensor(&[empty.clone(), tensor(&[1, 3], &[1_f32; 3])]);
    assert_eq!(y, Ok(empty));
}
