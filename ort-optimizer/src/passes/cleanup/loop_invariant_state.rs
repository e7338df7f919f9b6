//! LoopInvariantState: a state that the body of a Loop or Scan passes through unchanged keeps its initial value, so
//! the body captures that from the enclosing graph.
//!
//! TensorFlow's while loops carry their weights like that. A captured constant is a constant of the body, which
//! kernels pack, and other captured values are not copied.

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, Patch, ValueId};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "LoopInvariantState",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(LoopInvariantState),
};

struct LoopInvariantState;

impl Rewrite for LoopInvariantState {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Loop", "Scan"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let Some(Attr::Graph(body)) = node.attrs.get("body") else { return Ok(None) };
        let Some(states) = States::of(node) else { return Ok(None) };
        let invariant: Vec<Invariant> = states.invariant(node, body).collect();
        let condition = body.inputs().get(1).copied().filter(|_| node.op_type == "Loop");
        let passes_condition_through = condition.is_some_and(|condition| {
            body.outputs().first().is_some_and(|&next| next != condition)
                && source(body, 0) == Some(condition)
        });
        if invariant.is_empty() && !passes_condition_through {
            return Ok(None);
        }
        let mut body = (**body).clone();
        if let Some(condition) = condition.filter(|_| passes_condition_through) {
            let rest = body.outputs().iter().skip(1).copied();
            let outputs = std::iter::once(condition).chain(rest).collect();
            body.set_outputs(outputs);
        }
        rewritten(site.graph, node, &states, &invariant, body).map(Some)
    }
}

/// Where the states of a node are: `n` of each, from these positions on.
struct States {
    n: usize,
    /// Among the inputs of the node, which are those of the body as well.
    inputs: usize,
    /// Among the outputs of the body; those of the node begin with them.
    body_outputs: usize,
}

/// A state that keeps its initial value.
struct Invariant {
    /// Which of the states.
    index: usize,
    /// Its initial value.
    initial: ValueId,
}

impl States {
    fn of(node: &Node) -> Option<Self> {
        if node.op_type == "Loop" {
            return Some(Self { n: node.inputs.len().checked_sub(2)?, inputs: 2, body_outputs: 1 });
        }
        // Up to version 8, states have a batch dimension that the body does not see.
        let Some(Attr::Int(n)) = node.attrs.get("num_scan_inputs") else { return None };
        let n = node.inputs.len().checked_sub(usize::try_from(*n).ok()?)?;
        (node.since_version > 8).then_some(Self { n, inputs: 0, body_outputs: 0 })
    }

    fn invariant(&self, node: &Node, body: &Graph) -> impl Iterator<Item = Invariant> {
        (0..self.n).filter_map(|index| {
            let input = *body.inputs().get(self.inputs + index)?;
            let initial = node.inputs[self.inputs + index]?;
            let is_invariant = source(body, self.body_outputs + index) == Some(input)
                && body.value(input).default.is_none();
            is_invariant.then_some(Invariant { index, initial })
        })
    }
}

/// The source of output `index` of a graph, through identities.
fn source(graph: &Graph, index: usize) -> Option<ValueId> {
    let mut value = *graph.outputs().get(index)?;
    while let Some((node, 0)) = graph.producer(value)
        && let node = graph.node(node)
        && node.op_type == "Identity"
    {
        value = node.inputs.first().copied()??;
    }
    Some(value)
}

/// The patch that replaces `node` by one with this body and without these states.
fn rewritten(
    graph: &Graph,
    node: &Node,
    states: &States,
    invariant: &[Invariant],
    mut body: Graph,
) -> Result<Patch, Refusal> {
    let without = |values: &[ValueId], first: usize| -> Vec<ValueId> {
        let is_kept = |at: &usize| invariant.iter().all(|state| *at != first + state.index);
        (0..values.len()).filter(is_kept).map(|at| values[at]).collect()
    };
    for Invariant { index, initial } in invariant {
        body.add_capture(body.inputs()[states.inputs + index], *initial);
    }
    body.set_inputs(without(body.inputs(), states.inputs));
    body.set_outputs(without(body.outputs(), states.body_outputs));
    let is_invariant =
        |at: usize, first: usize| invariant.iter().any(|state| at == first + state.index);
    let mut captured = node.captured.clone();
    captured.extend(invariant.iter().map(|state| state.initial));
    captured.sort_unstable();
    captured.dedup();
    let mut patch = Patch::new(graph);
    let mut outputs = Vec::with_capacity(node.outputs.len());
    for (at, &old) in node.outputs.iter().enumerate() {
        match (old, invariant.iter().find(|state| state.index == at)) {
            (None, None) => outputs.push(None),
            (Some(old), None) => {
                let value = graph.value(old);
                let new = patch.value(&value.name, value.fact.clone())?;
                patch.replace(old, new);
                outputs.push(Some(new));
            }
            (None, Some(_)) => {}
            (Some(old), Some(state)) => {
                let new = passed_through(graph, &mut patch, old, state.initial)?;
                patch.replace(old, new);
            }
        }
    }
    let inputs = node.inputs.iter().enumerate();
    let inputs = inputs.filter(|&(at, _)| !is_invariant(at, states.inputs)).map(|(_, &id)| id);
    patch.node(NewNode {
        name: node.name.clone(),
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs: inputs.collect(),
        outputs,
        captured: captured.to_vec(),
        attrs: node.attrs.clone().with("body", Attr::Graph(Box::new(body))),
    });
    Ok(patch)
}

