//! Cases of MoE and QMoE.

use ort_graph::Attr;
use ort_tensor::{Tensor, f16};

use crate::case::{Case, tensor};

fn case(op_type: &'static str, activation: &str, attrs: &[(&str, i64)]) -> Case {
    let case = Case::new(op_type, 1).domain("com.microsoft");
    let case = case.attr("activation_type", Attr::String(activation.into()));
    attrs.iter().fold(case, |case, (name, value)| case.attr(name, Attr::Int(*value)))
}

fn floats(shape: &[usize], data: &[f32]) -> Option<Tensor> {
    Some(tensor(shape, data))
}

fn run(case: &Case, inputs: &[Option<Tensor>]) -> Result<Tensor, String> {
    Ok(case.run_optional(inputs)?[0].as_tensor().unwrap().clone())
}

/// Two tokens of two columns, two experts with one column between their layers.
fn inputs(first: &[f32], third: Option<[f32; 4]>) -> Vec<Option<Tensor>> {
    let rows = first.len() / 4;
    vec![
        floats(&[2, 2], &[1.0, 2.0, -1.0, 0.5]),
        // The first token prefers the second expert a lot, the second one the first.
        floats(&[2, 2], &[0.0, 99.0, 99.0, 0.0]),
        floats(&[2, rows, 2], first),
        floats(&[2, rows], &[0.5; 4][..2 * rows]),
        floats(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]),
        floats(&[2, 2], &[0.0, 0.25, -1.0, 0.0]),
        third.and_then(|third| floats(&[2, 1, 2], &third)),
    ]
}

#[test]
fn a_token_goes_through_the_layers_of_its_expert() {
    let first = [1.0, 0.0, 0.0, 1.0];
    let cases = [
        ("identity", None, [6.5, 10.0, -0.5, -0.75]),
        ("relu", None, [6.5, 10.0, 0.0, 0.25]),
        ("relu", Some([0.0, 0.0, 2.0, 0.0]), [14.0, 20.0, 0.0, 0.25]),
    ];
    for (activation, third, expected) in cases {
        let y = run(&case("MoE", activation, &[]), &inputs(&first, third));
        assert_eq!(y.ok(), floats(&[2, 2], &expected), "{activation}");
    }
    let x = [[1.0, 2.0], [-1.0, 0.5]];
    let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh());
    let silu = |x: f64| x / (1.0 + (-x).exp());
    for (activation, f) in [("gelu", &gelu as &dyn Fn(f64) -> f64), ("silu", &silu)] {
        let y = run(&case("MoE", activation, &[]), &inputs(&first, None)).unwrap();
        let (a, b) = (f(x[0][1] + 0.5), f(x[1][0] + 0.5));
        let expected = [3.0 * a - 1.0, 4.0 * a, b, 2.0 * b + 0.25];
        for (y, expected) in y.as_slice::<f32>().unwrap().iter().zip(expected) {
            // The constants above have ten digits.
            assert!((f64::from(*y) - expected).abs() <= 1e-6, "{activation}");
        }
    }
}

#[test]
fn both_parts_of_a_gate_may_be_in_the_first_layer() {
    // With alpha = 0 a gate is half of the product of its parts.
    let swiglu = |fusion: i64| {
        let case = case("MoE", "swiglu", &[("swiglu_fusion", fusion)]);
        case.attr("activation_alpha", Attr::Float(0.0)).attr("swiglu_limit", Attr::Float(2.0))
    };
    let first = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
    let expected = floats(&[2, 2], &[3.5, 6.0, -0.25, -0.25]);
    assert_eq!(run(&swiglu(1), &inputs(&first, None)).ok(), expected);
    assert_eq!(run(&swiglu(2), &inputs(&first, None)).ok(), expected);
    assert!(run(&swiglu(0), &inputs(&first, None)).is_err());
    assert!(run(&swiglu(3), &inputs(&first, None)).is_err());
    assert!(run(&case("MoE", "relu", &[("swiglu_fusion", 1)]), &inputs(&first, None)).is_err());
}

#[test]
fn experts_count_by_their_softmax() {
    let half = |x: f32| f16::from_f32(x);
    let inputs = [
        tensor(&[1, 1, 1], &[half(4.0)]),
        tensor(&[1, 2], &[half(0.5), half(0.5)]),
        tensor(&[2, 1, 1], &[half(1.0), half(3.0)]),
        tensor(&[2, 1], &[half(0.0); 2]),
        tensor(&[2, 1, 1], &[half(1.0); 2]),
    ];
    for (k, normalize, expected) in [(1, 0, 6.0), (1, 1, 12.0), (2, 0, 8.0), (2, 1, 8.0)] {
        let case = case("MoE", "identity", &[("k", k), ("normalize_routing_weights", normalize)]);
        assert_eq!(case.tensor(&inputs), Ok(tensor(&[1, 1, 1], &[half(expected)])));
    }
    for (k, sparse) in [(3, 0), (0, 0), (1, 1)] {
        let case = case("MoE", "identity", &[("k", k), ("use_sparse_mixer", sparse)]);
        assert!(case.tensor(&inputs).is_err());
    }
}

