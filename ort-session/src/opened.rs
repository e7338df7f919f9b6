//! A model's file of either format: the one place that distinguishes them.

// collects are bounded: as long as the file's lists

use std::collections::BTreeSet;

use ort_format::Limits;
use ort_graph::ImportError;
use ort_graph::parsed::Model;
use ort_loader::{Load, ModelBytes};

use crate::error::SessionError;
use crate::external::{External, bytes_of};
use crate::file_format::FileFormat;
use crate::initializers::Initializers;
use crate::packed::Seal;

/// The contents of a file.
pub(crate) struct Opened<'a> {
    pub(crate) model: Model<'a>,
    /// The target of its packed constants.
    pub(crate) seal: Option<Seal<'a>>,
    /// Its external data files.
    pub(crate) external: Vec<ModelBytes>,
}

/// How to open a file: limits, the location of external data, and replaced initializers.
#[derive(Clone, Copy)]
pub(crate) struct How<'s> {
    pub(crate) limits: &'s Limits,
    pub(crate) external: &'s External,
    pub(crate) load: Load,
    pub(crate) initializers: &'s Initializers,
}

impl<'a> Opened<'a> {
    /// Validates and reads a file; only its structure is copied. A file that begins like a `.onnx` file is treated as one.
    /// If it cannot be read, the error states the format that was detected, if any.
    pub(crate) fn of(bytes: &'a ModelBytes, how: How<'_>) -> Result<Self, SessionError> {
        let opened = match ort_onnx::is_onnx(bytes.as_slice()) {
            true => Self::of_onnx(bytes, how),
            false => Self::of_ort(bytes, how),
        };
        opened.map_err(|error| match error {
            SessionError::Format(_) | SessionError::Onnx(_) => {
                let format = FileFormat::of(bytes.as_slice());
                format.map_or(error, |format| SessionError::NotAModel { format })
            }
            _ => error,
        })
    }

    fn of_ort(bytes: &'a ModelBytes, how: How<'_>) -> Result<Self, SessionError> {
        let file = ort_format::open(bytes.as_slice(), how.limits).map_err(Box::new)?;
        let mut model = Model::of_ort(file, bytes.bytes()).map_err(Box::new)?;
        how.initializers.put(&mut model.graph, &BTreeSet::new())?;
        Ok(Self { model, seal: Seal::of(file), external: Vec::new() })
    }

    fn of_onnx(bytes: &'a ModelBytes, how: How<'_>) -> Result<Self, SessionError> {
        let limits = ort_onnx::Limits::default();
        let mut model = ort_onnx::open(bytes.bytes(), &limits).map_err(Box::new)?;
        let external_names = how.initializers.release(&mut model);
        let external = how.external.load(&model, bytes, how.load)?;
        let model = Model::of_onnx(model, &bytes_of(&external));
        let mut model = model.map_err(|error: ImportError| Box::new(error))?;
        how.initializers.put(&mut model.graph, &external_names)?;
        Ok(Self { model, seal: None, external: external.into_values().collect() })
    }
}
