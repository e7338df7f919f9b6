//! The model editor: models that a program builds in memory from values, nodes and graphs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ort_session::Tensor;
use ort_session::model::{Graph, Model, ModelInfo, Node, Text, Value as Declared};

use crate::edit_check::check_change;
use crate::editor_types::ValueInfo;
use crate::env::Env;
use crate::error::{Error, text};
use crate::ffi::{Boxes, OutHandle, Shared, Taken, export};
use crate::model_source::Source;
use crate::op_attr::{OpAttr, tensor_of_model, to_model};
use crate::session::Session;
use crate::session_options::SessionOptions;
use crate::value::Value;

/// The IR version of models that are built.
pub(crate) const IR_VERSION: i64 = 11;

/// Whether an object was added to another, which owns it: a second time, it would be freed twice.
#[derive(Debug, Default)]
pub(crate) struct Added(AtomicBool);

impl Added {
    /// Marks an argument; an error if it is marked.
    fn mark(&self, name: &str) -> Result<(), Error> {
        match self.0.swap(true, Ordering::Relaxed) {
            true => Err(Error::argument(name, "has already been added, or is there twice")),
            false => Ok(()),
        }
    }

    /// Marks all of these, or none.
    fn mark_all(values: &Boxes<ValueInfo>, name: &str) -> Result<(), Error> {
        for (i, value) in values.iter().enumerate() {
            if let Err(error) = value.added.mark(name) {
                values.iter().take(i).for_each(|it| it.added.0.store(false, Ordering::Relaxed));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// A node: an operator, and its inputs and outputs by name.
#[derive(Debug)]
pub(crate) struct EditedNode {
    /// The position in its graph.
    pub(crate) id: usize,
    pub(crate) node: Node<'static>,
    /// Name, operator and domain, for C.
    pub(crate) texts: [CString; 3],
    #[expect(clippy::vec_box, reason = "the library took them as such")]
    pub(crate) attrs: Vec<Box<OpAttr>>,
    added: Added,
}

/// A graph: what a program has added to it.
#[derive(Debug, Default)]
pub(crate) struct EditedGraph {
    parts: Mutex<Parts>,
    added: Added,
}

#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "programs keep pointers to what they have added")]
pub(crate) struct Parts {
    /// `None` until the program sets them.
    pub(crate) inputs: Option<Vec<Box<ValueInfo>>>,
    /// As above.
    pub(crate) outputs: Option<Vec<Box<ValueInfo>>>,
    pub(crate) initializers: Vec<Initializer>,
    pub(crate) nodes: Vec<Box<EditedNode>>,
}

#[derive(Debug)]
pub(crate) struct Initializer {
    name: String,
    elements: Tensor,
    /// What the program has added.
    value: Box<Value>,
}

/// A model: operator sets and a graph, which copies share.
#[derive(Clone, Debug)]
pub(crate) struct EditedModel {
    opsets: Vec<(String, i64)>,
    graph: Arc<Mutex<Option<Box<EditedGraph>>>>,
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
pub(crate) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl EditedGraph {
    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds it to the graph of a model, whose initializers then share their memory with this one. The inputs and outputs are
    /// replaced if the program has set them.
    fn add_to(&self, graph: &mut Graph<'static>) {
        let parts = self.parts();
        let sides = [(&parts.inputs, &mut graph.inputs), (&parts.outputs, &mut graph.outputs)];
        for (values, names) in sides {
            let Some(values) = values else { continue };
            *names = values.iter().map(|value| value.name().to_owned().into()).collect();
            graph.values.extend(values.iter().map(|value| declared(value)));
        }
        let initializers = parts.initializers.iter();
        let initializers = initializers.map(|it| tensor_of_model(&it.name, it.elements.clone()));
        graph.initializers.extend(initializers);
        graph.nodes.extend(parts.nodes.iter().map(|node| node.node.clone()));
    }
}

/// Domains that a model need not import, and the version that is then meant, as in onnxruntime: the newest.
const KNOWN: [(&str, i64); 2] = [("ai.onnx.ml", 5), ("com.microsoft", 1)];

/// Imports known domains of nodes, and those of custom operators.
fn import_known(model: &mut Model<'_>, custom: &[&str]) {
    let known = KNOWN.into_iter().chain(custom.iter().map(|&domain| (domain, 1)));
    for (domain, version) in known {
        let is_used = model.graph.nodes.iter().any(|node| node.domain == domain);
        if is_used && model.info.opset(domain).is_none() {
            model.info.opsets.push((domain.to_owned(), version));
        }
    }
}

impl EditedModel {
    /// The graph, which the program has added.
    fn graph(&self) -> Result<MutexGuard<'_, Option<Box<EditedGraph>>>, Error> {
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        match *graph {
            Some(_) => Ok(graph),
            None => Err(Error::argument("model", "has no graph")),
        }
    }

    /// Changes a model of a session with these custom domains, unless the result is invalid.
    pub(crate) fn apply_to(
        &self,
        model: &mut Model<'static>,
        custom: &[&str],
    ) -> Result<(), Error> {
        let mut changed = model.clone();
        for (domain, version) in &self.opsets {
            match changed.info.opset(domain) {
                Some(found) if found == *version => {}
                None => changed.info.opsets.push((domain.clone(), *version)),
                Some(found) => {
                    let text = format!(
                        "has version {version} of `{domain}`, and the session's has {found}"
                    );
                    return Err(Error::argument("model", text));
                }
            }
        }
        self.graph()?.iter().for_each(|edited| edited.add_to(&mut changed.graph));
        import_known(&mut changed, custom);
        check_change(model, &changed)?;
        *model = changed;
        Ok(())
    }

    /// The model as a session takes it.
    pub(crate) fn to_model(&self) -> Result<Model<'static>, Error> {
        let mut graph = Graph::default();
        self.graph()?.iter().for_each(|edited| edited.add_to(&mut graph));
        if graph.outputs.is_empty() {
            return Err(Error::argument("model", "has a graph without outputs"));
        }
        if self.opsets.iter().all(|(domain, _)| !domain.is_empty()) {
            let text = "does not specify the version of the operator set of the ONNX domain";
            return Err(Error::argument("model", text));
        }
        let opsets = self.opsets.clone();
        let info = ModelInfo { ir_version: IR_VERSION, opsets, ..ModelInfo::default() };
        let mut model = Model { info, graph };
        import_known(&mut model, &[]);
        Ok(model)
    }
}

export! {
    /// The node owns the attributes from then on.
    fn CreateNode(
        operator_name: &str,
        domain_name: &str,
        node_name: &str,
        input_names: Vec<&str>[input_names_len],
        input_names_len: usize,
        output_names: Vec<&str>[output_names_len],
        output_names_len: usize,
        attributes: Boxes<OpAttr>[attribs_len],
        attribs_len: usize,
        node: OutHandle<'_, EditedNode>,
    ) {
        let _ = (input_names_len, output_names_len, attribs_len);
        if operator_name.is_empty() {
            return Err(Error::argument("operator_name", "is empty"));
        }
        let made = attributes.iter().map(|it| Ok((it.name().to_owned().into(), to_model(&it.attr)?)));
        let made = made.collect::<Result<_, Error>>()?;
        node.set(EditedNode {
            id: 0,
            node: Node {
                name: node_name.to_owned().into(),
                domain: domain(domain_name).to_owned().into(),
                op_type: operator_name.to_owned().into(),
                inputs: owned(&input_names),
                outputs: owned(&output_names),
                attributes: made,
                ..Node::default()
            },
            texts: [node_name, operator_name, domain(domain_name)].map(text),
            attrs: attributes.take(),
            added: Added::default(),
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
        Added::mark_all(&inputs, "inputs")?;
        graph.parts().inputs = Some(inputs.take());
        Ok(())
    }

    /// The graph owns the value infos from then on.
    fn SetGraphOutputs(
        graph: Shared<'_, EditedGraph>,
        outputs: Boxes<ValueInfo>[outputs_len],
        outputs_len: usize,
    ) {
        let _ = outputs_len;
        Added::mark_all(&outputs, "outputs")?;
        graph.parts().outputs = Some(outputs.take());
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
        let mut parts = graph.parts();
        if parts.initializers.iter().any(|it| it.name == name) {
            return Err(Error::argument("name", format!("is `{name}`, which the graph has already")));
        }
        if parts.initializers.iter().any(|it| ptr::eq(&*it.value, tensor.get())) {
            return Err(Error::argument("tensor", "has already been added"));
        }
        let elements = tensor.get().lent()?;
        let value = tensor.take();
        parts.initializers.push(Initializer { name: name.to_owned(), elements, value });
        Ok(())
    }

    /// The graph owns the node from then on.
    fn AddNodeToGraph(graph: Shared<'_, EditedGraph>, node: Taken<EditedNode>) {
        node.get().added.mark("node")?;
        let (mut parts, mut node) = (graph.parts(), node.take());
        node.id = parts.nodes.len();
        parts.nodes.push(node);
        Ok(())
    }

    /// A model that changes another one needs no operator sets of its own.
    fn CreateModel(
        domain_names: Vec<&str>[opset_entries_len],
        opset_versions: &[i32][opset_entries_len],
        opset_entries_len: usize,
        model: OutHandle<'_, EditedModel>,
    ) {
        let _ = opset_entries_len;
        let opsets = domain_names.iter().zip(opset_versions);
        let opsets = opsets.map(|(name, &version)| (domain(name).to_owned(), version.into()));
        model.set(EditedModel { opsets: opsets.collect(), graph: Arc::default() });
        Ok(())
    }

    /// The model owns the graph from then on.
    fn AddGraphToModel(model: Shared<'_, EditedModel>, graph: Taken<EditedGraph>) {
        let mut there = model.graph.lock().unwrap_or_else(PoisonError::into_inner);
        if there.is_some() {
            return Err(Error::argument("model", "has a graph already"));
        }
        graph.get().added.mark("graph")?;
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
}
