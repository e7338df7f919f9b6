//! The types of a body's inputs where a file does not state them.

// collects are bounded: by the rank and the body's inputs

use ort_graph::{Attr, Body, Dim, Dims, TensorType, Type};
use ort_tensor::DType;

/// The types of the inputs of a node's subgraph, by what the node reads; none for operators whose subgraphs have
/// no inputs.
///
/// Source: ONNX operator set, Loop-25, Scan-25, SequenceMap-17.
pub(crate) fn inputs(body: &Body<'_>) -> Vec<Type> {
    match (body.domain, body.op_type) {
        ("", "Loop") => {
            let scalar = |dtype| Type::Tensor(TensorType { dtype, dims: Some(Dims::new()) });
            let carried = body.inputs.iter().skip(2).map(changing);
            [scalar(DType::I64), scalar(DType::Bool)].into_iter().chain(carried).collect()
        }
        ("", "Scan") => scanned(body),
        ("", "SequenceMap") => body.inputs.iter().map(item).collect(),
        _ => Vec::new(),
    }
}

/// States have the type of their input, and scanned inputs lose the axis. Version 8 has a batch axis before both.
fn scanned(body: &Body<'_>) -> Vec<Type> {
    if body.since_version < 9 {
        return body.inputs.iter().skip(1).map(changing).collect();
    }
    let n_scanned = match body.attrs.get("num_scan_inputs") {
        Some(&Attr::Int(n)) => usize::try_from(n).unwrap_or(0),
        _ => 0,
    };
    let axes = match body.attrs.get("scan_input_axes") {
        Some(Attr::Ints(axes)) => axes.as_slice(),
        _ => &[],
    };
    let (states, scanned) = body.inputs.split_at(body.inputs.len().saturating_sub(n_scanned));
    let slices = scanned.iter().enumerate().map(|(i, ty)| {
        let axis = axes.get(i).copied().unwrap_or(0);
        without_axis(ty, axis)
    });
    states.iter().cloned().chain(slices).collect()
}

fn without_axis(ty: &Type, axis: i64) -> Type {
    let Type::Tensor(TensorType { dtype, dims: Some(dims) }) = ty else { return ty.clone() };
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let is_other = |&(i, _): &(usize, &Dim)| i64::try_from(i) != Ok(axis);
    let dims = dims.iter().enumerate().filter(is_other).map(|(_, dim)| dim.clone()).collect();
    Type::Tensor(TensorType { dtype: *dtype, dims: Some(dims) })
}

fn item(ty: &Type) -> Type {
    match ty {
        Type::Sequence(item) => (**item).clone(),
        other => other.clone(),
    }
}

/// A value whose shape may differ from one iteration to the next.
fn changing(ty: &Type) -> Type {
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType { dtype: tensor.dtype, dims: None }),
        Type::Sequence(item) => Type::Sequence(Box::new(changing(item))),
        Type::Optional(item) => Type::Optional(Box::new(changing(item))),
        other => other.clone(),
    }
}
