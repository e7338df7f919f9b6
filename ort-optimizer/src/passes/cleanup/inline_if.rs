//! `If` with a constant condition: the nodes of the branch that always runs.

use std::collections::HashMap;

use ort_graph::{Attr, Graph, NewNode, Node, Patch, ValueId};
use ort_tensor::{Bool, Tensor};

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
    let values = copy(branch, &mut patch)?;
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

/// Copies constants and nodes of a subgraph into the patch; returns the new id of each value.
fn copy(branch: &Graph, patch: &mut Patch) -> Result<HashMap<ValueId, ValueId>, Refusal> {
    let mut values: HashMap<ValueId, ValueId> = branch.captures().iter().copied().collect();
    for id in branch.value_ids() {
        if let Some(tensor) = branch.constant(id)
            && !values.contains_key(&id)
        {
            values.insert(id, patch.constant(&branch.value(id).name, tensor.clone())?);
        }
    }
    let order = branch.topological_order().map_err(|_| Refusal("its branch has a cycle"))?;
    for id in order {
        let node = branch.node(id);
        for &output in node.outputs.iter().flatten() {
            let value = branch.value(output);
            values.insert(output, patch.value(&value.name, value.fact.clone())?);
        }
        let moved = |value: &ValueId| values.get(value).copied().unwrap_or(*value);
        let mut attrs = node.attrs.clone();
        attrs.map_captures(&|value| moved(&value));
        patch.node(NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            since_version: node.since_version,
            inputs: node.inputs.iter().map(|input| input.as_ref().map(moved)).collect(),
            outputs: node.outputs.iter().map(|output| output.as_ref().map(moved)).collect(),
            captured: node.captured.iter().map(moved).collect(),
            attrs,
        });
    }
    Ok(values)
}
