//! The inputs of a run: by name or by position, borrowed wherever their layout allows.

// collects are bounded: as many as the caller gives

use std::borrow::Cow;

use ndarray::{ArrayRef, Dimension};
use ort_tensor::{DType, Element, Tensor, TensorView, Value, ValueView};

/// The inputs of one run, by name or by position.
///
/// ```
/// use ort_session::{RunInputs, Tensor};
/// let x = Tensor::scalar(1_i64);
/// let by_name: RunInputs<'_> = [("x", &x)].into();
/// let by_position = RunInputs::positional([&x]);
/// ```
#[derive(Debug, Default)]
pub struct RunInputs<'a> {
    pub(crate) entries: Vec<(Option<Cow<'a, str>>, InputValue<'a>)>,
}

/// One input: a view of the caller's memory, or an owned value.
#[derive(Debug)]
pub enum InputValue<'a> {
    /// Borrowed: nothing is copied.
    View(ValueView<'a>),
    /// Owned.
    Owned(Value),
}

impl<'a> RunInputs<'a> {
    /// Inputs in the order of the model's inputs.
    pub fn positional<V: Into<InputValue<'a>>>(values: impl IntoIterator<Item = V>) -> Self {
        Self { entries: values.into_iter().map(|value| (None, value.into())).collect() }
    }

    /// Adds an input by name.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<InputValue<'a>>) -> Self {
        self.entries.push((Some(name.into()), value.into()));
        self
    }

    /// The size of the inputs in memory, without the characters of strings.
    pub(crate) fn n_bytes(&self) -> usize {
        let of_tensor = |tensor: &TensorView<'_>| match tensor.dtype() {
            DType::String => tensor.len().checked_mul(size_of::<String>()),
            dtype => dtype.n_bytes(tensor.len()),
        };
        let sizes = self.entries.iter().map(|(_, value)| match value {
            InputValue::View(ValueView::Tensor(tensor)) => of_tensor(tensor).unwrap_or(usize::MAX),
            InputValue::View(ValueView::Other(value)) => value.held_bytes(),
            InputValue::Owned(value) => value.held_bytes(),
            InputValue::View(_) => 0,
        });
        sizes.fold(0, usize::saturating_add)
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<InputValue<'a>>> FromIterator<(K, V)> for RunInputs<'a> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(name, value)| (Some(name.into()), value.into()));
        Self { entries: entries.collect() }
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<InputValue<'a>>, const N: usize> From<[(K, V); N]>
    for RunInputs<'a>
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<InputValue<'a>>> From<Vec<(K, V)>> for RunInputs<'a> {
    fn from(entries: Vec<(K, V)>) -> Self {
        entries.into_iter().collect()
    }
}

impl InputValue<'_> {
    pub(crate) fn view(&self) -> ValueView<'_> {
        match self {
            InputValue::View(view) => *view,
            InputValue::Owned(value) => value.view(),
        }
    }
}

impl<'a> From<TensorView<'a>> for InputValue<'a> {
    fn from(view: TensorView<'a>) -> Self {
        InputValue::View(ValueView::Tensor(view))
    }
}

impl<'a> From<ValueView<'a>> for InputValue<'a> {
    fn from(view: ValueView<'a>) -> Self {
        InputValue::View(view)
    }
}

impl<'a> From<&'a Tensor> for InputValue<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        tensor.view().into()
    }
}

impl<'a> From<&'a Value> for InputValue<'a> {
    fn from(value: &'a Value) -> Self {
        value.view().into()
    }
}

impl From<Tensor> for InputValue<'_> {
    fn from(tensor: Tensor) -> Self {
        InputValue::Owned(tensor.into())
    }
}

impl From<Value> for InputValue<'_> {
    fn from(value: Value) -> Self {
        InputValue::Owned(value)
    }
}

/// Borrows an array in standard layout; copies one of another layout.
impl<'a, T: Element, D: Dimension> From<&'a ArrayRef<T, D>> for InputValue<'a> {
    fn from(array: &'a ArrayRef<T, D>) -> Self {
        match TensorView::from_ndarray(array) {
            Some(view) => view.into(),
            None => Tensor::from_ndarray(array)
                .expect("invariant: an array that is in memory is not too large")
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_size_of_their_memory() {
        let floats = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
        let nibbles = Tensor::zeros(DType::I4, &[3]).unwrap();
        let strings = Tensor::zeros(DType::String, &[2]).unwrap();
        let list = Value::Sequence(vec![floats.clone().into()]);
        let list_bytes = list.held_bytes();
        let inputs = RunInputs::positional([&floats, &nibbles, &strings]).with("l", list);
        assert_eq!(inputs.n_bytes(), 24 + 2 + 2 * size_of::<String>() + list_bytes);
    }
}
