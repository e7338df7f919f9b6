//! Tests of `rnn`.

use ort_graph::{Attr, OpError};
use ort_tensor::Tensor;

use crate::case::{Case, floats, within};

/// Gates and states are at most 1 (the cell state at most the number of steps, 9), and the input
/// of a gate is a sum of at most 70 products of numbers up to 1/8 and 4; each step adds its error
/// to the previous one, times a factor below 1.
const BOUND: f32 = 9.0 * 9.0 * 70.0 * f32::EPSILON;

struct Sizes {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
}

/// Small weights, so that no gate saturates.
fn weights(shape: &[usize]) -> Tensor {
    let large = floats(shape);
    let small: Vec<f32> = large.as_slice::<f32>().unwrap().iter().map(|x| x / 32.0).collect();
    Tensor::from_slice(shape, &small).unwrap()
}

fn case(name: &'static str, gates: usize, d: usize, sizes: &Sizes, is_batch_first: bool) -> Case {
    let &Sizes { steps, batch, input, hidden } = sizes;
    let x = if is_batch_first { [batch, steps, input] } else { [steps, batch, input] };
    Case::new(name, 14)
        .attr("hidden_size", Attr::Int(i64::try_from(hidden).unwrap()))
        .attr("layout", Attr::Int(i64::from(is_batch_first)))
        .outputs(if name == "LSTM" { 3 } else { 2 })
        .input(floats(&x))
        .weight(weights(&[d, gates * hidden, input]))
        .weight(weights(&[d, gates * hidden, hidden]))
}

const CELLS: [(&str, usize); 3] = [("RNN", 1), ("GRU", 3), ("LSTM", 4)];

#[test]
fn every_cell_supports_every_direction_and_layout() {
    let all = [
        Sizes { steps: 3, batch: 2, input: 5, hidden: 7 },
        Sizes { steps: 9, batch: 1, input: 33, hidden: 40 },
        Sizes { steps: 4, batch: 20, input: 64, hidden: 32 },
        Sizes { steps: 0, batch: 2, input: 3, hidden: 2 },
        Sizes { steps: 2, batch: 0, input: 3, hidden: 2 },
    ];
    for sizes in &all {
        for (name, gates) in CELLS {
            for (direction, d) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
                for is_batch_first in [false, true] {
                    let case = case(name, gates, d, sizes, is_batch_first);
                    case.attr("direction", Attr::String(direction.into())).check(within(BOUND));
                }
            }
        }
    }
}

#[test]
fn optional_bias_states_and_lengths_are_used() {
    let sizes = Sizes { steps: 5, batch: 3, input: 8, hidden: 6 };
    for (name, gates) in CELLS {
        for is_batch_first in [false, true] {
            let state = if is_batch_first { [3, 2, 6] } else { [2, 3, 6] };
            for lens in [None, Some([5, 5, 5]), Some([5, 2, 0]), Some([1, 3, 2]), Some([0; 3])] {
                let case = case(name, gates, 2, &sizes, is_batch_first);
                let case = case.attr("direction", Attr::String("bidirectional".into()));
                let case = case.weight(weights(&[2, 2 * gates * 6]));
                let case = match lens {
                    None => case.absent(),
                    Some(lens) => case.input(Tensor::from_slice(&[3], &lens).unwrap()),
                };
                let case = case.input(weights(&state));
                let case = if name == "LSTM" { case.input(weights(&state)) } else { case };
                case.check(within(BOUND));
            }
        }
    }
}

#[test]
fn gates_may_be_clipped_reset_later_and_have_other_functions() {
    let sizes = Sizes { steps: 4, batch: 2, input: 8, hidden: 5 };
    for (name, gates) in CELLS {
        let case = case(name, gates, 1, &sizes, false).constant(weights(&[1, 2 * gates * 5]));
        case.clone().attr("clip", Attr::Float(0.125)).check(within(BOUND));
        let functions = ["HardSigmoid", "Relu", "Tanh"].map(str::to_owned).to_vec();
        case.attr("activations", Attr::Strings(functions)).check(within(BOUND));
    }
    let gru = case("GRU", 3, 1, &sizes, false).constant(weights(&[1, 30]));
    gru.attr("linear_before_reset", Attr::Int(1)).check(within(BOUND));
}

#[test]
fn every_function_has_its_parameters() {
    let sizes = Sizes { steps: 4, batch: 2, input: 8, hidden: 37 };
    let functions = ["Affine", "Elu", "ScaledTanh", "Softplus", "Softsign", "ThresholdedRelu"];
    for (name, gates) in CELLS {
        for function in functions {
            // A gate of at most one half, so that states stay small.
            let names = ["Sigmoid", function, function].map(str::to_owned);
            let names = if name == "RNN" { &names[1..2] } else { &names[..] };
            case(name, gates, 1, &sizes, false)
                .attr("activations", Attr::Strings(names.to_vec()))
                .attr("activation_alpha", Attr::Floats(vec![0.5, 0.25]))
                .attr("activation_beta", Attr::Floats(vec![0.125, 0.75]))
                .check(within(BOUND));
        }
    }
}

