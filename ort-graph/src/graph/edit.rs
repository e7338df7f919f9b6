//! Small edits that keep the uses of every value right: what patches and passes are made of.

// collects are bounded: as long as the graph's lists

use ort_tensor::Tensor;
use smallvec::SmallVec;

use super::{Graph, GraphError, PackedForm};
use crate::fact::Fact;
use crate::ids::{NodeId, ValueId};
use crate::op::OpError;

impl Graph {
    /// Allocates memory for more values and nodes.
    pub(crate) fn reserve(&mut self, n_values: usize, n_nodes: usize) {
        self.values.reserve(n_values); // bounded: as the file's lists
        self.nodes.reserve(n_nodes); // bounded: the same
    }

    /// Whether a value is an input of the graph.
    pub fn is_input(&self, id: ValueId) -> bool {
        self.value(id).is_input
    }

    /// Whether a value is an output of the graph.
    pub fn is_output(&self, id: ValueId) -> bool {
        self.value(id).is_output
    }

    /// Whether a node, a subgraph or the caller uses the value.
    pub fn is_used(&self, id: ValueId) -> bool {
        !self.consumers(id).is_empty() || self.is_output(id)
    }

    /// Infers the facts of a node's outputs again, now that more may be known of its inputs.
    /// Returns whether more is known of any output. Nothing changes if inference fails: what the file declares is
    /// kept until a run.
    pub fn refine(&mut self, id: NodeId) -> bool {
        let Some(node) = self.get_node(id) else { return false };
        let Ok(facts) = self.infer_node(node) else { return false };
        let outputs: SmallVec<[Option<ValueId>; 4]> = node.outputs.iter().copied().collect();
        let mut is_refined = false;
        for (output, fact) in outputs.into_iter().zip(facts) {
            let Some(output) = output else { continue };
            if *self.fact(output) != fact {
                self.values[output.index()].fact = fact;
                is_refined = true;
            }
        }
        is_refined
    }

    /// Removes those of these nodes whose outputs are unused, then the nodes that become unused by that, and
    /// constants without readers. Returns the nodes.
    pub fn sweep(&mut self, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut candidates: Vec<NodeId> = nodes.into_iter().collect();
        let mut removed = Vec::new();
        while let Some(id) = candidates.pop() {
            let Some(node) = self.get_node(id) else { continue };
            if node.outputs.iter().flatten().any(|&output| self.is_used(output)) {
                continue;
            }
            let reads: SmallVec<[ValueId; 8]> = node.reads().collect();
            let outputs: SmallVec<[ValueId; 4]> = node.outputs.iter().flatten().copied().collect();
            self.remove_node(id);
            removed.push(id);
            outputs.into_iter().for_each(|output| self.forget(output));
            candidates.extend(reads.into_iter().filter_map(|value| self.release(value)));
        }
        removed
    }

    /// Drops a value that may be unused by now, unless it is an input. Returns the node that
    /// computes it, which may have become unused.
    pub(crate) fn release(&mut self, id: ValueId) -> Option<NodeId> {
        if self.is_used(id) {
            return None;
        }
        if let Some((node, _)) = self.producer(id) {
            return Some(node);
        }
        if !self.is_input(id) {
            self.captures.retain(|&(here, _)| here != id);
            self.forget(id);
        }
        None
    }

    /// Removes an unused output from its node, and its value from the graph.
    pub(crate) fn detach(&mut self, id: ValueId) {
        if let Some((node, slot)) = self.values[id.index()].producer.take()
            && let Some(node) = self.nodes[node.index()].as_mut()
        {
            node.outputs[slot] = None;
        }
        self.forget(id);
    }

    /// Clears a value; only its id remains.
    fn forget(&mut self, id: ValueId) {
        let value = &mut self.values[id.index()];
        value.name = String::new();
        value.fact = Fact::UNKNOWN;
    }

