//! SequenceMap as a Loop, which takes an item of each sequence, and appends the results to sequences.
//!
//! ```text
//! for i in 0..len(x): y = insert(y, body(x[i], …))
//! ```
//!
//! Source: ONNX 1.23, the body of SequenceMap-17.

use ort_graph::{
    Attr, Attrs, Fact, Graph, GraphError, NewNode, Node, Patch, Registry, Type, ValueId,
};
use ort_tensor::DType;

use crate::options::{Exactness, Level};
use crate::pass::{Formula, Pass, Refusal, Rewrite, Site};

pub(super) const PASS: Pass = Pass {
    name: "SequenceMapToLoop",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(SequenceMapToLoop { registry: ort_ops::registry() }),
};

struct SequenceMapToLoop {
    registry: Registry,
}

impl Rewrite for SequenceMapToLoop {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["SequenceMap"])
    }

    fn formulas(&self) -> Vec<Formula> {
        vec![Formula { needs: vec!["SequenceMap"], makes: vec!["Loop"] }]
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let Some(Attr::Graph(body)) = node.attrs.get("body") else { return Ok(None) };
        let (Some(&Some(first)), "") = (node.inputs.first(), &*node.domain) else {
            return Ok(None);
        };
        let types = body.outputs().iter().map(|&output| body.fact(output).dtype());
        let types: Option<Vec<DType>> = types.collect();
        let types = types.ok_or(Refusal("the types of its results are not known"))?;
        // Whether an input is a sequence decides how it is passed on.
        let is_unknown = |id: &ValueId| site.graph.fact(*id).ty == Type::Unknown;
        if node.inputs.iter().flatten().any(is_unknown) {
            return Err(Refusal("the types of its inputs are not known"));
        }
        let looped = loop_body(site.graph, node, body, &types, &self.registry);
        let looped = looped.map_err(|_| Refusal("its body does not fit a loop"))?;

        let mut patch = Patch::new(site.graph);
        let length = patch.output_of(ai_onnx("SequenceLength", 11, vec![Some(first)]))?;
        let mut inputs = vec![Some(length), None];
        for &dtype in &types {
            let mut empty = ai_onnx("SequenceEmpty", 11, Vec::new());
            empty.attrs.set("dtype", Attr::Int(dtype.onnx().into()));
            inputs.push(Some(patch.output_of(empty)?));
        }
        let mut captured: Vec<_> = looped.captures().iter().map(|&(_, there)| there).collect();
        captured.sort_unstable();
        captured.dedup();
        let mut outputs = Vec::new();
        for (&old, &dtype) in node.outputs.iter().zip(&types) {
            let new = patch.value("mapped", sequence_of(dtype))?;
            old.iter().for_each(|&old| patch.replace(old, new));
            outputs.push(Some(new));
        }
        let attrs = Attrs::new().with("body", Attr::Graph(Box::new(looped)));
        patch.node(NewNode { outputs, captured, attrs, ..ai_onnx("Loop", 16, inputs) });
        Ok(Some(patch))
    }
}

