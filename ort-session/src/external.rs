//! External data files of a model: their location, and their bytes.

// collects are bounded: as long as the file's lists

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ort_loader::{Load, LoadError, ModelBytes};
use ort_onnx::{ExternalFiles, ModelProto, external};

use crate::builder::SessionBuilder;
use crate::error::SessionError;

/// Where the external data files of a `.onnx` model are located.
#[derive(Clone, Debug, Default)]
pub(crate) struct External {
    /// This folder instead of the model's.
    pub(crate) folder: Option<PathBuf>,
    /// Files in memory, by the names that the model uses for them.
    pub(crate) given: BTreeMap<String, ModelBytes>,
}

impl External {
    /// The external data files of a model, by the names that it uses for them.
    pub(crate) fn load(
        &self,
        model: &ModelProto,
        bytes: &ModelBytes,
        how: Load,
    ) -> Result<BTreeMap<String, ModelBytes>, SessionError> {
        let locations = external::locations(model)?;
        let mut files = BTreeMap::new();
        for location in locations {
            if let Some(file) = self.file(location, bytes, how)? {
                files.insert(location.to_owned(), file);
            }
        }
        Ok(files)
    }

    /// A file of this name; `None` if its folder is unknown.
    ///
    /// In the model's own folder the model selects the file, so it must not lead out of it. A folder that
    /// the caller passes is trusted, including links in it.
    fn file(
        &self,
        location: &str,
        bytes: &ModelBytes,
        how: Load,
    ) -> Result<Option<ModelBytes>, LoadError> {
        if let Some(file) = self.given.get(location) {
            return Ok(Some(file.clone()));
        }
        if let Some(folder) = &self.folder {
            return ModelBytes::from_path(folder.join(location), how).map(Some);
        }
        let Some(folder) = bytes.path().and_then(Path::parent) else { return Ok(None) };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        ModelBytes::from_path_within(folder, location, how).map(Some)
    }
}

impl SessionBuilder {
    /// The folder with the external data of a `.onnx` model, instead of the model's own. The caller
    /// trusts this folder: links in it are followed wherever they lead, unlike those in the model's
    /// own.
    #[must_use]
    pub fn external_data_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.external.folder = Some(folder.into());
        self
    }

    /// The bytes of an external data file of a `.onnx` model, by the name in the model. The file is
    /// then not opened.
    #[must_use]
    pub fn external_data(mut self, name: impl Into<String>, bytes: ModelBytes) -> Self {
        self.external.given.insert(name.into(), bytes);
        self
    }
}

/// The bytes of the files.
pub(crate) fn bytes_of(files: &BTreeMap<String, ModelBytes>) -> ExternalFiles {
    files.iter().map(|(name, file)| (name.clone(), file.bytes().clone())).collect()
}

/// The paths of the files; those in memory have none.
pub(crate) fn paths_of<'f>(files: impl IntoIterator<Item = &'f ModelBytes>) -> Vec<PathBuf> {
    files.into_iter().filter_map(|file| file.path().map(Path::to_owned)).collect()
}
