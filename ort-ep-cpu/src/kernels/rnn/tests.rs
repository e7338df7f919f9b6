use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, floats, within};

/// Numbers from −1/4 to 1/4.
fn small(shape: &[usize]) -> Tensor {
    let x: Vec<f32> = floats(shape).as_slice::<f32>().unwrap().iter().map(|x| x / 16.0).collect();
    Tensor::from_slice(shape, &x).unwrap()
}

/// A sum of at most 140 terms below 1/16, and the same again for the other state: slopes are at
/// most 1, and so is what a state passes on.
fn error(steps: usize) -> f32 {
    steps as f32 * 2.0 * 140.0 * (140.0 / 16.0) * f32::EPSILON
}

fn case(name: &'static str, direction: &str, [s, b, i, h]: [usize; 4], inputs: usize) -> Case {
    let d = if direction == "bidirectional" { 2 } else { 1 };
    let (gates, outputs) = match name {
        "LSTM" => (4 * h, 3),
        "GRU" => (3 * h, 2),
        _ => (h, 2),
    };
    let mut case = Case::new(name, 14)
        .attr("direction", Attr::String(direction.into()))
        .attr("hidden_size", Attr::Int(i64::try_from(h).unwrap()))
        .outputs(outputs)
        .input(small(&[s, b, i]))
        .weight(small(&[d, gates, i]))
        .weight(small(&[d, gates, h]));
    if name == "GRU" {
        case = case.attr("linear_before_reset", Attr::Int(1));
    }
    if inputs > 3 {
        case = case.weight(small(&[d, 2 * gates]));
    }
    if inputs > 5 {
        case = case.absent().input(small(&[d, b, h]));
    }
    if inputs > 6 && name == "LSTM" {
        case = case.input(small(&[d, b, h]));
    }
    case
}

#[test]
fn every_direction_takes_every_step() {
    for name in ["LSTM", "GRU", "RNN"] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for (sizes, inputs) in [
                ([3, 2, 5, 7], 7),
                ([10, 1, 70, 64], 4),
                ([1, 3, 1, 1], 3),
                ([5, 4, 33, 20], 6),
                ([0, 2, 3, 4], 7),
                ([3, 0, 3, 4], 4),
                ([2, 2, 0, 4], 4),
            ] {
                case(name, direction, sizes, inputs).check(within(error(sizes[0])));
            }
        }
    }
    case("LSTM", "bidirectional", [40, 1, 120, 48], 4).check(within(error(40)));
}

#[test]
fn outputs_may_be_unwanted() {
    case("LSTM", "forward", [3, 2, 5, 7], 7).unwanted(&[0]).check(within(error(3)));
    case("LSTM", "bidirectional", [3, 2, 5, 7], 7).unwanted(&[1, 2]).check(within(error(3)));
}
