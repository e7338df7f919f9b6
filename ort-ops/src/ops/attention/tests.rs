//! Tests of `attention`.

use ort_graph::Attr;
use ort_tensor::{Bool, DType, Tensor, f16};

use crate::case::{Case, tensor};

fn case() -> Case {
    Case::new("Attention", 25)
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::F32, shape).unwrap()
}

/// Runs on zero queries and keys, so that a query returns the mean of the values it sees: 1, 2, 4,
/// ….
fn means(case: &Case, q_len: usize, kv_len: usize, rest: &[Option<Tensor>]) -> Vec<f32> {
    let values: Vec<f32> = (0_u8..).map(|j| f32::from(1_u16 << j)).take(kv_len).collect();
    let mut inputs = vec![
        Some(zeros(&[1, 1, q_len, 2])),
        Some(zeros(&[1, 1, kv_len, 2])),
        Some(tensor(&[1, 1, kv_len, 1], &values)),
    ];
    inputs.extend_from_slice(rest);
    let y = case.run_optional(&inputs).unwrap();
    y[0].as_tensor().unwrap().as_slice().unwrap().to_vec()
}

#[test]
fn scores_weigh_the_values() {
    let ln = |x: f64| x.ln();
    let q = tensor(&[1, 1, 2], &[1_f64, 0.0]);
    let k = tensor(&[1, 2, 2], &[ln(3.0), 7.0, ln(1.0), 7.0]);
    let v = tensor(&[1, 2, 2], &[4_f64, 8.0, 0.0, 16.0]);
    let heads =
        |case: Case| case.attr("q_num_heads", Attr::Int(1)).attr("kv_num_heads", Attr::Int(1));
    let y = heads(case()).attr("scale", Attr::Float(1.0)).tensor(&[q, k, v]).unwrap();
    assert_eq!(y.shape(), [1, 1, 2]);
    for (found, expected) in y.as_slice::<f64>().unwrap().iter().zip([3.0, 10.0]) {
        // A logarithm, an exponential and a quotient, each within one rounding.
        assert!((found - expected).abs() <= 4.0 * expected * f64::EPSILON, "{found}");
    }
}

#[test]
fn masks_windows_and_lengths_hide_keys() {
    let flag = |values: &[bool]| {
        Some(tensor(&[1, values.len()], &values.iter().map(|&b| Bool::from(b)).collect::<Vec<_>>()))
    };
    let causal = || case().attr("is_causal", Attr::Int(1));
    let window = |left, right| {
        case().attr("left_window_size", Attr::Int(left)).attr("right_window_size", Attr::Int(right))
    };
    let len = |n: i64| vec![None, None, None, Some(tensor(&[1], &[n]))];
    let additive = Some(tensor(&[3], &[0_f32, f32::NEG_INFINITY, 0.0]));
    let cases: [(Case, &[Option<Tensor>], [f32; 2]); 9] = [
        (case(), &[], [7.0 / 3.0; 2]),
        (case(), &[flag(&[true, false, true])], [2.5; 2]),
        (case(), &[additive], [2.5; 2]),
        (case(), &[flag(&[false, true])], [2.0; 2]),
        (case(), &[flag(&[false; 3])], [0.0; 2]),
        (causal(), &[], [1.0, 1.5]),
        (causal(), &len(1), [0.0, 1.0]),
        (case(), &len(2), [1.5; 2]),
        (window(0, 1), &[], [1.5, 3.0]),
    ];
    for (i, (case, rest, expected)) in cases.iter().enumerate() {
        assert_eq!(means(case, 2, 3, rest), expected, "case {i}");
    }
}

#[test]
fn the_past_comes_first_and_moves_the_diagonal() {
    let inputs = [
        zeros(&[1, 2, 1, 1]),
        zeros(&[1, 1, 1, 1]),
        tensor(&[1, 1, 1, 1], &[6_f32]),
        zeros(&[1]),
        zeros(&[1, 1, 2, 1]),
        tensor(&[1, 1, 2, 1], &[0_f32, 3.0]),
    ];
    let mut inputs: Vec<_> = inputs.into_iter().map(Some).collect();
    inputs[3] = None;
    let causal = case().attr("is_causal", Attr::Int(1)).outputs(4);
    let causal = causal.attr("qk_matmul_output_mode", Attr::Int(3));
    let found = causal.run_optional(&inputs).unwrap();
    let third = 1_f32 / 3.0;
    let expected = [
        tensor(&[1, 2, 1, 1], &[3_f32; 2]),
        zeros(&[1, 1, 3, 1]),
        tensor(&[1, 1, 3, 1], &[0_f32, 3.0, 6.0]),
        tensor(&[1, 2, 1, 3], &[third; 6]),
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.as_tensor().unwrap(), &expected);
    }
}

#[test]
fn each_stage_of_the_scores_can_be_seen() {
    let q = tensor(&[1, 1, 1, 1], &[f16::from_f32(2.0)]);
    let mask = tensor(&[1, 1], &[f16::from_f32(0.5)]);
    for (mode, expected) in
        [(0, 4.0), (1, 2.0 * 2_f32.tanh()), (2, 2.0 * 2_f32.tanh() + 0.5), (3, 1.0)]
    {
        let case = case().attr("softcap", Attr::Float(2.0)).outputs(4);
        let case = case.attr("qk_matmul_output_mode", Attr::Int(mode));
        let found = case.run(&[q.clone(), q.clone(), q.clone(), mask.clone()]).unwrap();
        let scores = tensor(&[1, 1, 1, 1], &[f16::from_f32(expected)]);
        assert_eq!(found[3].as_tensor().unwrap(), &scores, "mode {mode}");
    }
}

#[test]
fn empty_dimensions_are_accepted_and_mismatches_rejected() {
    let run = |q: &[usize], k: &[usize], v: &[usize]| {
        case().run(&[zeros(q), zeros(k), zeros(v)]).map(|_| ())
    };
    for [b, s, t, d] in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] {
        assert_eq!(run(&[b, 2, s, d], &[b, 1, t, d], &[b, 1, t, 3]), Ok(()), "{b} {s} {t} {d}");
    }
    assert!(run(&[1, 3, 1, 1], &[1, 2, 1, 1], &[1, 2, 1, 1]).is_err());
    assert!(run(&[1, 1, 1, 2], &[1, 1, 1, 1], &[1, 1, 1, 1]).is_err());
    assert!(run(&[1, 1, 1, 1], &[1, 1, 1, 1], &[1, 1, 2, 1]).is_err());
    assert!(run(&[1, 1, 1], &[1, 1, 1], &[1, 1, 1]).is_err());
    assert!(run(&[1, 1, 1, 1], &[1, 0, 1, 1], &[1, 0, 1, 1]).is_err());
}
