//! Value files by extension: `.pb` or `.npy`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use ort_tensor::{AlignedBuf, Room, TensorError, Value, charge};

use crate::npy::{self, NpyError};
use crate::pb::{self, Kind, Named, PbError};

/// Bytes that are read at a time from a file of unknown size.
const PIECE: usize = 1 << 16;

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
    /// There is no memory for the file.
    #[error("{}: {error}", path.display())]
    Memory {
        /// The path.
        path: PathBuf,
        /// The error.
        error: TensorError,
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

/// The bytes of the file at `path`, which count against the allowance of the thread. Large ones are a separate mapping, which
/// is unmapped with the last slice of them; freeing a vector of their size would make the allocator keep later ones.
pub(crate) fn whole(path: &Path) -> Result<Bytes, FileError> {
    let open = || {
        // Opening a pipe would block until another process writes to it.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = fs::File::open(path)?;
        let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Ok((file, size))
    };
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let memory = |error| FileError::Memory { path: path.to_owned(), error };
    let (mut file, size) = open().map_err(unreadable)?;
    // A file of /proc has size zero.
    if size == 0 {
        let (mut bytes, mut piece) = (Room::new(), [0; PIECE]);
        loop {
            match file.read(&mut piece).map_err(unreadable)? {
                0 => return Ok(bytes.into_vec().into()),
                n => bytes.extend(piece[..n].iter().copied()).map_err(memory)?,
            }
        }
    }
    let no_memory = || TensorError::NoMemory { n_bytes: size, limit: None };
    let buf = AlignedBuf::try_lasting(size);
    let reason = || charge(size).err().unwrap_or_else(no_memory);
    let mut buf = buf.ok_or_else(|| memory(reason()))?;
    file.read_exact(buf.as_mut()).map_err(unreadable)?;
    Ok(Bytes::from_owner(buf))
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
    fn files_count_against_the_allowance() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Holes take no space on the medium.
        let floats = Tensor::zeros(ort_tensor::DType::F32, &[0]).unwrap();
        write_value(&path("hole.npy"), "", &floats.into()).unwrap();
        let hole = fs::OpenOptions::new().append(true).open(path("hole.npy")).unwrap();
        hole.set_len(1 << 20).unwrap();
        // Each text takes more memory than its bytes in the file.
        let texts =
            Value::Tensor(Tensor::from_strings(&[9000], vec![String::new(); 9000]).unwrap());
        write_value(&path("texts.npy"), "", &texts).unwrap();
        write_value(&path("texts.pb"), "", &texts).unwrap();
        let limit = 100_000;
        for name in ["hole.npy", "texts.npy", "texts.pb"] {
            let path = path(name);
            let error = ort_tensor::within(limit, limit, || read_value(&path, None)).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: ", path.display())), "{text}");
            assert!(text.contains(" bytes: over the total limit of 100000"), "{text}");
        }
        assert_eq!(read_value(&path("texts.npy"), None).unwrap().value, texts);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_of_unknown_size_is_read_to_its_end() {
        let path = Path::new("/proc/self/status");
        assert!(whole(path).unwrap().starts_with(b"Name:"));
        let over = ort_tensor::within(99, 99, || whole(path));
        assert!(matches!(over, Err(FileError::Memory { .. })), "{over:?}");
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
