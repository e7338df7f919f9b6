//! `OrtValue`: a tensor, a sequence, a map or an optional. Copies of a value share its contents, as
//! onnxruntime's do.

#![expect(non_snake_case, reason = "names of the C API")]

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use ort_session::{
    DType, InputValue, ModelBytes, Tensor, TensorView, TensorViewMut, Type, Value as Owned,
    ValueView,
};
use ort_sys::ONNXType;

use crate::error::Error;
use crate::ffi::{Allocator, Block, Out, OutHandle, export};
use crate::tensor_info::{TensorInfo, signed};
use crate::type_info::TypeInfo;

/// A value that a program holds.
#[derive(Clone, Debug)]
pub(crate) struct Value(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    content: Content,
    /// The dimensions of a tensor, once C has requested them.
    dims: OnceLock<Vec<i64>>,
    /// Memory in which the program writes strings, by their index: they are copied before they are read.
    buffers: Mutex<Vec<(usize, Block)>>,
}

#[derive(Debug)]
enum Content {
    /// Numbers, in any memory.
    Numbers { block: Block, dtype: DType, shape: Vec<usize> },
    /// Strings, which a program may fill, and values other than tensors.
    Other(RwLock<Owned>),
}

impl Value {
    fn new(content: Content) -> Self {
        Self(Arc::new(Shared { content, dims: OnceLock::new(), buffers: Mutex::default() }))
    }

    /// A value that a run created.
    pub(crate) fn of_owned(value: Owned) -> Self {
        match value {
            Owned::Tensor(tensor) if tensor.dtype() != DType::String => {
                let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
                Self::new(Content::Numbers { block: Block::of_tensor(tensor), dtype, shape })
            }
            value => Self::new(Content::Other(RwLock::new(value))),
        }
    }

    /// Numbers in a block of the required size.
    pub(crate) fn of_block(block: Block, dtype: DType, shape: Vec<usize>) -> Result<Self, Error> {
        TensorView::from_bytes(dtype, &shape, block.bytes())?;
        Ok(Self::new(Content::Numbers { block, dtype, shape }))
    }

    /// A constant of a model, which shares its memory.
    pub(crate) fn of_constant(tensor: Tensor) -> Result<Self, Error> {
        let tensor = tensor.materialized()?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        if dtype == DType::String {
            return Ok(Self::of_owned(tensor.into()));
        }
        let released = || Error::fail("the elements of a constant were released");
        let block = Block::of_constant(tensor).ok_or_else(released)?;
        Ok(Self::new(Content::Numbers { block, dtype, shape }))
    }

    /// An input of a kernel, for as long as it computes.
    pub(crate) fn of_view(view: TensorView<'_>) -> Result<Self, Error> {
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        match view.as_bytes() {
            Some(bytes) => {
                let block = Block::of_input(bytes);
                Ok(Self::new(Content::Numbers { block, dtype, shape }))
            }
            None => Ok(Self::of_owned(ValueView::Tensor(view).to_value()?)),
        }
    }

    /// The memory for an output of a kernel, for as long as it computes; strings have none.
    pub(crate) fn of_view_mut(view: TensorViewMut<'_>) -> Self {
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        let block = Block::of_output(view.into_bytes().unwrap_or_default());
        Self::new(Content::Numbers { block, dtype, shape })
    }

    /// Empty strings.
    pub(crate) fn of_strings(shape: &[usize]) -> Result<Self, Error> {
        Ok(Self::of_owned(Tensor::zeros(DType::String, shape)?.into()))
    }

