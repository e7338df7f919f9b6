//! The position of a check in a file: a chain on the stack, converted to text only for an error.

use std::fmt;

use crate::error::{Fault, FormatError};

/// The maximum number of characters of a name in a message.
const NAME_LENGTH: usize = 80;

/// A table, and the path to it.
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    field: &'static str,
    index: Option<usize>,
    name: &'p str,
}

impl<'p> Path<'p> {
    pub(super) fn root(field: &'static str) -> Self {
        Self { parent: None, field, index: None, name: "" }
    }

    /// Element `index` of a vector of tables, with the name `name`.
    pub(super) fn item(&'p self, field: &'static str, index: usize, name: &'p str) -> Self {
        Self { parent: Some(self), field, index: Some(index), name }
    }

    /// The table of a field.
    pub(super) fn field(&'p self, field: &'static str) -> Self {
        Self { parent: Some(self), field, index: None, name: "" }
    }

    pub(super) fn fail<T>(&self, fault: Fault) -> Result<T, FormatError> {
        Err(FormatError::Invalid { place: self.to_string(), fault })
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}.")?;
        }
        write!(f, "{}", self.field)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        if !self.name.is_empty() {
            write!(f, " {:?}", excerpt(self.name))?;
        }
        Ok(())
    }
}

/// The start of a name, for a message.
pub(super) fn excerpt(name: &str) -> String {
    name.chars().take(NAME_LENGTH).collect()
}
