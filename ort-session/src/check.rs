//! Validation of a run's inputs against the model.

// collects are bounded: as long as the graph's lists

use ort_graph::{Graph, Type};
use ort_tensor::ValueView;

use crate::error::InputError;
use crate::inputs::RunInputs;

/// The inputs in the order of the graph's, with defaults filled in.
pub(crate) fn checked<'a>(
    graph: &'a Graph,
    inputs: &'a RunInputs<'_>,
) -> Result<Vec<ValueView<'a>>, InputError> {
    let ids = graph.inputs();
    // bounded: by the inputs and outputs of the graph
    let mut given: Vec<Option<ValueView<'a>>> = vec![None; ids.len()];
    for (i, (name, value)) in inputs.entries.iter().enumerate() {
        let position = match name {
            Some(name) => named(graph, name)?,
            None if i < ids.len() => i,
            None => {
                let (expected, found) = (ids.len(), inputs.entries.len());
                return Err(InputError::TooMany { expected, found });
            }
        };
        if given[position].replace(value.view()).is_some() {
            let name = graph.value(ids[position]).name.clone();
            return Err(InputError::Duplicate { name });
        }
    }
    let check = |(&id, given): (&_, Option<ValueView<'a>>)| {
        let info = graph.value(id);
        match (given.map(|view| as_scalar(&info.fact.ty, view)), &info.default) {
            (Some(view), _) if fits(&info.fact.ty, view) => Ok(view),
            (Some(view), _) => Err(InputError::Type {
                name: info.name.clone(),
                expected: Box::new(info.fact.ty.clone()),
                found: Box::new(type_of(view)),
            }),
            (None, Some(default)) => Ok(ValueView::Tensor(default.view())),
            (None, None) => Err(InputError::Missing {
                name: info.name.clone(),
                expected: Box::new(info.fact.ty.clone()),
            }),
        }
    };
    ids.iter().zip(given).map(check).collect()
}

fn named(graph: &Graph, name: &str) -> Result<usize, InputError> {
    let name_of = |id: &_| graph.value(*id).name.as_str();
    graph.inputs().iter().position(|id| name_of(id) == name).ok_or_else(|| InputError::Unknown {
        name: name.to_owned(),
        known: graph.inputs().iter().map(|id| format!("`{}`", name_of(id))).collect(),
    })
}

/// Checks the inputs of a subgraph: its shapes were inferred from what it declares. One element has any shape, as
/// exporters often confuse scalars and vectors.
pub(crate) fn check_body_inputs<'a>(
    graph: &Graph,
    given: impl Iterator<Item = ValueView<'a>>,
) -> Result<(), InputError> {
    for (&id, view) in graph.inputs().iter().zip(given) {
        let info = graph.value(id);
        let is_one = matches!(view, ValueView::Tensor(tensor) if tensor.len() == 1);
        if !is_one && !fits(&info.fact.ty, view) {
            return Err(InputError::Type {
                name: info.name.clone(),
                expected: Box::new(info.fact.ty.clone()),
                found: Box::new(type_of(view)),
            });
        }
    }
    Ok(())
}

/// A tensor of one element as the scalar that a model declares: programs for onnxruntime, which does not
/// compare the shapes of scalars, pass it with dimensions.
fn as_scalar<'a>(expected: &Type, view: ValueView<'a>) -> ValueView<'a> {
    match (expected, view) {
        (Type::Tensor(expected), ValueView::Tensor(tensor))
            if tensor.len() == 1 && expected.dims.as_ref().is_some_and(|dims| dims.is_empty()) =>
        {
            ValueView::Tensor(tensor.reshaped(&[]).unwrap_or(tensor))
        }
        _ => view,
    }
}

/// Whether a value has the declared type. Tensors, the common case, cause no allocation.
fn fits(expected: &Type, view: ValueView<'_>) -> bool {
    match (expected, view) {
        (Type::Unknown, _) => true,
        (Type::Tensor(expected), ValueView::Tensor(view)) => {
            let fits = |dims: &ort_graph::Dims| {
                let mut pairs = dims.iter().zip(view.shape());
                dims.len() == view.shape().len()
                    && pairs.all(|(dim, &n)| dim.known().is_none_or(|known| known == n))
            };
            expected.dtype == view.dtype() && expected.dims.as_ref().is_none_or(fits)
        }
        (expected, view) => type_of(view).unify(expected).is_some(),
    }
}

/// The type of a value.
pub(crate) fn type_of(view: ValueView<'_>) -> Type {
    match view {
        ValueView::Tensor(view) => ort_graph::Fact::shaped(view.dtype(), view.shape()).ty,
        ValueView::Other(value) => Type::of_value(value),
        _ => Type::Unknown,
    }
}
