//! The names of classes: integers or strings.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{DType, Output};

/// The labels of a classifier, in the order of its classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassLabels {
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

impl ClassLabels {
    /// The labels in the attribute `ints` or `strings`: the strings, if there are both.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn read(
        spec: &NodeSpec<'_>,
        ints: &'static str,
        strings: &'static str,
    ) -> Result<Self, OpError> {
        let (names, numbers) = (spec.strings(strings)?, spec.ints(ints)?);
        match (names.unwrap_or_default(), numbers.unwrap_or_default()) {
            ([], []) => Err(OpError::MissingAttribute { name: ints }),
            ([], numbers) => Ok(Self::Ints(numbers.to_vec())),
            (names, _) => Ok(Self::Strings(names.to_vec())),
        }
    }

    /// How many classes there are.
    pub const fn n_classes(&self) -> usize {
        match self {
            Self::Ints(labels) => labels.len(),
            Self::Strings(labels) => labels.len(),
        }
    }

    /// The element type of the labels.
    pub(crate) const fn dtype(&self) -> DType {
        match self {
            Self::Ints(_) => DType::I64,
            Self::Strings(_) => DType::String,
        }
    }

    /// Writes the label of each class in `classes` to the output at 0, if it is used.
    ///
    /// # Errors
    /// If something else was planned, or there is no such class.
    pub fn write(&self, outputs: &mut [Output<'_>], classes: &[usize]) -> Result<(), OpError> {
        let Some(output) = outputs.first_mut().filter(|output| output.is_wanted()) else {
            return Ok(());
        };
        if classes.iter().any(|&class| class >= self.n_classes()) {
            return Err(OpError::Unsupported { what: "a class without a label" });
        }
        let y = output.tensor(self.dtype(), &[classes.len()])?;
        match self {
            Self::Ints(labels) => {
                let y = y.into_slice::<i64>()?;
                y.iter_mut().zip(classes).for_each(|(y, &class)| *y = labels[class]);
            }
            Self::Strings(labels) => {
                let y = y.into_strings()?;
                y.iter_mut().zip(classes).for_each(|(y, &class)| y.clone_from(&labels[class]));
            }
        }
        Ok(())
    }
}
