//! Attributes by their type: one value where the table has ten fields.

use crate::enums::AttributeType;
use crate::view::{Attribute, Graph, Tensor};
use crate::wire::Vector;

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string.
    String(&'a str),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A sub-graph.
    Graph(Graph<'a>),
    /// Floats.
    Floats(Vector<'a, f32>),
    /// Integers.
    Ints(Vector<'a, i64>),
    /// Strings.
    Strings(Vector<'a, &'a str>),
    /// Tensors.
    Tensors(Vector<'a, Tensor<'a>>),
    /// Sub-graphs.
    Graphs(Vector<'a, Graph<'a>>),
    /// No value: the format has no field for this type.
    Unknown(AttributeType),
}

impl<'a> Attribute<'a> {
    /// The value that the attribute's type points to.
    pub fn value(self) -> AttributeValue<'a> {
        let kind = self.attribute_type();
        self.typed(kind).unwrap_or(AttributeValue::Unknown(kind))
    }

    /// The value of that type; `None` if the file lacks it.
    pub(crate) fn typed(self, kind: AttributeType) -> Option<AttributeValue<'a>> {
        match kind {
            AttributeType::Float => Some(AttributeValue::Float(self.f())),
            AttributeType::Int => Some(AttributeValue::Int(self.i())),
            AttributeType::String => Some(AttributeValue::String(self.s().unwrap_or_default())),
            AttributeType::Tensor => self.t().map(AttributeValue::Tensor),
            AttributeType::Graph => self.g().map(AttributeValue::Graph),
            AttributeType::Floats => self.floats().map(AttributeValue::Floats),
            AttributeType::Ints => self.ints().map(AttributeValue::Ints),
            AttributeType::Strings => self.strings().map(AttributeValue::Strings),
            AttributeType::Tensors => self.tensors().map(AttributeValue::Tensors),
            AttributeType::Graphs => self.graphs().map(AttributeValue::Graphs),
            other => Some(AttributeValue::Unknown(other)),
        }
    }
}

/// The value in a record.
pub(crate) mod record {
    use std::borrow::Cow;

    use crate::enums::AttributeType;
    use crate::record::{Attribute, Graph, Tensor};

    /// The value of an attribute.
    #[derive(Clone, Debug, PartialEq)]
    #[non_exhaustive]
    pub enum AttributeValue<'a> {
        /// A float.
        Float(f32),
        /// An integer.
        Int(i64),
        /// A string.
        String(Cow<'a, str>),
        /// A tensor.
        Tensor(Tensor<'a>),
        /// A sub-graph.
        Graph(Graph<'a>),
        /// Floats.
        Floats(Vec<f32>),
        /// Integers.
        Ints(Vec<i64>),
        /// Strings.
        Strings(Vec<Cow<'a, str>>),
        /// Tensors.
        Tensors(Vec<Tensor<'a>>),
        /// Sub-graphs.
        Graphs(Vec<Graph<'a>>),
    }

    impl<'a> Attribute<'a> {
        /// An attribute with this name and value.
        pub fn new(name: impl Into<Cow<'a, str>>, value: AttributeValue<'a>) -> Self {
            let mut attribute = Self { name: name.into(), ..Self::default() };
            attribute.attribute_type = match value {
                AttributeValue::Float(f) => {
                    attribute.f = f;
                    AttributeType::Float
                }
                AttributeValue::Int(i) => {
                    attribute.i = i;
                    AttributeType::Int
                }
                AttributeValue::String(s) => {
                    attribute.s = Some(s);
                    AttributeType::String
                }
                AttributeValue::Tensor(t) => {
                    attribute.t = Some(t);
                    AttributeType::Tensor
                }
                AttributeValue::Graph(g) => {
                    attribute.g = Some(g);
                    AttributeType::Graph
                }
                AttributeValue::Floats(floats) => {
                    attribute.floats = Some(floats);
                    AttributeType::Floats
                }
                AttributeValue::Ints(ints) => {
                    attribute.ints = Some(ints);
                    AttributeType::Ints
                }
                AttributeValue::Strings(strings) => {
                    attribute.strings = Some(strings);
                    AttributeType::Strings
                }
                AttributeValue::Tensors(tensors) => {
                    attribute.tensors = Some(tensors);
                    AttributeType::Tensors
                }
                AttributeValue::Graphs(graphs) => {
                    attribute.graphs = Some(graphs);
                    AttributeType::Graphs
                }
            };
            attribute
        }
    }
}
