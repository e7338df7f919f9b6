//! The configuration of a reduced build of ONNX Runtime that can run given models.
//!
//! Source: ONNX Runtime 1.31, docs/Reduced_Operator_Kernel_build.md and its `reduced_build_config_parser.py`.

// collects are bounded: as long as the graph's lists

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ort_graph::{Graph, Node, Type, ValueId};
use ort_tensor::DType;

use crate::optimized::Optimized;

/// The operators that models need, by domain and version, and the types of operands that ONNX Runtime's
/// kernels are specialized for.
///
/// Source: ONNX Runtime 1.31, docs/Reduced_Operator_Kernel_build.md
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredOperators {
    operators: BTreeSet<(String, i32, String)>,
    types: BTreeMap<(String, String), Types>,
}

/// The types that an operator was used with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Types {
    inputs: BTreeMap<usize, BTreeSet<String>>,
    outputs: BTreeMap<usize, BTreeSet<String>>,
    /// The combined types of several operands.
    together: BTreeSet<Vec<String>>,
}

/// The operands whose types select an operator's kernel.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    inputs: &'static [usize],
    outputs: &'static [usize],
    together: &'static [usize],
}

const INPUT: Tracked = Tracked { inputs: &[0], outputs: &[], together: &[] };
const SECOND_INPUT: Tracked = Tracked { inputs: &[1], ..INPUT };
const TWO_INPUTS: Tracked = Tracked { inputs: &[0, 1], ..INPUT };
const OUTPUT: Tracked = Tracked { inputs: &[], outputs: &[0], ..INPUT };
const BOTH: Tracked = Tracked { outputs: &[0], ..INPUT };
/// Indices, depth and values in the order in a kernel's name.
const ONE_HOT: Tracked = Tracked { inputs: &[], together: &[0, 2, 1], ..INPUT };

/// Source: ONNX Runtime 1.31, `operator_type_usage_processors.py`.
fn tracked(domain: &str, op_type: &str) -> Option<Tracked> {
    let tracked = match (domain, op_type) {
        ("", "Cast") => BOTH,
        ("", "Gather" | "GatherElements" | "Pow" | "Slice") => TWO_INPUTS,
        ("", "Where") => SECOND_INPUT,
        ("", "OneHot") => ONE_HOT,
        (
            "",
            "ConstantOfShape"
            | "DynamicQuantizeLinear"
            | "Multinomial"
            | "QuantizeLinear"
            | "RandomNormal"
            | "RandomNormalLike"
            | "RandomUniform"
            | "RandomUniformLike",
        ) => OUTPUT,
        (
            "",
            "Abs" | "Add" | "ArgMax" | "ArgMin" | "AveragePool" | "BatchNormalization" | "BitShift"
            | "Ceil" | "Clip" | "Concat" | "Conv" | "CumSum" | "DequantizeLinear" | "Div" | "Equal"
            | "Exp" | "Expand" | "Floor" | "Gemm" | "Greater" | "IsNaN" | "Less" | "Log"
            | "LogSoftmax" | "LpNormalization" | "MatMul" | "Max" | "MaxPool" | "Mean" | "Min"
            | "Mul" | "Neg" | "NonZero" | "Pad" | "QLinearConv" | "QLinearMatMul" | "Range"
            | "Reciprocal" | "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp"
            | "ReduceMax" | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum"
            | "ReduceSumSquare" | "Relu" | "Resize" | "ReverseSequence" | "RoiAlign" | "Round"
            | "Scatter" | "ScatterElements" | "ScatterND" | "Shrink" | "Sigmoid" | "Sign" | "Sin"
            | "Softmax" | "Split" | "SplitToSequence" | "Sqrt" | "Sub" | "Sum" | "Tanh" | "TopK"
            | "Transpose" | "Unique",
        )
        | ("com.microsoft", "QLinearAdd" | "QLinearConv" | "QLinearMul") => INPUT,
        _ => return None,
    };
    Some(tracked)
}

impl Optimized {
    /// The operators of the model as it is now, including those of subgraphs.
    pub fn required_operators(&self) -> RequiredOperators {
        let mut required = RequiredOperators::default();
        required.add(&self.graph);
        required
    }
}

impl RequiredOperators {
    /// Adds the operators of another model.
    pub fn merge(&mut self, other: RequiredOperators) {
        self.operators.extend(other.operators);
        for (operator, types) in other.types {
            self.types.entry(operator).or_default().merge(types);
        }
    }

    /// The configuration: a line `domain;version;Operator,…` for each domain and version, sorted. With types,
    /// an operator's name is followed by JSON: the types it was used with, in any version.
    pub fn to_config(&self, has_types: bool) -> String {
        let mut text = String::new();
        let mut line = None;
        for (domain, version, op_type) in &self.operators {
            let same_line = line == Some((domain, version));
            let shown = if domain.is_empty() { "ai.onnx" } else { domain };
            let before = match line.replace((domain, version)) {
                Some(_) if same_line => ",".to_owned(),
                Some(_) => format!("\n{shown};{version};"),
                None => format!("{shown};{version};"),
            };
            text.extend([before.as_str(), op_type]);
            let types = self.types.get(&(domain.clone(), op_type.clone()));
            if let Some(types) = types.filter(|_| has_types) {
                text.push_str(&types.to_string());
            }
        }
        if line.is_some() {
            text.push('\n');
        }
        text
    }

    fn add(&mut self, graph: &Graph) {
        for node in graph.node_ids().map(|id| graph.node(id)) {
            self.add_node(graph, node);
            node.attrs.subgraphs().for_each(|subgraph| self.add(subgraph));
        }
    }

