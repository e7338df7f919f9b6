//! The sum of a product and a bias, where the product has a bias input.

use ort_graph::{Dim, Fact, NewNode, Patch};

use crate::pass::{Refusal, Site};

/// The node of com.microsoft that computes one side of an Add, with the other side as its input at
/// `index`, if that is one number per column.
pub(super) fn biased(
    site: &Site<'_>,
    op_type: &str,
    index: usize,
) -> Result<Option<Patch>, Refusal> {
    let (graph, add) = (site.graph, site.node());
    let (&[Some(left), Some(right)], &[Some(sum)]) = (&*add.inputs, &*add.outputs) else {
        return Ok(None);
    };
    let is_product = |value| {
        let (id, _) = graph.producer(value)?;
        let node = graph.node(id);
        let is_open = node.inputs.get(index).copied().flatten().is_none();
        (node.op_type == op_type && node.domain == "com.microsoft" && is_open).then_some(node)
    };
    let sides = [(left, right), (right, left)];
    let found = sides.into_iter().find_map(|(value, bias)| Some((value, is_product(value)?, bias)));
    let Some((value, product, bias)) = found.filter(|_| add.domain.is_empty()) else {
        return Ok(None);
    };
    if graph.consumers(value) != [site.id] || graph.is_output(value) {
        return Err(Refusal("the product is used elsewhere"));
    }
    let columns = graph.fact(value).dims().and_then(<[_]>::last).filter(|&n| *n != Dim::Unknown);
    let (row, dtype) = (graph.fact(bias).dims(), graph.fact(value).dtype());
    if row.is_none()
        || row != columns.map(std::slice::from_ref)
        || dtype != Fact::dtype(graph.fact(bias))
    {
        return Err(Refusal("the summand is not one number per column"));
    }
    let mut inputs = product.inputs.to_vec();
    inputs.resize(index, None);
    inputs.push(Some(bias));
    let mut patch = Patch::new(graph);
    let new = patch.output_of(NewNode {
        name: product.name.clone(),
        domain: product.domain.clone(),
        op_type: product.op_type.clone(),
        since_version: product.since_version,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs: product.attrs.clone(),
    })?;
    patch.replace(sum, new);
    Ok(Some(patch))
}
