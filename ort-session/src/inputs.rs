//! The inputs of a run: by name or by position, borrowed wherever their layout allows.

// collects are bounded: as many as the caller gives

use std::borrow::Cow;

use ndarray::{ArrayRef, Dimension};
use ort_tensor::{Element, Tensor, TensorView, Value, ValueView};

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
