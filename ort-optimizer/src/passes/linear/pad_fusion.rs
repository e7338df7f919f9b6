//! Pad_Fusion: zeros around an image become the padding of the convolution or pool that follows.
//!
//! ```text
//! Conv(Pad(x, p), pads = q) = Conv(x, pads = q + p)
//! AveragePool(Pad(x, p)) = AveragePool(x, pads = p, count_include_pad = 1)
//! MaxPool(Pad(x, p)) = MaxPool(x, pads = p), if no element of x is negative
//! ```
//! A Cast may be in between. Source: ONNX Runtime 1.31, Pad_Fusion, which accepts any `x` before a MaxPool, where it
//! is wrong: a pool ignores padding, but zeros are larger than negative elements.

#[cfg(test)]
mod tests;

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, NodeId, Patch, ValueId};
use ort_ops::activation::Activation;
use ort_ops::infer::{AutoPad, WindowAttrs};
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::conv::Conv;
use ort_ops::ops::max_pool::MaxPool;
use ort_ops::ops::pad::{Mode, Pad};
use ort_tensor::{Tensor, with_dtype};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "Pad_Fusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(PadFusion),
};

struct PadFusion;

/// The padded operand of a window.
#[derive(Clone, Copy)]
struct Padded<'a> {
    /// What is padded.
    x: ValueId,
    pad: &'a Node,
    cast: Option<&'a Node>,
}

impl Rewrite for PadFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Conv", "AveragePool", "MaxPool"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some(padded) = Padded::before(graph, node) else { return Ok(None) };
        let border = border(graph, padded.pad)?;
        let attrs = with_padding(graph, node, padded, &border)?;
        let mut patch = Patch::new(graph);
        let mut inputs = node.inputs.to_vec();
        inputs[0] = Some(match padded.cast {
            None => padded.x,
            Some(cast) => patch.output_of(like(cast, vec![Some(padded.x)], cast.attrs.clone()))?,
        });
        let new = patch.output_of(like(node, inputs, attrs))?;
        if let Some(&Some(old)) = node.outputs.first() {
            patch.replace(old, new);
        }
        Ok(Some(patch))
    }
}

impl<'a> Padded<'a> {
    fn before(graph: &'a Graph, window: &Node) -> Option<Self> {
        let producer = |node: &Node| -> Option<(NodeId, &'a Node)> {
            let (id, _) = graph.producer(node.inputs.first().copied().flatten()?)?;
            Some((id, graph.node(id)))
        };
        let (id, first) = producer(window)?;
        let is_private = |id| {
            let mut outputs = graph.node(id).outputs.iter().flatten();
            outputs.all(|&y| graph.consumers(y).len() == 1 && !graph.is_output(y))
        };
        let (pad, cast) = match first.op_type.as_str() {
            "Cast" if is_private(id) => (producer(first)?.1, Some(first)),
            _ => (first, None),
        };
        let is_pad = pad.op_type == "Pad" && pad.domain.is_empty();
        is_pad.then_some(Self { x: pad.inputs.first().copied().flatten()?, pad, cast })
    }
}

/// The zeros that a Pad adds before and after each spatial axis.
fn border(graph: &Graph, pad: &Node) -> Result<Vec<i64>, Refusal> {
    let input = |index: usize| pad.inputs.get(index).copied().flatten();
    let Some(op) = pad.operator::<Pad>() else { return Err(Refusal("it does not pad")) };
    let value = input(2).map(|value| graph.constant(value));
    let is_zero =
        op.value.unwrap_or(0.0) == 0.0 && value.is_none_or(|value| value.is_some_and(is_zero));
    if op.mode != Mode::Constant || !is_zero {
        return Err(Refusal("it pads with something other than zeros"));
    }
    let pads = match (&op.pads, input(1)) {
        (Some(pads), _) => Some(pads.clone()),
        (None, Some(pads)) => graph.constant(pads).and(graph.fact(pads).ints()),
        (None, None) => None,
    };
    let is_whole = input(3).is_none() && pad.since_version > 1;
    let pads = pads.filter(|_| is_whole).ok_or(Refusal("the border is not known"))?;
    let (front, back) = pads.split_at(pads.len() / 2);
    match (front, back) {
        ([0, 0, front @ ..], [0, 0, back @ ..]) if pads.iter().all(|&n| n >= 0) => {
            Ok([front, back].concat())
        }
        _ => Err(Refusal("it does not pad spatial axes only")),
    }
}

fn is_zero(value: &Tensor) -> bool {
    with_dtype!(value.dtype(), number, T => {
        value.as_slice::<T>().is_ok_and(|x| x.iter().all(|x| *x == T::default()))
    }, else => false)
}

