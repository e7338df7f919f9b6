//! `If` with a constant condition: the nodes of the branch that always runs.

use ort_graph::{Attr, Node, Patch};
use ort_tensor::{Bool, Tensor};

use crate::inline::inlined;
use crate::pass::{Refusal, Site};

/// The patch that replaces `node` by the branch, if its condition is constant.
pub(super) fn inline(site: &Site<'_>, node: &Node) -> Result<Option<Patch>, Refusal> {
    let condition = node.inputs.first().copied().flatten();
    let Some(tensor) = condition.and_then(|value| site.graph.constant(value)) else {
        return Ok(None);
    };
    let branch = match first_bool(tensor) {
        Some(true) => "then_branch",
        Some(false) => "else_branch",
        None => return Err(Refusal("its condition is not a single boolean")),
    };
    let Some(Attr::Graph(branch)) = node.attrs.get(branch) else { return Ok(None) };
    let mut patch = Patch::new(site.graph);
    let values = inlined(branch, branch.captures().iter().copied().collect(), &mut patch)?;
    for (old, new) in node.outputs.iter().zip(branch.outputs()) {
        let new = *values.get(new).ok_or(Refusal("a result of its branch is not computed"))?;
        old.iter().for_each(|&old| patch.replace(old, new));
    }
    Ok(Some(patch))
}

fn first_bool(tensor: &Tensor) -> Option<bool> {
    match tensor.as_slice::<Bool>() {
        Ok([value]) => Some(value.get()),
        _ => None,
    }
}
