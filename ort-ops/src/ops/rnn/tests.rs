//! Tests of `rnn`.

use ort_graph::Attr;
use ort_tensor::{DType, Element, Number, Tensor, f16};

use crate::case::{Case, tensor};

const STEPS: usize = 3;
const BATCH: usize = 2;
const INPUT: usize = 2;
const HIDDEN: usize = 2;

/// Multiples of 1/8 from −5/8 to 5/8, exact in every float type.
fn values<T: Element + Number>(shape: &[usize], seed: u32) -> Tensor {
    let n = u32::try_from(shape.iter().product::<usize>()).unwrap();
    let value = |k: u32| T::from_f64((f64::from((k * 7 + seed) % 11) - 5.0) / 8.0);
    tensor(shape, &(0..n).map(value).collect::<Vec<_>>())
}

/// Inputs for these numbers of gates and directions: all except the peepholes, which only an LSTM has.
fn inputs<T: Element + Number>(
    gates: usize,
    d: usize,
    lens: Option<[i32; BATCH]>,
) -> Vec<Option<Tensor>> {
    let n = gates * HIDDEN;
    let mut inputs = vec![
        Some(values::<T>(&[STEPS, BATCH, INPUT], 1)),
        Some(values::<T>(&[d, n, INPUT], 2)),
        Some(values::<T>(&[d, n, HIDDEN], 3)),
        Some(values::<T>(&[d, 2 * n], 4)),
        lens.map(|lens| tensor(&[BATCH], &lens)),
        Some(values::<T>(&[d, BATCH, HIDDEN], 5)),
    ];
    if gates == 4 {
        inputs.push(Some(values::<T>(&[d, BATCH, HIDDEN], 6)));
    }
    inputs
}

fn case(name: &'static str, direction: &str, n_outputs: usize) -> Case {
    Case::new(name, 14).attr("direction", Attr::String(direction.to_owned())).outputs(n_outputs)
}

fn run(case: &Case, inputs: &[Option<Tensor>]) -> Vec<Tensor> {
    let values = case.run_optional(inputs).unwrap();
    values.iter().map(|value| value.as_tensor().unwrap().clone()).collect()
}

fn names(names: &[&str]) -> Attr {
    Attr::Strings(names.iter().map(|&name| name.to_owned()).collect())
}

/// Checks that the last outputs are these, which ONNX Runtime 1.31 has computed in f32: each of at most
/// three steps rounds a state, which is below 1, fewer than ten times.
fn assert_states(found: &[Tensor], expected: &[&[f32]]) {
    for (found, expected) in found[1..].iter().zip(expected) {
        let found = found.as_slice::<f32>().unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(*expected) {
            assert!((found - expected).abs() <= 30.0 * f32::EPSILON, "{found} {expected}");
        }
    }
}

#[test]
fn lstm_with_peepholes_in_both_directions() {
    let mut inputs = inputs::<f32>(4, 2, Some([2, 3]));
    inputs.push(Some(values::<f32>(&[2, 3 * HIDDEN], 7)));
    let found = run(&case("LSTM", "bidirectional", 3), &inputs);
    let h: [f32; 8] = [
        -0.206_017_65,
        0.079_892_99,
        -0.175_287_67,
        0.153_529_33,
        0.103_514_23,
        -0.112_603_85,
        -0.201_779_6,
        -0.349_566_13,
    ];
    let c: [f32; 8] = [
        -0.350_316_7,
        0.213_083_73,
        -0.293_737,
        0.396_391_87,
        0.143_067_93,
        -0.179_158_16,
        -0.288_682_04,
        -0.995_909_7,
    ];
    assert_states(&found, &[&h, &c]);
    // Sequence 0 ends after two steps, in both directions.
    let (y, h) = (found[0].as_slice::<f32>().unwrap(), found[1].as_slice::<f32>().unwrap());
    assert_eq!([&y[16..18], &y[20..22]], [&[0.0; 2]; 2]);
    assert_eq!([&y[8..10], &y[4..6]], [&h[..2], &h[4..6]]);
}

