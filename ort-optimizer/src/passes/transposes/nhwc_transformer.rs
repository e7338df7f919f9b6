//! NhwcTransformer: converts convolutions and pools of bytes to NHWC.
//!
//! ```text
//! QLinearConv(x, …) → Transpose[NCHW](QLinearConv[channels_last](Transpose[NHWC](x), …))
//! MaxPool(x)        → Transpose[NCHW](NhwcMaxPool(Transpose[NHWC](x)))
//! BatchNormalization(x, …)
//!                   → Transpose[NCHW](com.ms.internal.nhwc:BatchNormalization(Transpose[NHWC](x), …))
//! ```
//!
//! Whole regions are converted at once, and only where convolutions gain more than the Transposes at the borders cost
//! (see `region`): there are none within. Depthwise convolutions are converted with them; those of other groups stay,
//! as do those whose weights are not constant.
//!
//! Source: ONNX Runtime 1.31, NhwcTransformer, which wraps every such node and leaves the rest to its
//! TransposeOptimizer.

use ort_graph::Patch;

use super::form::{Place, Side};
use super::handlers::form;
use super::images::channels_last;
use super::region::Region;
use super::rewrite::rewrite;
use super::versions;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "NhwcTransformer",
    level: Level::Layout,
    exactness: Exactness::Bitwise,
    start: || Box::new(NhwcTransformer),
};

struct NhwcTransformer;

impl Rewrite for NhwcTransformer {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["QLinearConv", "MaxPool", "BatchNormalization"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(&Some(output)) = site.node().outputs.first() else { return Ok(None) };
        let Some(rank) = site.graph.fact(output).rank().filter(|&rank| rank > 2) else {
            return Ok(None);
        };
        let (graph, node, perm) = (site.graph, site.node(), channels_last(rank));
        let place = Place { graph, node, side: Side::Output(0), perm: &perm, may_use_nhwc: true };
        if form(&place).is_none() {
            return Ok(None);
        }
        let region = Region::around(graph, (output, perm), true);
        let transposed = region
            .cheapest()
            .ok_or(Refusal("the Transposes around it would cost more than it gains"))?;
        Ok(Some(rewrite(&region, &transposed, versions::transpose(site.options.opset))?))
    }
}

#[cfg(test)]
mod tests;
