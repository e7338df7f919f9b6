//! The positions of initializers in files, kept for when the graph no longer has them.

// collects are bounded: as long as the graph's lists

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use ort_graph::parsed::{Contents, Graph, Tensor};
use ort_loader::ModelBytes;

/// The positions of initializers' elements and packed constants in files, and which were misaligned.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// The elements of initializers.
    pub(super) weights: Vec<Place>,
    /// Packed constants.
    pub(super) packed: Vec<Place>,
    not_aligned: HashSet<Box<str>>,
}

/// A range of bytes in the model's own file (0) or in one of its external files.
pub(super) type Place = (usize, Range<usize>);

impl Origins {
    /// The origins in a graph and its subgraphs.
    pub(crate) fn of(graph: &Graph<'_>, bytes: &ModelBytes, external: &[ModelBytes]) -> Self {
        let mut origins = Self::default();
        let files: Vec<&ModelBytes> = std::iter::once(bytes).chain(external).collect();
        let place = |part: &Bytes| {
            let mut places = files.iter().enumerate();
            places
                .find_map(|(i, file)| Some((i, file.range_of(part)?)))
                .filter(|_| !part.is_empty())
        };
        graph.visit(&mut |graph| {
            origins.packed.extend(graph.forms.iter().filter_map(|form| place(&form.bytes)));
            let sparse = graph.sparse_initializers.iter().map(|tensor| &tensor.values);
            for tensor in graph.initializers.iter().chain(sparse) {
                origins.add(tensor, &place);
            }
        });
        origins
    }

    fn add(&mut self, tensor: &Tensor<'_>, place: &dyn Fn(&Bytes) -> Option<Place>) {
        let Contents::Bytes(bytes) = &tensor.contents else { return };
        self.weights.extend(place(bytes));
        if !tensor.may_borrow() {
            self.not_aligned.insert(tensor.name.as_ref().into());
        }
    }

    /// Whether the file has an initializer of this name that is not aligned for its type.
    pub(crate) fn is_not_aligned(&self, name: &str) -> bool {
        self.not_aligned.contains(name)
    }
}
