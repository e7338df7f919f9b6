//! A node: its operator, its arguments, its attributes and the graphs within.

use super::path::Path;
use super::scope::{LOOK_UP, Scope};
use super::{Checker, each};
use crate::attribute::AttributeValue;
use crate::enums::NodeType;
use crate::error::{Fault, FormatError};
use crate::view::{Attribute, Graph, Node};

impl Checker<'_> {
    pub(super) fn node<'a>(
        &mut self,
        node: Node<'a>,
        path: &Path<'_>,
        scope: &Scope<'_, 'a>,
    ) -> Result<(), FormatError> {
        if node.op_type().is_empty() {
            return path.fail(Fault::NoOperator);
        }
        if let NodeType::Other(value) = node.node_type() {
            self.unknown(path, "type", value);
        }
        each(path, "inputs", node.inputs())?;
        each(path, "implicit_inputs", node.implicit_inputs())?;
        scope.resolve(path, "input", node.inputs().iter(), &mut self.pace)?;
        scope.resolve(path, "implicit input", node.implicit_inputs().iter(), &mut self.pace)?;

        let counted = node.input_arg_counts().iter().map(i64::from).sum();
        let inputs = node.inputs().len();
        if usize::try_from(counted) != Ok(inputs) {
            return path.fail(Fault::ArgCounts { counted, inputs });
        }
        each(path, "attributes", node.attributes())?;
        for (index, attribute) in node.attributes().iter().enumerate() {
            self.pace.go(LOOK_UP)?;
            self.attribute(attribute, &path.item("attributes", index, attribute.name()), scope)?;
        }
        Ok(())
    }

    fn attribute<'a>(
        &mut self,
        attribute: Attribute<'a>,
        path: &Path<'_>,
        scope: &Scope<'_, 'a>,
    ) -> Result<(), FormatError> {
        let kind = attribute.attribute_type();
        let Some(value) = attribute.typed(kind) else {
            return path.fail(Fault::AttributeValue(kind));
        };
        match value {
            AttributeValue::Tensor(tensor) => self.tensor(tensor, &path.field("t")),
            AttributeValue::Tensors(tensors) => {
                each(path, "tensors", tensors)?;
                let mut tensors = tensors.iter().enumerate();
                tensors
                    .try_for_each(|(i, tensor)| self.tensor(tensor, &path.item("tensors", i, "")))
            }
            AttributeValue::Strings(strings) => each(path, "strings", strings),
            AttributeValue::Graph(graph) => self.subgraph(graph, &path.field("g"), scope),
            AttributeValue::Graphs(graphs) => {
                each(path, "graphs", graphs)?;
                let mut graphs = graphs.iter().enumerate();
                graphs.try_for_each(|(i, graph)| {
                    self.subgraph(graph, &path.item("graphs", i, ""), scope)
                })
            }
            AttributeValue::Unknown(kind) => {
                self.unknown(path, "type", i32::from(kind));
                Ok(())
            }
            AttributeValue::Float(_)
            | AttributeValue::Int(_)
            | AttributeValue::String(_)
            | AttributeValue::Floats(_)
            | AttributeValue::Ints(_) => Ok(()),
        }
    }

    fn subgraph<'a>(
        &mut self,
        graph: Graph<'a>,
        path: &Path<'_>,
        scope: &Scope<'_, 'a>,
    ) -> Result<(), FormatError> {
        let Some(rest) = self.subgraphs.checked_sub(1) else {
            return Err(FormatError::Limit { limit: "subgraphs" });
        };
        self.subgraphs = rest;
        self.graph(graph, path, Some(scope))?;
        self.subgraphs += 1;
        Ok(())
    }
}
