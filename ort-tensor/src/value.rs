//! What flows along an edge of a graph.

use crate::room::charge;
use crate::{Tensor, TensorError, TensorView};

/// A tensor, a sequence of values, a map, or an optional value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Values of one type, in order.
    Sequence(Vec<Value>),
    /// Keys and values of one type each.
    Map(Map),
    /// A value or nothing.
    Optional(Option<Box<Value>>),
}

/// A map: `keys[i]` maps to `values[i]`. Both are of rank 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Integers or strings, without duplicates.
    pub keys: Tensor,
    /// As many values as keys.
    pub values: Tensor,
}

/// A borrowed value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ValueView<'a> {
    /// A tensor.
    Tensor(TensorView<'a>),
    /// A sequence, map or optional.
    Other(&'a Value),
}

impl Value {
    /// A view to read.
    pub fn view(&self) -> ValueView<'_> {
        match self {
            Value::Tensor(tensor) => ValueView::Tensor(tensor.view()),
            other => ValueView::Other(other),
        }
    }

    /// `tensor`, `sequence`, `map` or `optional`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "tensor",
            Value::Sequence(_) => "sequence",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional",
        }
    }

    /// The size of the elements of all tensors in bytes, each tensor counted as often as it occurs.
    pub fn n_bytes(&self) -> usize {
        match self {
            Value::Tensor(tensor) => tensor.n_bytes(),
            Value::Sequence(items) => items.iter().map(Value::n_bytes).sum(),
            Value::Optional(Some(value)) => value.n_bytes(),
            Value::Map(_) | Value::Optional(None) => 0,
        }
    }

    /// The size of the memory in bytes, including lists and strings: what counts against a limit.
    pub fn held_bytes(&self) -> usize {
        let items = match self {
            Value::Tensor(tensor) => return tensor.held_bytes(),
            Value::Map(map) => map.keys.held_bytes().saturating_add(map.values.held_bytes()),
            Value::Sequence(items) => {
                items.iter().map(Value::held_bytes).fold(0, usize::saturating_add)
            }
            Value::Optional(item) => item.as_ref().map_or(0, |value| value.held_bytes()),
        };
        items.saturating_add(self.list_bytes())
    }

    /// The size of a clone, which shares the data of tensors.
    fn list_bytes(&self) -> usize {
        match self {
            Value::Sequence(items) => {
                let own = items.len().saturating_mul(size_of::<Value>());
                items.iter().map(Value::list_bytes).fold(own, usize::saturating_add)
            }
            Value::Optional(Some(item)) => size_of::<Value>() + item.list_bytes(),
            Value::Tensor(_) | Value::Map(_) | Value::Optional(None) => 0,
        }
    }

    /// The tensor.
    ///
    /// # Errors
    /// If it is of another kind.
    pub fn as_tensor(&self) -> Result<&Tensor, TensorError> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(TensorError::Kind { expected: "tensor", found: other.kind() }),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Tensor(tensor)
    }
}

impl<'a> ValueView<'a> {
    /// The tensor.
    ///
    /// # Errors
    /// If it is of another kind.
    pub const fn tensor(self) -> Result<TensorView<'a>, TensorError> {
        match self {
            ValueView::Tensor(view) => Ok(view),
            ValueView::Other(other) => {
                Err(TensorError::Kind { expected: "tensor", found: other.kind() })
            }
        }
    }

    /// The elements of the sequence.
    ///
    /// # Errors
    /// If it is of another kind.
    pub const fn sequence(self) -> Result<&'a [Value], TensorError> {
        match self {
            ValueView::Other(Value::Sequence(values)) => Ok(values.as_slice()),
            other => Err(TensorError::Kind { expected: "sequence", found: other.kind() }),
        }
    }

    /// The map.
    ///
    /// # Errors
    /// If it is of another kind.
    pub const fn map(self) -> Result<&'a Map, TensorError> {
        match self {
            ValueView::Other(Value::Map(map)) => Ok(map),
            other => Err(TensorError::Kind { expected: "map", found: other.kind() }),
        }
    }

    /// `tensor`, `sequence`, `map` or `optional`.
    pub const fn kind(self) -> &'static str {
        match self {
            ValueView::Tensor(_) => "tensor",
            ValueView::Other(other) => other.kind(),
        }
    }

    /// An owned value: tensor data is copied, other values share theirs.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn to_value(self) -> Result<Value, TensorError> {
        match self {
            ValueView::Tensor(view) => Ok(Value::Tensor(view.to_tensor()?)),
            ValueView::Other(other) => {
                charge(other.list_bytes())?;
                Ok(other.clone())
            }
        }
    }
}