    fn add_node(&mut self, graph: &Graph, node: &Node) {
        self.operators.insert((node.domain.clone(), node.since_version, node.op_type.clone()));
        let Some(tracked) = tracked(&node.domain, &node.op_type) else { return };
        let of = |values: &[Option<ValueId>], i: usize| {
            let ty = &graph.fact(values.get(i).copied().flatten()?).ty;
            name_of(ty)
        };
        let types = self.types.entry((node.domain.clone(), node.op_type.clone())).or_default();
        for &i in tracked.inputs {
            types.inputs.entry(i).or_default().extend(of(&node.inputs, i));
        }
        for &i in tracked.outputs {
            types.outputs.entry(i).or_default().extend(of(&node.outputs, i));
        }
        let together: Option<Vec<_>> =
            tracked.together.iter().map(|&i| of(&node.inputs, i)).collect();
        types.together.extend(together.filter(|names| !names.is_empty()));
    }
}

impl Types {
    fn merge(&mut self, other: Types) {
        for (ours, theirs) in [(&mut self.inputs, other.inputs), (&mut self.outputs, other.outputs)]
        {
            theirs.into_iter().for_each(|(i, names)| ours.entry(i).or_default().extend(names));
        }
        self.together.extend(other.together);
    }
}

/// JSON as ONNX Runtime's tools write it; empty if no type is known.
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Vec::new();
        for (key, operands) in [("inputs", &self.inputs), ("outputs", &self.outputs)] {
            let known = operands.iter().filter(|(_, names)| !names.is_empty());
            let entries: Vec<_> =
                known.map(|(i, names)| format!("\"{i}\": {}", list(names))).collect();
            if !entries.is_empty() {
                fields.push(format!("\"{key}\": {{{}}}", entries.join(", ")));
            }
        }
        if !self.together.is_empty() {
            let entries: Vec<_> = self.together.iter().map(list).collect();
            fields.push(format!("\"custom\": [{}]", entries.join(", ")));
        }
        if fields.is_empty() { Ok(()) } else { write!(f, "{{{}}}", fields.join(", ")) }
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let quoted: Vec<_> = names.into_iter().map(|name| format!("\"{name}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The C++ type of a tensor's elements, or of the elements in a sequence or optional.
fn name_of(ty: &Type) -> Option<String> {
    match ty {
        Type::Tensor(tensor) => Some(element(tensor.dtype)),
        Type::Sequence(of) | Type::Optional(of) => name_of(of),
        Type::Map { key, value } => {
            Some(format!("std::map<{},{}>", element(*key), name_of(value)?))
        }
        _ => None,
    }
}

fn element(dtype: DType) -> String {
    match dtype {
        DType::String => "std::string".to_owned(),
        DType::F16 => "MLFloat16".to_owned(),
        DType::Bf16 => "BFloat16".to_owned(),
        DType::F8E4M3Fn => "Float8E4M3FN".to_owned(),
        DType::F8E4M3Fnuz => "Float8E4M3FNUZ".to_owned(),
        DType::F8E5M2 => "Float8E5M2".to_owned(),
        DType::F8E5M2Fnuz => "Float8E5M2FNUZ".to_owned(),
        dtype if dtype.is_integer() => format!("{}_t", dtype.name()),
        dtype => dtype.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(text: &str) -> RequiredOperators {
        let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
        let mut required = RequiredOperators::default();
        required.add(&graph);
        required
    }

    #[test]
    fn a_line_has_the_operators_of_a_domain_and_a_version() {
        let mut both = required(
            "graph(x: float[n,3]) -> (c) {
               a = Relu-14 (x)
               b = com.microsoft:Gelu-1 (a)
               c = Sigmoid-13 (b)
             }",
        );
        let other = "graph(x: int32[2], k: bool[2]) -> (b, d) {
               a = Abs-13 (x)
               b = Cast-13 [to: 1] (a)
               c = Relu-14 (a)
               d = Where-16 (k, c, x)
             }";
        both.merge(required(other));
        let expected = "ai.onnx;13;Abs,Cast,Sigmoid\nai.onnx;14;Relu\nai.onnx;16;Where\n\
                        com.microsoft;1;Gelu\n";
        assert_eq!(both.to_config(false), expected);
        let expected = concat!(
            r#"ai.onnx;13;Abs{"inputs": {"0": ["int32_t"]}},"#,
            r#"Cast{"inputs": {"0": ["int32_t"]}, "outputs": {"0": ["float"]}},"#,
            r#"Sigmoid{"inputs": {"0": ["float"]}}"#,
            "\n",
            r#"ai.onnx;14;Relu{"inputs": {"0": ["float", "int32_t"]}}"#,
            "\n",
            r#"ai.onnx;16;Where{"inputs": {"1": ["int32_t"]}}"#,
            "\ncom.microsoft;1;Gelu\n",
        );
        assert_eq!(both.to_config(true), expected);
    }

    #[test]
    fn one_hot_has_three_types_at_once() {
        let text =
            "graph(i: int64[2], d: int32[], v: string[2]) -> (y) { y = OneHot-11 (i, d, v) }";
        let expected =
            "ai.onnx;11;OneHot{\"custom\": [[\"int64_t\", \"std::string\", \"int32_t\"]]}\n";
        assert_eq!(required(text).to_config(true), expected);
        assert_eq!(RequiredOperators::default().to_config(true), "");
    }

    #[test]
    fn types_have_the_names_of_cpp() {
        for (dtype, name) in [
            (DType::F64, "double"),
            (DType::U8, "uint8_t"),
            (DType::F16, "MLFloat16"),
            (DType::F8E4M3Fnuz, "Float8E4M3FNUZ"),
            (DType::F8E5M2, "Float8E5M2"),
        ] {
            assert_eq!(element(dtype), name);
        }
    }
}
