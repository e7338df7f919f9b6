//! Attributes of a node, and how an operator reads them: nothing may stay unread.

use std::cell::Cell;

use ort_tensor::{DType, Tensor};

use crate::fact::Type;
use crate::graph::Graph;
use crate::ids::ValueId;
use crate::op::OpError;

/// The value of an attribute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Attr {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string.
    String(String),
    /// A tensor.
    Tensor(Tensor),
    /// A subgraph.
    Graph(Box<Graph>),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
    /// Tensors.
    Tensors(Vec<Tensor>),
    /// Subgraphs.
    Graphs(Vec<Graph>),
    /// A type.
    Type(Type),
}

impl Attr {
    const fn kind(&self) -> &'static str {
        match self {
            Attr::Float(_) => "a float",
            Attr::Int(_) => "an integer",
            Attr::String(_) => "a string",
            Attr::Tensor(_) => "a tensor",
            Attr::Graph(_) => "a graph",
            Attr::Floats(_) => "floats",
            Attr::Ints(_) => "integers",
            Attr::Strings(_) => "strings",
            Attr::Tensors(_) => "tensors",
            Attr::Graphs(_) => "graphs",
            Attr::Type(_) => "a type",
        }
    }
}

/// Attributes by name, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Attrs(Vec<(String, Attr)>);

impl Attrs {
    /// No attributes.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets `name`, replacing what it was.
    pub fn set(&mut self, name: impl Into<String>, attr: Attr) {
        let name = name.into();
        match self.0.binary_search_by(|(other, _)| other.as_str().cmp(&name)) {
            Ok(at) => self.0[at].1 = attr,
            Err(at) => self.0.insert(at, (name, attr)),
        }
    }

    /// The same with `name` set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, attr: Attr) -> Self {
        self.set(name, attr);
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        let at = self.0.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, attr)| (name.as_str(), attr))
    }

    /// The subgraphs, with the names of their attributes.
    pub fn graphs(&self) -> impl Iterator<Item = (&str, &Graph)> {
        self.iter().filter_map(|(name, attr)| match attr {
            Attr::Graph(graph) => Some((name, &**graph)),
            _ => None,
        })
    }

    /// All subgraphs, including those of attributes that hold several.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Graph> {
        self.0.iter().flat_map(|(_, attr)| match attr {
            Attr::Graph(graph) => std::slice::from_ref(&**graph),
            Attr::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
    }

    /// The same, mutably.
    pub(crate) fn graphs_mut(&mut self) -> impl Iterator<Item = &mut Graph> {
        self.0.iter_mut().flat_map(|(_, attr)| match attr {
            Attr::Graph(graph) => std::slice::from_mut(&mut **graph),
            Attr::Graphs(graphs) => graphs.as_mut_slice(),
            _ => &mut [],
        })
    }

    /// Renumbers captured values after the ids of the enclosing graph changed.
    pub fn map_captures(&mut self, to: &dyn Fn(ValueId) -> ValueId) {
        self.graphs_mut().for_each(|graph| graph.map_captures(to));
    }
}

impl FromIterator<(String, Attr)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (String, Attr)>>(iter: I) -> Self {
        let mut attrs = Attrs::new();
        for (name, attr) in iter {
            attrs.set(name, attr);
        }
        attrs
    }
}

/// What an operator is made from: version, attributes, and which inputs and outputs are present.
#[derive(Debug)]
pub struct NodeSpec<'a> {
    /// The version of the operator's specification that the node follows.
    pub since_version: i32,
    /// For each input position, whether an input is present.
    pub inputs: &'a [bool],
    /// How many output positions there are.
    pub n_outputs: usize,
    attrs: &'a Attrs,
    /// One flag per attribute: an attribute that the operator never reads is an error.
    read: Vec<Cell<bool>>,
}

/// A getter: what it returns, the variant it wants, and what that variant is called.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident => $ty:ty, $kind:literal, $from:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// If the attribute has another type.
        pub fn $name(&self, name: &'static str) -> Result<Option<$ty>, OpError> {
            match self.attr(name) {
                None => Ok(None),
                Some(Attr::$variant(value)) => Ok(Some($from(value))),
                Some(other) => {
                    Err(OpError::AttributeType { name, expected: $kind, found: other.kind() })
                }
            }
        }
    )* };
}

impl<'a> NodeSpec<'a> {
    /// The specification of a node with these attributes.
    pub fn new(since_version: i32, inputs: &'a [bool], n_outputs: usize, attrs: &'a Attrs) -> Self {
        // bounded: by the nodes and values of the graph
        let read = vec![Cell::new(false); attrs.0.len()];
        Self { since_version, inputs, n_outputs, attrs, read }
    }

    getters! {
        /// An integer attribute.
        int: Int => i64, "an integer", |value: &i64| *value;
        /// A float attribute.
        float: Float => f32, "a float", |value: &f32| *value;
        /// A string attribute.
        string: String => &'a str, "a string", String::as_str;
        /// A tensor attribute.
        tensor: Tensor => Tensor, "a tensor", Tensor::clone;
        /// An attribute of integers.
        ints: Ints => &'a [i64], "integers", Vec::as_slice;
        /// An attribute of floats.
        floats: Floats => &'a [f32], "floats", Vec::as_slice;
        /// An attribute of strings.
        strings: Strings => &'a [String], "strings", Vec::as_slice;
        /// A subgraph.
        graph: Graph => &'a Graph, "a graph", Box::as_ref;
        /// A type.
        value_type: Type => &'a Type, "a type", |value: &'a Type| value;
    }

    /// An integer attribute used as a boolean; `default` if it is absent.
    ///
    /// # Errors
    /// If the attribute is not 0 or 1.
    pub fn flag(&self, name: &'static str, default: bool) -> Result<bool, OpError> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(OpError::AttributeValue { name, found: other.to_string() }),
        }
    }

    /// An integer attribute that denotes an element type; 0 (undefined) is `None`.
    ///
    /// # Errors
    /// If the number denotes no element type.
    pub fn dtype(&self, name: &'static str) -> Result<Option<DType>, OpError> {
        let Some(number) = self.int(name)?.filter(|&number| number != 0) else { return Ok(None) };
        let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
        let wrong = || OpError::AttributeValue { name, found: number.to_string() };
        Ok(Some(dtype.ok_or_else(wrong)?))
    }

    /// All attributes, which count as read.
    pub fn attrs(&self) -> &'a Attrs {
        self.read.iter().for_each(|read| read.set(true));
        self.attrs
    }

    /// Marks as read an attribute that has no effect here (a hint, or one that the specification says to ignore).
    pub fn ignore(&self, name: &str) {
        let _ = self.attr(name);
    }

    /// Whether the input at `index` is present.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).copied().unwrap_or(false)
    }

    /// The first attribute that was not read.
    pub(crate) fn unread(&self) -> Option<&'a str> {
        let mut attrs = self.attrs.0.iter().zip(&self.read);
        attrs.find(|(_, read)| !read.get()).map(|((name, _), _)| name.as_str())
    }

    fn attr(&self, name: &str) -> Option<&'a Attr> {
        let at = self.attrs.0.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        self.read[at].set(true);
        Some(&self.attrs.0[at].1)
    }
}
