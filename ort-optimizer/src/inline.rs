//! The nodes of a graph as nodes of another.

use std::collections::HashMap;

use ort_graph::{Graph, NewNode, Patch, ValueId};

use crate::pass::Refusal;

/// Copies constants and nodes of a graph into the patch, where `values` maps what the graph is given (inputs, captures) to
/// values of the patch's graph. Returns the map of all its values.
///
/// # Errors
/// If its nodes form a cycle, or the patch would be too large.
pub(crate) fn inlined(
    graph: &Graph,
    mut values: HashMap<ValueId, ValueId>,
    patch: &mut Patch,
) -> Result<HashMap<ValueId, ValueId>, Refusal> {
    for id in graph.value_ids() {
        if let Some(tensor) = graph.constant(id)
            && !values.contains_key(&id)
        {
            values.insert(id, patch.constant(&graph.value(id).name, tensor.clone())?);
        }
    }
    let order = graph.topological_order().map_err(|_| Refusal("its graph has a cycle"))?;
    for id in order {
        let node = graph.node(id);
        for &output in node.outputs.iter().flatten() {
            let value = graph.value(output);
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
