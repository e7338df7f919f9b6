//! A node before a QuantizeLinear, whose range of quantized values bounds values as the node does.

use ort_graph::Patch;

use super::coded::{Coded, reading};
use crate::pass::{Refusal, Site};

/// The quantized values that the result of the node becomes, if it has no other reader.
pub(super) fn quantize_of<'a>(site: &Site<'a>) -> Option<Coded<'a>> {
    Coded::after(site.graph, site.node().outputs.first().copied().flatten()?)
}

/// Quantizes what the node reads.
pub(super) fn drop_before(site: &Site<'_>, y: &Coded<'_>) -> Result<Option<Patch>, Refusal> {
    let Some(&Some(x)) = site.node().inputs.first() else { return Ok(None) };
    let mut patch = Patch::new(site.graph);
    let new = patch.output_of(reading(site.graph.node(y.node), x))?;
    patch.replace(y.codes, new);
    Ok(Some(patch))
}
