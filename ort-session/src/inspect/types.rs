//! The types that a file declares for the inputs and outputs of its graph.

use std::collections::{HashMap, HashSet};

use ort_format::{DimensionValueType, TypeInfo, TypeInfoValue};
use ort_graph::{Dim, TensorType, Type};
use ort_tensor::DType;

use crate::session::ValueDescription;

/// The values of a graph by name.
pub(super) struct Values<'a> {
    declared: HashMap<&'a str, Option<TypeInfo<'a>>>,
    initialized: HashSet<&'a str>,
}

impl<'a> Values<'a> {
    pub(super) fn of(graph: ort_format::Graph<'a>) -> Self {
        let declared = graph.node_args().iter().map(|value| (value.name(), value.type_info()));
        let sparse = graph.sparse_initializers().iter().map(|tensor| tensor.values());
        let initializers = graph.initializers().iter().chain(sparse);
        Self {
            declared: declared.collect(),
            initialized: initializers.map(|tensor| tensor.name()).collect(),
        }
    }

    pub(super) fn describe(&self, name: &str) -> ValueDescription {
        ValueDescription {
            name: name.to_owned(),
            ty: self.declared.get(name).map_or(Type::Unknown, |info| declared(*info)),
            has_default: self.initialized.contains(name),
        }
    }
}

/// A declared type; what this version does not know is unknown.
fn declared(info: Option<TypeInfo<'_>>) -> Type {
    let dtype = |number: ort_format::DataType| DType::from_onnx(number.into());
    match info.and_then(TypeInfo::value) {
        Some(TypeInfoValue::Tensor(tensor)) => match dtype(tensor.elem_type()) {
            Some(dtype) => {
                let dims = tensor.shape().map(|shape| shape.dim().iter().map(dim).collect());
                Type::Tensor(TensorType { dtype, dims })
            }
            None => Type::Unknown,
        },
        Some(TypeInfoValue::Sequence(sequence)) => {
            Type::Sequence(Box::new(declared(sequence.elem_type())))
        }
        Some(TypeInfoValue::Map(map)) => dtype(map.key_type()).map_or(Type::Unknown, |key| {
            Type::Map { key, value: Box::new(declared(map.value_type())) }
        }),
        _ => Type::Unknown,
    }
}

/// A negative size is as good as none.
fn dim(dim: ort_format::Dimension<'_>) -> Dim {
    let value = dim.value();
    match value.dim_type() {
        DimensionValueType::Value => {
            usize::try_from(value.dim_value()).map_or(Dim::Unknown, Dim::Known)
        }
        DimensionValueType::Param => match value.dim_param() {
            Some(name) if !name.is_empty() => Dim::Symbol(name.into()),
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    }
}
