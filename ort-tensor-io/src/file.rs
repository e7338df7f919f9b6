//! Value files by extension: `.pb` or `.npy`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use ort_tensor::{AlignedBuf, Value};

use crate::npy::{self, NpyError};
use crate::pb::{self, Kind, Named, PbError};

/// A file that does not hold a value, or a value that cannot be written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system cannot read the file.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot write the file.
    #[error("{}: cannot be written: {source}", path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The name ends neither in `.pb` nor in `.npy`.
    #[error("{}: expected a name that ends in .pb or .npy", path.display())]
    Extension {
        /// The path.
        path: PathBuf,
    },
    /// The content is not a value, or the value cannot be written in this format.
    #[error("{}: {source}", path.display())]
    Pb {
        /// The path.
        path: PathBuf,
        /// The error.
        source: PbError,
    },
    /// The content is not a tensor, or the tensor cannot be written in this format.
    #[error("{}: {source}", path.display())]
    Npy {
        /// The path.
        path: PathBuf,
        /// The error.
        source: NpyError,
    },
    /// A sequence, map or optional, which a `.npy` file cannot hold.
    #[error("{}: a .npy file cannot hold a {kind}", path.display())]
    NotTensor {
        /// The path.
        path: PathBuf,
        /// The kind of the value.
        kind: &'static str,
    },
}

/// The value in the file at `path` and its name, which is empty if the file has none.
///
/// `kind` is the kind of value in a `.pb` file, if the caller knows it; otherwise it is guessed
/// ([`Kind::guess`]). A `.npy` file holds a tensor without a name.
///
/// # Errors
/// If the file cannot be read, or its content is invalid.
pub fn read_value(path: &Path, kind: Option<Kind>) -> Result<Named, FileError> {
    let format = Format::of(path)?;
    let bytes = whole(path)?;
    format.decode(path, &bytes, kind)
}

/// The bytes of the file at `path`. Large ones are a separate mapping, which is unmapped with
/// the last slice of them; freeing a vector of their size would make the allocator keep later ones.
pub(crate) fn whole(path: &Path) -> Result<Bytes, FileError> {
    let read = || {
        // Opening a pipe would block until another process writes to it.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut file = fs::File::open(path)?;
        let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut buf = AlignedBuf::lasting(size);
        file.read_exact(buf.as_mut())?;
        let mut rest = Vec::new();
        file.read_to_end(&mut rest)?;
        // A file of /proc has size zero.
        match rest.is_empty() {
            true => Ok(Bytes::from_owner(buf)),
            false => Ok([buf.as_ref(), &rest].concat().into()),
        }
    };
    read().map_err(|source| FileError::Unreadable { path: path.to_owned(), source })
}

/// Writes `value` under `name` to the file at `path`; a `.npy` file drops the name.
///
/// # Errors
/// If the value cannot be written in that format or the file cannot be written.
pub fn write_value(path: &Path, name: &str, value: &Value) -> Result<(), FileError> {
    let owned = || path.to_owned();
    let bytes = match (Format::of(path)?, value) {
        (Format::Pb, value) => {
            pb::encode(name, value).map_err(|source| FileError::Pb { path: owned(), source })?
        }
        (Format::Npy, Value::Tensor(tensor)) => {
            npy::encode(tensor).map_err(|source| FileError::Npy { path: owned(), source })?
        }
        (Format::Npy, other) => {
            return Err(FileError::NotTensor { path: owned(), kind: other.kind() });
        }
    };
    fs::write(path, bytes).map_err(|source| FileError::Unwritable { path: owned(), source })
}

#[derive(Clone, Copy)]
pub(crate) enum Format {
    Pb,
    Npy,
}

impl Format {
    pub(crate) fn of(path: &Path) -> Result<Self, FileError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("pb") => Ok(Format::Pb),
            Some("npy") => Ok(Format::Npy),
            _ => Err(FileError::Extension { path: path.to_owned() }),
        }
    }

    pub(crate) fn decode(
        self,
        path: &Path,
        bytes: &Bytes,
        kind: Option<Kind>,
    ) -> Result<Named, FileError> {
        let path = || path.to_owned();
        match self {
            Format::Pb => pb::decode(bytes, kind.unwrap_or_else(|| Kind::guess(bytes)))
                .map_err(|source| FileError::Pb { path: path(), source }),
            Format::Npy => match npy::decode(bytes) {
                Ok(tensor) => Ok(Named { name: String::new(), value: tensor.into() }),
                Err(source) => Err(FileError::Npy { path: path(), source }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ort_tensor::Tensor;

    #[test]
    fn the_extension_selects_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let value = Value::Tensor(Tensor::from_slice(&[2], &[1_f32, 2.0]).unwrap());
        for (file, name) in [("x.pb", "x"), ("x.npy", "")] {
            let path = folder.path().join(file);
            write_value(&path, "x", &value).unwrap();
            let named = read_value(&path, None).unwrap();
            assert_eq!(named, Named { name: name.to_owned(), value: value.clone() });
        }
    }

    #[test]
    fn an_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let [text, wrong, absent] = ["x.txt", "x.npy", "none.pb"].map(|n| folder.path().join(n));
        fs::write(&wrong, "no array").unwrap();
        let sequence = Value::Sequence(vec![]);
        let cases = [
            (read_value(&text, None).unwrap_err(), "expected a name that ends in .pb or .npy"),
            (read_value(&wrong, None).unwrap_err(), "not a .npy file"),
            (read_value(&absent, None).unwrap_err(), "cannot be read"),
            (write_value(&wrong, "", &sequence).unwrap_err(), "cannot hold a sequence"),
        ];
        for (error, text) in cases {
            let message = error.to_string();
            assert!(message.contains(text), "{message}");
            assert!(message.starts_with(folder.path().to_str().unwrap()), "{message}");
        }
    }
}
