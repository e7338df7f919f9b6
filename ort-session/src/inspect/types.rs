//! The types that a file declares for the inputs and outputs of its graph.

use std::collections::{HashMap, HashSet};

use ort_format::TypeInfo;
use ort_graph::declared_type;

use crate::session::ValueDescription;

/// The values of a graph by name.
pub(super) struct Values<'a> {
    declared: HashMap<&'a str, Option<TypeInfo<'a>>>,
    initialized: HashSet<&'a str>,
}

impl<'a> Values<'a> {
    pub(super) fn of(graph: ort_format::Graph<'a>) -> Self {
        let declared = graph.node_args().iter().map(|value| (value.name(), value.type_info()));
        let sparse = graph.sparse_initializers().iter().map(|tensor| tensor.values());
        let initializers = graph.initializers().iter().chain(sparse);
        Self {
            declared: declared.collect(),
            initialized: initializers.map(|tensor| tensor.name()).collect(),
        }
    }

    pub(super) fn describe(&self, name: &str) -> ValueDescription {
        let info = self.declared.get(name).copied().flatten();
        // What this version does not know is unknown.
        ValueDescription {
            name: name.to_owned(),
            ty: declared_type(info, name).unwrap_or_default(),
            has_default: self.initialized.contains(name),
        }
    }
}
