//! The external data files of a model, which affect the contents of a packed file.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use ort_loader::{Link, Load, LoadError, ModelBytes, open_file};

use super::Source;
use crate::error::SessionError;
use crate::resolved::Resolved;

/// The external data files of a model, by the names that it uses for them. They are mapped where possible:
/// whether they must be read is decided by their modification times.
pub(super) fn of(
    source: &Source<'_>,
    settings: &Resolved,
) -> Result<BTreeMap<String, ModelBytes>, SessionError> {
    let bytes = match source {
        Source::Bytes(bytes) if ort_onnx::is_onnx(bytes.as_slice()) => bytes.clone(),
        Source::File(path) if is_onnx(path)? => {
            settings.bounded(|| ModelBytes::from_path(path, Load::Auto))?
        }
        _ => return Ok(BTreeMap::new()),
    };
    let load = || -> Result<_, SessionError> {
        let model = ort_onnx::decode(bytes.bytes(), &ort_onnx::Limits::default());
        let mut model = model.map_err(Box::new)?;
        settings.initializers.release(&mut model);
        settings.external.load(&model, &bytes, Load::Auto)
    };
    settings.or_cancelled("hash", settings.bounded(load))
}

/// Whether a file looks like a `.onnx` file.
fn is_onnx(path: &Path) -> Result<bool, LoadError> {
    let mut first = Vec::new();
    let read = open_file(path, Link::Follow)?.take(16).read_to_end(&mut first);
    read.map_err(|source| LoadError::Unreadable { path: path.into(), source })?;
    Ok(ort_onnx::is_onnx(&first))
}