    /// Makes every reader of `old` read `new`, including subgraphs that capture it; graph outputs do not change.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        self.replace_uses_where(old, new, |_| true);
    }

    /// The same for the readers that `reads_new` accepts, which are returned.
    pub(crate) fn replace_uses_where(
        &mut self,
        old: ValueId,
        new: ValueId,
        reads_new: impl Fn(NodeId) -> bool,
    ) -> Vec<NodeId> {
        let consumers = std::mem::take(&mut self.values[old.index()].consumers);
        let (moved, kept): (Vec<NodeId>, Vec<NodeId>) =
            consumers.into_iter().partition(|&consumer| reads_new(consumer));
        self.values[old.index()].consumers = kept.into();
        for &consumer in &moved {
            let Some(node) = self.nodes[consumer.index()].as_mut() else { continue };
            for value in node.inputs.iter_mut().flatten().chain(&mut node.captured) {
                if *value == old {
                    *value = new;
                }
            }
            node.attrs.map_captures(&|value| if value == old { new } else { value });
        }
        self.values[new.index()].consumers.extend(moved.iter().copied());
        moved
    }

    /// Makes the graph return `new` wherever it returns `old`.
    pub(crate) fn replace_output(&mut self, old: ValueId, new: ValueId) {
        if !self.is_output(old) || old == new {
            return;
        }
        for output in self.outputs.iter_mut().filter(|output| **output == old) {
            *output = new;
        }
        self.values[old.index()].is_output = false;
        self.values[new.index()].is_output = true;
    }

    /// How many slots for values and nodes there are.
    pub(crate) const fn sizes(&self) -> (usize, usize) {
        (self.values.len(), self.nodes.len())
    }

    /// Removes every value and node added since `sizes` was read; nothing older may
    /// refer to them.
    pub(crate) fn truncate(&mut self, (n_values, n_nodes): (usize, usize)) {
        for index in (n_nodes..self.nodes.len()).rev() {
            NodeId::new(index).into_iter().for_each(|id| self.remove_node(id));
        }
        self.nodes.truncate(n_nodes);
        self.values.truncate(n_values);
    }

    /// Calls `edit` with every constant of this graph and the graphs below it, captured ones once for
    /// each graph. A constant's contents must stay the same, but how they are stored may change.
    pub fn edit_constants(&mut self, edit: &mut dyn FnMut(&mut Tensor, &mut Vec<PackedForm>)) {
        for value in self.values.iter_mut().filter(|value| value.producer.is_none()) {
            if let (Some(constant), None) = (&mut value.fact.constant, &value.default) {
                edit(constant, &mut value.packed);
            }
        }
        for node in self.nodes.iter_mut().flatten() {
            node.attrs.graphs_mut().for_each(|graph| graph.edit_constants(edit));
        }
    }

    /// Edits the subgraphs of a node, one after the other. Before, each gets the current facts of the values that it
    /// captures; after, the node's list of captured values is updated, and nodes that only computed values no longer
    /// captured are swept.
    ///
    /// # Errors
    /// The first that `edit` returns; the graph stays consistent.
    pub fn edit_subgraphs<E>(
        &mut self,
        id: NodeId,
        mut edit: impl FnMut(&mut Graph) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(node) = self.nodes[id.index()].as_mut() else { return Ok(()) };
        let mut attrs = std::mem::take(&mut node.attrs);
        let mut result = Ok(());
        for subgraph in attrs.graphs_mut() {
            subgraph.learn_captures(self);
            result = edit(subgraph);
            if result.is_err() {
                break;
            }
        }
        let mut captured: Vec<ValueId> = Vec::new();
        for subgraph in attrs.graphs_mut() {
            captured.extend(subgraph.captures.iter().map(|&(_, there)| there));
        }
        captured.sort_unstable();
        captured.dedup();
        if let Some(node) = self.nodes[id.index()].as_mut() {
            node.attrs = attrs;
            self.recapture(id, captured);
        }
        result
    }

    /// Replaces the list of values that the subgraphs of a node capture.
    fn recapture(&mut self, id: NodeId, captured: Vec<ValueId>) {
        let Some(node) = self.nodes[id.index()].as_mut() else { return };
        let before = std::mem::replace(&mut node.captured, captured.clone());
        for &value in &before {
            let consumers = &mut self.values[value.index()].consumers;
            if let Some(at) = consumers.iter().position(|&consumer| consumer == id) {
                consumers.remove(at);
            }
        }
        for value in captured {
            self.values[value.index()].consumers.push(id);
        }
        let candidates: Vec<NodeId> =
            before.into_iter().filter_map(|value| self.release(value)).collect();
        self.sweep(candidates);
    }

    /// Takes over the enclosing graph's facts of captured values, which prevail where the two differ. A value that is
    /// constant there becomes a constant here and is no longer captured.
    fn learn_captures(&mut self, enclosing: &Graph) {
        let values = &mut self.values;
        self.captures.retain(|&(here, there)| {
            let (fact, here) = (enclosing.fact(there), &mut values[here.index()]);
            here.fact = here.fact.unify(fact).unwrap_or_else(|_| fact.clone());
            here.fact.constant.is_none()
        });
    }

    /// Adds the value `there` of the enclosing graph: a constant becomes a constant that shares its data, anything
    /// else is captured.
    ///
    /// # Errors
    /// If the graph is full.
    pub fn add_captured(
        &mut self,
        name: &str,
        enclosing: &Graph,
        there: ValueId,
    ) -> Result<ValueId, GraphError> {
        let fact = enclosing.fact(there).clone();
        let is_constant = fact.constant.is_some();
        let here = self.add_value(name, fact)?;
        self.value_mut(here).packed.clone_from(&enclosing.value(there).packed);
        if !is_constant {
            self.add_capture(here, there);
        }
        Ok(here)
    }

    /// Whether the facts of a node's outputs are what its operator infers, as far as known.
    pub(crate) fn infers(&self, id: NodeId) -> Result<(), GraphError> {
        self.get_node(id).map_or(Ok(()), |node| self.infer_node(node).map(drop))
    }

    /// What the operator of `node` infers from what is known of its inputs.
    ///
    /// # Errors
    /// If types and shapes do not fit.
    pub fn infer(&self, id: NodeId) -> Result<Vec<Fact>, OpError> {
        self.inferred(self.node(id), |value| self.fact(value))
    }
}
