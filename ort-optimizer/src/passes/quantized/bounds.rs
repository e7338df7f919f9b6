//! A node before a QuantizeLinear that clips values to the range that quantization clips to anyway.

use ort_graph::Patch;

use super::values::{Quantized, reading};
use crate::pass::{Refusal, Site};

/// The quantized form of the node's result, if it has no other reader.
pub(super) fn quantize_of<'a>(site: &Site<'a>) -> Option<Quantized<'a>> {
    Quantized::after(site.graph, site.node().outputs.first().copied().flatten()?)
}

/// Quantizes the node's input instead of its result.
pub(super) fn drop_before(site: &Site<'_>, y: &Quantized<'_>) -> Result<Option<Patch>, Refusal> {
    let Some(&Some(x)) = site.node().inputs.first() else { return Ok(None) };
    let mut patch = Patch::new(site.graph);
    let new = patch.output_of(reading(site.graph.node(y.node), x))?;
    patch.replace(y.value, new);
    Ok(Some(patch))
}
