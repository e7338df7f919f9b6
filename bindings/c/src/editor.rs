//! The model editor: models that a program builds in memory from values, nodes and graphs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_session::Tensor;
use ort_session::model::{Graph, Model, ModelInfo, Node, Text, Value as Declared};
use ort_sys::{OrtNode, OrtValueInfo};

use crate::editor_types::ValueInfo;
use crate::env::Env;
use crate::error::{Error, text};
use crate::ffi::{Boxes, MutArray, Out, OutHandle, OutRef, Outs, Shared, Taken, export, opaque};
use crate::op_attr::{OpAttr, tensor_of_model, to_model};
use crate::session::{Session, Source};
use crate::session_options::SessionOptions;
use crate::value::Value;

/// A node: an operator, and its inputs and outputs by name.
#[derive(Clone, Debug)]
pub(crate) struct EditedNode {
    node: Node<'static>,
    /// Name, operator and domain, for C.
    texts: [CString; 3],
    attrs: Vec<OpAttr>,
}

/// A graph: what a program has added to it.
#[derive(Debug, Default)]
pub(crate) struct EditedGraph(Mutex<Parts>);

#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "programs keep pointers to what they have added")]
struct Parts {
    inputs: Vec<Box<ValueInfo>>,
    outputs: Vec<Box<ValueInfo>>,
    initializers: Vec<(String, Tensor)>,
    nodes: Vec<Box<EditedNode>>,
}

/// A model: operator sets and a graph.
#[derive(Debug)]
pub(crate) struct EditedModel {
    opsets: Vec<(String, i64)>,
    graph: Mutex<Option<Box<EditedGraph>>>,
}

fn owned(names: &[&str]) -> Vec<Text<'static>> {
    names.iter().map(|name| Text::from((*name).to_owned())).collect()
}

/// What a model declares of a value.
fn declared(value: &ValueInfo) -> Declared<'static> {
    let name = value.name().to_owned().into();
    Declared { name, ty: Ok(value.ty()), denotations: Vec::new() }
}

/// The domain as models spell it.
fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl EditedGraph {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The graph for a session, whose initializers share their memory with this one.
    fn to_graph(&self) -> Graph<'static> {
        let parts = self.parts();
        let names = |values: &[Box<ValueInfo>]| {
            values.iter().map(|value| value.name().to_owned().into()).collect()
        };
        let initializers = parts.initializers.iter();
        Graph {
            values: parts
                .inputs
                .iter()
                .chain(&parts.outputs)
                .map(|value| declared(value))
                .collect(),
            inputs: names(&parts.inputs),
            outputs: names(&parts.outputs),
            initializers: initializers.map(|(n, it)| tensor_of_model(n, it.clone())).collect(),
            nodes: parts.nodes.iter().map(|node| node.node.clone()).collect(),
            ..Graph::default()
        }
    }
}

impl EditedModel {
    /// The model as a session takes it.
    fn to_model(&self) -> Result<Model<'static>, Error> {
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = graph.as_ref().ok_or_else(|| Error::argument("model", "has no graph"))?;
        let graph = graph.to_graph();
        if graph.outputs.is_empty() {
            return Err(Error::argument("model", "has a graph without outputs"));
        }
        let info =
            ModelInfo { ir_version: 11, opsets: self.opsets.clone(), ..ModelInfo::default() };
        Ok(Model { info, graph })
    }
}

