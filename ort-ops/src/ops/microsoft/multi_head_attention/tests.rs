//! Tests of `multi_head_attention`.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, tensor};

fn case(name: &'static str, n_outputs: usize) -> Case {
    let case = Case::new(name, 1).domain("com.microsoft").outputs(n_outputs);
    case.attr("num_heads", Attr::Int(1)).attr("scale", Attr::Float(1.0))
}

fn own() -> Case {
    case("MultiHeadAttention", 4)
}

fn one(shape: &[usize], values: &[f32]) -> Option<Tensor> {
    Some(tensor(shape, values))
}

fn run(case: &Case, inputs: &[Option<Tensor>]) -> Result<[Vec<f32>; 4], String> {
    let values = case.run_optional(inputs)?;
    Ok([0, 1, 2, 3].map(|i| values[i].as_tensor().unwrap().as_slice().unwrap().to_vec()))
}

#[test]
fn every_layout_says_the_same() {
    // A query of 0, keys of 1 and 2, and values of 4 and 8.
    let rows =
        [one(&[1, 1, 1], &[0.0]), one(&[1, 2, 1], &[1.0, 2.0]), one(&[1, 2, 1], &[4.0, 8.0])];
    let heads =
        [one(&[1, 1, 1], &[0.0]), one(&[1, 1, 2, 1], &[1.0, 2.0]), one(&[1, 1, 2, 1], &[4.0, 8.0])];
    let keys = [one(&[1, 1, 1], &[0.0]), one(&[1, 2, 1, 2, 1], &[1.0, 4.0, 2.0, 8.0])];
    let expected = [vec![6.0], vec![1.0, 2.0], vec![4.0, 8.0], vec![0.0, 0.0]];
    for layout in [&rows[..], &heads, &keys] {
        assert_eq!(run(&own(), layout), Ok(expected.clone()));
    }
    let packed = [one(&[1, 2, 1, 3, 1], &[0.0, 1.0, 4.0, 0.0, 2.0, 8.0])];
    assert_eq!(
        run(&own(), &packed).unwrap()[..3],
        [vec![6.0, 6.0], vec![1.0, 2.0], vec![4.0, 8.0]]
    );
    let flat = [one(&[1, 1, 3], &[0.0, 1.0, 4.0])];
    assert!(run(&own(), &flat).is_err());
    let decoder = case("DecoderMaskedMultiHeadAttention", 4);
    assert_eq!(run(&decoder, &flat), Ok([vec![4.0], vec![1.0], vec![4.0], vec![0.0]]));
}

#[test]
fn a_bias_is_of_what_is_projected() {
    let bias = one(&[3], &[1.0, 10.0, 100.0]);
    let rows = [1, 1, 1].map(|n| one(&[1, n, 1], &[0.0]));
    let found = run(&own(), &[&rows[..], std::slice::from_ref(&bias)].concat()).unwrap();
    assert_eq!(found, [vec![100.0], vec![10.0], vec![100.0], vec![10.0]]);
    let heads = [rows[0].clone(), one(&[1, 1, 1, 1], &[3.0]), one(&[1, 1, 1, 1], &[0.0]), bias];
    assert_eq!(run(&own(), &heads).unwrap(), [vec![0.0], vec![3.0], vec![0.0], vec![3.0]]);
}

#[test]
fn scores_hold_masks_and_biases() {
    let zeros = [(); 3].map(|()| one(&[1, 2, 1], &[0.0, 0.0]));
    let case = own().attr("unidirectional", Attr::Int(1));
    let case = case.attr("mask_filter_value", Attr::Float(-8.0));
    let mask = Some(tensor(&[1, 2], &[0, 1]));
    let bias = one(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let found = run(&case, &[&zeros[..], &[None, mask, bias]].concat()).unwrap();
    assert_eq!(found[3], [-7.0, f32::MIN, -5.0, 4.0]);
}

#[test]
fn a_shared_buffer_takes_what_is_new_and_beams_are_followed() {
    let case = case("DecoderMaskedMultiHeadAttention", 4);
    let case = case.attr("past_present_share_buffer", Attr::Int(1));
    let zeros = || one(&[2, 1, 1], &[0.0; 2]);
    let keys = || one(&[2, 1, 3, 1], &[0.0; 6]);
    let inputs = |used: i32, beams: &[i32]| {
        vec![
            zeros(),
            zeros(),
            one(&[2, 1, 1], &[6.0, 60.0]),
            None,
            None,
            keys(),
            one(&[2, 1, 3, 1], &[2.0, 4.0, 7.0, 20.0, 40.0, 70.0]),
            Some(tensor(&[1], &[used])),
            Some(tensor(&[1], &[2])),
            (!beams.is_empty()).then(|| tensor(&[1, 2, 3], beams)),
        ]
    };
    let present = vec![2.0, 4.0, 6.0, 20.0, 40.0, 60.0];
    let found = run(&case, &inputs(2, &[])).unwrap();
    assert_eq!((&found[0][..], &found[2]), (&[4.0, 40.0][..], &present));
    let found = run(&case, &inputs(2, &[1, 0, 9, 1, 1, -1])[..]);
    assert!(found.is_err());
    let found = run(&case, &inputs(2, &[1, 0, 0, 0, 1, 1])).unwrap();
    assert_eq!((&found[0][..], &found[2]), (&[10.0, 34.0][..], &present));
    for used in [-1, 3, 4] {
        assert!(run(&case, &inputs(used, &[])).is_err(), "{used}");
    }
}