#[test]
fn gates_see_the_state_and_each_other() {
    for (steps, batch, hidden) in [(3, 2, 37), (2, 1, 384)] {
        let sizes = Sizes { steps, batch, input: 5, hidden };
        for (has_peepholes, is_coupled) in [(true, false), (false, true), (true, true)] {
            let case = case("LSTM", 4, 2, &sizes, false)
                .attr("direction", Attr::String("bidirectional".into()))
                .attr("input_forget", Attr::Int(is_coupled.into()));
            let case = case.weight(weights(&[2, 8 * hidden]));
            let case = case.absent().absent().input(weights(&[2, batch, hidden]));
            let case = if has_peepholes { case.weight(weights(&[2, 3 * hidden])) } else { case };
            case.clone().attr("clip", Attr::Float(0.25)).check(within(8.0 * BOUND));
            case.check(within(8.0 * BOUND));
        }
    }
}

#[test]
fn a_sequence_of_too_many_or_negative_steps_is_an_error() {
    for lens in [[1, 4], [-1, 2]] {
        let sizes = Sizes { steps: 3, batch: 2, input: 2, hidden: 2 };
        let case = case("GRU", 3, 1, &sizes, false).absent();
        let case = case.input(Tensor::from_slice(&[2], &lens).unwrap());
        let what = "a sequence longer than all steps";
        assert_eq!(case.error(), OpError::InputValue { index: 4, what }.into());
    }
}

/// Recurrent weights larger than a second-level cache: threads share each step.
#[test]
fn threads_share_the_steps_of_a_large_layer() {
    let after = Attr::Int(1);
    for (name, gates, hidden) in [("RNN", 1, 768), ("GRU", 3, 448), ("LSTM", 4, 384)] {
        let sizes = Sizes { steps: 3, batch: 1, input: 3, hidden };
        // Eight times as many products as in the other tests, of smaller weights.
        let small = |shape: &[usize]| {
            let all: Vec<f32> =
                weights(shape).as_slice::<f32>().unwrap().iter().map(|x| x / 8.0).collect();
            Tensor::from_slice(shape, &all).unwrap()
        };
        let case = Case::new(name, 14)
            .attr("hidden_size", Attr::Int(i64::try_from(hidden).unwrap()))
            .attr("direction", Attr::String("bidirectional".into()))
            .outputs(if name == "LSTM" { 3 } else { 2 })
            .input(floats(&[sizes.steps, 1, sizes.input]))
            .constant(small(&[2, gates * hidden, sizes.input]))
            .constant(small(&[2, gates * hidden, hidden]))
            .constant(small(&[2, 2 * gates * hidden]));
        let case =
            if name == "GRU" { case.attr("linear_before_reset", after.clone()) } else { case };
        case.check(within(BOUND));
    }
}

/// The numbers as f64, which are no longer exact in f32.
fn doubles(x: &Tensor) -> Tensor {
    let wide: Vec<f64> = x.as_slice::<f32>().unwrap().iter().map(|x| f64::from(*x) / 1.1).collect();
    Tensor::from_slice(x.shape(), &wide).unwrap()
}

#[test]
fn layers_may_be_of_f64() {
    let is_close = |found: f64, expected: f64| {
        let bound = f64::from(BOUND) * f64::EPSILON / f64::from(f32::EPSILON);
        (found - expected).abs() <= bound || found.is_nan() && expected.is_nan()
    };
    let cells =
        [("RNN", 1, 1, ""), ("GRU", 3, 2, "linear_before_reset"), ("LSTM", 4, 3, "input_forget")];
    for [steps, batch, input, hidden] in
        [[3, 2, 5, 7], [9, 1, 33, 40], [4, 20, 64, 32], [2, 1, 3, 448]]
    {
        for (name, gates, n_functions, flag) in cells {
            let mut x =
                doubles(&floats(&[steps, batch, input])).as_slice::<f64>().unwrap().to_vec();
            x[input - 1] = f64::NAN;
            let lens: Vec<i32> = (0..batch).map(|b| if b % 2 == 0 { 2 } else { 1 }).collect();
            let case = Case::new(name, 14)
                .attr("hidden_size", Attr::Int(i64::try_from(hidden).unwrap()))
                .attr("direction", Attr::String("reverse".into()))
                .outputs(if name == "LSTM" { 3 } else { 2 })
                .input(Tensor::from_slice(&[steps, batch, input], &x).unwrap())
                .weight(doubles(&weights(&[1, gates * hidden, input])))
                .weight(doubles(&weights(&[1, gates * hidden, hidden])))
                .constant(doubles(&weights(&[1, 2 * gates * hidden])))
                .input(Tensor::from_slice(&[batch], &lens).unwrap())
                .input(doubles(&weights(&[1, batch, hidden])));
            case.clone().check(is_close);
            let case = if flag.is_empty() { case } else { case.attr(flag, Attr::Int(1)) };
            case.clone().check(is_close);
            let functions = ["HardSigmoid", "Softsign", "Elu"].map(str::to_owned);
            let functions = Attr::Strings(functions[..n_functions].to_vec());
            case.attr("activations", functions).attr("clip", Attr::Float(0.25)).check(is_close);
        }
    }
}
