//! A model's file, whichever format it has: the one place that tells them apart.

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

/// What a file holds.
pub(crate) struct Opened<'a> {
    pub(crate) model: Model<'a>,
    /// What it says of packed constants.
    pub(crate) seal: Option<Seal<'a>>,
    /// Its other files.
    pub(crate) external: Vec<ModelBytes>,
}

/// What opening a file may cost, where its other files are, and what is given in their stead.
#[derive(Clone, Copy)]
pub(crate) struct How<'s> {
    pub(crate) limits: &'s Limits,
    pub(crate) external: &'s External,
    pub(crate) load: Load,
    pub(crate) initializers: &'s Initializers,
}

impl<'a> Opened<'a> {
    /// Checks a file and reads it; nothing but structure is copied. What begins like a `.onnx` file is one.
    /// Of one that cannot be read it is told what it is instead, if its contents tell.
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
        let elsewhere = how.initializers.release(&mut model);
        let external = how.external.load(&model, bytes, how.load)?;
        let model = Model::of_onnx(model, &bytes_of(&external));
        let mut model = model.map_err(|error: ImportError| Box::new(error))?;
        how.initializers.put(&mut model.graph, &elsewhere)?;
        Ok(Self { model, seal: None, external: external.into_values().collect() })
    }
}
