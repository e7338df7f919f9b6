//! FlexAttention (ai.onnx.preview): a function of the standard whose body depends on the node, since it contains
//! graphs of the node.
//!
//! With `s = √scale`, groups of query heads that share keys and values, and everything after the first
//! product in the type of the softmax:
//!
//! ```text
//! y = prob_mod(softmax(score_mod((s·q) (s·k)ᵀ))) v
//! ```
//!
//! Source: ai.onnx.preview, version 1, and the order in which ONNX's reference computes it.

use std::collections::HashSet;

use crate::schema::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto,
    attribute_type as kind,
};

/// Numbers of element types.
const FLOAT: i32 = 1;
const FLOAT16: i32 = 10;
const DOUBLE: i32 = 11;
const BFLOAT16: i32 = 16;

/// The function that a node calls, whose first input has elements of this type; `None` for another operator, or if
/// its types or graphs do not allow inlining.
pub(super) fn function(node: &NodeProto, dtype: Option<i32>, opset: i64) -> Option<FunctionProto> {
    if (node.domain.as_str(), node.op_type.as_str()) != ("ai.onnx.preview", "FlexAttention") {
        return None;
    }
    let attribute = |name: &str| node.attribute.iter().find(|it| it.name == name);
    let precision = match attribute("softmax_precision") {
        Some(attribute) => i32::try_from(attribute.i?).ok()?,
        None => match dtype? {
            DOUBLE => DOUBLE,
            FLOAT | FLOAT16 | BFLOAT16 => FLOAT,
            _ => return None,
        },
    };
    let mut body = Body::default();
    body.scale(attribute("scale").and_then(|attribute| attribute.f));
    body.scores(precision);
    let scores = body.modified("scores", attribute("score_mod"))?;
    body.node("Softmax", &[&scores], "probs").attribute.push(int("axis", -1));
    let probs = body.modified("probs", attribute("prob_mod"))?;
    body.outputs(&probs, precision);
    let mut input: Vec<String> = ["Q", "K", "V"].map(str::to_owned).into();
    input.extend(body.captured);
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: opset }];
    let output = vec!["Y".to_owned()];
    let name = node.op_type.clone();
    Some(FunctionProto {
        name,
        input,
        output,
        node: body.nodes,
        opset_import,
        ..Default::default()
    })
}

#[derive(Default)]
struct Body {
    nodes: Vec<NodeProto>,
    /// Values of the enclosing graph that the node's graphs read.
    captured: Vec<String>,
}

impl Body {
    fn node(&mut self, op_type: &str, inputs: &[&str], output: &str) -> &mut NodeProto {
        let at = self.nodes.len();
        self.nodes.push(NodeProto {
            op_type: op_type.to_owned(),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        });
        &mut self.nodes[at]
    }

    fn constant(&mut self, value: AttributeProto, output: &str) {
        self.node("Constant", &[], output).attribute.push(value);
    }

    /// Dimensions `start` to `end` of a value.
    fn dims(&mut self, of: &str, (start, end): (i64, i64)) -> String {
        let name = format!("{of}[{start}..{end}]");
        if self.nodes.iter().any(|node| node.output[0] == name) {
            return name;
        }
        let bounds = [int("start", start), int("end", end)];
        self.node("Shape", &[of], &name).attribute.extend(bounds);
        name
    }

    /// A value reshaped to the concatenation of these parts.
    fn reshaped(&mut self, value: &str, parts: &[String], output: &str) {
        let shape = format!("{output}/shape");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.node("Concat", &parts, &shape).attribute.push(int("axis", 0));
        self.node("Reshape", &[value, &shape], output);
    }

    /// The square root of the scale, computed in float and cast to the type of Q.
    fn scale(&mut self, scale: Option<f32>) {
        match scale {
            Some(scale) => self.constant(float("value_float", scale), "scale"),
            None => {
                let size = self.dims("Q", (3, 4));
                self.node("Cast", &[&size], "size").attribute.push(int("to", 1));
                self.node("Sqrt", &["size"], "size/root");
                self.node("Reciprocal", &["size/root"], "scale");
            }
        }
        self.node("Sqrt", &["scale"], "scale/root");
        self.node("CastLike", &["scale/root", "Q"], "factor");
    }

