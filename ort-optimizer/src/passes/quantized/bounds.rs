//! A node before a QuantizeLinear, whose range of codes bounds values as the node does.

use ort_graph::{NewNode, Patch};

use super::coded::Coded;
use crate::pass::{Refusal, Site};

/// The codes that the result of the node becomes, if nobody else reads it.
pub(super) fn quantize_of<'a>(site: &Site<'a>) -> Option<Coded<'a>> {
    Coded::after(site.graph, site.node().outputs.first().copied().flatten()?)
}

/// Quantizes what the node reads.
pub(super) fn drop_before(site: &Site<'_>, y: &Coded<'_>) -> Result<Option<Patch>, Refusal> {
    let quantize = site.graph.node(y.node);
    let mut inputs = quantize.inputs.to_vec();
    inputs[0] = site.node().inputs.first().copied().flatten();
    let mut patch = Patch::new(site.graph);
    let new = patch.output_of(NewNode {
        name: quantize.name.clone(),
        domain: quantize.domain.clone(),
        op_type: quantize.op_type.clone(),
        since_version: quantize.since_version,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs: quantize.attrs.clone(),
    })?;
    patch.replace(y.codes, new);
    Ok(Some(patch))
}
