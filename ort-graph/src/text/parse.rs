//! From text to a graph.

// collects are bounded: text is written by passes and tests

use std::collections::HashMap;

use ort_tensor::Tensor;

use super::cursor::{Cursor, TextError, TextErrorKind};
use super::literal;
use crate::attrs::{Attr, Attrs};
use crate::dim::{Dim, Dims};
use crate::fact::{Fact, TensorType, Type};
use crate::graph::{Graph, NewNode};
use crate::ids::ValueId;
use crate::registry::Registry;

impl Graph {
    /// Reads what `Display` prints:
    ///
    /// ```text
    /// graph(x: float[n,3,8,8], scale = float[1] [2]) -> (y) {
    ///   w = const float[4,3,1,1] fill 0.5
    ///   h = Conv-11 [strides: [2, 2]] (x, w, _)
    ///   y = Mul-14 (h, scale)
    /// }
    /// ```
    ///
    /// A value is defined before it is read, so what is read is never cyclic.
    ///
    /// # Errors
    /// If the text is no graph, or a node is not valid, with line and column.
    pub fn parse(text: &str, registry: &Registry) -> Result<Graph, TextError> {
        let mut parser = Parser { cursor: Cursor::new(text), registry, scopes: Vec::new() };
        let graph = parser.graph()?;
        if parser.cursor.is_at_end() { Ok(graph) } else { parser.cursor.expected("the end") }
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    registry: &'a Registry,
    /// The graphs that are being read, the outermost first.
    scopes: Vec<Scope>,
}

#[derive(Default)]
struct Scope {
    graph: Graph,
    names: HashMap<String, ValueId>,
}

/// What is left of `=`: its position, a name and a type; `None` for `_`.
type Target<'a> = (Cursor<'a>, Option<(String, Fact)>);

impl<'a> Parser<'a> {
    fn graph(&mut self) -> Result<Graph, TextError> {
        self.cursor.expect("graph")?;
        self.scopes.push(Scope::default());
        self.inputs()?;
        self.cursor.expect("->")?;
        let outputs = self.cursor.list("(", ")", |cursor| {
            let start = *cursor;
            Ok((start, cursor.name("the name of an output")?))
        })?;
        self.cursor.expect("{")?;
        while !self.cursor.eat("}") {
            self.statement()?;
        }
        let level = self.scopes.len() - 1;
        let outputs: Result<_, _> =
            outputs.into_iter().map(|(start, name)| self.resolve(level, &name, start)).collect();
        let mut graph = self.scopes.pop().unwrap_or_default().graph;
        graph.set_outputs(outputs?);
        Ok(graph)
    }

    fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn inputs(&mut self) -> Result<(), TextError> {
        let inputs = self.cursor.list("(", ")", |cursor| {
            let start = *cursor;
            let name = cursor.name("the name of an input")?;
            let default = if cursor.eat("=") { Some(literal::parse(cursor)?) } else { None };
            let fact = match &default {
                Some(tensor) => Fact::shaped(tensor.dtype(), tensor.shape()),
                None => declared(cursor)?,
            };
            Ok((start, name, fact, default))
        })?;
        // bounded: by the nodes and values of the graph
        let mut ids = Vec::with_capacity(inputs.len());
        for (start, name, fact, default) in inputs {
            let id = self.define(start, name, fact)?;
            self.scope().graph.value_mut(id).default = default;
            ids.push(id);
        }
        self.scope().graph.set_inputs(ids);
        Ok(())
    }

    fn define(
        &mut self,
        mut start: Cursor<'_>,
        name: String,
        fact: Fact,
    ) -> Result<ValueId, TextError> {
        let scope = self.scope();
        if scope.names.contains_key(&name) {
            return Err(start.error(TextErrorKind::DefinedTwice { name }));
        }
        let id = scope.graph.add_value(&name, fact).map_err(|error| start.error(error))?;
        scope.names.insert(name, id);
        Ok(id)
    }

    /// `targets = const …`, `targets = outer …` or `targets = node`.
    fn statement(&mut self) -> Result<(), TextError> {
        let mut targets = vec![self.target()?];
        while self.cursor.eat(",") {
            targets.push(self.target()?);
        }
        self.cursor.expect("=")?;
        if self.cursor.eat_word("const") {
            let tensor = literal::parse(&mut self.cursor)?;
            return self.constant(targets, tensor);
        }
        if self.cursor.eat_word("outer") {
            let start = self.cursor;
            let theirs = self.cursor.name("the name of a value")?;
            return self.capture(targets, &theirs, start);
        }
        self.node(targets)
    }

