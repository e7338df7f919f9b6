//! Functions of the standard written out as graphs: the text of a body, which follows from attributes and types of the
//! node, is parsed and takes the place of the node.
//!
//! Source: ONNX 1.23, bodies of functions; ONNX Runtime 1.32, its CPU kernels.

mod attention;
mod bernoulli;
mod center_crop_pad;
mod channels_last;
mod class_loss;
mod recurrent;
mod reduce;

use std::borrow::Cow;
use std::fmt::Write as _;

use ort_graph::{Attr, Dim, Graph, Node, NodeId, Patch, Registry, ValueId};
use ort_tensor::DType;

use crate::inline::inlined;
use crate::options::{Exactness, Level};
use crate::pass::{Formula, Pass, Refusal, Rewrite, Site};

pub(super) const PASS: Pass = Pass {
    name: "FunctionBody",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(Bodies { registry: ort_ops::registry(), of: function_without_kernel }),
};

/// The same for functions that are newer than the operator set that the model imports, or of a domain that no model
/// imports: a pass made them.
pub(super) const NEWER: Pass = Pass {
    name: "NewerFunctionBody",
    start: || Box::new(Bodies { registry: ort_ops::registry(), of: newer_function }),
    ..PASS
};

/// A function: its domain and operator, the first version without a kernel, and what writes its body.
struct Function {
    domain: &'static str,
    op_type: &'static str,
    since: i32,
    body: fn(&Call<'_>) -> Result<Body, Refusal>,
}

/// Where ONNX Runtime has operators whose channels are the last dimension: in its own graphs only, not in files.
const NHWC: &str = "com.ms.internal.nhwc";

const FUNCTIONS: &[Function] = &[
    Function { domain: NHWC, op_type: "BatchNormalization", since: 1, body: channels_last::body },
    Function { domain: "", op_type: "Attention", since: 25, body: attention::body },
    Function { domain: "", op_type: "Bernoulli", since: 1, body: bernoulli::body },
    Function { domain: "", op_type: "CausalConvWithState", since: 1, body: recurrent::body },
    Function { domain: "", op_type: "CenterCropPad", since: 1, body: center_crop_pad::body },
    Function { domain: "", op_type: "LinearAttention", since: 1, body: recurrent::body },
    Function { domain: "", op_type: "NegativeLogLikelihoodLoss", since: 1, body: class_loss::body },
    Function { domain: "", op_type: "ReduceLogSum", since: 28, body: reduce::body },
    Function { domain: "", op_type: "ReduceLogSumExp", since: 28, body: reduce::body },
    Function { domain: "", op_type: "SoftmaxCrossEntropyLoss", since: 1, body: class_loss::body },
];

/// Operators whose versions compute the same in bodies.
const ALIKE: &[(&str, &[i64])] = &[
    ("Add", &[7, 13, 14]),
    ("Div", &[7, 13, 14]),
    ("GreaterOrEqual", &[12, 16]),
    ("Identity", &[1, 13, 14]),
    ("LessOrEqual", &[12, 16]),
    ("Mul", &[7, 13, 14]),
    ("Pad", &[13, 18]),
    ("Reshape", &[5, 13, 14]),
    ("Shape", &[1, 13, 15]),
    ("Sub", &[7, 13, 14]),
    ("Transpose", &[1, 13]),
    ("Where", &[9, 16]),
];

/// The function that a node calls.
fn function_of(node: &Node) -> Option<&'static Function> {
    let is_called = |function: &&Function| {
        (function.domain, function.op_type) == (&*node.domain, &*node.op_type)
    };
    FUNCTIONS.iter().find(is_called)
}

/// The function of a node without a kernel, whatever the model imports.
fn function_without_kernel(node: &Node, _imported: i64) -> Option<&'static Function> {
    function_of(node).filter(|function| function.since <= node.since_version)
}

fn newer_function(node: &Node, imported: i64) -> Option<&'static Function> {
    let is_newer = i64::from(node.since_version) > imported;
    function_of(node).filter(|function| is_newer || function.domain == NHWC)
}

/// Whether a node calls a function without a kernel.
pub(super) fn is_function(node: &Node) -> bool {
    function_without_kernel(node, i64::MAX).is_some()
}

struct Bodies {
    registry: Registry,
    /// Which functions are written out, of a node and the version of ai.onnx that the model imports.
    of: fn(&Node, i64) -> Option<&'static Function>,
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
        let opset = site.options.opset.unwrap_or(i64::MAX);
        let Some(function) = (self.of)(node, opset) else { return Ok(None) };
        let call = Call { graph: site.graph, node, opset };
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
    /// The version of ai.onnx that the model imports.
    opset: i64,
}

impl<'a> Call<'a> {
    /// The dimensions of input `index`.
    fn dims(&self, index: usize) -> Option<&'a [Dim]> {
        self.graph.fact(self.node.inputs.get(index).copied().flatten()?).dims()
    }

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
        let _ = writeln!(text, ") -> ({}) {{", given.join(", "));
        for statement in self.statements.lines() {
            let _ = writeln!(text, "{}", of_opset(statement, call.opset));
        }
        text.push('}');
        Ok(text)
    }
}

/// A statement with a version of its operator that the operator set has, if one computes the same.
fn of_opset(statement: &str, opset: i64) -> Cow<'_, str> {
    let older = || {
        let (results, call) = statement.split_once(" = ")?;
        let (operator, operands) = call.split_once(' ')?;
        let (name, version) = operator.split_once('-')?;
        let (_, versions) = ALIKE.iter().find(|(alike, _)| *alike == name)?;
        let is_newer = version.parse().is_ok_and(|version: i64| version > opset);
        let newest = versions.iter().rfind(|&&version| version <= opset)?;
        is_newer.then(|| format!("{results} = {name}-{newest} {operands}"))
    };
    older().map_or(Cow::Borrowed(statement), Cow::Owned)
}

#[cfg(test)]
mod tests;
