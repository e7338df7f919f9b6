//! A file that holds the initializers of a compiled model.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ort_session::{ExternalElements, Tensor};

use crate::error::Error;

/// The alignment of initializers in the file, with which sessions use them in place.
const ALIGN: usize = 64;

/// The file, and how much is in it.
pub(crate) struct InitializerFile {
    path: PathBuf,
    /// The name in the model.
    name: String,
    file: BufWriter<File>,
    len: u64,
}

impl InitializerFile {
    /// A file at a path that is relative to the folder of a model.
    pub(crate) fn create(path: &Path, model: Option<&Path>) -> Result<Self, Error> {
        let argument = "external_initializers_file_path";
        let name = path.to_str().ok_or_else(|| Error::argument(argument, "is not UTF-8"))?;
        let folder = model.and_then(Path::parent).unwrap_or_else(|| Path::new(""));
        let in_folder = folder.join(path);
        if model == Some(&*in_folder) {
            return Err(Error::argument(argument, "is the file of the model"));
        }
        let file = File::create(&in_folder).map_err(|error| failed(&in_folder, &error))?;
        Ok(Self { path: in_folder, name: name.to_owned(), file: BufWriter::new(file), len: 0 })
    }

    /// Writes elements, and returns where they are.
    pub(crate) fn add(&mut self, elements: &Tensor) -> Result<ExternalElements, Error> {
        let view = elements.view();
        let bytes = view.as_bytes().unwrap_or_default();
        let offset = self.len.next_multiple_of(ALIGN as u64);
        let padding = usize::try_from(offset - self.len).unwrap_or_default();
        let written = self.file.write_all(&[0; ALIGN][..padding]);
        let written = written.and_then(|()| self.file.write_all(bytes));
        written.map_err(|error| failed(&self.path, &error))?;
        let n_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.len = offset.saturating_add(n_bytes);
        Ok(ExternalElements { file: self.name.clone(), offset, n_bytes })
    }

    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::fail(format!("cannot write {}: {error}", path.display()))
}
