//! Nodes that graphs are made of.

use std::collections::BTreeSet;

use bytes::Bytes;
use ort_conformance::node_cases::Files;
use ort_graph::parsed::Model;
use ort_graph::{
    Attrs, Fact, Graph, ImportLimits, NewNode, Node, OpDef, Registry, ValueId, import,
};
use ort_session::{Tensor, Value};
use ort_tensor_io::pb;
use ort_testing::Rng;

use crate::corpus;

/// A node and its operands.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) domain: String,
    pub(crate) op_type: String,
    pub(crate) since_version: i32,
    pub(crate) attrs: Attrs,
    /// `None` where an operand is absent.
    pub(crate) operands: Vec<Option<Tensor>>,
    pub(crate) n_outputs: usize,
}

/// The nodes of the node cases whose operands are known, and one node of each operator without a case.
pub(crate) fn templates(registry: &Registry) -> Vec<Template> {
    let files = corpus::files();
    let mut templates: Vec<Template> = files
        .iter()
        .filter(|(path, _)| path.ends_with("/model.ort"))
        .flat_map(|(path, file)| of_case(registry, &files, path, file).unwrap_or_default())
        .collect();
    let known = templates.iter().map(|it| (it.domain.clone(), it.op_type.clone()));
    let known: BTreeSet<_> = known.collect();
    let mut rng = Rng::new(0);
    for def in registry.defs() {
        if !known.contains(&(def.domain.to_owned(), def.name.to_owned())) {
            templates.extend(guessed(registry, &def, &mut rng));
        }
    }
    templates
}

/// A node with the smallest number of matrices that is valid.
fn guessed(registry: &Registry, def: &OpDef, rng: &mut Rng) -> Option<Template> {
    (1..5).find_map(|n| {
        let template = Template {
            domain: def.domain.to_owned(),
            op_type: def.name.to_owned(),
            since_version: def.versions.1,
            attrs: Attrs::new(),
            operands: (0..n).map(|_| matrix(rng).map(Some)).collect::<Option<_>>()?,
            n_outputs: 1,
        };
        is_valid(registry, &template)?.then_some(template)
    })
}

fn is_valid(registry: &Registry, template: &Template) -> Option<bool> {
    let mut graph = Graph::new();
    let inputs = template.operands.iter().flatten().map(|tensor| {
        graph.add_value("", Fact::shaped(tensor.dtype(), tensor.shape())).ok().map(Some)
    });
    let inputs = inputs.collect::<Option<Vec<_>>>()?;
    let node = NewNode {
        domain: template.domain.clone(),
        op_type: template.op_type.clone(),
        since_version: template.since_version,
        inputs,
        outputs: vec![graph.add_value("", Fact::UNKNOWN).ok()],
        ..NewNode::default()
    };
    Some(graph.add_node(node, registry).is_ok())
}

fn matrix(rng: &mut Rng) -> Option<Tensor> {
    Tensor::from_slice(&[4, 4], &rng.uniforms(16)).ok()
}

fn of_case(registry: &Registry, files: &Files, path: &str, file: &Bytes) -> Option<Vec<Template>> {
    let opened = ort_format::open(file, &ort_format::Limits::default()).ok()?;
    let graph = import(Model::of_ort(opened, file).ok()?, registry, ImportLimits::default());
    let graph = graph.ok()?.graph;
    let folder = path.strip_suffix("model.ort")?;
    let inputs: Vec<(ValueId, Tensor)> = { graph.inputs().iter().enumerate() }
        .filter_map(|(i, id)| {
            let file = files.get(&format!("{folder}test_data_set_0/input_{i}.pb"))?;
            match pb::decode(file, pb::Kind::Tensor).ok()?.value {
                Value::Tensor(tensor) => Some((*id, tensor)),
                _ => None,
            }
        })
        .collect();
    let nodes = graph.node_ids().map(|id| graph.node(id));
    Some(nodes.filter_map(|node| of_node(&graph, node, &inputs)).collect())
}

/// The node, if its operands are constants or inputs of its graph, and it reads nothing else.
fn of_node(graph: &Graph, node: &Node, inputs: &[(ValueId, Tensor)]) -> Option<Template> {
    let known = |id: ValueId| {
        let input = inputs.iter().find(|(input, _)| *input == id).map(|(_, tensor)| tensor);
        input.or_else(|| graph.constant(id)).cloned()
    };
    let operands = node.inputs.iter().map(|input| match input {
        Some(id) => known(*id).map(Some),
        None => Some(None),
    });
    let operands: Option<Vec<_>> = operands.collect();
    node.captured.is_empty().then_some(Template {
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        attrs: node.attrs.clone(),
        operands: operands?,
        n_outputs: node.outputs.len(),
    })
}
