//! The numbers in the padding.
//!
//! Padding starts as zeros. Only filters that are zero there read it, so its contents do not matter as long as they
//! are finite.

use ort_graph::{Graph, Node, ValueId};
use ort_ops::activation::Activation;
use ort_tensor::Tensor;

use super::channels::Channels;
use crate::eval::{ConstEval, Reference};
use crate::pass::Refusal;

const NOT_FINITE: Refusal = Refusal("its padding may be infinite");

/// The padding after a convolution, whose filters and bias are zero there.
///
/// # Errors
/// If it may not be finite.
pub(super) fn of_conv(
    outputs: &Channels,
    sum: Option<&Channels>,
    activation: Activation,
) -> Result<Channels, Refusal> {
    outputs.filled(|at| {
        let before = sum.map_or(Some(0.0), |sum| sum.segments()[at].number);
        before.map(|number| finite(activation.apply(f64::from(number)))).transpose()
    })
}

/// The padding of a result that lies between the elements of an image and zero.
///
/// # Errors
/// Never.
pub(super) fn between(channels: &Channels) -> Result<Channels, Refusal> {
    channels.filled(|at| Ok(channels.segments()[at].number.filter(|&number| number == 0.0)))
}

/// The padding of a function of images with the same layout, and of scalars.
///
/// # Errors
/// If it may not be finite.
pub(super) fn of_function(
    graph: &Graph,
    node: &Node,
    images: &[ValueId],
    channels: &[Channels],
) -> Result<Channels, Refusal> {
    let first = channels.first().ok_or(NOT_FINITE)?;
    first.filled(|at| {
        let operand = |input: &Option<ValueId>| {
            let Some(id) = *input else { return Ok(None) };
            match images.iter().position(|&image| image == id) {
                Some(image) => {
                    let number = channels[image].segments()[at].number.ok_or(NOT_FINITE)?;
                    let number = Tensor::from_slice(&[1, 1, 1, 1], &[number]);
                    number.map(Some).map_err(|_| NOT_FINITE)
                }
                None => match graph.constant(id) {
                    // Per-channel constants have ones there.
                    Some(constant) if constant.len() > 1 => {
                        Tensor::from_slice(&[1, 1, 1, 1], &[1.0_f32])
                            .map(Some)
                            .map_err(|_| NOT_FINITE)
                    }
                    constant => Ok(constant.cloned()),
                },
            }
        };
        let operands: Vec<Option<Tensor>> =
            node.inputs.iter().map(operand).collect::<Result<_, Refusal>>()?;
        let results = Reference.eval(graph, node, &operands).map_err(|_| NOT_FINITE)?;
        let result = results.first().and_then(|y| y.as_slice::<f32>().ok()?.first().copied());
        finite(f64::from(result.ok_or(NOT_FINITE)?)).map(Some)
    })
}

fn finite(number: f64) -> Result<f32, Refusal> {
    #[expect(clippy::cast_possible_truncation, reason = "the graph rounds on purpose")]
    let number = number as f32;
    if number.is_finite() { Ok(number) } else { Err(NOT_FINITE) }
}
