//! What loading a model may take: the one place that decides, for the file before it becomes a graph,
//! and for the graph whenever more is known of it.

// collects are bounded: as long as the graph's lists

mod budget;

use std::fmt;
use std::time::Duration;

use ort_graph::parsed::{self, Attr};
use ort_graph::{Dim, Graph};
use ort_tensor::{Tensor, n_elements};

pub(crate) use self::budget::Budget;

/// What loading a model may take; without a number, as much as it takes, but of memory three quarters of what
/// the machine, or the smallest control group that the process is in, has. What a file may ask for at all
/// is bounded besides: 32 graphs within graphs, 16 million tables and 1 GiB for a sparse constant, unless
/// [`SessionBuilder::limits`](crate::SessionBuilder::limits) say otherwise, and 1 GiB of folded ones.
///
/// A file of a cache folder is a model like others: what counts is what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadLimits {
    /// Nodes in the file, those of all graphs together.
    pub max_nodes: Option<usize>,
    /// Graphs within graphs: 0 allows no node to have one.
    pub max_depth: Option<usize>,
    /// Elements of a constant, or of any other value whose shape is known when the model is loaded.
    pub max_elements: Option<usize>,
    /// Bytes of constants beside the model's own bytes: those that must be copied, sparse ones made dense,
    /// folded ones, and what kernels pack. (The optimizer folds no more than this; it is no error.) What
    /// operators need while they fold or infer shapes is held against it as well.
    pub max_bytes: Option<usize>,
    /// How long it may take, from the builder to the session. Loading looks at the clock between the file,
    /// the graph, each pass of the optimizer and each node that is compiled, and within a node that is folded.
    pub max_time: Option<Duration>,
}

/// A model that wants more than [`LoadLimits`] allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadLimitError {
    /// It has too many nodes.
    #[error(
        "node `{node}`{}: the model has more than the {limit} nodes that are allowed",
        within(place)
    )]
    Nodes {
        /// How many it may have.
        limit: usize,
        /// The first node that is one too many.
        node: String,
        /// The graph it is in: empty for the model's own, and `Loop_0.body` for one within it.
        place: String,
    },
    /// It has graphs too deep within graphs.
    #[error("node `{node}`{} has a graph {found} deep, and {limit} are allowed", within(place))]
    Depth {
        /// How deep they may lie.
        limit: usize,
        /// How deep this one does.
        found: usize,
        /// The node that has it.
        node: String,
        /// The graph that the node is in.
        place: String,
    },
    /// A constant or another value has too many elements.
    #[error("value `{value}`{} has {found} elements, and {limit} are allowed", within(place))]
    Elements {
        /// How many it may have.
        limit: usize,
        /// How many it has.
        found: usize,
        /// The value, or the node whose attribute it is.
        value: String,
        /// The graph it is in.
        place: String,
    },
    /// Its constants take too much memory.
    #[error(
        "value `{value}`: constants take {found} bytes beside the model's own, and {limit} are allowed"
    )]
    Bytes {
        /// How many they may take.
        limit: usize,
        /// How many they would take with this one.
        found: usize,
        /// The constant that is one too many.
        value: String,
    },
    /// It takes too long.
    #[error("{stage}: loading takes {found:?} so far, and {limit:?} are allowed")]
    Time {
        /// How long it may take.
        limit: Duration,
        /// How long it took so far.
        found: Duration,
        /// The stage that was not begun or done any more, as traces call it.
        stage: &'static str,
    },
}

fn within(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" in `{place}`") }
}

impl LoadLimits {
    /// These limits, with memory of at most so many bytes where they say nothing.
    pub(crate) fn or_share(self, share: Option<usize>) -> Self {
        Self { max_bytes: self.max_bytes.or(share), ..self }
    }

    /// Looks at a valid file, before anything is made of it.
    ///
    /// # Errors
    /// If it wants more than these allow.
    pub(crate) fn check_file(&self, graph: &parsed::Graph<'_>) -> Result<(), LoadLimitError> {
        if *self == Self::default() {
            return Ok(());
        }
        let counted = Counted { limits: self, n_nodes: 0, copies: Budget::new(self.max_bytes, 0) };
        { counted }.graph(graph, &Place::ROOT)
    }

    /// Looks at the shapes of a graph, now that more is known of them.
    ///
    /// # Errors
    /// If a value has more elements than it may.
    pub(crate) fn check_shapes(&self, graph: &Graph) -> Result<(), LoadLimitError> {
        self.max_elements.map_or(Ok(()), |limit| check_shapes(graph, limit, &Place::ROOT))
    }

    /// What is left for kernels to pack, beside the constants that a graph has in memory of its own.
    pub(crate) fn budget(&self, graph: &Graph) -> Budget {
        let taken = if self.max_bytes.is_some() { own_bytes(graph) } else { 0 };
        Budget::new(self.max_bytes, taken)
    }
}

fn check_shapes(graph: &Graph, limit: usize, place: &Place<'_>) -> Result<(), LoadLimitError> {
    for info in graph.value_ids().map(|id| graph.value(id)) {
        let dims = info.fact.dims().map(|dims| dims.iter().map(Dim::known).collect());
        let Some(Some(shape)) = dims.map(|dims: Option<Vec<usize>>| dims) else { continue };
        check_elements(&shape, limit, || (info.name.clone(), place.to_string()))?;
    }
    for node in graph.node_ids().map(|id| graph.node(id)) {
        for (attribute, graph) in node.attrs.graphs() {
            check_shapes(graph, limit, &place.below(node.label(), attribute))?;
        }
    }
    Ok(())
}

