//! The inputs of a run, and the expected outputs.

use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use ort_tensor::Value;

use crate::close::{Mismatch, Tolerance, compare};
use crate::file::{FileError, Format, whole};
use crate::pb::{Kind, Named};

/// Whether a value is an input or an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `input_J.pb`.
    Input,
    /// `output_J.pb`.
    Output,
}

/// A value with its position and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The J of `input_J.pb`: the position among the graph's inputs or outputs, used if the
    /// name is empty.
    pub position: usize,
    /// The name of the graph's input or output; empty if the file has none.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// The inputs of one run and its expected outputs, each ordered by position. Positions
/// may be missing: that input takes its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSet {
    /// The inputs.
    pub inputs: Vec<Slot>,
    /// The expected outputs.
    pub outputs: Vec<Slot>,
}

impl Side {
    fn prefix(self) -> &'static str {
        match self {
            Side::Input => "input_",
            Side::Output => "output_",
        }
    }
}

impl DataSet {
    /// Reads `input_J` and `output_J` in `folder`, as `.pb` or `.npy`; other files are ignored.
    ///
    /// `kind` returns the kind of a `.pb` file by position; where it returns `None`, the kind is guessed
    /// ([`Kind::guess`]).
    ///
    /// # Errors
    /// If the folder or a file cannot be read, or a file does not hold a value.
    pub fn read(
        folder: &Path,
        kind: &dyn Fn(Side, usize) -> Option<Kind>,
    ) -> Result<Self, FileError> {
        let unreadable = |path: &Path, source: io::Error| FileError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, source))? {
            let path = entry.map_err(|source| unreadable(folder, source))?.path();
            if place(&path).is_some() {
                let bytes = whole(&path)?;
                files.push((path, bytes));
            }
        }
        Self::from_files(files, kind)
    }

    /// The same as [`DataSet::read`] for files in memory.
    ///
    /// # Errors
    /// If a file does not hold a value.
    pub fn from_files(
        files: impl IntoIterator<Item = (PathBuf, Bytes)>,
        kind: &dyn Fn(Side, usize) -> Option<Kind>,
    ) -> Result<Self, FileError> {
        let mut set = Self::default();
        for (path, bytes) in files {
            let Some((side, position)) = place(&path) else { continue };
            let format = Format::of(&path)?;
            let Named { name, value } = format.decode(&path, &bytes, kind(side, position))?;
            let slots = match side {
                Side::Input => &mut set.inputs,
                Side::Output => &mut set.outputs,
            };
            slots.push(Slot { position, name, value });
        }
        set.inputs.sort_by_key(|slot| slot.position);
        set.outputs.sort_by_key(|slot| slot.position);
        Ok(set)
    }
}

impl Slot {
    /// The name among `names` that the value belongs to: its own, or if it has none, the one at its
    /// position. `None` if there is no such position.
    pub fn name_among<'a>(&'a self, names: &'a [String]) -> Option<&'a str> {
        match self.name.as_str() {
            "" => names.get(self.position).map(String::as_str),
            name => Some(name),
        }
    }
}

/// An output that differs from a data set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputMismatch {
    /// The model has no such output.
    #[error("there is no output {position} `{name}`")]
    Absent {
        /// The position in the data set.
        position: usize,
        /// The name in the data set.
        name: String,
    },
    /// The values differ.
    #[error("output `{name}`: {mismatch}")]
    Differs {
        /// The output.
        name: String,
        /// The difference.
        mismatch: Box<Mismatch>,
    },
}

impl DataSet {
    /// Compares actual outputs, in the order of their `names`, with the expected ones.
    ///
    /// # Errors
    /// The first output that differs by more than the tolerance.
    pub fn check(
        &self,
        names: &[String],
        found: &[Value],
        tolerance: Tolerance,
    ) -> Result<(), OutputMismatch> {
        for slot in &self.outputs {
            let (position, name) = (slot.position, slot.name.clone());
            let absent = || OutputMismatch::Absent { position, name };
            let name = slot.name_among(names);
            let place = name.and_then(|name| names.iter().position(|other| other == name));
            let Some(value) = place.and_then(|place| found.get(place)) else {
                return Err(absent());
            };
            compare(&slot.value, value, tolerance).map_err(|mismatch| OutputMismatch::Differs {
                name: name.unwrap_or_default().to_owned(),
                mismatch: Box::new(mismatch),
            })?;
        }
        Ok(())
    }
}

/// Side and position of a file, from its name.
fn place(path: &Path) -> Option<(Side, usize)> {
    Format::of(path).ok()?;
    let stem = path.file_stem()?.to_str()?;
    [Side::Input, Side::Output].into_iter().find_map(|side| {
        let position = stem.strip_prefix(side.prefix())?;
        Some((side, position.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_value;
    use ort_tensor::Tensor;

    #[test]
    fn slots_come_in_the_order_of_their_positions() {
        let folder = tempfile::tempdir().unwrap();
        let value = |x: i32| Value::Tensor(Tensor::scalar(x));
        let files = ["input_10.pb", "input_2.npy", "output_0.pb", "notes.txt", "input_x.pb"];
        for (x, file) in (0..).zip(files) {
            match file {
                "notes.txt" => fs::write(folder.path().join(file), "").unwrap(),
                _ => write_value(&folder.path().join(file), file, &value(x)).unwrap(),
            }
        }
        let slot = |position, name: &str, x| Slot { position, name: name.into(), value: value(x) };
        let expected = DataSet {
            inputs: vec![slot(2, "", 1), slot(10, "input_10.pb", 0)],
            outputs: vec![slot(0, "output_0.pb", 2)],
        };
        assert_eq!(DataSet::read(folder.path(), &|_, _| None).unwrap(), expected);
    }

    #[test]
    fn an_optional_is_read_as_one_if_its_kind_is_known() {
        let none = Value::Optional(None);
        let file = Bytes::from(crate::pb::encode("x", &none).unwrap());
        let kind = |side, _| (side == Side::Input).then_some(Kind::Optional);
        let set = DataSet::from_files([(PathBuf::from("input_0.pb"), file)], &kind).unwrap();
        assert_eq!(set.inputs[0].value, none);
    }
}