    /// The value, for a run to read.
    pub(crate) fn input(&self) -> Result<InputValue<'_>, Error> {
        match &self.0.content {
            Content::Numbers { block, dtype, shape } => {
                Ok(TensorView::from_bytes(*dtype, shape, block.bytes())?.into())
            }
            Content::Other(value) => {
                self.update_strings()?;
                Ok(read(value).clone().into())
            }
        }
    }

    /// The memory of a numeric tensor, for a run to write an output there; `None` for other values.
    pub(crate) fn output(&self) -> Result<Option<TensorViewMut<'_>>, Error> {
        match &self.0.content {
            Content::Numbers { block, dtype, shape } => {
                Ok(Some(TensorViewMut::from_bytes(*dtype, shape, block.bytes_mut())?))
            }
            Content::Other(_) => Ok(None),
        }
    }

    /// Assigns the result of a run: numbers must have the same type and shape, other values are
    /// replaced.
    pub(crate) fn assign(&self, from: Owned) -> Result<(), Error> {
        match &self.0.content {
            Content::Other(value) => {
                self.buffers().clear();
                let mut value = write(value);
                // Dimensions that C has requested cannot change.
                match (&*value, &from) {
                    (Owned::Tensor(to), Owned::Tensor(tensor)) if to.shape() != tensor.shape() => {
                        let (expected, found) = (to.shape(), tensor.shape());
                        let text =
                            format!("the output has shape {found:?}, and its value {expected:?}");
                        return Err(Error::invalid(text));
                    }
                    _ => *value = from,
                }
            }
            Content::Numbers { .. } => {
                let from = from.as_tensor()?;
                if let Some(to) = self.output()? {
                    to.copy_from(from.view())?;
                }
            }
        }
        Ok(())
    }

    /// Whether their memory overlaps.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (&self.0.content, &other.0.content) {
            (Content::Numbers { block, .. }, Content::Numbers { block: other, .. }) => {
                block.overlaps(other.bytes())
            }
            _ => false,
        }
    }

    pub(crate) fn to_owned_value(&self) -> Result<Owned, Error> {
        match self.input()? {
            InputValue::View(view) => Ok(view.to_value()?),
            InputValue::Owned(value) => Ok(value),
        }
    }

    /// A tensor over the same memory, which it keeps alive.
    pub(crate) fn lent(&self) -> Result<Tensor, Error> {
        match &self.0.content {
            Content::Numbers { dtype, shape, .. } => {
                let bytes = ModelBytes::from_owner(self.clone());
                Ok(Tensor::from_bytes(*dtype, shape, bytes.bytes().clone())?)
            }
            Content::Other(value) => {
                self.update_strings()?;
                Ok(read(value).as_tensor()?.clone())
            }
        }
    }

    /// The memory of a numeric tensor.
    pub(crate) fn block(&self) -> Result<&Block, Error> {
        match &self.0.content {
            Content::Numbers { block, .. } => Ok(block),
            Content::Other(value) => {
                let kind = read(value).kind();
                Err(Error::argument("value", format!("is a {kind}, not a numeric tensor")))
            }
        }
    }

    /// Element type and shape of a tensor.
    pub(crate) fn shape(&self) -> Result<(DType, Vec<usize>), Error> {
        match &self.0.content {
            Content::Numbers { dtype, shape, .. } => Ok((*dtype, shape.clone())),
            Content::Other(value) => {
                let value = read(value);
                let tensor = value.as_tensor()?;
                Ok((tensor.dtype(), tensor.shape().to_vec()))
            }
        }
    }

    /// Element type and dimensions of a tensor, as long as the value lives.
    pub(crate) fn dims(&self) -> Result<(DType, &[i64]), Error> {
        let (dtype, shape) = self.shape()?;
        Ok((dtype, self.0.dims.get_or_init(|| signed(&shape))))
    }

    /// The strings that the program writes.
    pub(crate) fn buffers(&self) -> MutexGuard<'_, Vec<(usize, Block)>> {
        self.0.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other values: strings, sequences, maps, optionals.
    pub(crate) fn other(&self) -> Option<RwLockReadGuard<'_, Owned>> {
        match &self.0.content {
            Content::Other(value) => Some(read(value)),
            Content::Numbers { .. } => None,
        }
    }

    pub(crate) fn other_mut(&self) -> Option<RwLockWriteGuard<'_, Owned>> {
        match &self.0.content {
            Content::Other(value) => Some(write(value)),
            Content::Numbers { .. } => None,
        }
    }

    pub(crate) fn is_tensor(&self) -> bool {
        self.other().is_none_or(|value| matches!(*value, Owned::Tensor(_)))
    }

    pub(crate) fn ty(&self) -> Type {
        match &self.0.content {
            Content::Numbers { dtype, shape, .. } => {
                TensorInfo::of_shape(*dtype, shape).to_type().map_or(Type::Unknown, Type::Tensor)
            }
            Content::Other(value) => Type::of_value(&read(value)),
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        match &self.0.content {
            Content::Numbers { block, .. } => block.bytes(),
            Content::Other(_) => &[],
        }
    }
}

fn read(value: &RwLock<Owned>) -> RwLockReadGuard<'_, Owned> {
    value.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(value: &RwLock<Owned>) -> RwLockWriteGuard<'_, Owned> {
    value.write().unwrap_or_else(PoisonError::into_inner)
}

/// The value in an optional, or the value itself.
fn bare(value: &Owned) -> Option<&Owned> {
    match value {
        Owned::Optional(inner) => inner.as_deref().and_then(bare),
        value => Some(value),
    }
}

