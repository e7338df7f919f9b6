//! Whether two images have the same shape, also where that shape is not known.
//!
//! Networks keep the size of images through many nodes. Where two values lead back to one through such
//! nodes, only their channels need to be compared.

use ort_graph::{Dim, Graph, Node, ValueId};
use ort_ops::infer::AutoPad;
use ort_ops::ops::conv::Conv;

use super::channels::operator;

/// How many nodes back a common origin is looked for.
const MAX_STEPS: usize = 32;

/// Whether two values provably have the same shape.
pub(super) fn have_same_shape(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    let (Some(a_dims), Some(b_dims)) = (graph.fact(a).dims(), graph.fact(b).dims()) else {
        return false;
    };
    let is_equal = |(a, b): (&Dim, &Dim)| a.equals(b);
    let channels = a_dims.get(1).zip(b_dims.get(1));
    a_dims.len() == b_dims.len()
        && (a_dims.iter().zip(b_dims).all(is_equal)
            || (channels.is_some_and(is_equal) && have_same_origin(graph, a, b)))
}

fn have_same_origin(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    let origins = |value| std::iter::successors(Some(value), |&value| origin(graph, value));
    let of_b: Vec<ValueId> = origins(b).take(MAX_STEPS).collect();
    origins(a).take(MAX_STEPS).any(|value| of_b.contains(&value))
}

/// What a value was computed from that has the same dimensions, but for channels.
fn origin(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let (id, 0) = graph.producer(value)? else { return None };
    let node = graph.node(id);
    let input = |index: usize| node.inputs.get(index).copied().flatten();
    if let Some(conv) = operator::<Conv>(node) {
        return input(0).filter(|_| keeps_size(graph, node, conv));
    }
    match node.op_type.as_str() {
        "Relu" | "Sigmoid" | "Tanh" | "LeakyRelu" | "Clip" | "HardSigmoid" | "HardSwish"
        | "Elu" | "QuickGelu" | "Gelu" | "BatchNormalization" => input(0),
        "Add" | "Sub" | "Mul" | "Div" if node.since_version >= 7 => {
            let (a, b) = (input(0)?, input(1)?);
            if is_of_channels(graph, b, a) {
                Some(a)
            } else {
                is_of_channels(graph, a, b).then_some(b)
            }
        }
        _ => None,
    }
}

/// Whether a convolution moves by single steps over an image padded by what its kernel takes away.
fn keeps_size(graph: &Graph, node: &Node, conv: &Conv) -> bool {
    let w = node.inputs.get(1).copied().flatten().and_then(|w| graph.fact(w).dims());
    let Some([_, _, kernel @ ..]) = w else { return false };
    let window = &conv.window;
    if window.strides.as_ref().is_some_and(|strides| strides.iter().any(|&n| n != 1)) {
        return false;
    }
    let at = |list: &Option<ort_tensor::Shape>, i: usize, default: usize| {
        list.as_ref().map_or(Some(default), |list| list.get(i).copied())
    };
    let is_kept = |(axis, kernel): (usize, &Dim)| {
        let taken = kernel.known()?.checked_sub(1)?.checked_mul(at(&window.dilations, axis, 1)?)?;
        let front = at(&window.pads, axis, 0)?;
        let back = at(&window.pads, axis + w?.len() - 2, 0)?;
        Some(front.checked_add(back)? == taken)
    };
    match window.auto_pad {
        AutoPad::SameUpper | AutoPad::SameLower => true,
        AutoPad::NotSet => kernel.iter().enumerate().all(|axis| is_kept(axis) == Some(true)),
        AutoPad::Valid => false,
    }
}

/// Whether `small` stretches to the shape of `image`, and not the other way round: it has one element
/// for each channel, or one in all.
fn is_of_channels(graph: &Graph, small: ValueId, image: ValueId) -> bool {
    let (Some(small), Some(image)) = (graph.fact(small).dims(), graph.fact(image).dims()) else {
        return false;
    };
    let Some(n_added) = image.len().checked_sub(small.len()) else { return false };
    small.iter().enumerate().all(|(i, dim)| {
        *dim == Dim::Known(1) || (i + n_added <= 1 && dim.equals(&image[i + n_added]))
    })
}
