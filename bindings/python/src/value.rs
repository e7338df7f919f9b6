//! `OrtValue`: a value that outlives a run, or is over memory of the caller.

use numpy::PyUntypedArray;
use ort_session::provider::Shape;
use ort_session::{
    DType, InputValue, ModelBytes, Tensor, TensorView, TensorViewMut, Type, Value, ValueView,
};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::array::{Block, Bytes};
use crate::dlpack::{self, Imported, capsule_of};
use crate::dtypes::{descr_of, dtype_of};
use crate::errors::{invalid_argument, no_memory, runtime};
use crate::feeds::Fed;
use crate::node_arg::type_name;
use crate::results::{array_of, object_of, unpacked};

/// A tensor, a sequence, a map or an optional value.
#[pyclass(frozen, module = "ort_rs.capi.onnxruntime_pybind11_state")]
#[derive(Debug)]
pub(crate) struct OrtValue {
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Numbers, in any memory.
    Tensor { block: Py<Block>, dtype: DType, shape: Shape },
    /// Strings, and values other than tensors.
    Value(Value),
}

impl OrtValue {
    /// A value that a run created.
    pub(crate) fn of_value(py: Python<'_>, value: Value) -> PyResult<Self> {
        let content = match value {
            Value::Tensor(tensor) if tensor.dtype() != DType::String => {
                let (dtype, shape) = (tensor.dtype(), Shape::from_slice(tensor.shape()));
                Content::Tensor { block: Py::new(py, Block::of_tensor(tensor))?, dtype, shape }
            }
            value => Content::Value(value),
        };
        Ok(Self { content })
    }

    /// Numbers in a block of the required size.
    pub(crate) fn of_block(
        py: Python<'_>,
        block: Block,
        dtype: DType,
        shape: &[usize],
    ) -> PyResult<Self> {
        TensorView::from_bytes(dtype, shape, block.bytes()).map_err(runtime)?;
        let (block, shape) = (Py::new(py, block)?, Shape::from_slice(shape));
        Ok(Self { content: Content::Tensor { block, dtype, shape } })
    }

    pub(crate) fn input(&self) -> PyResult<InputValue<'_>> {
        match &self.content {
            Content::Value(value) => Ok(value.into()),
            Content::Tensor { block, dtype, shape } => {
                let view = TensorView::from_bytes(*dtype, shape, block.get().bytes());
                Ok(view.map_err(invalid_argument)?.into())
            }
        }
    }

    /// The memory, for a run to write an output there.
    pub(crate) fn output(&self) -> PyResult<TensorViewMut<'_>> {
        match &self.content {
            Content::Value(_) => Err(runtime("only a numeric tensor can be bound")),
            Content::Tensor { block, dtype, shape } => {
                let bytes = block.get().bytes_mut();
                let bytes = bytes.ok_or_else(|| runtime("the value is over a read-only array"))?;
                TensorViewMut::from_bytes(*dtype, shape, bytes).map_err(runtime)
            }
        }
    }

    /// Whether its memory overlaps that of an input.
    pub(crate) fn overlaps(&self, input: &InputValue<'_>) -> bool {
        match (&self.content, input) {
            (Content::Tensor { block, .. }, InputValue::View(ValueView::Tensor(view))) => {
                view.as_bytes().is_some_and(|bytes| block.get().overlaps(bytes))
            }
            _ => false,
        }
    }

    /// Whether its memory overlaps that of another value.
    pub(crate) fn shares_memory(&self, other: &Self) -> bool {
        matches!(&other.content, Content::Tensor { block, .. }
            if matches!(&self.content, Content::Tensor { block: own, .. }
                if own.get().overlaps(block.get().bytes())))
    }

    pub(crate) fn to_value(&self) -> PyResult<Value> {
        match self.input()? {
            InputValue::View(view) => view.to_value().map_err(no_memory),
            InputValue::Owned(value) => Ok(value),
        }
    }

    /// A tensor over the same memory, which it keeps alive.
    pub(crate) fn lent(&self, py: Python<'_>) -> PyResult<Tensor> {
        match &self.content {
            Content::Tensor { block, dtype, shape } => {
                let bytes = ModelBytes::from_owner(Bytes(block.clone_ref(py)));
                Tensor::from_bytes(*dtype, shape, bytes.bytes().clone()).map_err(runtime)
            }
            Content::Value(value) => value.as_tensor().cloned().map_err(runtime),
        }
    }

    fn tensor(&self) -> PyResult<(DType, &[usize])> {
        match &self.content {
            Content::Tensor { dtype, shape, .. } => Ok((*dtype, shape)),
            Content::Value(Value::Tensor(tensor)) => Ok((tensor.dtype(), tensor.shape())),
            Content::Value(other) => Err(PyRuntimeError::new_err(format!(
                "Only OrtValues that are Tensors are currently supported: this is a {}",
                other.kind()
            ))),
        }
    }
}