fn check_elements(
    shape: &[usize],
    limit: usize,
    what: impl FnOnce() -> (String, String),
) -> Result<(), LoadLimitError> {
    let found = n_elements(shape).unwrap_or(usize::MAX);
    if found <= limit {
        return Ok(());
    }
    let (value, place) = what();
    Err(LoadLimitError::Elements { limit, found, value, place })
}

/// Constants in memory of their own, in a graph and those below it.
fn own_bytes(graph: &Graph) -> usize {
    let constants = graph.value_ids().filter_map(|id| graph.constant(id));
    let own = constants.filter(|constant| !constant.is_shared() && !constant.is_released());
    let nodes = graph.node_ids().map(|id| graph.node(id));
    let below = nodes.flat_map(|node| node.attrs.subgraphs()).map(own_bytes);
    own.map(Tensor::n_bytes).sum::<usize>() + below.sum::<usize>()
}

/// A graph within graphs, by the node and the attribute that hold it.
struct Place<'a> {
    outer: Option<(&'a Place<'a>, &'a str, &'a str)>,
    depth: usize,
}

impl<'a> Place<'a> {
    const ROOT: Self = Self { outer: None, depth: 0 };

    const fn below(&'a self, node: &'a str, attribute: &'a str) -> Self {
        Self { outer: Some((self, node, attribute)), depth: self.depth + 1 }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((outer, node, attribute)) = self.outer else { return Ok(()) };
        outer.fmt(f)?;
        write!(f, "{}{node}.{attribute}", if outer.depth == 0 { "" } else { "." })
    }
}

/// What was seen of a file so far.
struct Counted<'l> {
    limits: &'l LoadLimits,
    n_nodes: usize,
    copies: Budget,
}

impl Counted<'_> {
    fn graph(
        &mut self,
        graph: &parsed::Graph<'_>,
        place: &Place<'_>,
    ) -> Result<(), LoadLimitError> {
        for tensor in &graph.initializers {
            self.constant(tensor, &tensor.name, place)?;
        }
        for sparse in &graph.sparse_initializers {
            self.sparse(sparse, &sparse.values.name, place)?;
        }
        graph.nodes.iter().try_for_each(|node| self.node(node, place))
    }

    fn node(&mut self, node: &parsed::Node<'_>, place: &Place<'_>) -> Result<(), LoadLimitError> {
        let label = node.label();
        self.n_nodes += 1;
        if let Some(limit) = self.limits.max_nodes.filter(|&limit| self.n_nodes > limit) {
            let (node, place) = (label.to_owned(), place.to_string());
            return Err(LoadLimitError::Nodes { limit, node, place });
        }
        for (name, attr) in &node.attributes {
            let below = place.below(label, name);
            match attr {
                Attr::Tensor(tensor) => self.constant(tensor, label, place)?,
                Attr::SparseTensor(tensor) => self.sparse(tensor, label, place)?,
                Attr::Tensors(tensors) => {
                    tensors.iter().try_for_each(|tensor| self.constant(tensor, label, place))?;
                }
                Attr::Graph(graph) => self.below(graph, label, &below)?,
                Attr::Graphs(graphs) => {
                    graphs.iter().try_for_each(|graph| self.below(graph, label, &below))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A graph of a node.
    fn below(
        &mut self,
        graph: &parsed::Graph<'_>,
        node: &str,
        place: &Place<'_>,
    ) -> Result<(), LoadLimitError> {
        match self.limits.max_depth.filter(|&limit| place.depth > limit) {
            None => self.graph(graph, place),
            Some(limit) => {
                let outer = place.outer.map_or_else(String::new, |(outer, ..)| outer.to_string());
                let node = node.to_owned();
                Err(LoadLimitError::Depth { limit, found: place.depth, node, place: outer })
            }
        }
    }

    /// A constant of this name, or of an attribute of a node of this name. (A packed form is none: it is not
    /// copied unless a kernel asks for it.)
    fn constant(
        &mut self,
        tensor: &parsed::Tensor<'_>,
        name: &str,
        place: &Place<'_>,
    ) -> Result<(), LoadLimitError> {
        self.elements(&tensor.shape, name, place)?;
        self.copied(if tensor.may_borrow() { 0 } else { tensor.n_bytes() }, name)
    }

    fn sparse(
        &mut self,
        tensor: &parsed::SparseTensor<'_>,
        name: &str,
        place: &Place<'_>,
    ) -> Result<(), LoadLimitError> {
        self.elements(&tensor.shape, name, place)?;
        let n_bytes = n_elements(&tensor.shape).and_then(|n| tensor.values.dtype.n_bytes(n));
        self.copied(n_bytes.unwrap_or(usize::MAX), name)
    }

    fn elements(
        &self,
        shape: &[usize],
        name: &str,
        place: &Place<'_>,
    ) -> Result<(), LoadLimitError> {
        let limit = self.limits.max_elements.unwrap_or(usize::MAX);
        check_elements(shape, limit, || (name.to_owned(), place.to_string()))
    }

    fn copied(&self, n_bytes: usize, name: &str) -> Result<(), LoadLimitError> {
        self.copies.take(n_bytes, name);
        self.copies.check()
    }
}
