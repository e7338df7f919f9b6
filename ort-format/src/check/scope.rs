//! Sorted names, and the graphs that enclose the current one.

use ort_tensor::{Pace, Room, TensorError, sort};

use super::Checker;
use super::path::{Path, excerpt};
use crate::error::{Fault, FormatError};

/// Operations that it takes to find a name.
pub(super) const LOOK_UP: usize = 64;

/// A sorted list of names.
pub(super) struct Names<'a>(Room<&'a str>);

impl<'a> Names<'a> {
    pub(super) fn sorted(
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, TensorError> {
        let (mut count, mut pace) = (0, Pace::new());
        for _ in names.clone() {
            pace.go(1)?;
            count += 1;
        }
        let mut sorted = Room::with_room(count)?;
        for name in names {
            pace.go(1)?;
            sorted.push(name)?;
        }
        sort(&mut sorted, &Ord::cmp)?;
        Ok(Self(sorted))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.binary_search(&name).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Names that occur more than once, each as often as it is repeated.
    pub(super) fn repeated(&self) -> impl Iterator<Item = Result<&'a str, TensorError>> {
        let mut pace = Pace::new();
        self.0.windows(2).filter_map(move |pair| match pace.go(LOOK_UP) {
            Ok(()) => (pair[0] == pair[1]).then_some(Ok(pair[0])),
            Err(error) => Some(Err(error)),
        })
    }

    pub(super) fn unique(&self, what: &'static str, path: &Path<'_>) -> Result<(), FormatError> {
        match self.repeated().next().transpose()? {
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
        let names = Names::sorted(names.filter(|name| !name.is_empty()).take(self.names + 1))?;
        match self.names.checked_sub(names.len()) {
            Some(rest) => self.names = rest,
            None => return path.fail(Fault::TooManyNames),
        }
        Ok(names)
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
        pace: &mut Pace,
    ) -> Result<(), FormatError> {
        for name in names {
            pace.go(LOOK_UP)?;
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
