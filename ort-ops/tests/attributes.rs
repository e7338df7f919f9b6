//! Definitions support every attribute of the specifications, with the defaults.
//!
//! `attributes.txt` has one line per operator and version, written by `tools/list_operator_attributes.py`. For each
//! attribute an operator is created from a node with it, and one from a node without it:
//!
//! ```text
//! default      both print the same
//! no default   it is an operator
//! ```
//!
//! If the first is rejected, since the value does not fit the others, an attribute counts as supported if a value of
//! an impossible type is rejected because of its type.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, its own functions too"
)]

use std::sync::Arc;

use ort_graph::{Attr, Attrs, Graph, NodeSpec, OpError, Operator, Registry, RegistryError};
use ort_tensor::{DType, Tensor};

const SPECIFIED: &str = include_str!("attributes.txt");

/// What operators need in addition to required attributes, or instead of a 1, if the version has it.
// table: one line per operator
const NEEDED: &[(&str, &str)] = &[
    ("BitShift", "direction:string=LEFT"),
    ("CategoryMapper", "cats_int64s:ints=1 cats_strings:strings=x"),
    ("Constant", "value:tensor=float"),
    ("Crop", "border:ints=1,1,1,1"),
    ("DictVectorizer", "int64_vocabulary:ints=1"),
    ("ImageScaler", "bias:floats=1"),
    ("LabelEncoder", "classes_strings:strings=x keys_int64s:ints=1 values_int64s:ints=1"),
    ("LinearClassifier", "classlabels_ints:ints=1"),
    ("LinearRegressor", "coefficients:floats=1"),
    ("LpPool", "kernel_shape:ints=1"),
    ("MRotaryEmbedding", "mrope_section:ints=1,1,1"),
    ("MatMulBnb4", "K:int=32 N:int=32 block_size:int=32"),
    ("MatMulNBits", "K:int=32 N:int=32 block_size:int=32"),
    ("MaxRoiPool", "pooled_shape:ints=1,1"),
    ("MaxpoolWithMask", "kernel_shape:ints=1"),
    ("NGramHashMapping", "max_ngram_size:int=2"),
    ("OneHotEncoder", "cats_int64s:ints=1"),
    ("ParametricSoftplus", "alpha:float=1 beta:float=1"),
    ("RegexFullMatch", "pattern:string=x"),
    ("ReorderOutput", "channels:int=1"),
    ("Reshape", "shape:ints=1"),
    ("SVMClassifier", "classlabels_ints:ints=1 coefficients:floats=1 rho:floats=1"),
    ("SVMRegressor", "coefficients:floats=1 rho:floats=1"),
    ("ScaledTanh", "alpha:float=1 beta:float=1"),
    (
        "TfIdfVectorizer",
        "mode:string=TF pool_int64s:ints=1 ngram_counts:ints=0 ngram_indexes:ints=0",
    ),
    ("Tokenizer", "separators:strings=x"),
    (
        "TreeEnsemble",
        "n_targets:int=1 nodes_modes:tensor=uint8 tree_roots:ints=0 nodes_trueleafs:ints=1 \
         nodes_falseleafs:ints=1 nodes_truenodeids:ints=0 nodes_falsenodeids:ints=0 \
         nodes_featureids:ints=0 leaf_targetids:ints=0",
    ),
    ("TreeEnsembleClassifier", "classlabels_int64s:ints=1"),
    ("TreeEnsembleRegressor", "n_targets:int=1"),
    ("VarlenNGramHashMapping", "max_ngram_size:int=2"),
    ("ZipMap", "classlabels_int64s:ints=1"),
];

/// Equivalent defaults, or (GRU) misspelled ones.
const ALIKE: &[(&str, &str)] = &[
    ("GRU", "direction"),
    ("RNN", "activations"),
    ("RandomNormal", "dtype"),
    ("RandomUniform", "dtype"),
];

/// A line.
struct Specified<'a> {
    domain: &'a str,
    name: &'a str,
    version: i32,
    n_inputs: usize,
    n_outputs: usize,
    attributes: Vec<Attribute<'a>>,
}

/// `name:kind`, `name!:kind` if required, `name:kind=default`.
struct Attribute<'a> {
    name: &'a str,
    is_required: bool,
    kind: &'a str,
    default: Option<&'a str>,
}

