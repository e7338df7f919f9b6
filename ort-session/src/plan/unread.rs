//! Constants whose elements no run reads, because every kernel has packed them.

// collects are bounded: as long as the graph's lists

use std::collections::{HashMap, HashSet};

use ort_ep::Kernel;
use ort_graph::{Graph, ImportError, ValueId};
use ort_tensor::Tensor;

use super::{Action, Plan};
use crate::load_limits::Budget;
use crate::packs::ConstantId;

impl Plan {
    /// The constants of this plan and its sub-plans that have readers, none of which reads elements.
    pub(crate) fn unread(&self) -> HashSet<ConstantId> {
        let (mut unread, mut read) = (HashSet::new(), HashSet::new());
        self.visit(&mut |plan| {
            let n_unread = plan.count(|kernel, input| !kernel.reads(input));
            for (id, constant) in constants(&plan.graph) {
                let n_unread = n_unread.get(&id).copied().unwrap_or(0);
                if plan.n_uses(id) > n_unread {
                    read.insert(ConstantId::of(constant));
                } else if n_unread > 0 {
                    unread.insert(ConstantId::of(constant));
                }
            }
        });
        &unread - &read
    }

    /// For each constant, the number of step inputs with a property. A use by an inner node of a step is not an input.
    fn count(&self, is_wanted: impl Fn(&dyn Kernel, usize) -> bool) -> HashMap<ValueId, usize> {
        let mut counts = HashMap::new();
        for step in &self.steps {
            let Action::Run { kernel, .. } = &step.action else { continue };
            for (i, input) in step.inputs.iter().enumerate() {
                if let Some(input) = input.filter(|_| is_wanted(&**kernel, i)) {
                    *counts.entry(input).or_default() += 1;
                }
            }
        }
        counts
    }

    /// Copies or computes the elements of deferred constants and defaults, here and in sub-plans, so that no run has to; but
    /// not of those that most runs do not read. They count against `budget`.
    ///
    /// # Errors
    /// If there is no memory for them, with the name of the largest, or `for_each` left out a part.
    pub(crate) fn materialize(
        &self,
        budget: &Budget,
        for_each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
    ) -> Result<(), ImportError> {
        let mut read: HashMap<ConstantId, (String, Tensor)> = HashMap::new();
        self.visit(&mut |plan| {
            let n_seldom = plan.count(|kernel, input| kernel.seldom_reads(input));
            for id in plan.graph.value_ids() {
                let value = plan.graph.value(id);
                let is_read = plan.n_uses(id) > n_seldom.get(&id).copied().unwrap_or(0);
                let constant = value.fact.constant.iter().filter(|_| is_read);
                for tensor in constant.chain(&value.default).filter(|it| it.is_deferred()) {
                    let named = || (value.name.clone(), tensor.clone());
                    read.entry(ConstantId::of(tensor)).or_insert_with(named);
                }
            }
        });
        let mut all: Vec<(String, Tensor)> = read.into_values().collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        if !all.iter().all(|(name, tensor)| budget.take(tensor.n_bytes(), name)) {
            // The budget has the error.
            return Ok(());
        }
        let tensors: Vec<&Tensor> = all.iter().map(|(_, tensor)| tensor).collect();
        ort_tensor::materialize(&tensors, for_each).map_err(|error| {
            let largest = all.iter().max_by_key(|(_, tensor)| tensor.n_bytes());
            let name = largest.map(|(name, _)| name.clone()).unwrap_or_default();
            ImportError::Tensor { name, error: Box::new(error) }
        })
    }

    /// How often a value is used, as an input or an output.
    fn n_uses(&self, id: ValueId) -> usize {
        let n_outputs = self.graph.outputs().iter().filter(|&&output| output == id).count();
        self.graph.consumers(id).len() + n_outputs
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
