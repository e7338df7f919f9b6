//! Outputs of a run, by name or by position.

// collects are bounded: by the graph's outputs

use std::borrow::Cow;
use std::ops::Index;
use std::sync::Arc;

use ort_tensor::{TensorViewMut, Value};

use crate::run::Memory;

/// The outputs of one run, except those bound by [`BoundOutputs`]. The caller owns them.
#[derive(Clone, Debug)]
pub struct Outputs {
    names: Arc<[String]>,
    values: Vec<Value>,
}

impl Outputs {
    pub(crate) const fn new(names: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// Removes the outputs with these names; returns the rest, and the removed ones with the associated numbers.
    pub(crate) fn without<'n>(
        self,
        taken: impl IntoIterator<Item = (usize, &'n str)>,
    ) -> (Self, Vec<(usize, Value)>) {
        let taken: Vec<_> = taken.into_iter().collect();
        if taken.is_empty() {
            return (self, Vec::new());
        }
        let (mut names, mut values, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in self.names.iter().zip(self.values) {
            match taken.iter().find(|(_, other)| other == name) {
                Some((i, _)) => others.push((*i, value)),
                None => {
                    names.push(name.clone());
                    values.push(value);
                }
            }
        }
        (Self::new(names.into(), values), others)
    }

    /// The output of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let position = self.names.iter().position(|other| other == name)?;
        self.values.get(position)
    }

    /// The number of outputs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Names and values, in the model's order, or the requested one.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.names.iter().map(String::as_str).zip(&self.values)
    }

    /// The values, in the model's order, or the requested one.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }
}

/// # Panics
/// If there is no such output; [`Outputs::get`] returns `None` instead.
impl Index<usize> for Outputs {
    type Output = Value;

    fn index(&self, index: usize) -> &Value {
        &self.values[index]
    }
}

/// Memory of the caller, by the name of the output that is written to it.
///
/// ```
/// use ort_session::{BoundOutputs, DType, Tensor, TensorViewMut};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scores = Tensor::zeros(DType::F32, &[1, 10])?;
/// let mut boxes = vec![0.0_f32; 40];
/// let bound = BoundOutputs::default()
///     .with("scores", &mut scores)
///     .with("boxes", TensorViewMut::from_slice(&[10, 4], &mut boxes)?);
/// # drop(bound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct BoundOutputs<'a> {
    pub(crate) entries: Vec<(Cow<'a, str>, TensorViewMut<'a>)>,
}

impl<'a> BoundOutputs<'a> {
    pub(crate) fn into_memory(self) -> Vec<(Cow<'a, str>, Memory<'a>)> {
        { self.entries }.into_iter().map(|(name, view)| (name, Memory::Fixed(view))).collect()
    }

    /// Adds memory for an output.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'a, str>>,
        memory: impl Into<TensorViewMut<'a>>,
    ) -> Self {
        self.entries.push((name.into(), memory.into()));
        self
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<TensorViewMut<'a>>> FromIterator<(K, V)>
    for BoundOutputs<'a>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(name, memory)| (name.into(), memory.into()));
        Self { entries: entries.collect() }
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<TensorViewMut<'a>>, const N: usize> From<[(K, V); N]>
    for BoundOutputs<'a>
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}
