//! The memory of a session as a JSON file, requested by the key `ort_rs.memory_report`: of session options, written
//! when the session is released, or of run options, written after the run.

use std::path::Path;

use ort_session::Session;

use crate::error::Error;

/// The key, whose value is the file's path.
pub(crate) const KEY: &str = "ort_rs.memory_report";

/// Writes the report of a session.
pub(crate) fn write(session: &Session, path: &Path) -> Result<(), Error> {
    let text = session.memory().to_json() + "\n";
    let failed = |error| Error::fail(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, text).map_err(failed)
}
