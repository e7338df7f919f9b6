//! Random graphs of valid nodes.
//!
//! ```text
//! template:  a node of a node case with its operands, or an operator of the registry with random ones
//! graph:     one to six times: a template, whose operands are values of the graph where types agree, and new
//!            constants and inputs otherwise; attributes, shapes and numbers are sometimes changed.
//!            A node that inference rejects is left out.
//! ```

mod operand;
mod template;

use ort_graph::{
    Attr, Attrs, Dim, Export, Fact, Graph, ModelInfo, NewNode, Registry, ValueId, export,
};
use ort_onnx::opsets::since_version;
use ort_session::Tensor;
use ort_testing::Rng;

pub(crate) use self::template::{Template, templates};
use crate::model::extreme;

/// The operator sets of ai.onnx that graphs are of.
const OPSETS: [i64; 6] = [11, 13, 17, 21, 22, 25];
const MAX_NODES: u64 = 6;
/// How many nodes are drawn for one that is valid.
const MAX_DRAWN: u64 = 4;

/// A model, and inputs for it.
#[derive(Debug)]
pub(crate) struct Sample {
    /// A `.ort` file.
    pub(crate) file: Vec<u8>,
    /// By name.
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// Its graph.
    pub(crate) graph: Graph,
}

/// Draws a graph; `None` if no node is valid, or a file cannot represent it.
pub(crate) fn draw(templates: &[Template], registry: &Registry, rng: &mut Rng) -> Option<Sample> {
    let opset = OPSETS[rng.index(OPSETS.len())];
    let mut drawn = Drawn { graph: Graph::new(), inputs: Vec::new(), given: Vec::new(), opset };
    for _ in 0..=rng.below(MAX_NODES) * MAX_DRAWN {
        let template = &templates[rng.index(templates.len())];
        drawn.node(template, registry, rng);
    }
    let has_all = rng.below(2) == 0;
    drawn.finished(has_all)
}

struct Drawn {
    graph: Graph,
    inputs: Vec<(String, Tensor)>,
    given: Vec<ValueId>,
    opset: i64,
}

impl Drawn {
    /// Adds a node like the template, if it is valid.
    fn node(&mut self, template: &Template, registry: &Registry, rng: &mut Rng) {
        let inputs: Option<Vec<_>> = { template.operands.iter() }
            .map(|operand| match operand {
                Some(_) if rng.below(64) == 0 => Some(None),
                Some(tensor) => self.operand(tensor, rng).map(Some),
                None => Some(None),
            })
            .collect();
        let outputs = (0..template.n_outputs).map(|_| {
            let name = format!("v{}", self.graph.value_ids().count());
            self.graph.add_value(name, Fact::UNKNOWN).ok().map(Some)
        });
        let outputs: Option<Vec<_>> = outputs.collect();
        let (Some(inputs), Some(outputs)) = (inputs, outputs) else { return };
        let version = match template.domain.as_str() {
            "" => since_version("", &template.op_type, self.opset),
            _ => template.since_version,
        };
        let new = NewNode {
            name: String::new(),
            domain: template.domain.clone(),
            op_type: template.op_type.clone(),
            since_version: version,
            inputs,
            outputs,
            captured: Vec::new(),
            attrs: changed(&template.attrs, rng),
        };
        let _ = self.graph.add_node(new, registry);
    }

    /// A value of the graph of the same type, or a new one.
    fn operand(&mut self, like: &Tensor, rng: &mut Rng) -> Option<ValueId> {
        let is_alike = |id: &ValueId| {
            let fact = self.graph.fact(*id);
            fact.dtype() == Some(like.dtype()) && fact.rank() == Some(like.shape().len())
        };
        let known: Vec<ValueId> = match rng.below(3) {
            0 => Vec::new(),
            _ => { self.graph.value_ids() }
                .filter(|id| self.graph.producer(*id).is_some() && is_alike(id))
                .collect(),
        };
        if !known.is_empty() {
            return Some(known[rng.index(known.len())]);
        }
        let tensor = operand::varied(like, rng);
        let name = format!("v{}", self.graph.value_ids().count());
        if rng.below(3) == 0 {
            return self.graph.add_constant(name, tensor).ok();
        }
        let is_free = rng.below(4) == 0;
        let dim = |n: &usize| if is_free { Dim::Unknown } else { Dim::Known(*n) };
        let fact = Fact::tensor(tensor.dtype(), tensor.shape().iter().map(dim));
        let id = self.graph.add_value(name.clone(), fact).ok()?;
        self.inputs.push((name, tensor));
        self.given.push(id);
        Some(id)
    }

    /// The model, whose outputs are the results of all nodes, so that the first wrong one names its node, or only those
    /// that no other node reads, so that nodes are fused.
    fn finished(mut self, has_all: bool) -> Option<Sample> {
        let graph = &self.graph;
        let is_last = |id: &ValueId| has_all || graph.consumers(*id).is_empty();
        let is_made = |id: &ValueId| graph.producer(*id).is_some() && is_last(id);
        let outputs: Vec<ValueId> = graph.value_ids().filter(is_made).collect();
        if outputs.is_empty() {
            return None;
        }
        self.graph.set_inputs(self.given);
        self.graph.set_outputs(outputs);
        let opsets = [("", self.opset), ("ai.onnx.ml", 5), ("com.microsoft", 1)];
        let opsets = opsets.map(|(domain, version)| (domain.to_owned(), version)).to_vec();
        let info = ModelInfo { ir_version: 10, opsets, ..ModelInfo::default() };
        let file = export(&self.graph, Export::new(&info)).ok()?;
        let file = ort_format::write(&file).ok()?;
        Some(Sample { file, inputs: self.inputs, graph: self.graph })
    }
}

/// The attributes, one of them sometimes changed or removed.
fn changed(attrs: &Attrs, rng: &mut Rng) -> Attrs {
    let mut changed = Attrs::new();
    let n = attrs.iter().count();
    let at = if rng.below(2) == 0 { rng.index(n.max(1)) } else { n };
    for (i, (name, attr)) in attrs.iter().enumerate() {
        match (i == at, attr) {
            (true, _) if rng.below(4) == 0 => {}
            (true, Attr::Int(_)) => changed.set(name, Attr::Int(extreme(rng))),
            (true, Attr::Float(_)) => changed.set(name, Attr::Float(operand::unusual(rng))),
            (true, Attr::Ints(ints)) => {
                let mut ints = ints.clone();
                let at = rng.index(ints.len().max(1));
                match ints.get_mut(at) {
                    Some(int) => *int = extreme(rng),
                    None => ints.push(extreme(rng)),
                }
                changed.set(name, Attr::Ints(ints));
            }
            _ => changed.set(name, attr.clone()),
        }
    }
    changed
}
