//! Sorted names, and the graphs that enclose the current one.

use super::Checker;
use super::path::{Path, excerpt};
use crate::error::{Fault, FormatError};

/// A sorted list of names.
pub(super) struct Names<'a>(Vec<&'a str>);

impl<'a> Names<'a> {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.binary_search(&name).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Names that occur more than once, each as often as it is repeated.
    pub(super) fn repeated(&self) -> impl Iterator<Item = &'a str> {
        self.0.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    pub(super) fn unique(&self, what: &'static str, path: &Path<'_>) -> Result<(), FormatError> {
        match self.repeated().next() {
            Some(name) => path.fail(Fault::Duplicate { what, name: excerpt(name) }),
            None => Ok(()),
        }
    }
}

impl Checker<'_> {
    /// Sorts the names that are not empty. They count against the budget until [`release`](Self::release).
    pub(super) fn names<'a>(
        &mut self,
        path: &Path<'_>,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Names<'a>, FormatError> {
        let names = names.filter(|name| !name.is_empty());
        let count = names.clone().count();
        match self.names.checked_sub(count) {
            Some(rest) => self.names = rest,
            None => return path.fail(Fault::TooManyNames),
        }
        let mut sorted = Vec::with_capacity(count);
        sorted.extend(names);
        sorted.sort_unstable();
        Ok(Names(sorted))
    }

    pub(super) fn release(&mut self, names: Names<'_>) {
        self.names += names.len();
    }
}

/// The names that a graph defines, and its enclosing graphs.
pub(super) struct Scope<'s, 'a> {
    /// Inputs and initializers.
    pub(super) given: Names<'a>,
    /// Outputs of nodes.
    pub(super) made: Names<'a>,
    pub(super) outer: Option<&'s Scope<'s, 'a>>,
}

impl Scope<'_, '_> {
    /// Fails unless each name is empty or defined here or in an enclosing graph.
    pub(super) fn resolve<'n>(
        &self,
        path: &Path<'_>,
        what: &'static str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), FormatError> {
        for name in names {
            if !name.is_empty() && !self.defines(name) {
                return path.fail(Fault::Undefined { what, name: excerpt(name) });
            }
        }
        Ok(())
    }

    fn defines(&self, name: &str) -> bool {
        self.given.contains(name)
            || self.made.contains(name)
            || self.outer.is_some_and(|outer| outer.defines(name))
    }
}
