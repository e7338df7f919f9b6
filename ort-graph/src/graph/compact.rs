//! A graph without the holes that edits leave.

// collects are bounded: as long as the graph's lists

use super::{Graph, Node, ValueInfo};
use crate::ids::{NodeId, ValueId};
use crate::order::CycleError;

impl Graph {
    /// The same graph with new ids: nodes in topological order, only values that are given,
    /// computed, read or returned; subgraphs too. What edits left behind is freed.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub fn compact(mut self) -> Result<Graph, CycleError> {
        let order = self.topological_order()?;
        let is_live = self.live_values();
        // bounded: by the nodes and values of the graph
        let mut ids = vec![None; self.values.len()];
        let mut graph = Graph::new();
        for (index, value) in self.values.into_iter().enumerate().filter(|&(i, _)| is_live[i]) {
            ids[index] = ValueId::new(graph.values.len());
            let (producer, consumers) = (None, Default::default());
            graph.values.push(ValueInfo { producer, consumers, ..value });
        }
        // A value that anything refers to is live, so the fallback is never taken.
        let moved = |id: ValueId| ids[id.index()].unwrap_or(id);
        graph.inputs = self.inputs.into_iter().map(moved).collect();
        graph.outputs = self.outputs.into_iter().map(moved).collect();
        let captures = self.captures.into_iter().filter(|(here, _)| is_live[here.index()]);
        graph.captures = captures.map(|(here, there)| (moved(here), there)).collect();
        for id in order {
            let Some(node) = self.nodes[id.index()].take() else { continue };
            graph.adopt(node, &moved)?;
        }
        Ok(graph)
    }

    fn live_values(&self) -> Vec<bool> {
        let is_live = |value: &ValueInfo| value.producer.is_some() || !value.consumers.is_empty();
        let mut live: Vec<bool> = self.values.iter().map(is_live).collect();
        for id in self.inputs.iter().chain(&self.outputs) {
            live[id.index()] = true;
        }
        live
    }

    /// Appends a node of another graph whose values are here under the ids `moved` gives.
    fn adopt(
        &mut self,
        mut node: Node,
        moved: &dyn Fn(ValueId) -> ValueId,
    ) -> Result<(), CycleError> {
        let Some(id) = NodeId::new(self.nodes.len()) else { return Ok(()) };
        let outputs = node.outputs.iter_mut().flatten();
        for value in node.inputs.iter_mut().flatten().chain(outputs).chain(&mut node.captured) {
            *value = moved(*value);
        }
        node.attrs.map_captures(moved);
        for subgraph in node.attrs.graphs_mut() {
            *subgraph = std::mem::take(subgraph).compact()?;
        }
        for value in node.reads() {
            self.values[value.index()].consumers.push(id);
        }
        for (slot, output) in node.outputs.iter().enumerate() {
            output.iter().for_each(|o| self.values[o.index()].producer = Some((id, slot)));
        }
        self.nodes.push(Some(node));
        Ok(())
    }
}