/// The attributes of a window node with `border` added to its padding.
fn with_padding(
    graph: &Graph,
    node: &Node,
    padded: Padded<'_>,
    border: &[i64],
) -> Result<Attrs, Refusal> {
    if let Some(conv) = node.operator::<Conv>() {
        return Ok(node.attrs.clone().with("pads", sum(&conv.window, border)?));
    }
    if let Some(pool) = node.operator::<AveragePool>() {
        let is_padded = pool.window.pads.as_ref().is_some_and(|pads| pads.iter().any(|&n| n > 0));
        if node.since_version < 7 || (is_padded && !pool.counts_padding) {
            return Err(Refusal("its own padding is not counted"));
        }
        let attrs = node.attrs.clone().with("pads", pooled(&pool.window, border)?);
        return Ok(attrs.with("count_include_pad", Attr::Int(1)));
    }
    let Some(pool) = node.operator::<MaxPool>() else { return Err(Refusal("it has no window")) };
    if node.outputs.iter().skip(1).flatten().any(|&indices| graph.is_used(indices)) {
        return Err(Refusal("its indices include the border"));
    }
    if pool.window.dilations.as_ref().is_some_and(|dilations| dilations.iter().any(|&n| n > 1)) {
        return Err(Refusal("a window may contain only padding"));
    }
    if !is_not_negative(graph, padded.x, MAX_DEPTH) {
        return Err(Refusal("the zeros may be larger than what they surround"));
    }
    Ok(node.attrs.clone().with("pads", pooled(&pool.window, border)?))
}

/// The padding of a pool and a border: every window contains more than padding, and the same elements as before.
fn pooled(window: &WindowAttrs, border: &[i64]) -> Result<Attr, Refusal> {
    let pads = sum(window, border)?;
    let kernel = window.kernel.iter().flatten().chain(window.kernel.iter().flatten());
    let is_within =
        |(pad, &kernel): (&i64, &usize)| usize::try_from(*pad).is_ok_and(|p| p < kernel);
    match &pads {
        Attr::Ints(pads) if !window.is_ceil && pads.iter().zip(kernel).all(is_within) => {}
        _ => return Err(Refusal("a window may lie in the border, or exceed its end")),
    }
    Ok(pads)
}

fn sum(window: &WindowAttrs, border: &[i64]) -> Result<Attr, Refusal> {
    if window.auto_pad != AutoPad::NotSet {
        return Err(Refusal("its padding follows from the shape"));
    }
    let own = window.pads.as_deref().unwrap_or_default();
    let own = |i| own.get(i).map_or(Some(0), |&pad| i64::try_from(pad).ok());
    let sums = border.iter().enumerate().map(|(i, &pad)| own(i)?.checked_add(pad));
    sums.collect::<Option<_>>().map(Attr::Ints).ok_or(Refusal("the border is too wide"))
}

/// How many nodes back signs are followed.
const MAX_DEPTH: usize = 8;

/// Whether no element is below zero.
fn is_not_negative(graph: &Graph, value: ValueId, depth: usize) -> bool {
    let Some((id, 0)) = graph.producer(value).filter(|_| depth > 0) else { return false };
    let node = graph.node(id);
    let input = |index: usize| node.inputs.get(index).copied().flatten();
    if let Some(conv) = node.operator::<Conv>() {
        return match conv.activation {
            Activation::Relu | Activation::Sigmoid | Activation::HardSigmoid { .. } => true,
            Activation::Clip { min, .. } => min >= 0.0,
            _ => false,
        };
    }
    match node.op_type.as_str() {
        "Relu" | "Sigmoid" | "HardSigmoid" | "Abs" | "Exp" | "Sqrt" | "Softplus" | "Softmax" => {
            true
        }
        "Clip" => match (node.attrs.get("min"), input(1).and_then(|min| graph.constant(min))) {
            (Some(&Attr::Float(min)), _) => min >= 0.0,
            (_, Some(min)) => is_at_least_0(min),
            _ => false,
        },
        "MaxPool" | "AveragePool" | "Cast" | "Identity" | "Reshape" | "Transpose" => {
            input(0).is_some_and(|x| is_not_negative(graph, x, depth - 1))
        }
        _ => false,
    }
}

fn is_at_least_0(bound: &Tensor) -> bool {
    with_dtype!(bound.dtype(), number, T => {
        bound.as_slice::<T>().is_ok_and(|x| x.iter().all(|x| *x >= T::default()))
    }, else => false)
}

/// The same node with other inputs and attributes and one output.
fn like(node: &Node, inputs: Vec<Option<ValueId>>, attrs: Attrs) -> NewNode {
    NewNode {
        name: node.name.clone(),
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs,
        attrs,
        ..NewNode::default()
    }
}
