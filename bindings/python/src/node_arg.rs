//! The inputs and outputs of a model, described as by onnxruntime.

use ort_session::{Dim, Type, ValueDescription};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// An input or output of a model: its name, its type, and its shape.
#[pyclass(frozen, module = "ort_rs.capi.onnxruntime_pybind11_state")]
#[derive(Debug)]
pub(crate) struct NodeArg {
    description: ValueDescription,
}

impl NodeArg {
    pub(crate) fn list<'py>(
        py: Python<'py>,
        of: impl IntoIterator<Item = ValueDescription>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        of.into_iter()
            .try_for_each(|description| list.append(Bound::new(py, Self { description })?))?;
        Ok(list)
    }
}

#[pymethods]
impl NodeArg {
    /// Its name in the model.
    #[getter]
    fn name(&self) -> &str {
        &self.description.name
    }

    /// Its type: `tensor(float)`, `seq(tensor(int64))`, `map(string,tensor(float))`, `optional(…)`.
    #[getter]
    fn r#type(&self) -> String {
        type_name(&self.description.ty)
    }

    /// Its dimensions: a number, a name, or `None` if unknown. Empty if the rank is unknown.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for dim in dims_of(&self.description.ty) {
            match dim {
                Dim::Known(n) => list.append(n)?,
                Dim::Symbol(name) => list.append(name.to_string())?,
                _ => list.append(py.None())?,
            }
        }
        Ok(list)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { description } = self;
        let shape = self.shape(py)?.repr()?;
        Ok(format!("NodeArg(name='{}', type='{}', shape={shape})", description.name, self.r#type()))
    }
}

fn dims_of(ty: &Type) -> &[Dim] {
    match ty {
        Type::Tensor(tensor) => tensor.dims.as_deref().unwrap_or_default(),
        Type::Sequence(inner) | Type::Optional(inner) => dims_of(inner),
        _ => &[],
    }
}

/// onnxruntime's name of a type.
pub(crate) fn type_name(ty: &Type) -> String {
    match ty {
        Type::Tensor(tensor) => format!("tensor({})", tensor.dtype),
        Type::Sequence(inner) => format!("seq({})", type_name(inner)),
        Type::Map { key, value } => format!("map({key},{})", type_name(value)),
        Type::Optional(inner) => format!("optional({})", type_name(inner)),
        _ => String::new(),
    }
}
