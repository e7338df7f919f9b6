//! ConstantFolding: what is the same in every run is computed once, ahead of all runs.
//!
//! ```text
//! outputs whose contents inference knows (Shape of a known shape, …)  → constants
//! If with a constant condition                                       → the branch's nodes
//! deterministic nodes with constant inputs only                      → constants, by ConstEval
//! ```

use ort_graph::{Control, Fact, Node, Patch};
use ort_tensor::{DType, Tensor, n_elements};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ConstantFolding",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ConstantFolding),
};

/// A result of up to this many bytes is kept even if the inputs take less.
const SMALL_BYTES: usize = 4 << 20;

struct ConstantFolding;

impl Rewrite for ConstantFolding {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        if let Some(patch) = inferred(site, node)? {
            return Ok(Some(patch));
        }
        let behaviour = node.op.behaviour();
        match behaviour.control {
            Some(Control::If) => return super::inline_if::inline(site, node),
            Some(_) => return Ok(None),
            None => {}
        }
        let inputs: Option<Vec<Option<Tensor>>> = node
            .inputs
            .iter()
            .map(|input| {
                input
                    .map(|value| site.graph.constant(value).cloned())
                    .map_or(Some(None), |t| t.map(Some))
            })
            .collect();
        let Some(inputs) = inputs else { return Ok(None) };
        if !behaviour.is_deterministic {
            return Err(Refusal("it gives another result in every run"));
        }
        if node.op_type == "DequantizeLinear" {
            return Err(Refusal("it marks quantized weights, which fusions look for"));
        }
        let n_bytes = admitted(site, node, &inputs)?;
        let outputs = site.eval.eval(site.graph, node, &inputs);
        let outputs = outputs.map_err(|_| Refusal("it cannot be computed"))?;
        let wanted: Vec<_> = node.outputs.iter().flatten().copied().collect();
        if wanted.len() != outputs.len() {
            return Err(Refusal("it cannot be computed"));
        }
        site.folded_bytes.set(site.folded_bytes.get() - n_bytes);
        let mut patch = Patch::new(site.graph);
        for (old, tensor) in wanted.into_iter().zip(outputs) {
            let new = patch.constant("", tensor)?;
            patch.replace(old, new);
        }
        Ok(Some(patch))
    }
}

/// Constants for outputs that inference knows, if it knows all that are used.
fn inferred(site: &Site<'_>, node: &Node) -> Result<Option<Patch>, Refusal> {
    let mut patch = Patch::new(site.graph);
    let mut is_any = false;
    for output in node.outputs.iter().flatten().copied() {
        if let Some(tensor) = &site.graph.fact(output).constant {
            let new = patch.constant("", tensor.clone())?;
            patch.replace(output, new);
            is_any = true;
        } else if site.graph.is_used(output) {
            return Ok(None);
        }
    }
    Ok(is_any.then_some(patch))
}

/// The bytes that the results will take, if that is not too many.
fn admitted(site: &Site<'_>, node: &Node, inputs: &[Option<Tensor>]) -> Result<usize, Refusal> {
    let unknown = Refusal("the size of its result is not known before it is computed");
    let facts = site.graph.infer(site.id).map_err(|_| Refusal("it cannot be computed"))?;
    let sizes = node.outputs.iter().zip(&facts).filter(|(output, _)| output.is_some());
    let n_bytes = sizes
        .map(|(_, fact)| fact_bytes(fact))
        .try_fold(0_usize, |sum, bytes| sum.checked_add(bytes?))
        .ok_or(unknown)?;
    let input_bytes: usize = inputs.iter().flatten().map(Tensor::n_bytes).sum();
    if n_bytes > input_bytes.max(SMALL_BYTES) {
        return Err(Refusal("its result is much larger than its inputs"));
    }
    if n_bytes > site.folded_bytes.get() {
        return Err(Refusal("folded constants would take too many bytes"));
    }
    Ok(n_bytes)
}

fn fact_bytes(fact: &Fact) -> Option<usize> {
    let n = n_elements(&fact.shape()?)?;
    match fact.dtype()? {
        DType::String => n.checked_mul(size_of::<String>()),
        dtype => dtype.n_bytes(n),
    }
}
