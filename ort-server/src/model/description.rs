//! The inputs and outputs of a model, as the protocol describes them.

use ort_session::{Dim, Session, Type, ValueDescription};

use crate::datatype;
use crate::failure::Failure;
use crate::request::Request;

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    /// Empty if it is unknown.
    pub(crate) datatype: &'static str,
    /// −1 for a dimension that varies; empty if the rank is unknown.
    pub(crate) shape: Vec<i64>,
}

/// The inputs and outputs. Sequences, maps and types that the protocol lacks are left out.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// The names of the outputs, if the model has others.
    others_than: Option<Vec<String>>,
    /// Whether all inputs and outputs share their first dimension, and it varies.
    pub(crate) has_batch_dimension: bool,
}

impl Description {
    pub(crate) fn of(session: &Session) -> Self {
        let (inputs, outputs) = (session.inputs(), session.outputs());
        let ports = |values: &[ValueDescription]| values.iter().filter_map(port).collect();
        let described: Vec<Port> = ports(&outputs);
        let names = || described.iter().map(|port| port.name.clone()).collect();
        Self {
            inputs: ports(&inputs),
            others_than: (described.len() < outputs.len()).then(names),
            has_batch_dimension: has_batch_dimension(inputs.iter().chain(&outputs)),
            outputs: described,
        }
    }

    /// # Errors
    /// If an input is unknown or given twice, or an output is unknown; a run reports everything else.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Failure> {
        for (i, (name, _)) in request.inputs.iter().enumerate() {
            if !self.inputs.iter().any(|known| known.name == *name) {
                let what =
                    format!("the model has no such input; its inputs are {}", names(&self.inputs));
                return Err(Failure::input(name, what));
            }
            if request.inputs.iter().take(i).any(|(other, _)| other == name) {
                return Err(Failure::input(name, "it was passed twice"));
            }
        }
        for name in &request.outputs {
            if !self.outputs.iter().any(|known| known.name == *name) {
                let what = format!(
                    "the model has no such output; its outputs are {}",
                    names(&self.outputs)
                );
                return Err(Failure::output(name, what));
            }
        }
        Ok(())
    }

    /// The outputs to select for a request; `None` if they are all that the model has.
    pub(crate) fn selected(&self, requested: &[String]) -> Option<Vec<String>> {
        if requested.is_empty() { self.others_than.clone() } else { Some(requested.to_vec()) }
    }
}

fn names(ports: &[Port]) -> String {
    ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn port(value: &ValueDescription) -> Option<Port> {
    let size = |dim: &Dim| dim.known().and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    let (datatype, dims) = match &value.ty {
        Type::Tensor(tensor) => (datatype::name(tensor.dtype)?, tensor.dims.as_ref()),
        // The file does not say; a run does.
        Type::Unknown => ("", None),
        _ => return None,
    };
    let shape = dims.map(|dims| dims.iter().map(size).collect()).unwrap_or_default();
    Some(Port { name: value.name.clone(), datatype, shape })
}

fn has_batch_dimension<'a>(mut values: impl Iterator<Item = &'a ValueDescription>) -> bool {
    let first = |value: &'a ValueDescription| match &value.ty {
        Type::Tensor(tensor) if datatype::name(tensor.dtype).is_some() => {
            tensor.dims.as_ref()?.first()
        }
        _ => None,
    };
    match values.next().map(first) {
        Some(Some(dim @ Dim::Symbol(_))) => values.all(|value| first(value) == Some(dim)),
        _ => false,
    }
}