export! {
    fn IsTensor(value: &Value, out: Out<'_, i32>) {
        out.set(value.is_tensor().into());
        Ok(())
    }

    /// Sparse tensors are dense here.
    fn IsSparseTensor(_value: &Value, out: Out<'_, i32>) {
        out.set(0);
        Ok(())
    }

    fn HasValue(value: &Value, out: Out<'_, i32>) {
        out.set(value.other().is_none_or(|value| bare(&value).is_some()).into());
        Ok(())
    }

    fn GetValueType(value: &Value, out: Out<'_, ONNXType>) {
        out.set(match value.other().as_deref().map(bare) {
            None | Some(Some(Owned::Tensor(_))) => ONNXType::ONNX_TYPE_TENSOR,
            Some(Some(Owned::Sequence(_))) => ONNXType::ONNX_TYPE_SEQUENCE,
            Some(Some(Owned::Map(_))) => ONNXType::ONNX_TYPE_MAP,
            Some(_) => ONNXType::ONNX_TYPE_UNKNOWN,
        });
        Ok(())
    }

    /// Null without a value.
    fn GetTypeInfo(value: &Value, out: OutHandle<'_, TypeInfo>) {
        match value.ty() {
            Type::Optional(inner) if *inner == Type::Unknown => out.set_none(),
            Type::Optional(inner) => out.set(TypeInfo::of(&inner)),
            ty => out.set(TypeInfo::of(&ty)),
        }
        Ok(())
    }

    /// The number of items of a sequence; 2 for a map: keys and values.
    fn GetValueCount(value: &Value, out: Out<'_, usize>) {
        out.set(match value.other().as_deref().and_then(bare) {
            Some(Owned::Sequence(items)) => items.len(),
            Some(Owned::Map(_)) => 2,
            _ => return Err(Error::argument("value", "is neither a sequence nor a map")),
        });
        Ok(())
    }

    fn GetValue(
        value: &Value,
        index: i32,
        _allocator: Allocator<'_>,
        out: OutHandle<'_, Value>,
    ) {
        let none = || Error::argument("index", format!("is {index}, which is out of range"));
        let at = usize::try_from(index).map_err(|_| none())?;
        let other = value.other();
        let item = match (other.as_deref().and_then(bare), at) {
            (Some(Owned::Sequence(items)), _) => items.get(at).ok_or_else(none)?.clone(),
            (Some(Owned::Map(map)), 0) => map.keys.clone().into(),
            (Some(Owned::Map(map)), 1) => map.values.clone().into(),
            (Some(Owned::Map(_)), _) => return Err(none()),
            _ => return Err(Error::argument("value", "is neither a sequence nor a map")),
        };
        out.set(Value::of_owned(item));
        Ok(())
    }

    fn CreateValue(
        in_: Vec<&Value>[num_values],
        num_values: usize,
        value_type: i32,
        out: OutHandle<'_, Value>,
    ) {
        let values = in_.iter().map(|value| value.to_owned_value()).collect::<Result<Vec<_>, _>>()?;
        out.set(Value::of_owned(compose(values, num_values, value_type)?));
        Ok(())
    }

    fn ReleaseValue(value: Option<Box<Value>>) -> () = (); {
        drop(value);
        Ok(())
    }
}

/// A sequence of values, or a map of keys and values.
#[expect(clippy::as_conversions, reason = "the discriminant is the number")]
fn compose(mut values: Vec<Owned>, n: usize, value_type: i32) -> Result<Owned, Error> {
    const SEQUENCE: i32 = ONNXType::ONNX_TYPE_SEQUENCE as i32;
    const MAP: i32 = ONNXType::ONNX_TYPE_MAP as i32;
    match value_type {
        SEQUENCE => {
            let kinds = values.windows(2).all(|pair| pair[0].kind() == pair[1].kind());
            let dtype = |value: &Owned| value.as_tensor().ok().map(Tensor::dtype);
            let dtypes = values.windows(2).all(|pair| dtype(&pair[0]) == dtype(&pair[1]));
            match kinds && dtypes {
                true => Ok(Owned::Sequence(values)),
                false => Err(Error::invalid("the items of a sequence must have the same type")),
            }
        }
        MAP => {
            let (Some(map_values), Some(keys), 2) = (values.pop(), values.pop(), n) else {
                return Err(Error::invalid("a map needs two values: keys and values"));
            };
            let (keys, values) = (keys.as_tensor()?.clone(), map_values.as_tensor()?.clone());
            match keys.shape().len() == 1 && keys.shape() == values.shape() {
                true => Ok(Owned::Map(ort_session::Map { keys, values })),
                false => Err(Error::invalid(
                    "keys and values of a map must have rank 1 and the same length",
                )),
            }
        }
        _ => Err(Error::argument("value_type", "is neither a sequence nor a map")),
    }
}