#[test]
fn lstm_with_other_activations_clip_and_coupled_gates() {
    let case = case("LSTM", "forward", 3)
        .attr("clip", Attr::Float(0.5))
        .attr("input_forget", Attr::Int(1))
        .attr("activations", names(&["HardSigmoid", "Softsign", "Relu"]));
    let found = run(&case, &inputs::<f32>(4, 1, None));
    let h = [0.0, 0.090_026_915, 0.0, 0.106_045_514];
    let c = [-0.274_155_43, 0.180_333_35, -0.139_345_5, 0.261_333_35];
    assert_states(&found, &[&h, &c]);
}

#[test]
fn gru_resets_before_or_after_its_product() {
    let after = case("GRU", "reverse", 2).attr("linear_before_reset", Attr::Int(1));
    let found = run(&after, &inputs::<f32>(3, 1, Some([2, 3])));
    assert_states(&found, &[&[0.697_031_7, -0.108_829_76, 0.447_638_33, 0.208_154_13]]);
    let found = run(&case("GRU", "bidirectional", 2), &inputs::<f32>(3, 2, Some([3, 1])));
    let h: [f32; 8] = [
        0.771_522_76,
        -0.107_587_83,
        0.507_458_57,
        0.047_923_468,
        -0.193_641_34,
        -0.463_885_06,
        -0.102_895,
        0.102_606_74,
    ];
    assert_states(&found, &[&h]);
}

#[test]
fn rnn_takes_an_activation_for_each_direction() {
    let case = case("RNN", "bidirectional", 2)
        .attr("activations", names(&["Tanh", "LeakyRelu"]))
        .attr("activation_alpha", Attr::Floats(vec![0.5]));
    let found = run(&case, &inputs::<f32>(1, 2, Some([0, 3])));
    let h = [0.0, 0.0, -0.449_483_1, -0.383_005_02, 0.0, 0.0, 0.5625, 0.450_927_73];
    assert_states(&found, &[&h]);
}

#[test]
fn the_batch_can_come_first() {
    let swap = |x: &Tensor| {
        let mut perm: Vec<i64> = (0..i64::try_from(x.shape().len()).unwrap()).collect();
        perm.swap(0, 1);
        let case = Case::new("Transpose", 13).attr("perm", Attr::Ints(perm));
        case.tensor(std::slice::from_ref(x)).unwrap()
    };
    for (name, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        let n_outputs = if gates == 4 { 3 } else { 2 };
        let mut inputs = inputs::<f64>(gates, 2, Some([2, 3]));
        let expected = run(&case(name, "bidirectional", n_outputs), &inputs);
        for i in [0, 5, 6] {
            inputs.get_mut(i).into_iter().flatten().for_each(|input| *input = swap(input));
        }
        let first = case(name, "bidirectional", n_outputs).attr("layout", Attr::Int(1));
        let found = run(&first, &inputs);
        // From [B, S, D, H] to [S, D, B, H].
        let case = Case::new("Transpose", 13).attr("perm", Attr::Ints(vec![1, 2, 0, 3]));
        assert_eq!(case.tensor(&found[..1]).as_ref(), Ok(&expected[0]), "{name}");
        for (found, expected) in found[1..].iter().zip(&expected[1..]) {
            assert_eq!(&swap(found), expected, "{name}");
        }
    }
}

#[test]
fn half_floats_compute_in_f32_and_round_once() {
    let wide = run(&case("LSTM", "forward", 3), &inputs::<f32>(4, 1, None));
    let half = run(&case("LSTM", "forward", 3), &inputs::<f16>(4, 1, None));
    for (half, wide) in half.iter().zip(&wide) {
        let rounded: Vec<_> =
            wide.as_slice::<f32>().unwrap().iter().map(|&x| f16::from_f32(x)).collect();
        assert_eq!(half, &tensor(wide.shape(), &rounded));
    }
}

