//! What the tables of a file must say of each other. Visits everything; holds the names of one chain of graphs.

mod edges;
mod graph;
mod node;
mod path;
mod scope;
mod tensor;
mod types;

use path::Path;

use crate::error::{Fault, FormatError, Oddity, Warning};
use crate::limits::Limits;
use crate::view::File;
use crate::wire::{Element, Vector};

/// Checks a file of `length` bytes, and hands what is odd to `report`.
pub(crate) fn check(
    file: File<'_>,
    length: usize,
    limits: &Limits,
    report: &mut dyn FnMut(Warning),
) -> Result<(), FormatError> {
    let path = Path::root("file");
    if file.ort_version().is_none() {
        return path.fail(Fault::Missing { field: "ort_version" });
    }
    let model = file.model();
    if !model.graph().is_present() {
        return path.fail(Fault::Missing { field: "graph" });
    }
    each(&path, "opset_import", model.opset_import())?;
    each(&path, "metadata_props", model.metadata_props())?;
    let mut checker = Checker { names: length / 16, subgraphs: limits.subgraphs, report };
    checker.graph(model.graph(), &Path::root("graph"), None)
}

/// The state of a check.
struct Checker<'r> {
    /// How many more names may be held. Each takes 16 bytes, and no file defines as many as it has 16 bytes, unless
    /// graphs within graphs share them.
    names: usize,
    /// How many more graphs may lie within this one.
    subgraphs: usize,
    report: &'r mut dyn FnMut(Warning),
}

impl Checker<'_> {
    fn warn(&mut self, path: &Path<'_>, oddity: Oddity) {
        (self.report)(Warning { place: path.to_string(), oddity });
    }

    fn unknown(&mut self, path: &Path<'_>, field: &'static str, value: impl Into<i64>) {
        self.warn(path, Oddity::UnknownValue { field, value: value.into() });
    }
}

/// Fails on an element that leads nowhere.
fn each<'a, T: Element<'a>>(
    path: &Path<'_>,
    field: &'static str,
    vector: Vector<'a, T>,
) -> Result<(), FormatError> {
    match (0..vector.len()).find(|&index| vector.get(index).is_none()) {
        Some(index) => path.fail(Fault::Null { field, index }),
        None => Ok(()),
    }
}