    fn target(&mut self) -> Result<Target<'a>, TextError> {
        let start = self.cursor;
        if self.cursor.eat_word("_") {
            return Ok((start, None));
        }
        let name = self.cursor.name("the name of a value, or `}`")?;
        Ok((start, Some((name, declared(&mut self.cursor)?))))
    }

    fn constant(&mut self, targets: Vec<Target<'_>>, tensor: Tensor) -> Result<(), TextError> {
        for (mut start, target) in targets {
            let Some((name, declared)) = target else { continue };
            let fact = declared.unify(&Fact::constant(tensor.clone()));
            let what = "a type that fits the contents";
            let fact = fact.map_err(|_| start.error(TextErrorKind::Expected { what }))?;
            self.define(start, name, fact)?;
        }
        Ok(())
    }

    fn capture(
        &mut self,
        targets: Vec<Target<'_>>,
        theirs: &str,
        mut start: Cursor<'_>,
    ) -> Result<(), TextError> {
        let unknown = TextErrorKind::UnknownValue { name: theirs.to_owned() };
        let Some(level) = (self.scopes.len() - 1).checked_sub(1) else {
            return Err(start.error(unknown));
        };
        let there = self.resolve(level, theirs, start)?;
        for (start, target) in targets {
            let Some((name, _)) = target else { continue };
            let fact = self.scopes[level].graph.fact(there).clone();
            let here = self.define(start, name, fact)?;
            self.scope().graph.add_capture(here, there);
        }
        Ok(())
    }

    fn node(&mut self, targets: Vec<Target<'_>>) -> Result<(), TextError> {
        let mut start = self.cursor;
        let mut op_type = self.cursor.name("an operator, `const` or `outer`")?;
        let mut domain = String::new();
        if self.cursor.eat(":") {
            domain = std::mem::replace(&mut op_type, self.cursor.name("an operator")?);
        }
        self.cursor.expect("-")?;
        let since_version = self.cursor.digits("a version")?;
        let name = if self.cursor.sees("\"") { self.cursor.string()? } else { String::new() };
        let attrs = if self.cursor.sees("[") { self.attrs()? } else { Attrs::new() };
        let mut captured: Vec<ValueId> = attrs
            .graphs()
            .flat_map(|(_, graph)| graph.captures().iter().map(|&(_, there)| there))
            .collect();
        captured.sort_unstable();
        captured.dedup();
        let inputs = self.cursor.list("(", ")", |cursor| {
            let start = *cursor;
            let is_absent = cursor.eat_word("_");
            let name = if is_absent { None } else { Some(cursor.name("the name of a value")?) };
            Ok((start, name))
        })?;
        let level = self.scopes.len() - 1;
        let resolve = |(start, name): (Cursor<'_>, Option<String>)| {
            name.map(|name| self.resolve(level, &name, start)).transpose()
        };
        let inputs = inputs.into_iter().map(resolve).collect::<Result<_, _>>()?;
        let define = |(start, target): Target<'_>| {
            target.map(|(name, fact)| self.define(start, name, fact)).transpose()
        };
        let outputs = targets.into_iter().map(define).collect::<Result<_, _>>()?;
        let node =
            NewNode { name, domain, op_type, since_version, inputs, outputs, captured, attrs };
        let registry = self.registry;
        let added = self.scope().graph.add_node(node, registry);
        added.map(drop).map_err(|error| start.error(error))
    }

    fn attrs(&mut self) -> Result<Attrs, TextError> {
        self.cursor.expect("[")?;
        let mut attrs = Attrs::new();
        while !self.cursor.eat("]") {
            if attrs.iter().next().is_some() {
                self.cursor.expect(",")?;
            }
            let name = self.cursor.name("the name of an attribute")?;
            self.cursor.expect(":")?;
            let attr = self.attr()?;
            attrs.set(name, attr);
        }
        Ok(attrs)
    }

    fn attr(&mut self) -> Result<Attr, TextError> {
        let start = self.cursor;
        if self.cursor.sees("[") {
            return self.attr_list();
        }
        let word = self.cursor.word();
        let is_list = self.cursor.sees("[");
        self.cursor = start;
        match word {
            None if start.clone().sees("\"") => self.cursor.string().map(Attr::String),
            Some("graph") => self.graph().map(|graph| Attr::Graph(Box::new(graph))),
            Some("type") => {
                self.cursor.eat("type");
                ty(&mut self.cursor).map(Attr::Type)
            }
            Some(kind @ ("floats" | "ints" | "strings" | "tensors" | "graphs")) if is_list => {
                self.cursor.eat(kind);
                self.cursor.list("[", "]", |cursor| cursor.expected::<()>("]"))?;
                Ok(empty(kind))
            }
            Some(_) if is_list => literal::parse(&mut self.cursor).map(Attr::Tensor),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Attr, TextError> {
        let start = self.cursor;
        let text = self.cursor.until(|c| c.is_whitespace() || ",]".contains(c)).unwrap_or_default();
        let int = text.parse().map(Attr::Int);
        int.or_else(|_| text.parse().map(Attr::Float)).or_else(|_| {
            self.cursor = start;
            self.cursor.expected("the value of an attribute")
        })
    }

    /// A list with at least one item: the first determines the type of the others.
    fn attr_list(&mut self) -> Result<Attr, TextError> {
        self.cursor.expect("[")?;
        let mut list = match self.attr()? {
            Attr::Float(item) => Attr::Floats(vec![item]),
            Attr::Int(item) => Attr::Ints(vec![item]),
            Attr::String(item) => Attr::Strings(vec![item]),
            Attr::Tensor(item) => Attr::Tensors(vec![item]),
            Attr::Graph(item) => Attr::Graphs(vec![*item]),
            _ => return self.cursor.expected("a single value"),
        };
        while !self.cursor.eat("]") {
            self.cursor.expect(",")?;
            match (&mut list, self.attr()?) {
                (Attr::Floats(items), Attr::Float(item)) => items.push(item),
                (Attr::Ints(items), Attr::Int(item)) => items.push(item),
                (Attr::Strings(items), Attr::String(item)) => items.push(item),
                (Attr::Tensors(items), Attr::Tensor(item)) => items.push(item),
                (Attr::Graphs(items), Attr::Graph(item)) => items.push(*item),
                _ => return self.cursor.expected("a value of the same kind"),
            }
        }
        Ok(list)
    }

    /// The value of this name in the graph at `level`, captured from the enclosing graphs if it is not the graph's
    /// own.
    fn resolve(
        &mut self,
        level: usize,
        name: &str,
        mut start: Cursor<'_>,
    ) -> Result<ValueId, TextError> {
        if let Some(&id) = self.scopes[level].names.get(name) {
            return Ok(id);
        }
        let Some(outer_level) = level.checked_sub(1) else {
            return Err(start.error(TextErrorKind::UnknownValue { name: name.to_owned() }));
        };
        let outer = self.resolve(outer_level, name, start)?;
        let (enclosing, inner) = self.scopes.split_at_mut(level);
        let enclosing = &enclosing[outer_level].graph;
        let id = inner[0].graph.add_captured(name, enclosing, outer);
        let id = id.map_err(|error| start.error(error))?;
        inner[0].names.insert(name.to_owned(), id);
        Ok(id)
    }
}

fn empty(kind: &str) -> Attr {
    match kind {
        "floats" => Attr::Floats(Vec::new()),
        "ints" => Attr::Ints(Vec::new()),
        "strings" => Attr::Strings(Vec::new()),
        "tensors" => Attr::Tensors(Vec::new()),
        _ => Attr::Graphs(Vec::new()),
    }
}

/// `: type`, or nothing.
fn declared(cursor: &mut Cursor<'_>) -> Result<Fact, TextError> {
    if cursor.eat(":") { ty(cursor).map(Fact::from) } else { Ok(Fact::UNKNOWN) }
}

fn ty(cursor: &mut Cursor<'_>) -> Result<Type, TextError> {
    let inside = |cursor: &mut Cursor<'_>| {
        let inner = ty(cursor)?;
        cursor.expect(")")?;
        Ok(Box::new(inner))
    };
    if cursor.eat_word("unknown") {
        return Ok(Type::Unknown);
    }
    if cursor.eat("seq(") {
        return Ok(Type::Sequence(inside(cursor)?));
    }
    if cursor.eat("optional(") {
        return Ok(Type::Optional(inside(cursor)?));
    }
    if cursor.eat("map(") {
        let key = literal::dtype(cursor)?;
        cursor.expect(",")?;
        return Ok(Type::Map { key, value: inside(cursor)? });
    }
    let dtype = literal::dtype(cursor)?;
    if cursor.eat("[...]") {
        return Ok(Type::Tensor(TensorType { dtype, dims: None }));
    }
    let dims: Dims = cursor.list("[", "]", dim)?.into();
    Ok(Type::Tensor(TensorType { dtype, dims: Some(dims) }))
}

fn dim(cursor: &mut Cursor<'_>) -> Result<Dim, TextError> {
    if cursor.eat("?") {
        return Ok(Dim::Unknown);
    }
    let start = *cursor;
    if let Ok(n) = cursor.digits("a dimension") {
        return Ok(Dim::Known(n));
    }
    *cursor = start;
    cursor.name("a dimension").map(|name| Dim::Symbol(name.into()))
}