    /// `scores: [batch, heads, queries, keys]`
    fn scores(&mut self, precision: i32) {
        self.constant(ints("value_ints", &[-1]), "group");
        self.constant(ints("value_ints", &[2]), "axis");
        let [batch, heads] = [self.dims("Q", (0, 1)), self.dims("K", (1, 2))];
        let [rows, inner] = [self.dims("Q", (2, 3)), self.dims("Q", (3, 4))];
        self.node("Mul", &["Q", "factor"], "Q/scaled");
        self.node("Mul", &["K", "factor"], "K/scaled");
        let group = "group".to_owned();
        self.reshaped("Q/scaled", &[batch, heads, group, rows, inner], "Q/grouped");
        let transposed = ints("perm", &[0, 1, 3, 2]);
        self.node("Transpose", &["K/scaled"], "K/transposed").attribute.push(transposed);
        self.node("Unsqueeze", &["K/transposed", "axis"], "K/shared");
        self.node("MatMul", &["Q/grouped", "K/shared"], "scores/grouped");
        let [outer, keys] = [self.dims("Q", (0, 3)), self.dims("K", (2, 3))];
        self.reshaped("scores/grouped", &[outer, keys], "scores/rounded");
        let to = int("to", i64::from(precision));
        self.node("Cast", &["scores/rounded"], "scores").attribute.push(to);
    }

    /// The value after a graph of the node; unchanged if there is no graph.
    fn modified(&mut self, value: &str, attribute: Option<&AttributeProto>) -> Option<String> {
        let Some(attribute) = attribute else { return Some(value.to_owned()) };
        let graph: &GraphProto = attribute.g.as_deref()?;
        let ([input], [output]) = (graph.input.as_slice(), graph.output.as_slice()) else {
            return None;
        };
        let mut own: HashSet<&str> =
            graph.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        own.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
        let mut name = |name: &String| match name.as_str() {
            "" => String::new(),
            it if it == input.name => value.to_owned(),
            it if own.contains(it) => format!("{}/{it}", attribute.name),
            it => {
                if !self.captured.contains(name) {
                    self.captured.push(name.clone());
                }
                it.to_owned()
            }
        };
        let mut nodes: Vec<NodeProto> =
            graph.initializer.iter().map(|tensor| constant(tensor, &mut name)).collect();
        for node in &graph.node {
            if node.attribute.iter().any(|it| it.g.is_some() || !it.graphs.is_empty()) {
                return None;
            }
            let (input, output) = (
                node.input.iter().map(&mut name).collect(),
                node.output.iter().map(&mut name).collect(),
            );
            nodes.push(NodeProto { input, output, ..node.clone() });
        }
        let output = name(&output.name);
        self.nodes.extend(nodes);
        Some(output)
    }

    fn outputs(&mut self, probs: &str, precision: i32) {
        let [batch, heads] = [self.dims("Q", (0, 1)), self.dims("K", (1, 2))];
        let [rows, keys] = [self.dims("Q", (2, 3)), self.dims("K", (2, 3))];
        let group = "group".to_owned();
        self.reshaped(probs, &[batch, heads, group, rows, keys], "probs/grouped");
        self.node("Cast", &["V"], "V/cast").attribute.push(int("to", i64::from(precision)));
        self.node("Unsqueeze", &["V/cast", "axis"], "V/shared");
        self.node("MatMul", &["probs/grouped", "V/shared"], "Y/grouped");
        let [outer, inner] = [self.dims("Q", (0, 3)), self.dims("V", (3, 4))];
        self.reshaped("Y/grouped", &[outer, inner], "Y/wide");
        self.node("CastLike", &["Y/wide", "V"], "Y");
    }
}

fn constant(tensor: &TensorProto, name: &mut dyn FnMut(&String) -> String) -> NodeProto {
    let t = Some(Box::new(TensorProto { name: String::new(), ..tensor.clone() }));
    let value = AttributeProto { t, ..attribute("value", kind::TENSOR) };
    NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![name(&tensor.name)],
        attribute: vec![value],
        ..NodeProto::default()
    }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: kind, ..AttributeProto::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i: Some(i), ..attribute(name, kind::INT) }
}

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f: Some(f), ..attribute(name, kind::FLOAT) }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.to_vec(), ..attribute(name, kind::INTS) }
}
