//! LoopProjection: products of a loop's inputs with a loop-invariant matrix are computed for all iterations at once.
//!
//! ```text
//! Scan(xs: … MatMul(x, W) …)                        = Scan(MatMul(xs, W): … y …)
//! Loop(t: … MatMul(Gather(xs, t), W) …)             = Loop(t: … Gather(MatMul(xs, W), t) …)
//! Loop(t: … MatMul(SequenceAt(Split(xs), t), W) …)  = the same
//! ```
//! In each iteration of a recurrent network, one row is multiplied by all of W, which is read from memory every time.
//! All rows together read it once. A Loop must be known to have at least half as many iterations as there are rows.
//! The products of all rows are in memory at once, so they must not be large: those of a decoder's states with a
//! vocabulary stay in the body. Our own pass: ONNX Runtime has no equivalent.

mod rows;

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, NewNode, Node, NodeId, Patch, ValueId};

use self::rows::Rows;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "LoopProjection",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(LoopProjection),
};

struct LoopProjection;

const FULL: Refusal = Refusal("its body is full");

impl Rewrite for LoopProjection {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Loop", "Scan"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some(Attr::Graph(body)) = node.attrs.get("body") else { return Ok(None) };
        let found = body.node_ids().find_map(|id| Product::of(graph, node, body, id));
        let Some(product) = found else { return Ok(None) };
        let mut patch = Patch::new(graph);
        let weights = match product.weights {
            Weights::Captured(there) => there,
            Weights::Constant(here) => {
                let tensor = body.constant(here).ok_or(Refusal("its weights are not known"))?;
                patch.constant(&body.value(here).name, tensor.clone())?
            }
        };
        let all = patch.output_of(new_node(
            (&node.name, "MatMul", product.since_version),
            vec![Some(product.rows.all()), Some(weights)],
            Attrs::new(),
        ))?;
        let body = match product.rows {
            Rows::Scanned { .. } => scanning(body, &product)?,
            Rows::Gathered { at, .. } => gathering(body, &product, (all, at))?,
        };
        let outputs = node.outputs.iter().map(|&old| -> Result<_, Refusal> {
            let Some(old) = old else { return Ok(None) };
            let value = graph.value(old);
            let new = patch.value(&value.name, value.fact.clone())?;
            patch.replace(old, new);
            Ok(Some(new))
        });
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let mut inputs = node.inputs.to_vec();
        if let Rows::Scanned { .. } = product.rows {
            inputs.push(Some(all));
        }
        let attrs = with_body(node, body, &product.rows);
        let mut captured: Vec<ValueId> =
            attrs.graphs().flat_map(|(_, graph)| graph.captures()).map(|&(_, it)| it).collect();
        captured.sort_unstable();
        captured.dedup();
        let (name, domain, op_type) = (&node.name, &node.domain, &node.op_type);
        patch.node(NewNode {
            name: name.clone(),
            domain: domain.clone(),
            op_type: op_type.clone(),
            since_version: node.since_version,
            inputs,
            outputs,
            captured,
            attrs,
        });
        Ok(Some(patch))
    }
}

/// A product in a body that can be computed before for all iterations.
struct Product {
    node: NodeId,
    since_version: i32,
    output: ValueId,
    rows: Rows,
    weights: Weights,
}

/// A matrix that is the same in each iteration.
#[derive(Clone, Copy)]
enum Weights {
    /// A constant of the body.
    Constant(ValueId),
    /// A value of the enclosing graph.
    Captured(ValueId),
}

impl Product {
    fn of(graph: &Graph, node: &Node, body: &Graph, id: NodeId) -> Option<Self> {
        let product = body.node(id);
        let (&[Some(x), Some(w)], &[Some(output)]) = (&*product.inputs, &*product.outputs) else {
            return None;
        };
        let is_product = product.op_type == "MatMul" && product.domain.is_empty();
        if !is_product || body.fact(w).rank() != Some(2) || body.is_output(output) {
            return None;
        }
        let captured = body.captures().iter().find(|(here, _)| *here == w);
        let weights = match captured {
            Some(&(_, there)) => Weights::Captured(there),
            None if body.constant(w).is_some() => Weights::Constant(w),
            None => return None,
        };
        let rows = Rows::of(graph, node, body, x)?;
        if !is_small(graph.fact(rows.all()), body.fact(w)) {
            return None;
        }
        Some(Self { node: id, since_version: product.since_version, output, rows, weights })
    }
}

