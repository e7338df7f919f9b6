//! Functions of the standard written out as graphs: the text of a body, which follows from attributes and types of the
//! node, is parsed and takes the place of the node.
//!
//! Source: ONNX 1.23, bodies of functions; ONNX Runtime 1.32, its CPU kernels.

mod attention;
mod bernoulli;
mod center_crop_pad;
mod class_loss;
mod recurrent;
mod reduce;

use std::fmt::Write as _;

use ort_graph::{Attr, Graph, Node, NodeId, Patch, Registry, ValueId};
use ort_tensor::DType;

use crate::inline::inlined;
use crate::options::{Exactness, Level};
use crate::pass::{Formula, Pass, Refusal, Rewrite, Site};

pub(super) const PASS: Pass = Pass {
    name: "FunctionBody",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(Bodies { registry: ort_ops::registry() }),
};

/// A function: its operator in ai.onnx, the first version without a kernel, and what writes its body.
struct Function {
    op_type: &'static str,
    since: i32,
    body: fn(&Call<'_>) -> Result<Body, Refusal>,
}

const FUNCTIONS: &[Function] = &[
    Function { op_type: "Attention", since: 25, body: attention::body },
    Function { op_type: "Bernoulli", since: 1, body: bernoulli::body },
    Function { op_type: "CausalConvWithState", since: 1, body: recurrent::body },
    Function { op_type: "CenterCropPad", since: 1, body: center_crop_pad::body },
    Function { op_type: "LinearAttention", since: 1, body: recurrent::body },
    Function { op_type: "NegativeLogLikelihoodLoss", since: 1, body: class_loss::body },
    Function { op_type: "ReduceLogSum", since: 28, body: reduce::body },
    Function { op_type: "ReduceLogSumExp", since: 28, body: reduce::body },
    Function { op_type: "SoftmaxCrossEntropyLoss", since: 1, body: class_loss::body },
];

/// The function of a node, if it is one of these.
fn function_of(node: &Node) -> Option<&'static Function> {
    let is_called = |function: &&Function| {
        function.op_type == node.op_type && function.since <= node.since_version
    };
    FUNCTIONS.iter().find(is_called).filter(|_| node.domain.is_empty())
}

/// Whether a node calls one of these functions.
pub(super) fn is_function(node: &Node) -> bool {
    function_of(node).is_some()
}

struct Bodies {
    registry: Registry,
}

impl Rewrite for Bodies {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(FUNCTIONS.iter().map(|function| function.op_type).collect())
    }

    fn formulas(&self) -> Vec<Formula> {
        let of = |function: &Function| Formula { needs: vec![function.op_type], makes: Vec::new() };
        FUNCTIONS.iter().map(of).collect()
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let Some(function) = function_of(node) else { return Ok(None) };
        let call = Call { graph: site.graph, node };
        let text = (function.body)(&call)?.text(&call)?;
        let body = Graph::parse(&text, &self.registry);
        let body = simplified(body.map_err(|_| Refusal("its types have no kernels"))?);
        let mut patch = Patch::new(site.graph);
        let given = node.inputs.iter().flatten().copied();
        let values = body.inputs().iter().copied().zip(given).collect();
        let values = inlined(&body, values, &mut patch)?;
        for (&old, new) in node.outputs.iter().flatten().zip(body.outputs()) {
            let new = *values.get(new).ok_or(Refusal("a result of its body is not computed"))?;
            patch.replace(old, new);
        }
        Ok(Some(patch))
    }
}

/// The body without statements that only rename a value, or that nothing reads. An output that is an input remains a copy.
fn simplified(mut body: Graph) -> Graph {
    let values: Vec<ValueId> = body.value_ids().collect();
    for value in values {
        let source = source_of(&body, value);
        if source != value {
            body.replace_uses(value, source);
        }
    }
    let mut outputs = Vec::new();
    for &output in body.outputs() {
        let source = source_of(&body, output);
        let is_copied = body.is_input(source) || outputs.contains(&source);
        outputs.push(if is_copied { output } else { source });
    }
    body.set_outputs(outputs);
    let nodes: Vec<NodeId> = body.node_ids().collect();
    body.sweep(nodes);
    body
}

/// What a value is a copy of.
fn source_of(body: &Graph, value: ValueId) -> ValueId {
    let node = body.producer(value).map(|(node, _)| body.node(node));
    match node.map(|node| (node.op_type.as_str(), node.inputs.as_slice())) {
        Some(("Identity", &[Some(input)])) => source_of(body, input),
        _ => value,
    }
}

/// A node that calls a function.
struct Call<'a> {
    graph: &'a Graph,
    node: &'a Node,
}

impl Call<'_> {
    /// Whether input `index` is given.
    fn has(&self, index: usize) -> bool {
        self.node.inputs.get(index).is_some_and(Option::is_some)
    }

    /// The element type of input `index`.
    fn dtype(&self, index: usize) -> Result<DType, Refusal> {
        let input = self.node.inputs.get(index).copied().flatten();
        let dtype = input.and_then(|input| self.graph.fact(input).dtype());
        dtype.ok_or(Refusal("the types of its inputs are not known"))
    }

    /// An integer attribute; 0 without it.
    fn int(&self, name: &str) -> i64 {
        match self.node.attrs.get(name) {
            Some(&Attr::Int(value)) => value,
            _ => 0,
        }
    }

    /// Its numbers and strings among the attributes.
    fn attrs(&self) -> String {
        let attrs = self.node.attrs.iter().filter_map(|(name, attr)| match attr {
            Attr::Int(value) => Some(format!("{name}: {value}")),
            Attr::Float(value) => Some(format!("{name}: {value:?}")),
            Attr::String(value) => Some(format!("{name}: {value:?}")),
            _ => None,
        });
        format!("[{}]", attrs.collect::<Vec<_>>().join(", "))
    }

    /// The names of the outputs that it has.
    fn targets(&self, names: &[&'static str]) -> String {
        let outputs = self.node.outputs.iter().zip(names);
        let names = outputs.map(|(output, name)| if output.is_some() { name } else { "_" });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// The statements of a body. Its inputs are those of the node, by these names; an input that is left out has none.
struct Body {
    inputs: &'static [&'static str],
    outputs: &'static [&'static str],
    statements: String,
}

impl Body {
    const fn new(inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Self {
        Self { inputs, outputs, statements: String::new() }
    }

    /// Adds statements.
    fn add(&mut self, statements: impl AsRef<str>) {
        self.statements += statements.as_ref();
        self.statements.push('\n');
    }

    /// The graph as text.
    fn text(&self, call: &Call<'_>) -> Result<String, Refusal> {
        let mut text = String::from("graph(");
        for (index, name) in self.inputs.iter().enumerate().filter(|&(index, _)| call.has(index)) {
            let comma = if text.ends_with('(') { "" } else { ", " };
            let dtype = call.dtype(index)?;
            let _ = write!(text, "{comma}{name}: {dtype}[...]");
        }
        let outputs = call.node.outputs.iter().zip(self.outputs);
        let given: Vec<_> =
            outputs.filter(|(output, _)| output.is_some()).map(|it| *it.1).collect();
        let _ = write!(text, ") -> ({}) {{\n{}}}", given.join(", "), self.statements);
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
