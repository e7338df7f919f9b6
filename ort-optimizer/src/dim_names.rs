//! Names for dimensions that have none, so that those that follow from each other are seen to be equal.

use std::collections::HashSet;
use std::sync::Arc;

use ort_graph::{CycleError, Dim, Fact, Graph, Type};

/// Names that were given to dimensions.
#[derive(Debug, Default)]
pub(crate) struct DimNames(HashSet<Arc<str>>);

impl DimNames {
    /// Gives each dimension that nothing is known of a name of its own, and to what follows from it
    /// the same. A name says nothing but that a number is the same wherever it stands, which holds
    /// for the dimension of one value in one run. Names that a file gives to what follows from other
    /// dimensions make place for theirs.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub(crate) fn give(graph: &mut Graph) -> Result<Self, CycleError> {
        let taken: HashSet<Arc<str>> =
            graph.value_ids().flat_map(|id| symbols(graph.fact(id))).collect();
        let mut given = HashSet::new();
        for node in graph.topological_order()? {
            graph.refine(node);
            let inferred = graph.infer(node).unwrap_or_default();
            let outputs = graph.node(node).outputs.clone();
            for (output, mut inferred) in outputs.into_iter().zip(inferred) {
                let Some(output) = output else { continue };
                let info = graph.value_mut(output);
                // Of two names for one dimension, that which comes from the operands says more.
                for (dim, inferred) in dims(&mut info.fact).zip(dims(&mut inferred)) {
                    if matches!((&*dim, &*inferred), (Dim::Symbol(_), Dim::Symbol(_))) {
                        dim.clone_from(inferred);
                    }
                }
                for (axis, dim) in dims(&mut info.fact).enumerate() {
                    let name: Arc<str> = format!("{}.{axis}", info.name).into();
                    if *dim == Dim::Unknown && !taken.contains(&name) {
                        *dim = Dim::Symbol(name.clone());
                        given.insert(name);
                    }
                }
            }
        }
        Ok(Self(given))
    }

    /// Takes the names from the graph's outputs, of which a caller is told what the file says.
    pub(crate) fn take_from_outputs(&self, graph: &mut Graph) {
        for output in graph.outputs().to_vec() {
            for dim in dims(&mut graph.value_mut(output).fact) {
                if matches!(dim, Dim::Symbol(name) if self.0.contains(name)) {
                    *dim = Dim::Unknown;
                }
            }
        }
    }
}

fn dims(fact: &mut Fact) -> impl Iterator<Item = &mut Dim> {
    let dims = match &mut fact.ty {
        Type::Tensor(tensor) => tensor.dims.as_mut(),
        _ => None,
    };
    dims.into_iter().flatten()
}

fn symbols(fact: &Fact) -> impl Iterator<Item = Arc<str>> {
    fact.dims().unwrap_or_default().iter().filter_map(|dim| match dim {
        Dim::Symbol(name) => Some(name.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::Graph;

    use super::DimNames;
    use crate::testing::parse;

    #[test]
    fn what_follows_from_one_dimension_has_its_name() {
        let mut graph = parse(
            "graph(x: float[?,3], m: bool[?]) -> (y) {
               w = const float[3,4] fill 1
               a = Compress-11 [axis: 0] (x, m)
               b = Relu-14 (a)
               c = MatMul-13 (b, w)
               d = Compress-11 [axis: 0] (x, m)
               y = Relu-14 (c)
             }",
        );
        let names = DimNames::give(&mut graph).unwrap();
        let dims = |graph: &Graph, name: &str| {
            let id = graph.value_ids().find(|&id| graph.value(id).name == name).unwrap();
            graph.fact(id).ty.to_string()
        };
        assert_eq!(dims(&graph, "a"), "float[a.0,3]");
        assert_eq!(dims(&graph, "c"), "float[a.0,4]");
        assert_eq!(dims(&graph, "d"), "float[d.0,3]");
        assert_eq!(dims(&graph, "y"), "float[a.0,4]");
        names.take_from_outputs(&mut graph);
        assert_eq!(dims(&graph, "y"), "float[?,4]");
        assert_eq!(dims(&graph, "b"), "float[a.0,3]");
    }
}
