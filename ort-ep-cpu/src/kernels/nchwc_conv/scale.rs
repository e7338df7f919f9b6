//! The constant scale and shift of a convolution's result, fused into it.
//!
//! ```text
//! y = f(Conv(x, w, b) + z)·scale + shift
//! ```
//! The product and the sum are rounded separately, so the bits equal those of the separate operators.

use ort_graph::{Graph, NodeId, ValueId};
use ort_ops::ops::binary::Binary;
use ort_ops::ops::nchwc::conv::Conv;
use smallvec::SmallVec;

use crate::epilogue::Epilogue;
use crate::kernels::op;

/// A convolution, and its scale and shift.
pub(super) struct Scaled {
    /// The convolution, and then Mul, Add or both.
    pub(super) nodes: SmallVec<[NodeId; 1]>,
    pub(super) epilogue: Epilogue,
}

impl Scaled {
    /// The convolution that ends at `root`, which may be the convolution itself.
    pub(super) fn at(graph: &Graph, root: NodeId) -> Option<Self> {
        // Neither changes the result of an arithmetic operation.
        let (mut scale, mut shift) = (1.0, -0.0);
        // bounded: one
        let (mut id, mut nodes) = (root, SmallVec::from_elem(root, 1));
        if let Some((before, number)) = with_number(graph, id, Binary::Add) {
            (id, shift) = (before, number);
            nodes.push(id);
        }
        if let Some((before, number)) = with_number(graph, id, Binary::Mul) {
            (id, scale) = (before, number);
            nodes.push(id);
        }
        let epilogue: Epilogue = op::<Conv>(graph, id)?.plain.activation.into();
        let epilogue = if nodes.len() == 1 { epilogue } else { epilogue.scaled(scale, shift)? };
        nodes.reverse();
        Some(Self { nodes, epilogue })
    }
}

/// The producer of the operand of an operation whose other operand is one constant number, and that
/// number. The operand has no other reader.
fn with_number(graph: &Graph, id: NodeId, operation: Binary) -> Option<(NodeId, f32)> {
    op::<Binary>(graph, id).filter(|&&op| op == operation)?;
    let &[Some(a), Some(b)] = graph.node(id).inputs.as_slice() else { return None };
    let (x, number) = match (number(graph, a), number(graph, b)) {
        (None, Some(number)) => (a, number),
        (Some(number), None) => (b, number),
        _ => return None,
    };
    let is_private = graph.consumers(x).len() == 1 && !graph.outputs().contains(&x);
    let (before, _) = graph.producer(x).filter(|_| is_private)?;
    Some((before, number))
}

/// The constant that is broadcast to the whole image, if the value is one.
fn number(graph: &Graph, id: ValueId) -> Option<f32> {
    // A view of more elements might copy them.
    let constant = graph.constant(id).filter(|it| it.shape().len() <= 4 && it.len() == 1)?;
    match constant.as_slice() {
        Ok(&[number]) => Some(number),
        _ => None,
    }
}
