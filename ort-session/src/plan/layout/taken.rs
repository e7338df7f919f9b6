//! Values without other readers, which a step may turn into its outputs.

// collects are bounded: as long as the graph's lists

use smallvec::SmallVec;

use super::{Builder, Place};
use crate::plan::{Action, Step};

impl Builder<'_> {
    /// The inputs that a step may turn into its outputs: values outside of the block of which it is the only
    /// and last reader.
    pub(super) fn taken(&self, i: usize, step: &Step) -> SmallVec<[(usize, usize); 1]> {
        let Action::Run { kernel, .. } = &step.action else { return SmallVec::new() };
        let is_free = |&&(input, output): &&(usize, usize)| {
            let Some(id) = step.inputs.get(input).copied().flatten() else { return false };
            let is_outside = matches!(
                self.places[id.index()],
                Place::Dynamic | Place::Input { shape: None, .. }
            );
            let n_uses = step.inputs.iter().flatten().filter(|&&other| other == id).count();
            let is_wanted = step.outputs.get(output).is_some_and(Option::is_some);
            is_outside && is_wanted && n_uses == 1 && self.last_reads[id.index()] == Some(i)
        };
        kernel.takes().iter().filter(is_free).copied().collect()
    }
}