/// The body of the loop: what was given to the body of the map is captured, or an item of what is captured.
fn loop_body(
    graph: &Graph,
    node: &Node,
    body: &Graph,
    types: &[DType],
    registry: &Registry,
) -> Result<Graph, GraphError> {
    let mut looped = body.clone();
    looped.set_inputs(Vec::new());
    // A name of the graph around, extended: its other values have other names.
    let prefix = node.outputs.iter().flatten().next().map_or("", |&id| &graph.value(id).name);
    let named = |name: &str| format!("{prefix}/{name}");
    let i = looped.add_value(named("i"), Fact::shaped(DType::I64, &[]))?;
    let goes_on = looped.add_value(named("goes_on"), Fact::shaped(DType::Bool, &[]))?;
    for (&item, &given) in body.inputs().iter().zip(&node.inputs) {
        let Some(given) = given else { continue };
        let mut captures = looped.captures().iter();
        let known = captures.find(|&&(_, there)| there == given).map(|&(here, _)| here);
        let whole = match known {
            Some(here) => here,
            None => looped.add_captured(&graph.value(given).name, graph, given)?,
        };
        let is_item = matches!(graph.fact(given).ty, Type::Sequence(_));
        let (op_type, since, inputs) = if is_item {
            ("SequenceAt", 11, vec![Some(whole), Some(i)])
        } else {
            ("Identity", 13, vec![Some(whole)])
        };
        let taken = NewNode { outputs: vec![Some(item)], ..ai_onnx(op_type, since, inputs) };
        looped.add_node(taken, registry)?;
    }
    let (mut inputs, mut outputs) = (vec![i, goes_on], Vec::new());
    let still = looped.add_value(named("still"), Fact::shaped(DType::Bool, &[]))?;
    add(&mut looped, ai_onnx("Identity", 13, vec![Some(goes_on)]), still, registry)?;
    outputs.push(still);
    for (k, (&result, &dtype)) in body.outputs().iter().zip(types).enumerate() {
        let before = looped.add_value(named(&format!("results.{k}")), sequence_of(dtype))?;
        let after = looped.add_value(named(&format!("appended.{k}")), sequence_of(dtype))?;
        let appended = ai_onnx("SequenceInsert", 11, vec![Some(before), Some(result)]);
        add(&mut looped, appended, after, registry)?;
        inputs.push(before);
        outputs.push(after);
    }
    looped.set_inputs(inputs);
    looped.set_outputs(outputs);
    Ok(looped)
}

fn add(
    graph: &mut Graph,
    node: NewNode,
    output: ValueId,
    registry: &Registry,
) -> Result<(), GraphError> {
    graph.add_node(NewNode { outputs: vec![Some(output)], ..node }, registry).map(drop)
}

fn ai_onnx(op_type: &str, since_version: i32, inputs: Vec<Option<ValueId>>) -> NewNode {
    NewNode { op_type: op_type.to_owned(), since_version, inputs, ..NewNode::default() }
}

fn sequence_of(dtype: DType) -> Fact {
    Type::Sequence(Box::new(Fact::unranked(dtype).ty)).into()
}

#[cfg(test)]
mod tests {
    use ort_ops::registry;

    use super::*;
    use crate::lower_for_onnx_runtime;
    use crate::testing::{assert_equivalent, parse};

    #[test]
    fn items_captures_and_tensors_reach_the_body_of_the_loop() {
        let before = parse(
            "graph(x: float[2,3], y: float[1,3], z: float[3]) -> (a, b, n) {
               s = SequenceConstruct-11 (x, y)
               t = SequenceConstruct-11 (y, x)
               p, q = SequenceMap-17 [body: graph(u: float[...], v: float[...], w: float[3]) -> (sum, same) {
                 scaled = Mul-14 (u, w)
                 captured = Mul-14 (scaled, z)
                 sum = Add-14 (captured, v)
                 same = Identity-13 (u)
               }] (s, t, z)
               zero = const int64[] [0]
               one = const int64[] [1]
               a = SequenceAt-11 (p, zero)
               b = SequenceAt-11 (q, one)
               n = SequenceLength-11 (q)
             }",
        );
        let (after, left) = lower_for_onnx_runtime(before.clone(), &registry(), Some(17)).unwrap();
        assert!(left.is_empty(), "{left:?}\n{after}");
        after.verify().unwrap();
        assert_equivalent(&before, &after, Exactness::Bitwise);
    }

    #[test]
    fn no_item_gives_an_empty_sequence() {
        let before = parse(
            "graph() -> (n) {
               s = SequenceEmpty-11 [dtype: 1] ()
               p = SequenceMap-17 [body: graph(u: float[...]) -> (v) { v = Relu-14 (u) }] (s)
               n = SequenceLength-11 (p)
             }",
        );
        let (after, left) = lower_for_onnx_runtime(before.clone(), &registry(), Some(17)).unwrap();
        assert!(left.is_empty(), "{left:?}\n{after}");
        assert_equivalent(&before, &after, Exactness::Bitwise);
    }
}