/// One token of two columns and two experts; the quantized values 0x9f are 15 − 8 and 9 − 8.
fn quantized(
    zero_points: [Option<Tensor>; 2],
    router_weights: Option<Tensor>,
) -> Vec<Option<Tensor>> {
    let bytes = |shape: &[usize], data: &[u8]| Some(tensor(shape, data));
    let [first, second] = zero_points;
    vec![
        floats(&[1, 2], &[1.0, 10.0]),
        floats(&[1, 2], &[0.0, 0.0]),
        bytes(&[2, 2, 1], &[0x9f, 0x88, 0x98, 0x88]),
        floats(&[2, 2], &[1.0, 1.0, 2.0, 1.0]),
        None,
        bytes(&[2, 2, 1], &[0x89, 0x8a, 0x89, 0x8a]),
        floats(&[2, 2], &[1.0; 4]),
        floats(&[2, 2], &[0.0; 4]),
        None,
        None,
        None,
        first,
        second,
        None,
        router_weights,
    ]
}

#[test]
fn quantized_values_have_scales_and_zero_points_by_row() {
    let qmoe = |attrs: &[(&str, i64)]| case("QMoE", "identity", attrs);
    // The last of two equal experts is chosen, and counts for all.
    let y = run(&qmoe(&[]), &quantized([None, None], None));
    assert_eq!(y.ok(), floats(&[1, 2], &[20.0, 40.0]));
    let y = run(&qmoe(&[("k", 2)]), &quantized([None, None], None));
    assert_eq!(y.ok(), floats(&[1, 2], &[18.5, 37.0]));
    let zero_points = Some(tensor(&[2, 1], &[0x88_u8, 0x89]));
    let y = run(&qmoe(&[]), &quantized([zero_points, None], None));
    assert_eq!(y.ok(), floats(&[1, 2], &[-2.0, -4.0]));
    for (normalize, expected) in [(0, [34.0, 68.0]), (1, [17.0, 34.0])] {
        let weights = floats(&[1, 2], &[2.0, 0.0]);
        let attrs = [("k", 2), ("normalize_routing_weights", normalize)];
        let y = run(&qmoe(&attrs), &quantized([None, None], weights));
        assert_eq!(y.ok(), floats(&[1, 2], &expected));
    }
}

#[test]
fn quantized_values_have_scales_and_zero_points_by_block() {
    let ones = |shape: &[usize]| floats(shape, &vec![1.0; shape.iter().product()]);
    let mut x = vec![0.0; 32];
    (x[0], x[16]) = (1.0, 10.0);
    let mut quantized = vec![0x80_u8; 32];
    (quantized[0], quantized[16]) = (0x81, 0x82);
    let second = vec![0x55_u8 + 0b10; 32];
    let inputs = [
        floats(&[1, 32], &x),
        ones(&[1, 1]),
        Some(tensor(&[1, 1, 32], &quantized)),
        floats(&[1, 1, 2], &[2.0, 3.0]),
        None,
        Some(tensor(&[1, 32, 1], &second)),
        ones(&[1, 32, 1]),
    ];
    let attrs = [("expert_weight_bits", 8), ("fc2_expert_weight_bits", 2), ("block_size", 16)];
    // A byte holds four columns of two bits, so there are four between the layers.
    assert!(run(&case("QMoE", "identity", &attrs), &inputs).is_err());
    let mut wider = inputs.to_vec();
    wider[2] = Some(tensor(&[1, 4, 32], &[&quantized[..], &[0x80; 96]].concat()));
    wider[3] = floats(&[1, 4, 2], &[2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    let y = run(&case("QMoE", "identity", &attrs), &wider).unwrap();
    // A quantized value of 3 in the first column means 1.
    assert_eq!(y.as_slice::<f32>().unwrap(), [62.0; 32]);
    wider.extend([None, None, None, None]);
    wider.push(Some(tensor(&[1, 4, 2], &[0x80_u8, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80])));
    let y = run(&case("QMoE", "identity", &attrs), &wider).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [2.0; 32]);
}

#[test]
fn mismatched_operands_are_rejected() {
    let good = || quantized([None, None], None);
    for (name, value) in [("expert_weight_bits", 8), ("block_size", 16), ("weights_prepacked", 1)] {
        assert!(run(&case("QMoE", "relu", &[(name, value)]), &good()).is_err(), "{name}");
    }
    let fp8 = case("QMoE", "relu", &[]).attr("quant_type", Attr::String("fp8".into()));
    assert!(run(&fp8, &good()).is_err());
    assert!(run(&case("QMoE", "sine", &[]), &good()).is_err());
    let mut other = inputs(&[1.0, 0.0, 0.0, 1.0], None);
    other[1] = floats(&[1, 2], &[0.0; 2]);
    assert!(run(&case("MoE", "relu", &[]), &other).is_err());
    let empty = [
        tensor::<f32>(&[0, 2], &[]),
        tensor::<f32>(&[0, 1], &[]),
        tensor::<f32>(&[1, 0, 2], &[]),
        tensor::<f32>(&[1, 0], &[]),
        tensor::<f32>(&[1, 2, 0], &[]),
    ];
    assert_eq!(case("MoE", "relu", &[]).tensor(&empty), Ok(tensor::<f32>(&[0, 2], &[])));
}