impl<'a> Specified<'a> {
    fn of(line: &'a str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [domain, name, version, n_inputs, n_outputs, attributes @ ..] = &*words else {
            panic!("not a line of an operator: {line}")
        };
        let attributes = attributes.iter().map(|text| Attribute::of(text)).collect();
        let number = |text: &str| text.parse::<usize>().unwrap();
        let (n_inputs, n_outputs) = (number(n_inputs), number(n_outputs).max(1));
        Self { domain, name, version: version.parse().unwrap(), n_inputs, n_outputs, attributes }
    }

    /// The required attributes, and what else is needed.
    fn required(&self) -> Attrs {
        let own = self.attributes.iter().filter(|attribute| attribute.is_required);
        let needed = NEEDED.iter().filter(|(name, _)| *name == self.name);
        let needed = needed.flat_map(|(_, text)| text.split(' ')).map(Attribute::of);
        let has = |name: &str| self.attributes.iter().any(|attribute| attribute.name == name);
        let own = own.map(|attribute| (attribute.name.to_owned(), attribute.value(self)));
        let needed = needed.filter(|attribute| has(attribute.name));
        let needed = needed.map(|attribute| (attribute.name.to_owned(), attribute.value(self)));
        own.chain(needed).collect()
    }

    fn build(
        &self,
        registry: &Registry,
        attrs: &Attrs,
    ) -> Result<Arc<dyn Operator>, RegistryError> {
        let n_inputs = match self.name {
            "Optional" => 1,
            "QLinearConcat" => 5,
            _ => self.n_inputs,
        };
        let present = vec![true; n_inputs];
        let spec = NodeSpec::new(self.version, &present, self.n_outputs, attrs);
        registry.build(self.domain, self.name, &spec)
    }

    /// What is wrong with the definition's handling of an attribute.
    fn problem(&self, registry: &Registry, attribute: &Attribute<'_>) -> Option<String> {
        let required = self.required();
        let with = |value| self.build(registry, &required.clone().with(attribute.name, value));
        let without = self.build(registry, &required);
        let is_alike = ALIKE.contains(&(self.name, attribute.name));
        match with(attribute.value(self)) {
            Ok(op) if attribute.default.is_some() && !is_alike => match without {
                Ok(without) if format!("{op:?}") == format!("{without:?}") => None,
                Ok(without) => Some(format!("its default differs: {op:?}, not {without:?}")),
                Err(error) => Some(format!("a value other than its default is rejected: {error}")),
            },
            Ok(_) => None,
            Err(error) => match with(Attr::Graphs(Vec::new())) {
                Err(RegistryError::Op(OpError::AttributeType { name, .. }))
                    if name == attribute.name =>
                {
                    None
                }
                _ => Some(error.to_string()),
            },
        }
    }
}

impl<'a> Attribute<'a> {
    fn of(text: &'a str) -> Self {
        let (name, rest) = text.split_once(':').unwrap();
        let (kind, default) = match rest.split_once('=') {
            Some((kind, default)) => (kind, Some(default)),
            None => (rest, None),
        };
        let is_required = name.ends_with('!');
        Self { name: name.trim_end_matches('!'), is_required, kind, default }
    }

    /// The default, or some value of its type.
    fn value(&self, of: &Specified<'_>) -> Attr {
        let text = self.default.unwrap_or(match self.kind {
            "string" | "strings" => "x",
            "tensor" => "float",
            _ => "1",
        });
        let list = || text.split(',').filter(|item| !item.is_empty());
        match self.kind {
            "int" => Attr::Int(text.parse().unwrap()),
            "float" => Attr::Float(text.parse().unwrap()),
            "string" => Attr::String(text.to_owned()),
            "ints" => Attr::Ints(list().map(|item| item.parse().unwrap()).collect()),
            "floats" => Attr::Floats(list().map(|item| item.parse().unwrap()).collect()),
            "strings" => Attr::Strings(list().map(str::to_owned).collect()),
            "tensor" => Attr::Tensor(Tensor::zeros(text.parse::<DType>().unwrap(), &[1]).unwrap()),
            "graph" => Attr::Graph(Box::new(body(of.name))),
            other => panic!("{}: an attribute of kind {other}", of.name),
        }
    }
}

/// A subgraph that an operator can run.
fn body(op: &str) -> Graph {
    let text = match op {
        "If" => "graph() -> (y) { y = const int64[] 1 }",
        "Loop" => {
            "graph(i: int64[], c: bool[]) -> (d, y) { d = Identity-16 (c)\n y = Identity-16 (i) }"
        }
        _ => "graph(x: float[]) -> (y) { y = Identity-16 (x) }",
    };
    Graph::parse(text, &ort_ops::registry()).unwrap()
}

#[test]
fn attributes_and_their_defaults_are_those_of_the_specifications() {
    let registry = ort_ops::registry();
    let (mut problems, mut n_checked) = (Vec::new(), 0);
    for op in SPECIFIED.lines().filter(|line| !line.starts_with('#')).map(Specified::of) {
        if registry.find(op.domain, op.name, op.version).is_err() {
            continue; // docs/operators.md has what is not here.
        }
        // Neither is an attribute of a node in a file of ONNX Runtime's format.
        let is_stored =
            |attribute: &&Attribute<'_>| !matches!(attribute.kind, "sparse_tensor" | "type_proto");
        for attribute in op.attributes.iter().filter(is_stored) {
            n_checked += 1;
            if let Some(problem) = op.problem(&registry, attribute) {
                let (domain, name, version) = (op.domain, op.name, op.version);
                problems.push(format!("{domain} {name}-{version} {}: {problem}", attribute.name));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_checked > 1_000, "only {n_checked} were checked");
}
