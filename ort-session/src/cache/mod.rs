//! A folder of packed files, one for each model and target.
//!
//! A file is found by the SHA-256 of the model and the description of the packing target;
//! it holds both, and a checksum. Any defect of it, or of the folder, costs a
//! warning and a start without it, never a wrong result.
//!
//! Hashing a model and verifying a packed file read them as a whole. [`Seen`] avoids this for a file that
//! has not changed: same inode, length and modification times.

// collects are bounded: names of a constant length, and warnings

mod external;
mod folder;
mod seen;
mod trust;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use ort_loader::{LoadError, ModelBytes};
use sha2::{Digest, Sha256};
use web_time::Instant;

pub use self::folder::{Cache, CacheEntry, Pruned, Retention};
use self::seen::{Seen, State};
use crate::builder::SessionBuilder;
use crate::error::SessionError;
use crate::external::paths_of;
use crate::initializers::Initializers;
use crate::log::{Log, Severity};
use crate::optimized::{Optimized, Pack};
use crate::packed::made_of;
use crate::resolved::Resolved;
use crate::save::{remove_leftovers, write_with_mode};
use crate::session::{CacheUse, Session};

/// The suffix of packed files.
const SUFFIX: &str = ".packed.ort";

/// The origin of a model.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    File(&'a Path),
    Bytes(ModelBytes),
}

/// A session of the packed file that `folder` has for a model. If there is no usable file, it is
/// created.
pub(crate) fn session(
    folder: &Path,
    source: &Source<'_>,
    builder: SessionBuilder,
) -> Result<Session, SessionError> {
    let start = Instant::now();
    let search = Search { folder, settings: builder.resolved()?, start };
    let Some(packed_for) = search.settings.packed_for.clone() else {
        let optimized = search.settings.optimized(source.load(&search.settings)?, start)?;
        let why = "a provider of the session packs its constants for one process only".to_owned();
        return uncached(optimized, vec![why]);
    };
    if let Err(why) = trust::check(folder) {
        let optimized = search.settings.optimized(source.load(&search.settings)?, start)?;
        return uncached(optimized, vec![format!("{why}; the model is used without a cache")]);
    }
    let Identity { of, bytes, external_files } = search.identify(source)?;
    let path = folder.join(format!("{}-{}{SUFFIX}", source.stem(), short(&[&of, &packed_for])));
    let mut warnings = Vec::new();
    match search.found(&path, &of) {
        Ok(Some((mut session, _))) => {
            if let Err(why) = trust::narrow(&path, source.mode()) {
                warn(&search.settings.log, &[why]);
            }
            session.metadata.load_time = start.elapsed();
            session.metadata.cache = CacheUse::Found;
            session.metadata.external_files = external_files;
            return Ok(session);
        }
        Ok(None) => {}
        Err(why) => warnings.push(format!("{why}; it is created again")),
    }
    let bytes = bytes.map_or_else(|| source.load(&search.settings), Ok)?;
    let optimized = search.settings.optimized(bytes, start)?;
    if optimized.is_packed() {
        return optimized.commit();
    }
    match search.make((&path, source.mode()), &of, &optimized) {
        Ok(mut session) => {
            session.metadata.load_time = start.elapsed();
            session.metadata.cache = CacheUse::Made;
            session.metadata.external_files = external_files;
            warn(&search.settings.log, &warnings);
            session.metadata.packing_warnings.extend(warnings);
            Ok(session)
        }
        Err(why) => {
            search.settings.check_cancelled("save")?;
            warnings.push(format!("{why}; the model is used without it"));
            uncached(optimized, warnings)
        }
    }
}

fn uncached(optimized: Optimized, warnings: Vec<String>) -> Result<Session, SessionError> {
    warn(&optimized.settings.log, &warnings);
    let mut session = optimized.commit()?;
    session.metadata.cache = CacheUse::Failed;
    session.metadata.packing_warnings.extend(warnings);
    Ok(session)
}

fn warn(log: &Log, warnings: &[String]) {
    warnings.iter().for_each(|it| log.event(Severity::Warning, format_args!("{it}")));
}

/// What identifies a model in the folder.
struct Identity {
    /// The SHA-256 of the model, its external data and replaced initializers.
    of: String,
    /// The model's bytes, if they had to be read.
    bytes: Option<ModelBytes>,
    external_files: Vec<PathBuf>,
}

/// A lookup of one packed file.
struct Search<'a> {
    folder: &'a Path,
    settings: Resolved,
    start: Instant,
}

