//! TransposeOptimizer: moves Transposes to where they cancel, or where they move the fewest bytes.
//!
//! ```text
//! Transpose[id](x)                                  → x
//! Transpose[q](Transpose[p](x))                     → Transpose[p∘q](x)
//! Transpose[p](x) where only axes of 1 move        → Reshape(x)
//! f(Transpose[p](x), …)                             → Transpose[p'](f'(x, …))   and back
//! ```
//!
//! `f` may be any operator that works in another order of axes as well (see `handlers`). For each Transpose, all such
//! operators around its result, and around its operand, are considered at once: of all ways to transpose some of
//! them, the one that moves the fewest bytes, with the fewest Transposes, is chosen (see `region`). Each rewrite
//! reduces that sum, so they terminate. A Transpose of a constant costs nothing, as it is folded, nor does one that a
//! product fuses; operators that become slower in the other order count as much as moving their operand.
//!
//! Source: ONNX Runtime 1.31, TransposeOptimizer, which pushes one Transpose past one node at a time,
//! only towards the outputs, and counts axes times Transposes instead of bytes.

use ort_graph::{Attrs, Dim, NewNode, Patch, ValueId};
use ort_tensor::Tensor;

use super::perm::Perm;
use super::region::{Region, transpose};
use super::reshape::target;
use super::rewrite::rewrite;
use super::versions;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "TransposeOptimizer",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(TransposeOptimizer),
};

struct TransposeOptimizer;

impl Rewrite for TransposeOptimizer {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Transpose"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some((from, perm, to)) = transpose(site.graph, site.id) else { return Ok(None) };
        if perm.is_identity() {
            let mut patch = Patch::new(site.graph);
            patch.replace(to, from);
            return Ok(Some(patch));
        }
        if site.graph.constant(from).is_some() {
            return Ok(None);
        }
        for seed in [(to, perm.clone()), (from, perm.inverse())] {
            let region = Region::around(site.graph, seed, false);
            if let Some(transposed) = region.cheapest() {
                return Ok(Some(rewrite(&region, &transposed, site.node().since_version)?));
            }
        }
        match reshaped(site, (from, to), &perm)? {
            Some(patch) => Ok(Some(patch)),
            None => Err(Refusal("it would not move fewer bytes elsewhere")),
        }
    }
}

/// A Reshape, if only axes of one element move: it moves no data.
fn reshaped(
    site: &Site<'_>,
    (from, to): (ValueId, ValueId),
    perm: &Perm,
) -> Result<Option<Patch>, Refusal> {
    let dims = [from, to].map(|value| site.graph.fact(value).dims());
    let [Some(before), Some(after)] = dims else { return Ok(None) };
    if !perm.moves_nothing(|axis| before[axis] == Dim::Known(1)) {
        return Ok(None);
    }
    let Some(shape) = target(before, after, true) else { return Ok(None) };
    let node = site.node();
    let mut patch = Patch::new(site.graph);
    let shape = Tensor::from_slice(&[shape.len()], &shape);
    let shape = patch.constant("", shape.map_err(|_| Refusal("its rank is too high"))?)?;
    let new = patch.output_of(NewNode {
        name: node.name.clone(),
        op_type: "Reshape".to_owned(),
        since_version: versions::reshape(node.since_version),
        inputs: vec![Some(from), Some(shape)],
        attrs: Attrs::new(),
        ..NewNode::default()
    })?;
    patch.replace(to, new);
    Ok(Some(patch))
}

#[cfg(test)]
mod tests;