/// Whether all rows times a matrix have at most 2²⁴ elements; for an unknown number of rows, a row at most 2¹².
fn is_small(rows: &Fact, matrix: &Fact) -> bool {
    let known = |fact: &Fact, axis: usize| fact.dims()?.get(axis)?.known();
    let Some(width) = known(matrix, 1) else { return false };
    let dims = rows.dims().unwrap_or_default();
    // The last dimension is that of the summation.
    let mut n_rows = dims.iter().rev().skip(1).map(Dim::known);
    match n_rows.try_fold(1_usize, |n, dim| Some(n.saturating_mul(dim?))) {
        Some(n_rows) if !dims.is_empty() => n_rows.saturating_mul(width) <= 1 << 24,
        _ => width <= 1 << 12,
    }
}

/// The body with the product as another scanned input.
fn scanning(body: &Graph, product: &Product) -> Result<Graph, Refusal> {
    let mut body = body.clone();
    // It takes the place of the product, and its name.
    let value = body.value(product.output);
    let (name, fact) = (value.name.clone(), value.fact.clone());
    let input = body.add_value(name, fact).map_err(|_| FULL)?;
    body.replace_uses(product.output, input);
    body.set_inputs(body.inputs().iter().copied().chain([input]).collect());
    body.sweep([product.node]);
    Ok(body)
}

/// The body that looks up the product among those of all rows.
fn gathering(
    body: &Graph,
    product: &Product,
    (all, at): (ValueId, ValueId),
) -> Result<Graph, Refusal> {
    let mut body = body.clone();
    let value = body.value(product.output);
    let dtype = value.fact.dtype().ok_or(Refusal("its type is not known"))?;
    let row = value.fact.dims().ok_or(Refusal("its rank is not known"))?;
    let fact = Fact::tensor(dtype, std::iter::once(Dim::Unknown).chain(row.iter().cloned()));
    let mut name = format!("{}_of_all", value.name);
    while body.value_ids().any(|id| body.value(id).name == name) {
        name.push('_');
    }
    let here = body.add_value(name, fact).map_err(|_| FULL)?;
    body.add_capture(here, all);
    let mut patch = Patch::new(&body);
    let row = patch.output_of(new_node(
        ("", "Gather", 13),
        vec![Some(here), Some(at)],
        Attrs::new().with("axis", Attr::Int(0)),
    ))?;
    patch.replace(product.output, row);
    patch.commit(&mut body, &ort_ops::registry())?;
    Ok(body)
}

fn new_node(
    (name, op_type, since_version): (&str, &str, i32),
    inputs: Vec<Option<ValueId>>,
    attrs: Attrs,
) -> NewNode {
    NewNode {
        name: name.to_owned(),
        domain: String::new(),
        op_type: op_type.to_owned(),
        since_version,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs,
    }
}

/// The attributes of the node with this body, and with another scanned input if there is one.
fn with_body(node: &Node, body: Graph, rows: &Rows) -> Attrs {
    let mut attrs = node.attrs.clone().with("body", Attr::Graph(Box::new(body)));
    let (Rows::Scanned { is_reversed, .. }, Some(Attr::Int(n))) =
        (rows, node.attrs.get("num_scan_inputs"))
    else {
        return attrs;
    };
    attrs.set("num_scan_inputs", Attr::Int(n + 1));
    for (name, last) in [("scan_input_axes", 0), ("scan_input_directions", i64::from(*is_reversed))]
    {
        let mut ints = match node.attrs.get(name) {
            Some(Attr::Ints(ints)) => ints.clone(),
            _ if last == 0 => continue,
            _ => Vec::new(),
        };
        ints.resize(usize::try_from(*n).unwrap_or(0), 0);
        ints.push(last);
        attrs.set(name, Attr::Ints(ints));
    }
    attrs
}

#[cfg(test)]
mod tests;
