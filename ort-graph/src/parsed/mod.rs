//! A model as a file spells it, whatever the format: values by name, operators by name, and the elements of
//! tensors where they lie.
//!
//! Each format has one function that fills this ([`Model::of_ort`], [`Model::of_onnx`]). What comes after, import
//! first of all, does not know which one it was.

mod from_onnx;
mod from_ort;
mod onnx_types;

use std::borrow::Cow;

use bytes::Bytes;
use ort_tensor::{DType, Shape, Tensor as Elements};

use crate::fact::Type;

/// A name or another text.
pub type Text<'a> = Cow<'a, str>;

/// A model: a graph, and what the file says of it.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    /// What the file says.
    pub info: ModelInfo,
    /// The graph.
    pub graph: Graph<'a>,
}

/// What a file says about its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// ONNX's IR version.
    pub ir_version: i64,
    /// The version of each operator set; the domain of ai.onnx is empty.
    pub opsets: Vec<(String, i64)>,
    /// The tool that made the model.
    pub producer_name: String,
    /// Its version.
    pub producer_version: String,
    /// The model's name space.
    pub domain: String,
    /// The model's own version; `None` where it was not set.
    pub model_version: Option<i64>,
    /// What the author says about the model.
    pub doc_string: String,
    /// The graph's name; `.ort` files have none.
    pub graph_name: String,
    /// What the author says about the graph.
    pub graph_doc_string: String,
    /// Named texts, sorted by name.
    pub metadata: Vec<(String, String)>,
}

impl ModelInfo {
    /// The version of an operator set, if the model imports it.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.opsets.iter().find(|(other, _)| other == domain).map(|(_, version)| *version)
    }
}

/// Values, and the nodes between them.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    /// What is declared of values, in no particular order; of two with one name the last prevails.
    pub values: Vec<Value<'a>>,
    /// All inputs, including overridable initializers.
    pub inputs: Vec<Text<'a>>,
    /// The results.
    pub outputs: Vec<Text<'a>>,
    /// Constants; of two with one name the last prevails.
    pub initializers: Vec<Tensor<'a>>,
    /// Constants that are mostly zero.
    pub sparse_initializers: Vec<SparseTensor<'a>>,
    /// Packed forms of constants.
    pub forms: Vec<Form<'a>>,
    /// The nodes, in no particular order.
    pub nodes: Vec<Node<'a>>,
}

/// What is declared of a value.
#[derive(Clone, Debug)]
pub struct Value<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// Its type, or the number of an undefined element type in it.
    pub ty: Result<Type, i32>,
    /// What each of its dimensions means, say `DATA_BATCH`.
    pub denotations: Vec<Text<'a>>,
}

/// An operator applied to values. An absent input or output is an empty name.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// May be empty.
    pub name: Text<'a>,
    /// The operator's domain; empty for ai.onnx.
    pub domain: Text<'a>,
    /// The operator.
    pub op_type: Text<'a>,
    /// The version of the operator that the node follows; not positive where the file does not state it.
    pub since_version: i32,
    /// Values it reads.
    pub inputs: Vec<Text<'a>>,
    /// Values it computes.
    pub outputs: Vec<Text<'a>>,
    /// Its parameters.
    pub attributes: Vec<(Text<'a>, Attr<'a>)>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Attr<'a> {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string.
    String(Text<'a>),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A tensor that is mostly zero.
    SparseTensor(SparseTensor<'a>),
    /// A subgraph.
    Graph(Graph<'a>),
    /// A type.
    Type(Type),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<Text<'a>>),
    /// Tensors.
    Tensors(Vec<Tensor<'a>>),
    /// Subgraphs.
    Graphs(Vec<Graph<'a>>),
    /// None: of a kind that no operator has.
    Unknown,
}

/// A constant.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// The value it initializes; empty in attributes.
    pub name: Text<'a>,
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Shape,
    /// The elements.
    pub contents: Contents<'a>,
}

/// The elements of a constant.
#[derive(Clone, Debug)]
pub enum Contents<'a> {
    /// Numbers and booleans, row-major and little-endian; their number is not checked yet.
    Bytes(Bytes),
    /// Strings.
    Strings(Vec<Text<'a>>),
    /// Left out: all consumers read a packed form.
    Released,
    /// Supplied by the caller, not by the file.
    Given(Box<Elements>),
}

/// A constant that is mostly zero.
#[derive(Clone, Debug)]
pub struct SparseTensor<'a> {
    /// The non-zero elements, `[nnz]`; their name is the constant's.
    pub values: Tensor<'a>,
    /// Their indices: `[nnz]` linear, or `[nnz, rank]`.
    pub indices: Tensor<'a>,
    /// The dense shape.
    pub shape: Shape,
}

/// A constant in the layout that some kernel reads.
#[derive(Clone, Debug)]
pub struct Form<'a> {
    /// The tensor's name.
    pub name: Text<'a>,
    /// The constant, and the label of its packing; `None` if the file does not state both.
    pub of: Option<(&'a str, &'a str)>,
    /// The packed bytes.
    pub bytes: Bytes,
}

impl<'a> Graph<'a> {
    /// Calls `seen` with this graph and all graphs below it.
    pub fn visit<'s>(&'s self, seen: &mut dyn FnMut(&'s Graph<'a>)) {
        seen(self);
        self.nodes.iter().flat_map(Node::subgraphs).for_each(|graph| graph.visit(seen));
    }

    /// Every constant: initializers, and both parts of sparse ones.
    pub fn constants(&self) -> impl Iterator<Item = &Tensor<'a>> {
        let sparse = self.sparse_initializers.iter();
        self.initializers.iter().chain(sparse.flat_map(|it| [&it.values, &it.indices]))
    }
}

impl<'a> Node<'a> {
    /// The name, or the operator if there is none.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.op_type } else { &self.name }
    }

    /// The graphs among the attributes.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.attributes.iter().flat_map(|(_, attr)| match attr {
            Attr::Graph(graph) => std::slice::from_ref(graph),
            Attr::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
    }
}

impl Tensor<'_> {
    /// Whether a tensor can be made of it without a copy.
    pub fn may_borrow(&self) -> bool {
        match &self.contents {
            Contents::Bytes(bytes) => Elements::may_borrow(self.dtype, bytes),
            Contents::Strings(_) => false,
            Contents::Released | Contents::Given(_) => true,
        }
    }

    /// The size of its elements in bytes; for strings, the sum of their lengths.
    pub fn n_bytes(&self) -> usize {
        match &self.contents {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::Strings(strings) => strings.iter().map(|text| text.len()).sum(),
            Contents::Released => 0,
            Contents::Given(tensor) => tensor.n_bytes(),
        }
    }
}
