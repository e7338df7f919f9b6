//! The consistency of a file's tables. Visits everything; holds the names of one chain of nested graphs.

mod edges;
mod graph;
mod node;
mod path;
mod scope;
mod tensor;
mod types;

use ort_tensor::Pace;
use path::Path;
use scope::Names;

use crate::error::{Fault, FormatError, Oddity, Warning};
use crate::limits::Limits;
use crate::view::{Adapter, File, KernelTypeStrResolver};
use crate::wire::{Element, Vector};

/// The least bytes of a name that are not shared: an offset to it, its count, a character, a zero, padding.
const NAME_BYTES: usize = 12;

/// The maximum number of warnings kept; every byte of a file can cause one.
const MAX_WARNINGS: usize = 100;

/// Checks a file of `length` bytes, and adds oddities to `warnings`.
pub(crate) fn check(
    file: File<'_>,
    length: usize,
    limits: &Limits,
    warnings: Option<&mut Vec<Warning>>,
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
    resolver(file.kernel_type_str_resolver().unwrap_or_default())?;
    let mut checker = Checker {
        names: length / NAME_BYTES,
        subgraphs: limits.subgraphs,
        pace: Pace::new(),
        warnings,
    };
    checker.graph(model.graph(), &Path::root("graph"), None)
}

/// Checks an adapter: its parameters have names of their own, and as many bytes as their shapes say.
pub(crate) fn check_adapter(adapter: Adapter<'_>) -> Result<(), FormatError> {
    let path = Path::root("adapter");
    each(&path, "parameters", adapter.parameters())?;
    for (index, parameter) in adapter.parameters().iter().enumerate() {
        tensor::parameter(parameter, &path.item("parameters", index, parameter.name()))?;
    }
    let names = Names::sorted(adapter.parameters().iter().map(|parameter| parameter.name()))?;
    names.unique("parameter", &path)
}

fn resolver(resolver: KernelTypeStrResolver<'_>) -> Result<(), FormatError> {
    let path = Path::root("kernel_type_str_resolver");
    let operators = resolver.op_kernel_type_str_args();
    each(&path, "operators", operators)?;
    for (index, operator) in operators.iter().enumerate() {
        let path = path.item("operators", index, operator.op_id());
        let constraints = operator.kernel_type_str_args();
        each(&path, "constraints", constraints)?;
        constraints.iter().try_for_each(|constraint| each(&path, "args", constraint.args()))?;
    }
    Ok(())
}

/// The state of a check.
struct Checker<'w> {
    /// How many more names may be held. Nested graphs that share their tables could need any number.
    names: usize,
    /// How many more nested graphs are allowed.
    subgraphs: usize,
    /// Counts the names that are looked up.
    pace: Pace,
    warnings: Option<&'w mut Vec<Warning>>,
}

impl Checker<'_> {
    fn warn(&mut self, path: &Path<'_>, oddity: Oddity) {
        if let Some(warnings) = self.warnings.as_mut().filter(|kept| kept.len() < MAX_WARNINGS) {
            warnings.push(Warning { place: path.to_string(), oddity });
        }
    }

    fn unknown(&mut self, path: &Path<'_>, field: &'static str, value: impl Into<i64>) {
        self.warn(path, Oddity::UnknownValue { field, value: value.into() });
    }
}

/// Fails on a null element.
fn each<'a, T: Element<'a>>(
    path: &Path<'_>,
    field: &'static str,
    vector: Vector<'a, T>,
) -> Result<(), FormatError> {
    match vector.first_null()? {
        Some(index) => path.fail(Fault::Null { field, index }),
        None => Ok(()),
    }
}