#[test]
fn no_steps_no_sequences_and_no_inputs_are_fine() {
    for x in [[0, 2, 2], [3, 0, 2], [3, 2, 0]] {
        let inputs = [&x[..], &[1, 4, x[2]], &[1, 4, 1]]
            .map(|shape| Tensor::zeros(DType::F32, shape).unwrap());
        let found = case("LSTM", "forward", 3).run(&inputs).unwrap();
        assert_eq!(found[0].as_tensor().unwrap().shape(), [x[0], 1, x[1], 1]);
        assert_eq!(found[2].as_tensor().unwrap().shape(), [1, x[1], 1]);
    }
}

#[test]
fn mismatched_operands_are_rejected() {
    let inputs = |lens| inputs::<f32>(3, 1, Some(lens));
    let gru = |direction| case("GRU", direction, 2);
    for lens in [[-1, 1], [4, 1]] {
        assert!(gru("forward").run_optional(&inputs(lens)).is_err(), "{lens:?}");
    }
    assert!(gru("backward").run_optional(&inputs([1, 1])).is_err());
    assert!(gru("bidirectional").run_optional(&inputs([1, 1])).is_err());
    let wide = gru("forward").attr("hidden_size", Attr::Int(3));
    assert!(wide.run_optional(&inputs([1, 1])).is_err());
    let few = gru("forward").attr("activations", names(&["Tanh"]));
    assert!(few.run_optional(&inputs([1, 1])).is_err());
}

/// The inputs of DynamicQuantizeLSTM in both directions, with a scale for all and for each unit.
fn quantized_inputs() -> Vec<Option<Tensor>> {
    let quantized = |shape: &[usize], seed: u8| {
        let n = u8::try_from(shape.iter().product::<usize>()).unwrap();
        let q = |k: u8| u8::try_from((u16::from(k) * 7 + u16::from(seed)) % 11 * 20 + 3).unwrap();
        tensor(shape, &(0..n).map(q).collect::<Vec<_>>())
    };
    let mut inputs = inputs::<f32>(4, 2, Some([2, 3]));
    inputs[1] = Some(quantized(&[2, INPUT, 4 * HIDDEN], 2));
    inputs[2] = Some(quantized(&[2, HIDDEN, 4 * HIDDEN], 3));
    let (small, large) = (1.0_f32 / 128.0, 1.0 / 64.0);
    let scales = [[large; 4], [small; 4]].as_flattened().repeat(2);
    inputs.push(None);
    inputs.push(Some(tensor(&[2], &[large, small])));
    inputs.push(Some(tensor(&[2], &[100_u8, 110])));
    inputs.push(Some(tensor(&[2, 8], &scales)));
    inputs.push(Some(tensor(&[2, 8], &[105_u8; 16])));
    inputs
}

#[test]
fn a_quantized_lstm_quantizes_its_operands() {
    let case = Case::new("DynamicQuantizeLSTM", 1).domain("com.microsoft").outputs(3);
    let case = case.attr("direction", Attr::String("bidirectional".to_owned()));
    let found = run(&case, &quantized_inputs());
    let h: [f32; 8] = [
        -0.168_653_12,
        0.078_059_9,
        -0.031_790_2,
        0.183_220_73,
        -0.003_495_813_3,
        -0.271_402_24,
        0.030_078_745,
        -0.438_872_07,
    ];
    let c: [f32; 8] = [
        -0.270_904,
        0.206_748_84,
        -0.051_529_326,
        0.366_775_54,
        -0.004_955_947_4,
        -0.516_355_9,
        0.051_109_77,
        -0.958_406_1,
    ];
    assert_states(&found, &[&h, &c]);
    let mut wrong = quantized_inputs();
    wrong[10] = Some(tensor(&[2, 4], &[1_f32; 8]));
    assert!(case.run_optional(&wrong).is_err());
    wrong[10] = Some(tensor(&[1], &[1_f32]));
    assert!(case.run_optional(&wrong).is_err());
    wrong = quantized_inputs();
    wrong[9] = Some(tensor(&[2], &[0_i8; 2]));
    assert!(case.run_optional(&wrong).is_err());
}