/// The replacement of an output that equals `initial`: a graph must return its own value.
fn passed_through(
    graph: &Graph,
    patch: &mut Patch,
    output: ValueId,
    initial: ValueId,
) -> Result<ValueId, Refusal> {
    if !graph.is_output(output) {
        return Ok(initial);
    }
    let identity = NewNode {
        name: graph.value(output).name.clone(),
        domain: String::new(),
        op_type: "Identity".to_owned(),
        since_version: 16,
        inputs: vec![Some(initial)],
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs: Attrs::new(),
    };
    Ok(patch.output_of(identity)?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn an_invariant_state_is_captured() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2]) -> (h, v, s, t) {
               w = const float[2] [2, 3]
               trips = const int64[] 3
               h, u, v, p, q, s = Loop-16 [
                 body: graph(i: int64[], go: bool[], h0: float[2], w0: float[2], v0: float[2], p0: float[2], q0: float[2]) -> (go1, h1, w1, v1, q0, p0, s1) {
                   go1 = Identity-16 (go)
                   m = Mul-14 (h0, w0)
                   h1 = Add-14 (m, v0)
                   a = Identity-16 (w0)
                   w1 = Identity-16 (a)
                   v1 = Identity-16 (v0)
                   s1 = Add-14 (h1, p0)
                 }
               ] (trips, _, x, w, x, x, w)
               t = Add-14 (u, q)
             }",
            &expect![[r#"
                graph(x: float[2]) -> (h, v, s, t) {
                  w = const float[2] [2, 3]
                  trips = const int64[] 3
                  v = Identity-16 "v" (x)
                  h, p, q, s = Loop-16 [body: graph(i: int64[], go: bool[], h0: float[2], p0: float[2], q0: float[2]) -> (go, h1, q0, p0, s1) {
                    v0 = outer x
                    w0 = const float[2] [2, 3]
                    go1 = Identity-16 (go)
                    m = Mul-14 (h0, w0)
                    h1 = Add-14 (m, v0)
                    a = Identity-16 (w0)
                    w1 = Identity-16 (a)
                    v1 = Identity-16 (v0)
                    s1 = Add-14 (h1, p0)
                  }] (trips, _, x, x, w)
                  t = Add-14 (w, q)
                }"#]],
        );
    }

    #[test]
    fn so_is_a_state_of_a_scan_and_of_a_nested_loop() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2], xs: float[3,2]) -> (h, ys) {
               w = const float[2] [2, 3]
               h, u, ys = Scan-16 [
                 body: graph(h0: float[2], w0: float[2], x0: float[2]) -> (h1, w0, y) {
                   trips = const int64[] 2
                   h1, r = Loop-16 [
                     body: graph(i: int64[], go: bool[], k0: float[2], r0: float[2]) -> (go, k1, r0) {
                       m = Mul-14 (k0, r0)
                       k1 = Add-14 (m, w0)
                     }
                   ] (trips, _, h0, w0)
                   y = Add-14 (h1, x0)
                 },
                 num_scan_inputs: 1
               ] (x, w, xs)
             }",
            &expect![[r#"
                graph(x: float[2], xs: float[3,2]) -> (h, ys) {
                  h, ys = Scan-16 [body: graph(h0: float[2], x0: float[2]) -> (h1, y) {
                    trips = const int64[] 2
                    h1 = Loop-16 [body: graph(i: int64[], go: bool[], k0: float[2]) -> (go, k1) {
                      r0 = const float[2] [2, 3]
                      w0 = const float[2] [2, 3]
                      m = Mul-14 (k0, r0)
                      k1 = Add-14 (m, w0)
                    }] (trips, _, h0)
                    y = Add-14 (h1, x0)
                  }, num_scan_inputs: 1] (x, xs)
                }"#]],
        );
    }
}
