//! The form of a node when its operands and results are stored with permuted axes.

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, Node, ValueId};
use ort_tensor::{DType, Tensor};

use super::cost::n_bytes;
use super::perm::Perm;

/// A node whose operands and results are stored in other orders of axes.
#[derive(Debug)]
pub(super) struct TransposedNode {
    /// Its inputs, by position; there may be more than before.
    pub(super) inputs: Vec<Operand>,
    /// The orders in which its results are stored.
    pub(super) outputs: Vec<Perm>,
    pub(super) attrs: Attrs,
    /// Domain, operator and version where they change.
    pub(super) operator: Option<(&'static str, &'static str, i32)>,
    /// The entries to pick from a list result to restore it.
    pub(super) picks: Option<Vec<i64>>,
    /// The bytes whose movement costs as much as the node becomes slower.
    pub(super) penalty: u64,
    /// The bytes whose movement costs as much as the node becomes faster.
    pub(super) gain: u64,
}

/// The replacement of an input of a transposed node.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// The same input, or none.
    Same,
    /// The input, stored in this order.
    Transposed(Perm),
    /// The input, expanded to broadcast to a result of this order.
    Spread(Perm),
    /// These entries of the input, a list.
    Picked(Vec<i64>),
    /// A constant.
    Constant(Tensor),
}

/// A node, and the order of one of its operands or results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    pub(super) side: Side,
    pub(super) perm: &'a Perm,
    /// Whether images may become NHWC without an adjacent Transpose.
    pub(super) may_use_nhwc: bool,
}

/// Which operand or result of a node has a known order, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input(usize),
    Output(usize),
}

impl<'a> Place<'a> {
    pub(super) fn input(&self, index: usize) -> Option<ValueId> {
        self.node.inputs.get(index).copied().flatten()
    }

    pub(super) fn fact(&self, index: usize) -> Option<&'a Fact> {
        self.input(index).map(|input| self.graph.fact(input))
    }

    pub(super) fn rank(&self, index: usize) -> Option<usize> {
        self.fact(index)?.rank()
    }

    pub(super) fn output(&self, index: usize) -> Option<&'a Fact> {
        let output = self.node.outputs.get(index).copied().flatten()?;
        Some(self.graph.fact(output))
    }

    /// `None` if the node is older than this version.
    pub(super) fn since(&self, version: i32) -> Option<&Self> {
        (self.node.since_version >= version).then_some(self)
    }

    /// `None` if an attribute is less than this.
    pub(super) fn having(&self, name: &str, least: i64) -> Option<&Self> {
        (self.int(name, 0)? >= least).then_some(self)
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Option<i64> {
        match self.node.attrs.get(name) {
            None => Some(default),
            Some(Attr::Int(int)) => Some(*int),
            Some(_) => None,
        }
    }

    /// The numbers of an attribute, or of a constant input; `None` if it is present, but not known.
    pub(super) fn list(&self, name: &str, index: usize) -> Option<Option<Vec<i64>>> {
        match (self.node.attrs.get(name), self.fact(index)) {
            (Some(Attr::Ints(ints)), _) => Some(Some(ints.clone())),
            (Some(_), _) => None,
            (None, Some(fact)) => Some(Some(fact.ints()?)),
            (None, None) => Some(None),
        }
    }

    /// Whether every dimension of an input is 1: it is then the same in any order.
    pub(super) fn is_single(&self, index: usize) -> bool {
        let dims = self.fact(index).and_then(Fact::dims);
        dims.is_some_and(|dims| dims.iter().all(|dim| *dim == Dim::Known(1)))
    }

    /// The node with these operands and results, which is the same in all else.
    pub(super) fn transposed(
        &self,
        operand: impl FnMut(usize) -> Option<Operand>,
        outputs: &Perm,
    ) -> Option<TransposedNode> {
        let inputs = (0..self.node.inputs.len()).map(operand).collect::<Option<_>>()?;
        Some(TransposedNode {
            inputs,
            outputs: vec![outputs.clone(); self.node.outputs.len()],
            attrs: self.node.attrs.clone(),
            operator: None,
            picks: None,
            penalty: 0,
            gain: 0,
        })
    }

    /// The node whose operands accepted by `is_data` have one rank, and the same order as all results.
    pub(super) fn alike(&self, is_data: fn(usize) -> bool) -> Option<TransposedNode> {
        self.changing_rank(is_data, self.perm, self.perm)
    }

    /// The node with operands of one order and results of another.
    pub(super) fn changing_rank(
        &self,
        is_data: fn(usize) -> bool,
        from: &Perm,
        to: &Perm,
    ) -> Option<TransposedNode> {
        let operand = |index| match is_data(index) && self.input(index).is_some() {
            true => (self.rank(index)? == from.rank()).then(|| Operand::Transposed(from.clone())),
            false => Some(Operand::Same),
        };
        self.transposed(operand, to)
    }
}

impl TransposedNode {
    pub(super) fn attr(mut self, name: &str, attr: Attr) -> Self {
        self.attrs.set(name, attr);
        self
    }

    /// Replaces an input, if there was one.
    pub(super) fn reads(mut self, index: usize, operand: Operand) -> Self {
        if self.inputs.len() <= index {
            self.inputs.resize(index + 1, Operand::Same);
        }
        self.inputs[index] = operand;
        self
    }

    /// Sets a list of axes, in the attribute or else the input.
    pub(super) fn list(
        self,
        place: &Place<'_>,
        name: &str,
        index: usize,
        axes: &[i64],
    ) -> Option<Self> {
        if place.node.attrs.get(name).is_some() {
            return Some(self.attr(name, Attr::Ints(axes.to_vec())));
        }
        let dtype = place.fact(index)?.dtype()?;
        Some(self.reads(index, Operand::Constant(numbers(dtype, axes)?)))
    }

    /// If so, the node is slower by the time of moving its first operand.
    pub(super) fn slower_if(mut self, place: &Place<'_>, is_slower: bool) -> Self {
        if is_slower {
            self.penalty = place.fact(0).map_or(0, n_bytes);
        }
        self
    }
}

/// A list of int32 or int64.
pub(super) fn numbers(dtype: DType, ints: &[i64]) -> Option<Tensor> {
    let shape = [ints.len()];
    match dtype {
        DType::I64 => Tensor::from_slice(&shape, ints).ok(),
        DType::I32 => {
            let ints: Vec<i32> =
                ints.iter().map(|&int| int.try_into().ok()).collect::<Option<_>>()?;
            Tensor::from_slice(&shape, &ints).ok()
        }
        _ => None,
    }
}
