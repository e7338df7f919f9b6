//! Outputs of a run, by name or by position.

use std::ops::Index;
use std::sync::Arc;

use ort_tensor::Value;

/// The outputs of one run. They belong to the caller.
#[derive(Clone, Debug)]
pub struct Outputs {
    names: Arc<[String]>,
    values: Vec<Value>,
}

impl Outputs {
    pub(crate) const fn new(names: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// The output of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let position = self.names.iter().position(|other| other == name)?;
        self.values.get(position)
    }

    /// How many outputs there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Names and values, in the model's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.names.iter().map(String::as_str).zip(&self.values)
    }

    /// The values, in the model's order.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }
}

/// # Panics
/// If there is no such output, as slices do; [`Outputs::get`] does not.
impl Index<usize> for Outputs {
    type Output = Value;

    fn index(&self, index: usize) -> &Value {
        &self.values[index]
    }
}
