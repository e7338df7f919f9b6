//! A node with the quantized values before and after it.

use ort_graph::{Attrs, Graph, NewNode, Node, Patch, ValueId};

use crate::pass::Refusal;
use crate::passes::quantized::values::{Quantized, Whole};

/// The replacement of a unit; `None` if it does not read quantized values.
pub(super) type Found = Result<Option<Patch>, Refusal>;

/// A node with the quantized values before and after it.
pub(super) struct Unit<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
}

/// An integer operator, and what it reads.
pub(super) struct Fused {
    pub(super) domain: &'static str,
    pub(super) op_type: &'static str,
    pub(super) since_version: i32,
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) attrs: Attrs,
}

impl<'a> Unit<'a> {
    pub(super) fn new(graph: &'a Graph, node: &'a Node) -> Self {
        Self { graph, node }
    }

    pub(super) fn input(&self, index: usize) -> Option<ValueId> {
        self.node.inputs.get(index).copied().flatten()
    }

    /// The quantized form of an input that a DequantizeLinear computes.
    pub(super) fn operand(&self, index: usize) -> Option<Quantized<'a>> {
        Quantized::of(self.graph, self.input(index)?)
    }

    /// The result of a node that computes only one.
    pub(super) fn result(&self) -> Option<ValueId> {
        let (first, others) = self.node.outputs.split_first()?;
        let is_used = |value: &ValueId| self.graph.is_used(*value);
        first.filter(|_| !others.iter().flatten().any(is_used))
    }

    /// The quantized form of the result, with a single scale.
    pub(super) fn quantized(&self) -> Result<(Quantized<'a>, Whole), Refusal> {
        let result = self.result().and_then(|result| Quantized::after(self.graph, result));
        let quantized =
            result.ok_or(Refusal("its result is not quantized, or also used as float"))?;
        Ok((quantized, quantized.whole().ok_or(SCALES)?))
    }

    /// The patch by which an integer operator computes `result` instead.
    pub(super) fn fused(&self, fused: Fused, mut patch: Patch, result: ValueId) -> Found {
        let mut inputs = fused.inputs;
        while inputs.pop_if(|input| input.is_none()).is_some() {}
        let new = patch.output_of(NewNode {
            name: self.node.name.clone(),
            domain: fused.domain.to_owned(),
            op_type: fused.op_type.to_owned(),
            since_version: fused.since_version,
            inputs,
            outputs: Vec::new(),
            captured: Vec::new(),
            attrs: fused.attrs,
        })?;
        patch.replace(result, new);
        Ok(Some(patch))
    }
}

impl Fused {
    /// An operator of com.microsoft.
    pub(super) fn microsoft(
        op_type: &'static str,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
    ) -> Self {
        Self { domain: "com.microsoft", op_type, since_version: 1, inputs, attrs }
    }
}

pub(super) const SCALES: Refusal =
    Refusal("its scales are invalid, or more than the operator supports");
pub(super) const TYPES: Refusal = Refusal("the types of its quantized values cannot be combined");
