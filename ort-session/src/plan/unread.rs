//! Constants whose elements no run reads, because every kernel has packed them.

use std::collections::{HashMap, HashSet};

use ort_graph::{Graph, ImportError, ValueId};
use ort_tensor::Tensor;

use super::{Action, Plan};
use crate::packs::ConstantId;

impl Plan {
    /// The constants of this plan and its sub-plans that have readers, none of which reads elements.
    pub(crate) fn unread(&self) -> HashSet<ConstantId> {
        let (mut unread, mut read) = (HashSet::new(), HashSet::new());
        self.visit(&mut |plan| {
            let n_unread = plan.n_unread();
            for (id, constant) in constants(&plan.graph) {
                let n_unread = n_unread.get(&id).copied().unwrap_or(0);
                let n_uses = plan.graph.consumers(id).len();
                if n_uses > n_unread || plan.graph.outputs().contains(&id) {
                    read.insert(ConstantId::of(constant));
                } else if n_unread > 0 {
                    unread.insert(ConstantId::of(constant));
                }
            }
        });
        &unread - &read
    }

    /// For each constant, the number of step inputs that do not read its elements. A use by an inner node of
    /// a step is not an input and counts as read.
    fn n_unread(&self) -> HashMap<ValueId, usize> {
        let mut n_unread = HashMap::new();
        for step in &self.steps {
            let Action::Run { kernel, .. } = &step.action else { continue };
            for (i, input) in step.inputs.iter().enumerate() {
                if let Some(input) = input.filter(|_| !kernel.reads(i)) {
                    *n_unread.entry(input).or_default() += 1;
                }
            }
        }
        n_unread
    }

    /// Aligns the constants and defaults of this plan and its sub-plans, so that no run has to.
    ///
    /// # Errors
    /// If there is no memory for a copy.
    pub(crate) fn align(&self) -> Result<(), ImportError> {
        let mut result = Ok(());
        self.visit(&mut |plan| {
            for value in plan.graph.value_ids().map(|id| plan.graph.value(id)) {
                for tensor in value.fact.constant.iter().chain(&value.default) {
                    if let (Ok(()), Err(error)) = (&result, tensor.align()) {
                        let (name, error) = (value.name.clone(), Box::new(error));
                        result = Err(ImportError::Tensor { name, error });
                    }
                }
            }
        });
        result
    }

    /// Releases the elements of these constants, here and in sub-plans.
    pub(crate) fn release(&mut self, constants: &HashSet<ConstantId>) {
        let mut released = Released::default();
        self.visit_mut(&mut |plan| {
            plan.graph.edit_constants(&mut |constant, _| {
                released.replace(constant, constants);
            });
        });
    }
}

/// Released constants that replace others: one for each, however many graphs hold it.
#[derive(Default)]
pub(crate) struct Released(HashMap<ConstantId, Tensor>);

impl Released {
    /// Replaces `constant` if it is one of `constants`; returns its size if it is the first of
    /// those that share it.
    pub(crate) fn replace(
        &mut self,
        constant: &mut Tensor,
        constants: &HashSet<ConstantId>,
    ) -> usize {
        let id = ConstantId::of(constant);
        if !constants.contains(&id) || constant.is_released() {
            return 0;
        }
        if let Some(bare) = self.0.get(&id) {
            *constant = bare.clone();
            return 0;
        }
        // The shape of an existing tensor does not overflow.
        let Ok(bare) = Tensor::released(constant.dtype(), constant.shape()) else { return 0 };
        let n_bytes = constant.n_bytes();
        self.0.insert(id, bare.clone());
        *constant = bare;
        n_bytes
    }
}

fn constants(graph: &Graph) -> impl Iterator<Item = (ValueId, &Tensor)> {
    graph.value_ids().filter_map(|id| Some((id, graph.constant(id)?)))
}
