//! From a graph to text.

// collects are bounded: as long as the graph's lists

use std::fmt::{self, Display as _};

use super::is_bare;
use super::literal::{self, print_list};
use crate::attrs::Attr;
use crate::dim::Dim;
use crate::fact::Type;
use crate::graph::{Graph, Node};
use crate::ids::{NodeId, ValueId};

/// A graph, to print: constants in the order of their ids, nodes in topological order.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    graph: &'a Graph,
    enclosing: Option<&'a Graph>,
    has_facts: bool,
    max_elements: usize,
    indent: usize,
}

impl Graph {
    /// The graph as text (see [`Graph::parse`]), with contents of up to 16 elements.
    pub const fn text(&self) -> Text<'_> {
        Text { graph: self, enclosing: None, has_facts: false, max_elements: 16, indent: 0 }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl<'a> Text<'a> {
    /// The types of all values, too.
    #[must_use]
    pub const fn with_facts(self) -> Self {
        Self { has_facts: true, ..self }
    }

    /// All contents, however long, so that the text can be read back.
    #[must_use]
    pub const fn in_full(self) -> Self {
        Self { max_elements: usize::MAX, ..self }
    }

    fn name(&self, id: ValueId) -> Name<'a> {
        Name(&self.graph.value(id).name)
    }

    fn names(&self, ids: &[ValueId]) -> Vec<Name<'a>> {
        ids.iter().map(|&id| self.name(id)).collect()
    }

    fn inputs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &id) in self.graph.inputs().iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, self.name(id))?;
            let value = self.graph.value(id);
            match &value.default {
                None => write!(f, ": {}", TypeText(&value.fact.ty))?,
                Some(tensor) => {
                    f.write_str(" = ")?;
                    literal::print(f, tensor, self.max_elements)?;
                }
            }
        }
        Ok(())
    }

    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:1$}", "", 2 * (self.indent + 1))
    }

    /// Captured values whose name differs from that in the enclosing graph.
    fn captures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &(here, there) in self.graph.captures() {
            let outer = self.enclosing.map(|enclosing| enclosing.value(there).name.clone());
            let outer = outer.unwrap_or_else(|| format!("{there:?}"));
            if self.graph.value(here).name != outer {
                self.line(f)?;
                write!(f, "{} = outer {}", self.name(here), Name(&outer))?;
            }
        }
        Ok(())
    }

    fn constants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for id in self.graph.value_ids() {
            let is_captured = self.graph.captures().iter().any(|&(here, _)| here == id);
            if let Some(tensor) = self.graph.constant(id)
                && !is_captured
            {
                self.line(f)?;
                write!(f, "{} = const ", self.name(id))?;
                literal::print(f, tensor, self.max_elements)?;
            }
        }
        Ok(())
    }

    fn node(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        self.line(f)?;
        for (i, output) in node.outputs.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match *output {
                None => f.write_str("_")?,
                Some(id) if self.has_facts => {
                    write!(f, "{}: {}", self.name(id), TypeText(&self.graph.fact(id).ty))?;
                }
                Some(id) => self.name(id).fmt(f)?,
            }
        }
        f.write_str(" = ")?;
        if !node.domain.is_empty() {
            write!(f, "{}:", Name(&node.domain))?;
        }
        write!(f, "{}-{}", Name(&node.op_type), node.since_version)?;
        if !node.name.is_empty() {
            write!(f, " {:?}", node.name)?;
        }
        self.attrs(f, node)?;
        f.write_str(" (")?;
        let name = |id: ValueId| self.name(id).to_string();
        let inputs = node.inputs.iter().map(|input| input.map_or("_".to_owned(), name));
        print_list(f, &inputs.collect::<Vec<_>>(), ", ")?;
        f.write_str(")")
    }

    fn attrs(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        let mut separator = " [";
        for (name, attr) in node.attrs.iter() {
            write!(f, "{separator}{}: ", Name(name))?;
            self.attr(f, attr)?;
            separator = ", ";
        }
        f.write_str(if separator == ", " { "]" } else { "" })
    }

    fn attr(&self, f: &mut fmt::Formatter<'_>, attr: &Attr) -> fmt::Result {
        match attr {
            Attr::Float(value) => write!(f, "{value:?}"),
            Attr::Int(value) => value.fmt(f),
            Attr::String(value) => write!(f, "{value:?}"),
            Attr::Tensor(tensor) => literal::print(f, tensor, self.max_elements),
            Attr::Graph(graph) => self.subgraph(f, graph),
            Attr::Floats(values) => list(f, "floats", values, |f, value| write!(f, "{value:?}")),
            Attr::Ints(values) => list(f, "ints", values, |f, value| value.fmt(f)),
            Attr::Strings(values) => list(f, "strings", values, |f, value| write!(f, "{value:?}")),
            Attr::Tensors(values) => {
                list(f, "tensors", values, |f, value| literal::print(f, value, self.max_elements))
            }
            Attr::Graphs(values) => list(f, "graphs", values, |f, value| self.subgraph(f, value)),
            Attr::Type(ty) => write!(f, "type {ty}"),
        }
    }

    fn subgraph(&self, f: &mut fmt::Formatter<'_>, graph: &Graph) -> fmt::Result {
        Text { graph, enclosing: Some(self.graph), indent: self.indent + 1, ..*self }.fmt(f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("graph(")?;
        self.inputs(f)?;
        f.write_str(") -> (")?;
        print_list(f, &self.names(self.graph.outputs()), ", ")?;
        f.write_str(") {")?;
        self.captures(f)?;
        self.constants(f)?;
        // A graph with a cycle is printed, too, so that the error can be seen.
        let order = self.graph.topological_order();
        let order: Vec<NodeId> = order.unwrap_or_else(|_| self.graph.node_ids().collect());
        for id in order {
            self.node(f, self.graph.node(id))?;
        }
        write!(f, "\n{:1$}}}", "", 2 * self.indent)
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    items: &[T],
    print: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return write!(f, "{kind} []");
    }
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { "[" } else { ", " })?;
        print(f, item)?;
    }
    f.write_str("]")
}

/// A name, in quotes where it needs them.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_bare(self.0) { f.write_str(self.0) } else { write!(f, "{:?}", self.0) }
    }
}

/// A type; unlike its `Display`, one that can be read back whatever the symbols are.
struct TypeText<'a>(&'a Type);

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Tensor(tensor) if tensor.dims.is_some() => {
                write!(f, "{}[", tensor.dtype)?;
                for (i, dim) in tensor.dims.iter().flatten().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    match dim {
                        Dim::Symbol(name) => Name(name).fmt(f)?,
                        dim => dim.fmt(f)?,
                    }
                }
                f.write_str("]")
            }
            Type::Sequence(inner) => write!(f, "seq({})", TypeText(inner)),
            Type::Map { key, value } => write!(f, "map({key}, {})", TypeText(value)),
            Type::Optional(inner) => write!(f, "optional({})", TypeText(inner)),
            other => other.fmt(f),
        }
    }
}
