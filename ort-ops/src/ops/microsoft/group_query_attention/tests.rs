//! Tests of `group_query_attention`.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor, Value};

use crate::case::{Case, tensor};

fn case(n_outputs: usize) -> Case {
    let case = Case::new("GroupQueryAttention", 1).domain("com.microsoft").outputs(n_outputs);
    case.attr("num_heads", Attr::Int(1)).attr("kv_num_heads", Attr::Int(1))
}

fn floats(values: &[Value], i: usize) -> Vec<f32> {
    values[i].as_tensor().unwrap().as_slice().unwrap().to_vec()
}

/// Queries and keys of zeros and these values, the past's first.
fn inputs(past: Option<&[f32]>, new: &[f32], total: i32) -> Vec<Option<Tensor>> {
    let zeros = |n: usize| Some(Tensor::zeros(DType::F32, &[1, n, 1]).unwrap());
    let shape = [1, 1, past.unwrap_or_default().len(), 1];
    vec![
        zeros(new.len()),
        zeros(new.len()),
        Some(tensor(&[1, new.len(), 1], new)),
        past.map(|_| Tensor::zeros(DType::F32, &shape).unwrap()),
        past.map(|past| tensor(&shape, past)),
        Some(tensor(&[1], &[total.saturating_sub(1)])),
        Some(tensor(&[1], &[total])),
    ]
}

#[test]
fn a_query_sees_what_comes_before_it() {
    let new = [2_f32, 4.0, 12.0];
    let window = || case(1).attr("local_window_size", Attr::Int(2));
    let cases = [
        (case(1), [2.0, 3.0, 6.0]),
        (case(1).attr("causal", Attr::Int(0)), [6.0; 3]),
        (window(), [2.0, 3.0, 8.0]),
        (case(1).attr("smooth_softmax", Attr::Int(1)), [1.0, 2.0, 4.5]),
    ];
    for (case, expected) in cases {
        let found = case.run_optional(&inputs(None, &new, 3)).unwrap();
        assert_eq!(floats(&found, 0), expected);
    }
    assert!(window().attr("causal", Attr::Int(0)).run_optional(&inputs(None, &new, 3)).is_err());
}

#[test]
fn the_cache_grows_or_is_filled() {
    let step = |past: &[f32], total| {
        let found = case(3).run_optional(&inputs(Some(past), &[6.0], total))?;
        Ok::<_, String>((floats(&found, 0), floats(&found, 2)))
    };
    assert_eq!(step(&[2.0, 4.0], 3), Ok((vec![4.0], vec![2.0, 4.0, 6.0])));
    assert_eq!(step(&[2.0, 4.0, 9.0], 2), Ok((vec![4.0], vec![2.0, 6.0, 0.0])));
    for total in [i32::MIN, -1, 0, 5, i32::MAX] {
        assert!(step(&[2.0, 4.0, 9.0], total).is_err(), "{total}");
    }
}

#[test]
fn a_window_slides_through_its_cache() {
    let case = case(3).attr("local_window_size", Attr::Int(2));
    let case = case.attr("sliding_window_cache", Attr::Int(1));
    // Positions 3, 4 and 5 are in the cache; position 6 needs room, so two are dropped.
    let found = case.run_optional(&inputs(Some(&[3.0, 4.0, 5.0]), &[6.0], 6)).unwrap();
    assert_eq!((floats(&found, 0), floats(&found, 2)), (vec![5.5], vec![5.0, 6.0, 0.0]));
}

#[test]
fn scores_are_those_of_the_keys_that_are_seen() {
    let sink = |sink: f32| {
        let mut all = inputs(None, &[1.0, 1.0], 2);
        all.extend([None, None, None, Some(tensor(&[1, 1, 2, 2], &[0_f32, 5.0, 5.0, 5.0]))]);
        all.push(Some(tensor(&[1], &[sink])));
        all
    };
    let run = |stage, value| {
        let case = case(4).attr("qk_output", Attr::Int(stage));
        floats(&case.run_optional(&sink(value)).unwrap(), 3)
    };
    assert_eq!(run(1, 0.0), [0.0, 0.0, 5.0, 5.0]);
    assert_eq!(run(2, f32::NEG_INFINITY), [1.0, 0.0, 0.5, 0.5]);
    assert!(case(4).run_optional(&sink(0.0)).is_err());
}

#[test]
fn a_cache_can_be_quantized() {
    let run = |bits, past: Tensor| {
        let scale = Some(tensor(&[1], &[0.5_f32]));
        let mut all = inputs(Some(&[0.0]), &[3.2], 2);
        all[2] = Some(tensor(&[1, 1, 1], &[3.2_f32]));
        (all[3], all[4]) = (Some(past.clone()), Some(past));
        all.extend([None, None, None, None, None, scale.clone(), scale]);
        let kind = || Attr::String("PER_TENSOR".into());
        let case = case(3).attr("k_quant_type", kind()).attr("v_quant_type", kind());
        case.attr("kv_cache_bit_width", Attr::Int(bits)).run_optional(&all)
    };
    // 4 · ½ was there, and 3.2 is kept as 6 · ½.
    let found = run(8, tensor(&[1, 1, 1, 1], &[4_i8])).unwrap();
    assert_eq!(floats(&found, 0), [2.5]);
    assert_eq!(found[2].as_tensor(), Ok(&tensor(&[1, 1, 2, 1], &[4_i8, 6])));
    let found = run(4, tensor(&[1, 1, 1, 1], &[12_u8])).unwrap();
    assert_eq!(floats(&found, 0), [2.5]);
    assert_eq!(found[2].as_tensor(), Ok(&tensor(&[1, 1, 2, 1], &[12_u8, 14])));
    assert!(run(8, tensor(&[1, 1, 1, 1], &[12_u8])).is_err());
}

#[test]
fn packed_heads_are_normalized_and_rotated() {
    let case = case(3).attr("do_rotary", Attr::Int(1)).attr("qk_norm_epsilon", Attr::Float(0.0));
    let cos = Some(tensor(&[2, 1], &[1_f32, 0.0]));
    let sin = Some(tensor(&[2, 1], &[0_f32, 1.0]));
    let mut all =
        vec![Some(tensor(&[1, 2, 6], &[9_f32, 9., 5., 5., 1., 2., 9., 9., 5., 5., 3., 4.]))];
    all.extend([
        None,
        None,
        None,
        None,
        Some(tensor(&[1], &[1])),
        Some(tensor(&[1], &[2])),
        cos,
        sin,
    ]);
    all.extend([None, None, None, None, None]);
    all.extend([Some(tensor(&[2], &[0_f32; 2])), Some(tensor(&[2], &[2_f32, 3.0]))]);
    let found = case.run_optional(&all).unwrap();
    assert_eq!(floats(&found, 1), [2.0, 3.0, -3.0, 2.0]);
    assert_eq!(floats(&found, 0), [1.0, 2.0, 2.0, 3.0]);
}
