//! A graph: its constants, its values, and whether names are defined.

use super::path::{Path, excerpt};
use super::scope::{LOOK_UP, Names, Scope};
use super::{Checker, MAX_WARNINGS, each};
use crate::error::{Fault, FormatError, Oddity};
use crate::view::Graph;

impl Checker<'_> {
    pub(super) fn graph<'a>(
        &mut self,
        graph: Graph<'a>,
        path: &Path<'_>,
        outer: Option<&Scope<'_, 'a>>,
    ) -> Result<(), FormatError> {
        self.constants(graph, path)?;
        self.values(graph, path)?;
        self.runtime_optimizations(graph, path)?;
        let scope = self.scope(graph, path, outer)?;
        self.indices(graph, path)?;
        for (index, node) in graph.nodes().iter().enumerate() {
            self.pace.go(LOOK_UP)?;
            self.node(node, &path.item("nodes", index, node.name()), &scope)?;
        }
        scope.resolve(path, "output", graph.outputs().iter(), &mut self.pace)?;
        self.release(scope.given);
        self.release(scope.made);
        Ok(())
    }

    fn constants(&mut self, graph: Graph<'_>, path: &Path<'_>) -> Result<(), FormatError> {
        each(path, "initializers", graph.initializers())?;
        for (index, tensor) in graph.initializers().iter().enumerate() {
            self.pace.go(LOOK_UP)?;
            self.tensor(tensor, &path.item("initializers", index, tensor.name()))?;
        }
        each(path, "sparse_initializers", graph.sparse_initializers())?;
        for (index, sparse) in graph.sparse_initializers().iter().enumerate() {
            let name = sparse.values().name();
            self.sparse_tensor(sparse, &path.item("sparse_initializers", index, name))?;
        }
        Ok(())
    }

    fn values(&mut self, graph: Graph<'_>, path: &Path<'_>) -> Result<(), FormatError> {
        each(path, "node_args", graph.node_args())?;
        for (index, value) in graph.node_args().iter().enumerate() {
            self.pace.go(LOOK_UP)?;
            if let Some(info) = value.type_info() {
                self.type_info(info, &path.item("node_args", index, value.name()))?;
            }
        }
        each(path, "inputs", graph.inputs())?;
        each(path, "outputs", graph.outputs())?;
        let values = self.names(path, graph.node_args().iter().map(|value| value.name()))?;
        values.unique("value", path)?;
        for name in graph.inputs() {
            self.pace.go(LOOK_UP)?;
            if !values.contains(name) {
                return path.fail(Fault::Undefined { what: "input", name: excerpt(name) });
            }
        }
        self.release(values);
        Ok(())
    }

    /// The names that the graph defines. Each is defined once, except an initializer that is an input's default.
    fn scope<'s, 'a>(
        &mut self,
        graph: Graph<'a>,
        path: &Path<'_>,
        outer: Option<&'s Scope<'s, 'a>>,
    ) -> Result<Scope<'s, 'a>, FormatError> {
        let inputs = self.names(path, graph.inputs().iter())?;
        inputs.unique("input", path)?;
        self.release(inputs);

        let dense = graph.initializers().iter().map(|tensor| tensor.name());
        let sparse = graph.sparse_initializers().iter().map(|sparse| sparse.values().name());
        let constants = self.names(path, dense.clone().chain(sparse.clone()))?;
        self.warn_of_repeated(&constants, path)?;
        self.release(constants);
        let given = self.names(path, dense.chain(sparse).chain(graph.inputs().iter()))?;

        each(path, "nodes", graph.nodes())?;
        for (index, node) in graph.nodes().iter().enumerate() {
            self.pace.go(LOOK_UP)?;
            each(&path.item("nodes", index, node.name()), "outputs", node.outputs())?;
        }
        let made = self.names(path, graph.nodes().iter().flat_map(|node| node.outputs()))?;
        made.unique("output", path)?;
        for name in graph.nodes().iter().flat_map(|node| node.outputs()) {
            self.pace.go(LOOK_UP)?;
            if given.contains(name) {
                return path.fail(Fault::Duplicate { what: "output", name: excerpt(name) });
            }
        }
        Ok(Scope { given, made, outer })
    }

    fn warn_of_repeated(
        &mut self,
        constants: &Names<'_>,
        path: &Path<'_>,
    ) -> Result<(), FormatError> {
        for name in constants.repeated().take(MAX_WARNINGS) {
            self.warn(path, Oddity::DuplicateInitializer { name: excerpt(name?) });
        }
        Ok(())
    }
}
