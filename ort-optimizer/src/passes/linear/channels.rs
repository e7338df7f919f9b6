//! Constants with one element for each channel, which can be folded into the weights of a convolution.

use ort_graph::{Dim, Node};
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_tensor::{DType, Number, Tensor, with_dtype};

use crate::matching::Match;
use crate::pass::Refusal;
use crate::pattern::{Pat, absent, constant, made, op, var};

/// The convolutions, with and without a bias: `x`, `w` and, if present, `b`.
pub(super) fn convolutions() -> impl Iterator<Item = (Pat, Option<Pat>)> {
    ["Conv", "ConvTranspose"].into_iter().flat_map(|name| {
        [None, Some(constant("b"))].map(|b| {
            let bias = b.clone().unwrap_or(absent());
            (op(name, [var("x"), constant("w"), bias]).labelled("conv"), b)
        })
    })
}

/// The matched convolution with other weights and another bias.
pub(super) fn convolution(is_like: &Pat, weights: Pat, bias: Option<Pat>) -> Pat {
    let Pat::Op(conv) = is_like else { unreachable!("invariant: a convolution is a node") };
    op(conv.op_type, [var("x"), weights, bias.unwrap_or(absent())]).like("conv")
}

/// `factor`, one element for each channel or one for all, as a factor of the weights.
pub(super) fn for_weights(factor: &Pat) -> Pat {
    op("Reshape", [factor.clone(), made(|found| ints(&channels_first(found)))])
}

/// `factor`, one element for each channel or one for all, as a list.
pub(super) fn as_list(factor: &Pat) -> Pat {
    op("Reshape", [factor.clone(), made(|_| ints(&[-1]))])
}

/// The shape that broadcasts channels along the weights' output channel axis.
fn channels_first(found: &Match<'_>) -> Vec<i64> {
    let rank = found.fact("w").rank().unwrap_or(0);
    let mut shape = vec![1; rank];
    if let Some(channels) = shape.get_mut(axis_of_channels(found)) {
        *channels = -1;
    }
    shape
}

/// The output channel axis of the weights.
fn axis_of_channels(found: &Match<'_>) -> usize {
    usize::from(found.node("conv").op_type == "ConvTranspose")
}

/// The number of output channels of a convolution. A transposed one must have one group: else the weights have no
/// axis for them.
pub(super) fn n_channels(found: &Match<'_>) -> Result<usize, Refusal> {
    let transposed = found.node("conv").operator::<ConvTranspose>();
    if transposed.is_some_and(|conv| conv.group != 1) {
        return Err(Refusal(
            "a transposed convolution of groups mixes the channels of its weights",
        ));
    }
    let dims = found.fact("w").dims().unwrap_or_default();
    let channels = dims.get(axis_of_channels(found)).and_then(Dim::known);
    channels.ok_or(Refusal("the number of channels is not known"))
}

/// Checks that a constant of this shape, broadcast to a value of this rank, has one element for each of `n` channels
/// of axis 1, or one for all.
pub(super) fn expect_channels(shape: &[usize], rank: usize, n: usize) -> Result<(), Refusal> {
    let Some(n_added) = rank.checked_sub(shape.len()) else {
        return Err(Refusal("the constant adds dimensions"));
    };
    let is_of_channels = |(i, &size): (usize, &usize)| size == 1 || (i + n_added == 1 && size == n);
    if shape.iter().enumerate().all(is_of_channels) {
        Ok(())
    } else {
        Err(Refusal("the constant differs within a channel"))
    }
}

/// `scale / √(variance + epsilon)` of the BatchNormalization at the root of a match.
pub(super) fn normalizing_factor() -> Pat {
    constant("scale") / op("Sqrt", [&constant("variance") + made(epsilon)])
}

/// The parameters of a BatchNormalization, in the order of its inputs.
pub(super) fn normalizing_parameters() -> [Pat; 4] {
    ["scale", "bias", "mean", "variance"].map(constant)
}

fn epsilon(found: &Match<'_>) -> Result<Tensor, Refusal> {
    let epsilon = found.root().operator::<BatchNormalization>().map_or(0.0, |norm| norm.epsilon);
    number(f64::from(epsilon), found.fact("variance").dtype())
}

/// Checks that the root is a BatchNormalization by constants of type `dtype`, not in training.
pub(super) fn expect_inference(found: &Match<'_>, dtype: Option<DType>) -> Result<(), Refusal> {
    let norm = found.root().operator::<BatchNormalization>();
    if norm.is_none_or(|norm| norm.is_training || !norm.is_spatial) {
        return Err(Refusal("mean and variance are not per channel"));
    }
    let has_type = |name: &str| found.fact(name).dtype() == dtype;
    if ["scale", "bias", "mean", "variance"].into_iter().all(has_type) {
        Ok(())
    } else {
        Err(Refusal("its parameters have another type"))
    }
}

/// Checks that an arithmetic node broadcasts its operands as NumPy does.
pub(super) fn expect_broadcast(node: &Node) -> Result<(), Refusal> {
    // Before version 7 attributes control broadcasting.
    if node.since_version < 7 {
        Err(Refusal("its operands broadcast by attributes"))
    } else {
        Ok(())
    }
}

/// A float of this type.
pub(super) fn number(value: f64, dtype: Option<DType>) -> Result<Tensor, Refusal> {
    let other = Refusal("it does not compute in floats");
    with_dtype!(dtype.ok_or(other)?, float, T => Ok(Tensor::scalar(T::from_f64(value))),
        else => Err(other))
}

/// A list of integers.
pub(super) fn ints(ints: &[i64]) -> Result<Tensor, Refusal> {
    Tensor::from_slice(&[ints.len()], ints).map_err(|_| Refusal("the shape is too long"))
}
