//! `OrtOp`: an operator of the library, which a custom kernel calls while it computes.
//!
//! It is a session of one node for each combination of input types, created by the first call with it.

#![expect(non_snake_case, reason = "names of the C API")]

use std::sync::{Mutex, PoisonError};

use ort_session::model::{Graph, Model, ModelInfo, Node, Text, Value as Declared};
use ort_session::{TensorType, Type};

use crate::error::Error;
use crate::ffi::{MutHandles, Names, OutHandle, export};
use crate::kernel_context::KernelContext;
use crate::kernel_info::KernelInfo;
use crate::op_attr::{OpAttr, to_model};
use crate::run::Request;
use crate::run_options::OfRun;
use crate::session::Session;
use crate::value::Value;

/// An operator, and its sessions by the types of inputs.
#[derive(Debug)]
pub(crate) struct InvokedOp {
    op_type: String,
    domain: String,
    version: i64,
    attrs: Vec<OpAttr>,
    n_inputs: usize,
    n_outputs: usize,
    sessions: Mutex<Vec<(Vec<Option<Type>>, Session)>>,
}

/// The name of an input or output.
fn name(side: char, index: usize) -> String {
    format!("{side}{index}")
}

/// The type of an input, without what changes from call to call.
fn type_of(value: &Value) -> Type {
    match value.ty() {
        Type::Tensor(tensor) => Type::Tensor(TensorType { dims: None, ..tensor }),
        other => other,
    }
}

impl InvokedOp {
    /// A model of one node.
    fn model(&self, types: &[Option<Type>]) -> Result<Model<'static>, Error> {
        let there = types.iter().enumerate().filter_map(|(i, ty)| Some((i, ty.clone()?)));
        let values = there.map(|(i, ty)| Declared {
            name: name('i', i).into(),
            ty: Ok(ty),
            denotations: Vec::new(),
        });
        let values: Vec<_> = values.collect();
        let input = |(i, ty): (usize, &Option<Type>)| -> Text<'static> {
            ty.as_ref().map(|_| name('i', i)).unwrap_or_default().into()
        };
        let outputs: Vec<Text<'_>> = (0..self.n_outputs).map(|i| name('o', i).into()).collect();
        let attributes = self
            .attrs
            .iter()
            .map(|attr| Ok((attr.name().to_owned().into(), to_model(&attr.attr)?)));
        let node = Node {
            op_type: self.op_type.clone().into(),
            domain: self.domain.clone().into(),
            inputs: types.iter().enumerate().map(input).collect(),
            outputs: outputs.clone(),
            attributes: attributes.collect::<Result<_, Error>>()?,
            ..Node::default()
        };
        let inputs = values.iter().map(|value| value.name.clone()).collect();
        let graph = Graph { values, inputs, outputs, nodes: vec![node], ..Graph::default() };
        let opsets = vec![(self.domain.clone(), self.version)];
        Ok(Model { info: ModelInfo { ir_version: 8, opsets, ..ModelInfo::default() }, graph })
    }

    /// The session for inputs of these types.
    fn session(&self, types: Vec<Option<Type>>) -> Result<Session, Error> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, session)) = sessions.iter().find(|(other, _)| *other == types) {
            return Ok(session.clone());
        }
        let model = self.model(&types)?;
        // The kernel that calls it may do so on a thread of the run.
        let session = ort_session::Session::builder().threads(1).commit_model(model)?;
        let session = Session::new(session, None, 0);
        sessions.push((types, session.clone()));
        Ok(session)
    }

    fn invoke(&self, inputs: &[Option<&Value>], outputs: &[&Value]) -> Result<(), Error> {
        if inputs.len() > self.n_inputs || outputs.len() != self.n_outputs {
            let (n, m) = (self.n_inputs, self.n_outputs);
            let text = format!("{} has {n} inputs and {m} outputs", self.op_type);
            return Err(Error::invalid(text));
        }
        let types = inputs.iter().map(|value| value.map(type_of)).collect();
        let session = self.session(types)?;
        let names: Vec<_> = (0..inputs.len()).map(|i| name('i', i)).collect();
        let there = names.iter().zip(inputs);
        let inputs: Vec<_> = there.filter_map(|(n, value)| Some((n.as_str(), (*value)?))).collect();
        let names: Vec<_> = (0..outputs.len()).map(|i| name('o', i)).collect();
        let there = names.iter().zip(outputs);
        let outputs: Vec<_> = there.map(|(n, value)| (n.as_str(), Some(*value))).collect();
        let options = OfRun::default();
        session.run(&Request { inputs: &inputs, outputs: &outputs, options }).map(drop)
    }
}

fn count(n: i32, name: &'static str) -> Result<usize, Error> {
    usize::try_from(n).map_err(|_| Error::argument(name, "is negative"))
}

export! {
    /// The types of inputs decide which kernel runs; constraints on types are accepted and not needed.
    fn CreateOp(
        _info: &KernelInfo,
        op_name: &str,
        domain: &str,
        version: i32,
        _type_constraint_names: Names<'_>[type_constraint_count],
        _type_constraint_values: &[i32][type_constraint_count],
        type_constraint_count: i32,
        attr_values: Vec<&OpAttr>[attr_count],
        attr_count: i32,
        input_count: i32,
        output_count: i32,
        ort_op: OutHandle<'_, InvokedOp>,
    ) {
        let _ = (type_constraint_count, attr_count);
        ort_op.set(InvokedOp {
            op_type: op_name.to_owned(),
            domain: if domain == "ai.onnx" { "" } else { domain }.to_owned(),
            version: version.into(),
            attrs: attr_values.into_iter().cloned().collect(),
            n_inputs: count(input_count, "input_count")?,
            n_outputs: count(output_count, "output_count")?,
            sessions: Mutex::default(),
        });
        Ok(())
    }

    /// The outputs exist, with the shapes of the results.
    fn InvokeOp(
        _context: &KernelContext<'_, '_>,
        ort_op: &InvokedOp,
        input_values: Vec<Option<&Value>>[input_count],
        input_count: i32,
        output_values: MutHandles<'_, Value>[output_count],
        output_count: i32,
    ) {
        let _ = (input_count, output_count);
        ort_op.invoke(&input_values, &output_values.0)
    }

    fn ReleaseOp(op: Option<Box<InvokedOp>>) -> () = (); {
        drop(op);
        Ok(())
    }
}