impl Search<'_> {
    fn identify(&self, source: &Source<'_>) -> Result<Identity, SessionError> {
        let (of, bytes) = match source {
            Source::Bytes(bytes) => {
                (sha256(bytes.as_slice(), &self.settings)?, Some(bytes.clone()))
            }
            Source::File(path) => self.hashed(path, || source.load(&self.settings))?,
        };
        let external = external::of(source, &self.settings)?;
        let initializers = &self.settings.initializers;
        if external.is_empty() && initializers.is_empty() {
            return Ok(Identity { of, bytes, external_files: Vec::new() });
        }
        let mut hash = Sha256::new();
        hash.update(&of);
        for (name, file) in &external {
            let of = match file.path() {
                Some(path) => self.hashed(path, || Ok(file.clone()))?.0,
                None => sha256(file.as_slice(), &self.settings)?,
            };
            hash.update(format!("\0{name}\0{of}"));
        }
        initializers.visit_bytes(&mut |bytes| hash.update(bytes));
        let external_files = paths_of(external.values());
        Ok(Identity { of: hex(&hash.finalize()), bytes, external_files })
    }

    /// The SHA-256 of a file, and its bytes if they had to be read.
    fn hashed(
        &self,
        path: &Path,
        load: impl FnOnce() -> Result<ModelBytes, LoadError>,
    ) -> Result<(String, Option<ModelBytes>), SessionError> {
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let seen =
            Seen::at(self.folder.join(format!("{}.seen", short(&[&name.to_string_lossy()]))));
        let before = State::of(path);
        if let Some(of) = before.as_ref().and_then(|state| seen.recall(state)) {
            return Ok((of, None));
        }
        let bytes = load()?;
        let of = sha256(bytes.as_slice(), &self.settings)?;
        if let Some(state) = before.filter(|state| State::of(path).as_ref() == Some(state)) {
            seen.remember(&state, &of);
        }
        Ok((of, Some(bytes)))
    }

    /// A session of the packed file at `path`, if there is one, and the state of a file that was read for it; the reason
    /// if it cannot be used, which begins with the path.
    fn found(&self, path: &Path, of: &str) -> Result<Option<(Session, Option<State>)>, String> {
        trust::check(path)?;
        let before = State::of(path);
        let bytes = match self.settings.bytes_of(path) {
            Ok(bytes) => bytes,
            Err(LoadError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(said(error)),
        };
        let state = before.filter(|state| State::of(path).as_ref() == Some(state));
        let seen = Seen::of(path);
        let is_known =
            state.as_ref().is_some_and(|state| seen.recall(state).as_deref() == Some(of));
        let checks_sums = self.settings.checks_sums && !is_known;
        // Replaced initializers are in the packed file.
        let initializers = Initializers::default();
        let settings = Resolved { checks_sums, initializers, ..self.settings.clone() };
        let optimized =
            settings.optimized(bytes, self.start).map_err(|error| named(path, error))?;
        if made_of(&optimized.model().metadata) != Some(of) {
            return Err(named(path, "it is of another model"));
        }
        if !optimized.is_packed() {
            return Err(named(path, "it is packed for another target"));
        }
        let session = optimized.commit().map_err(|error| named(path, error))?;
        let read = state.filter(|_| checks_sums);
        match &read {
            Some(state) => seen.remember(state, of),
            None if is_known => seen.touch(),
            None => {}
        }
        Ok(Some((session, read)))
    }

    /// Creates the packed file at `path` and a session of it; the reason if that fails, which begins with a path.
    fn make(
        &self,
        (path, mode): (&Path, u32),
        of: &str,
        optimized: &Optimized,
    ) -> Result<Session, String> {
        let packed = optimized.packed(Pack::Replace, Some(of));
        let (bytes, _) = packed.map_err(|error| named(path, error))?;
        trust::create_folder(self.folder).map_err(|error| named(self.folder, error))?;
        trust::check(self.folder)?;
        remove_leftovers(self.folder);
        let write = || write_with_mode(path, &bytes, mode);
        self.settings.saving(usize::MAX, write).map_err(said)?;
        drop(bytes);
        let found = self.found(path, of)?;
        let found = found.ok_or_else(|| named(path, "it was removed immediately"))?;
        let (session, read) = found;
        // So that the next start does not read it either.
        if let Some(state) = read {
            state.settle();
            if State::of(path).as_ref() == Some(&state) {
                Seen::of(path).remember(&state, of);
            }
        }
        Ok(session)
    }
}

impl Source<'_> {
    pub(crate) fn load(&self, settings: &Resolved) -> Result<ModelBytes, LoadError> {
        match self {
            Self::File(path) => settings.bytes_of(path),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }

    /// The file mode of its packed file.
    fn mode(&self) -> u32 {
        match self {
            Self::File(path) => trust::mode_of(Some(path)),
            Self::Bytes(_) => trust::mode_of(None),
        }
    }

    /// The model's part of the name of a packed file.
    fn stem(&self) -> String {
        let stem = match self {
            Self::File(path) => path.file_stem().unwrap_or_default().to_string_lossy(),
            Self::Bytes(_) => "model".into(),
        };
        let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        stem.chars().take(80).map(keep).collect()
    }
}

/// A reason that begins with the path.
fn named(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

/// The message of an error that names the path itself.
fn said(error: impl Display) -> String {
    error.to_string()
}

/// The SHA-256 of a model, as `sha256sum` writes it.
///
/// # Errors
/// If loading was cancelled.
fn sha256(bytes: &[u8], settings: &Resolved) -> Result<String, SessionError> {
    /// Bytes between two checks for cancellation: some milliseconds.
    const PIECE: usize = 1 << 22;
    let mut hash = Sha256::new();
    for piece in bytes.chunks(PIECE) {
        settings.check_cancelled("hash")?;
        hash.update(piece);
    }
    Ok(hex(&hash.finalize()))
}

/// Sixteen hexadecimal digits that identify the names.
fn short(names: &[&str]) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that records the verified state of the packed file at `path`.
fn record_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".seen");
    name.into()
}
