//! What a file says of its initializers, kept for the time when the graph no longer tells.

use std::collections::HashSet;
use std::ops::Range;

use ort_format::Graph;
use ort_loader::ModelBytes;
use ort_tensor::{DType, Tensor};

use crate::inspect::visit;

/// Where a file holds the elements of its initializers and what is packed of them, as ranges of its
/// bytes, and which had to be copied.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// The elements of initializers.
    pub(super) weights: Vec<Range<usize>>,
    /// Packed forms of initializers.
    pub(super) packed: Vec<Range<usize>>,
    not_aligned: HashSet<Box<str>>,
}

impl Origins {
    /// Those of a graph and all graphs below it.
    pub(crate) fn of(graph: Graph<'_>, bytes: &ModelBytes) -> Self {
        let mut origins = Self::default();
        visit(graph, &mut |graph| {
            graph.initializers().iter().for_each(|tensor| origins.add(tensor, bytes));
            let sparse = graph.sparse_initializers();
            sparse.iter().for_each(|tensor| origins.add(tensor.values(), bytes));
        });
        origins
    }

    fn add(&mut self, tensor: ort_format::Tensor<'_>, bytes: &ModelBytes) {
        let Some(raw) = tensor.raw_data().filter(|raw| !raw.is_empty()) else { return };
        if tensor.packed_form().is_some() {
            self.packed.extend(bytes.range_of(raw));
            return;
        }
        self.weights.extend(bytes.range_of(raw));
        let dtype = DType::from_onnx(i32::from(tensor.data_type()));
        if dtype.is_some_and(|dtype| !Tensor::may_borrow(dtype, raw)) {
            self.not_aligned.insert(tensor.name().into());
        }
    }

    /// Whether the file holds an initializer of this name where its type may not lie.
    pub(crate) fn is_not_aligned(&self, name: &str) -> bool {
        self.not_aligned.contains(name)
    }
}