#[pymethods]
impl OrtValue {
    /// A value over an array's memory; an array that is not contiguous is copied. `onnx_type` is the element type, if
    /// it is not that of the array.
    #[staticmethod]
    #[pyo3(signature = (array, onnx_type = None))]
    fn from_array(array: &Bound<'_, PyAny>, onnx_type: Option<i32>) -> PyResult<Self> {
        use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
        let found = array.get_type();
        let array = array.cast::<PyUntypedArray>();
        let array = array.map_err(|_| runtime(format!("expected an array, not {found}")))?;
        let py = array.py();
        let found = dtype_of(&array.dtype());
        let dtype = onnx_type.map(dtype_numbered).transpose()?.or(found);
        let is_native = array.dtype().is_native_byteorder() != Some(false);
        let is_text = [dtype, found].contains(&Some(DType::String));
        match dtype.filter(|dtype| is_native && !is_text && !dtype.is_packed()) {
            Some(dtype) => Self::of_block(py, Block::of_array(array)?, dtype, array.shape()),
            None if dtype == found => {
                let fed = Fed::new("array", array.as_any(), &Type::Unknown);
                let fed = fed.map_err(|error| runtime(error.value(py)))?;
                let fed = fed.ok_or_else(|| runtime("expected an array"))?;
                Self::of_value(py, fed.into_value()?)
            }
            None => Err(runtime(format!(
                "elements of {} cannot hold the bits of another type",
                array.dtype()
            ))),
        }
    }

    /// A value over the memory of a tensor in a DLPack capsule.
    #[staticmethod]
    fn from_dlpack(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Imported { block, dtype, shape } = Imported::of(capsule)?;
        Self::of_block(capsule.py(), block, dtype, &shape)
    }