export! {
    /// The attributes are copied.
    fn CreateNode(
        operator_name: &str,
        domain_name: &str,
        node_name: &str,
        input_names: Vec<&str>[input_names_len],
        input_names_len: usize,
        output_names: Vec<&str>[output_names_len],
        output_names_len: usize,
        attributes: MutArray<'_, OpAttr>[attribs_len],
        attribs_len: usize,
        node: OutHandle<'_, EditedNode>,
    ) {
        let _ = (input_names_len, output_names_len, attribs_len);
        if operator_name.is_empty() {
            return Err(Error::argument("operator_name", "is empty"));
        }
        let attrs: Vec<OpAttr> = attributes.0.into_iter().cloned().collect();
        let made = attrs.iter().map(|it| Ok((it.name().to_owned().into(), to_model(&it.attr)?)));
        node.set(EditedNode {
            node: Node {
                name: node_name.to_owned().into(),
                domain: domain(domain_name).to_owned().into(),
                op_type: operator_name.to_owned().into(),
                inputs: owned(&input_names),
                outputs: owned(&output_names),
                attributes: made.collect::<Result<_, Error>>()?,
                ..Node::default()
            },
            texts: [node_name, operator_name, domain(domain_name)].map(text),
            attrs,
        });
        Ok(())
    }

    fn ReleaseNode(node: Option<Box<EditedNode>>) -> () = (); {
        drop(node);
        Ok(())
    }

    fn CreateGraph(graph: OutHandle<'_, EditedGraph>) {
        graph.set(EditedGraph::default());
        Ok(())
    }

    fn ReleaseGraph(graph: Option<Box<EditedGraph>>) -> () = (); {
        drop(graph);
        Ok(())
    }

    /// The graph owns the value infos from then on.
    fn SetGraphInputs(
        graph: Shared<'_, EditedGraph>,
        inputs: Boxes<ValueInfo>[inputs_len],
        inputs_len: usize,
    ) {
        let _ = inputs_len;
        graph.parts().inputs = inputs.take();
        Ok(())
    }

    /// The graph owns the value infos from then on.
    fn SetGraphOutputs(
        graph: Shared<'_, EditedGraph>,
        outputs: Boxes<ValueInfo>[outputs_len],
        outputs_len: usize,
    ) {
        let _ = outputs_len;
        graph.parts().outputs = outputs.take();
        Ok(())
    }

    /// The graph owns the value from then on. Its memory is used in place, whether it is external or not.
    fn AddInitializerToGraph(
        graph: Shared<'_, EditedGraph>,
        name: &str,
        tensor: Taken<Value>,
        _data_is_external: bool,
    ) {
        if name.is_empty() {
            return Err(Error::argument("name", "is empty"));
        }
        let elements = tensor.get().lent()?;
        drop(tensor.take());
        graph.parts().initializers.push((name.to_owned(), elements));
        Ok(())
    }

    /// The graph owns the node from then on.
    fn AddNodeToGraph(graph: Shared<'_, EditedGraph>, node: Taken<EditedNode>) {
        graph.parts().nodes.push(node.take());
        Ok(())
    }

    fn CreateModel(
        domain_names: Vec<&str>[opset_entries_len],
        opset_versions: &[i32][opset_entries_len],
        opset_entries_len: usize,
        model: OutHandle<'_, EditedModel>,
    ) {
        if opset_entries_len == 0 {
            return Err(Error::argument("opset_entries_len", "is 0: a model needs an operator set"));
        }
        let opsets = domain_names.iter().zip(opset_versions);
        let opsets = opsets.map(|(name, &version)| (domain(name).to_owned(), version.into()));
        model.set(EditedModel { opsets: opsets.collect(), graph: Mutex::new(None) });
        Ok(())
    }

    /// The model owns the graph from then on.
    fn AddGraphToModel(model: Shared<'_, EditedModel>, graph: Taken<EditedGraph>) {
        let mut there = model.graph.lock().unwrap_or_else(PoisonError::into_inner);
        if there.is_some() {
            return Err(Error::argument("model", "has a graph already"));
        }
        *there = Some(graph.take());
        Ok(())
    }

    fn ReleaseModel(model: Option<Box<EditedModel>>) -> () = (); {
        drop(model);
        Ok(())
    }

    fn CreateSessionFromModel(
        env: &Env,
        model: &EditedModel,
        options: Option<&SessionOptions>,
        out: OutHandle<'_, Session>,
    ) {
        out.set(Source::Model(Box::new(model.to_model()?)).session(env, options)?);
        Ok(())
    }

    fn SessionGetOpsetForDomain(session: &Session, domain: &str, opset: Out<'_, i32>) {
        let metadata = session.session.metadata();
        let name = if domain == "ai.onnx" { "" } else { domain };
        let none = || Error::invalid(format!("the model does not use the domain `{domain}`"));
        let found = metadata.model.opset(name).ok_or_else(none)?;
        opset.set(i32::try_from(found).unwrap_or(i32::MAX));
        Ok(())
    }

    /// The pointers are valid as long as the node.
    fn Node_GetName(node: &EditedNode, node_name: Out<'_, *const c_char>) {
        node_name.set(node.texts[0].as_ptr());
        Ok(())
    }

    fn Node_GetOperatorType(node: &EditedNode, operator_type: Out<'_, *const c_char>) {
        operator_type.set(node.texts[1].as_ptr());
        Ok(())
    }

    fn Node_GetDomain(node: &EditedNode, domain_name: Out<'_, *const c_char>) {
        domain_name.set(node.texts[2].as_ptr());
        Ok(())
    }

    fn Node_GetNumInputs(node: &EditedNode, num_inputs: Out<'_, usize>) {
        num_inputs.set(node.node.inputs.len());
        Ok(())
    }

    fn Node_GetNumOutputs(node: &EditedNode, num_outputs: Out<'_, usize>) {
        num_outputs.set(node.node.outputs.len());
        Ok(())
    }

    fn Node_GetNumAttributes(node: &EditedNode, num_attributes: Out<'_, usize>) {
        num_attributes.set(node.attrs.len());
        Ok(())
    }

    /// Null if there is none. It lives as long as the node.
    fn Node_GetAttributeByName(
        node: &EditedNode,
        attribute_name: &str,
        attribute: OutRef<'_, OpAttr>,
    ) {
        match node.attrs.iter().find(|attr| attr.name() == attribute_name) {
            Some(found) => attribute.set(found),
            None => attribute.set_none(),
        }
        Ok(())
    }

    fn Graph_GetNumInputs(graph: &EditedGraph, num_inputs: Out<'_, usize>) {
        num_inputs.set(graph.parts().inputs.len());
        Ok(())
    }

    fn Graph_GetNumOutputs(graph: &EditedGraph, num_outputs: Out<'_, usize>) {
        num_outputs.set(graph.parts().outputs.len());
        Ok(())
    }

    fn Graph_GetNumInitializers(graph: &EditedGraph, num_initializers: Out<'_, usize>) {
        num_initializers.set(graph.parts().initializers.len());
        Ok(())
    }

    fn Graph_GetNumNodes(graph: &EditedGraph, num_nodes: Out<'_, usize>) {
        num_nodes.set(graph.parts().nodes.len());
        Ok(())
    }

    /// The value infos live as long as the graph.
    fn Graph_GetInputs(
        graph: &EditedGraph,
        inputs: Outs<'_, *const OrtValueInfo>[num_inputs],
        num_inputs: usize,
    ) {
        let _ = num_inputs;
        inputs.fill(graph.parts().inputs.iter().map(|value| opaque(&**value)));
        Ok(())
    }

    /// The value infos live as long as the graph.
    fn Graph_GetOutputs(
        graph: &EditedGraph,
        outputs: Outs<'_, *const OrtValueInfo>[num_outputs],
        num_outputs: usize,
    ) {
        let _ = num_outputs;
        outputs.fill(graph.parts().outputs.iter().map(|value| opaque(&**value)));
        Ok(())
    }

    /// The nodes live as long as the graph.
    fn Graph_GetNodes(
        graph: &EditedGraph,
        nodes: Outs<'_, *const OrtNode>[num_nodes],
        num_nodes: usize,
    ) {
        let _ = num_nodes;
        nodes.fill(graph.parts().nodes.iter().map(|node| opaque(&**node)));
        Ok(())
    }
}
