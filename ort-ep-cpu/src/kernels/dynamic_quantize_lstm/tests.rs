//! Tests of DynamicQuantizeLSTM.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, bytes, floats, within};

/// A different rounding in a cell may quantize the state to the neighbouring value: a step of 1/127
/// times a weight of at most 128/1024, in each of eight steps, and its consequences.
const ERROR: f32 = 8.0 * 2.0 / 127.0 / 8.0;

fn case(direction: &str, [steps, batch, input, hidden]: [usize; 4], is_by_unit: bool) -> Case {
    let n = if direction == "bidirectional" { 2 } else { 1 };
    let weights = |k: usize| bytes(&[n, k, 4 * hidden], u8::cast_signed);
    let form = if is_by_unit { vec![n, 4 * hidden] } else { vec![n] };
    let scale = |scale: f32| {
        let scales = vec![scale; form.iter().product()];
        Tensor::from_slice(&form, &scales).unwrap()
    };
    let zeros = |of: fn(u8) -> i8| bytes(&form, of);
    Case::new("DynamicQuantizeLSTM", 1)
        .domain("com.microsoft")
        .outputs(3)
        .attr("direction", Attr::String(direction.to_owned()))
        .input(floats(&[steps, batch, input]))
        .constant(weights(input))
        .constant(weights(hidden))
        .constant(floats(&[n, 8 * hidden]))
        .absent()
        .input(floats(&[n, batch, hidden]))
        .input(floats(&[n, batch, hidden]))
        .absent()
        .constant(scale(1.0 / 1024.0))
        .constant(zeros(|_| 0))
        .constant(scale(1.0 / 1024.0))
        .constant(zeros(|bits| (bits % 16).cast_signed() - 8))
}

#[test]
fn layers_in_every_direction_equal_eval() {
    for direction in ["forward", "reverse", "bidirectional"] {
        for size in [[1, 1, 3, 5], [8, 1, 40, 64], [3, 5, 33, 17], [2, 40, 128, 100]] {
            for is_by_unit in [false, true] {
                case(direction, size, is_by_unit).check(within(ERROR));
            }
        }
        case(direction, [0, 2, 3, 4], false).check(within(ERROR));
        case(direction, [2, 0, 3, 4], false).check(within(ERROR));
    }
}

#[test]
fn other_functions_equal_eval() {
    let names = ["HardSigmoid", "Softsign", "Relu"].map(str::to_owned).to_vec();
    case("forward", [4, 2, 16, 24], true)
        .attr("activations", Attr::Strings(names))
        .attr("clip", Attr::Float(0.9))
        .attr("input_forget", Attr::Int(1))
        .check(within(ERROR));
}