    /// A DLPack capsule of the tensor, over the same memory.
    fn to_dlpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        match &self.content {
            Content::Tensor { block, dtype, shape } => capsule_of(block.bind(py), *dtype, shape),
            Content::Value(_) => {
                self.tensor()?;
                Err(PyBufferError::new_err("DLPack has no strings"))
            }
        }
    }

    #[pyo3(signature = (*, stream = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The CPU has no streams.
        let _ = stream;
        self.to_dlpack(py)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    /// Zeros.
    #[staticmethod]
    fn zeros(py: Python<'_>, shape: Vec<i64>, onnx_type: i32) -> PyResult<Self> {
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| runtime("a dimension is negative"))?;
        let tensor = Tensor::zeros(dtype_numbered(onnx_type)?, &shape).map_err(runtime)?;
        Self::of_value(py, tensor.into())
    }

    /// A value at an address, for which the caller is responsible.
    #[staticmethod]
    fn at_address(
        py: Python<'_>,
        address: usize,
        onnx_type: i32,
        shape: Vec<usize>,
    ) -> PyResult<Self> {
        let dtype = dtype_numbered(onnx_type)?;
        let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
        let n_bytes = n.and_then(|n| dtype.n_bytes(n));
        let n_bytes = n_bytes.ok_or_else(|| runtime("the shape is too large"))?;
        let block = Block::at_address(address, n_bytes);
        let block = block.ok_or_else(|| runtime("the address is 0"))?;
        Self::of_block(py, block, dtype, &shape)
    }

    /// A sequence of tensors.
    #[staticmethod]
    fn sequence(items: &Bound<'_, PyList>) -> PyResult<Self> {
        let items = items.iter().map(|item| {
            let fed = Fed::new("item", &item, &Type::Unknown)?;
            fed.ok_or_else(|| PyTypeError::new_err("an item is None"))?.into_value()
        });
        let items = items.collect::<PyResult<_>>()?;
        Ok(Self { content: Content::Value(Value::Sequence(items)) })
    }

    /// An array over the value's memory; strings, and types below 8 bits, are copied.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tensor()?;
        self.object(py)
    }

    /// The value as a run returns it: an array, a list, a dictionary or `None`.
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.content {
            Content::Tensor { block, dtype, shape } if dtype.is_packed() => {
                let view = TensorView::from_bytes(*dtype, shape, block.get().bytes());
                let tensor = unpacked(view.map_err(runtime)?)?;
                let array = array_of(py, tensor)?;
                array.call_method1("view", (descr_of(py, *dtype)?,))
            }
            Content::Tensor { block, dtype, shape } => {
                Block::array(block.bind(py), descr_of(py, *dtype)?, shape)
            }
            Content::Value(value) => object_of(py, value.clone()),
        }
    }

    /// A copy of it.
    fn copied<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = self.object(py)?;
        if object.cast::<PyUntypedArray>().is_ok() {
            object.call_method0("copy")
        } else {
            Ok(object)
        }
    }

    /// Copies an array or another value of the same type and shape into the value's memory.
    fn update_inplace(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let fed = Fed::new("data", data, &Type::Unknown);
        let fed = fed.map_err(|error| runtime(error.value(data.py())))?;
        let fed =
            fed.ok_or_else(|| PyTypeError::new_err("data must be an array or an OrtValue"))?;
        let source = match fed.input()? {
            InputValue::View(view) => view.to_value().map_err(no_memory)?,
            InputValue::Owned(value) => value,
        };
        let source = source.as_tensor().map_err(runtime)?;
        self.output()?.copy_from(source.view()).map_err(runtime)
    }

    /// The dimensions.
    fn shape(&self) -> PyResult<Vec<usize>> {
        Ok(self.tensor()?.1.to_vec())
    }

    /// The type, such as `tensor(float)`.
    fn data_type(&self) -> String {
        match &self.content {
            Content::Tensor { dtype, .. } => format!("tensor({dtype})"),
            Content::Value(value) => type_name(&Type::of_value(value)),
        }
    }

    /// ONNX's number of the element type.
    fn element_type(&self) -> PyResult<i32> {
        match &self.content {
            Content::Value(Value::Sequence(items)) => match items.first() {
                Some(Value::Tensor(tensor)) => Ok(tensor.dtype().onnx()),
                _ => Ok(0),
            },
            _ => Ok(self.tensor()?.0.onnx()),
        }
    }

    /// The address of the first element.
    fn data_ptr(&self) -> PyResult<usize> {
        match &self.content {
            Content::Tensor { block, .. } => Ok(block.get().address()),
            Content::Value(_) => {
                Err(PyRuntimeError::new_err("only numeric tensors have an address"))
            }
        }
    }

    /// The size of the elements in bytes.
    fn tensor_size_in_bytes(&self) -> PyResult<usize> {
        match &self.content {
            Content::Tensor { block, .. } => Ok(block.get().bytes().len()),
            Content::Value(value) => Ok(value.n_bytes()),
        }
    }

    /// Whether there is a value; only an optional may have none.
    fn has_value(&self) -> bool {
        !matches!(self.content, Content::Value(Value::Optional(None)))
    }

    fn is_tensor(&self) -> bool {
        matches!(self.content, Content::Tensor { .. } | Content::Value(Value::Tensor(_)))
    }

    fn is_tensor_sequence(&self) -> bool {
        matches!(self.content, Content::Value(Value::Sequence(_)))
    }

    /// False: sparse tensors are converted to dense ones.
    fn is_sparse_tensor(&self) -> bool {
        false
    }

    /// `cpu`.
    fn device_name(&self) -> &'static str {
        "cpu"
    }

    fn __repr__(&self) -> String {
        match self.tensor() {
            Ok((dtype, shape)) => format!("OrtValue(tensor({dtype}), shape={shape:?})"),
            Err(_) => format!("OrtValue({})", self.data_type()),
        }
    }
}

/// The element type with this number in ONNX.
pub(crate) fn dtype_numbered(number: i32) -> PyResult<DType> {
    let dtype = DType::from_onnx(number);
    dtype.ok_or_else(|| runtime(format!("no element type of ONNX has the number {number}")))
}
