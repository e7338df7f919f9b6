//! What the iterations of a loop leave behind.

use ort_tensor::Value;

use super::watch::Held;
use super::{ControlError, Run};

/// The values that each iteration of a loop adds to its outputs.
pub(crate) struct Collected<'w> {
    /// By output, one for each iteration.
    pub(crate) values: Vec<Vec<Value>>,
    held: Option<Held<'w>>,
}

impl Run<'_> {
    /// Nothing yet, for so many outputs.
    pub(crate) fn collect(&self, n_outputs: usize) -> Collected<'_> {
        let held = self.watch.map(|watch| watch.nothing_yet());
        Collected { values: vec![Vec::new(); n_outputs], held }
    }
}

impl Collected<'_> {
    /// Adds what one iteration made.
    ///
    /// # Errors
    /// If the run then holds more than it may.
    pub(crate) fn add(&mut self, made: impl Iterator<Item = Value>) -> Result<(), ControlError> {
        for (all, one) in self.values.iter_mut().zip(made) {
            if let Some(held) = &self.held {
                held.more(&one).map_err(ControlError::TooMuch)?;
            }
            all.push(one);
        }
        Ok(())
    }
}
