//! The limits of loading: the one place that checks them, for the file before it becomes a graph,
//! and for the graph whenever more is known of it.

// collects are bounded: as long as the graph's lists

mod budget;

use std::fmt;
use std::time::Duration;

use ort_graph::parsed::{self, Attr};
use ort_graph::{Dim, Graph};
use ort_tensor::{Tensor, n_elements};

pub(crate) use self::budget::Budget;

/// The limits of loading a model. Without a number there is none, except that memory is limited to three quarters of
/// that of the machine, or of the smallest control group of the process. In addition, a file
/// may have at most 32 nested graphs, 16 million tables, 1 GiB for a sparse constant (unless
/// [`SessionBuilder::limits`](crate::SessionBuilder::limits) change that), and 1 GiB of folded constants.
///
/// A file of a cache folder is checked like any other model, by its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadLimits {
    /// Nodes in the file, in all graphs together.
    pub max_nodes: Option<usize>,
    /// Nesting of graphs: 0 allows no subgraphs.
    pub max_depth: Option<usize>,
    /// Elements of a constant, or of any other value whose shape is known when the model is loaded.
    pub max_elements: Option<usize>,
    /// Bytes that loading takes. A file counts if it is read or copied and not mapped, as do the decoded messages of a
    /// `.onnx` file, and the names in a `.ort` file while it is checked (16 to 32 bytes each). Constants count in addition to the model's own bytes: those that must be copied, sparse ones made dense,
    /// folded ones, and packed ones. (The optimizer stops folding at this limit, without an error.) The memory that
    /// operators need during folding or shape inference counts as well. What saving takes for a file, and for copies of
    /// elements in a `.onnx` file, counts in addition to constants.
    pub max_bytes: Option<usize>,
    /// The time from the builder to the session or to a saved file. It is checked between the file,
    /// the graph, each pass of the optimizer and each node that is compiled, and within a node that is folded
    /// and a tensor that is saved.
    pub max_time: Option<Duration>,
}

/// A model that exceeds [`LoadLimits`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadLimitError {
    /// It has too many nodes.
    #[error("node `{node}`{}: the model has more nodes than the limit of {limit}", within(place))]
    Nodes {
        /// The limit.
        limit: usize,
        /// The first node over the limit.
        node: String,
        /// The graph that it is in: empty for the main graph, or such as `Loop_0.body` for a subgraph.
        place: String,
    },
    /// Its graphs are nested too deeply.
    #[error(
        "node `{node}`{} has a graph at depth {found}, over the limit of {limit}",
        within(place)
    )]
    Depth {
        /// The limit.
        limit: usize,
        /// The depth of the graph.
        found: usize,
        /// The node of the graph.
        node: String,
        /// The graph that the node is in.
        place: String,
    },
    /// A constant or another value has too many elements.
    #[error("value `{value}`{} has {found} elements, over the limit of {limit}", within(place))]
    Elements {
        /// The limit.
        limit: usize,
        /// The number of elements.
        found: usize,
        /// The value, or the node whose attribute it is.
        value: String,
        /// The graph it is in.
        place: String,
    },
    /// Its constants take too much memory.
    #[error(
        "value `{value}`: constants take {found} bytes besides the model's own, over the limit of {limit}"
    )]
    Bytes {
        /// The limit.
        limit: usize,
        /// The total size, including this constant.
        found: usize,
        /// The constant that exceeds the limit.
        value: String,
    },
    /// It takes too long.
    #[error("{stage}: loading has taken {found:?}, over the limit of {limit:?}")]
    Time {
        /// The limit.
        limit: Duration,
        /// The elapsed time.
        found: Duration,
        /// The interrupted stage, by its name in traces.
        stage: &'static str,
    },
}

fn within(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" in `{place}`") }
}

impl LoadLimits {
    /// These limits, with `share` as the limit for memory if there is none.
    pub(crate) fn or_share(self, share: Option<usize>) -> Self {
        Self { max_bytes: self.max_bytes.or(share), ..self }
    }

    /// Checks a valid file, before anything is built from it.
    ///
    /// # Errors
    /// If it exceeds a limit.
    pub(crate) fn check_file(&self, graph: &parsed::Graph<'_>) -> Result<(), LoadLimitError> {
        if *self == Self::default() {
            return Ok(());
        }
        let counted = Counted { limits: self, n_nodes: 0, copies: Budget::new(self.max_bytes, 0) };
        { counted }.graph(graph, &Place::ROOT)
    }

    /// Checks the shapes of a graph, whenever more of them are known.
    ///
    /// # Errors
    /// If a value has too many elements.
    pub(crate) fn check_shapes(&self, graph: &Graph) -> Result<(), LoadLimitError> {
        self.max_elements.map_or(Ok(()), |limit| check_shapes(graph, limit, &Place::ROOT))
    }

    /// The remaining budget for packing, after the constants that a graph has in its own memory.
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

/// The size of constants in their own memory, in a graph and its subgraphs.
fn own_bytes(graph: &Graph) -> usize {
    let constants = graph.value_ids().filter_map(|id| graph.constant(id));
    let is_own = |it: &&Tensor| !it.is_shared() && !it.is_released() && !it.is_deferred();
    let own = constants.filter(is_own);
    let nodes = graph.node_ids().map(|id| graph.node(id));
    let below = nodes.flat_map(|node| node.attrs.subgraphs()).map(own_bytes);
    own.map(Tensor::n_bytes).sum::<usize>() + below.sum::<usize>()
}

/// A nested graph, with its node and attribute.
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

/// The totals of a file so far.
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

    /// A subgraph of a node.
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

    /// A constant with this name, or of an attribute of a node with this name. (Packed constants do not count: they are
    /// not copied unless a kernel requests them.)
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
