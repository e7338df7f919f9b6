//! Ownership and permissions of a cache folder: a session uses the files it maps with its user's
//! rights.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::path::Path;

use ort_loader::{Link, open_file};

/// Creates a folder and its parents, accessible to this user only. It may exist.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Checks that only this user and the system's could have written the file at `path`, or that it does not exist; the
/// reason if not.
pub(super) fn check(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) => check_owner(&found).map_err(|why| format!("{}: {why}", path.display())),
        Err(_) => Ok(()),
    }
}

#[cfg(unix)]
fn check_owner(found: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    /// Write permission for the group or for others.
    const OTHERS_WRITE: u32 = 0o022;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    match (owner == user || owner == 0, found.mode() & OTHERS_WRITE) {
        (true, 0) => Ok(()),
        (true, mode) => Err(format!("others may write to it (mode {mode:03o} of 022)")),
        (false, _) => Err(format!("it belongs to user {owner}, and this is user {user}")),
    }
}

#[cfg(not(unix))]
fn check_owner(_: &Metadata) -> Result<(), String> {
    Ok(())
}

/// The mode of a packed file: readable by those who may read the model, writable by no one.
/// For a model that is not a file, readable by this user only.
pub(super) fn mode_of(model: Option<&Path>) -> u32 {
    model.and_then(|path| fs::metadata(path).ok()).map_or(0o400, |found| mode(&found) & 0o444)
}

/// Takes away permissions of a packed file that its model no longer has, but not of what a link leads to; the reason
/// if that fails.
pub(super) fn narrow(path: &Path, most: u32) -> Result<(), String> {
    let said = |error: io::Error| format!("{}: {error}", path.display());
    let file = open_file(path, Link::Refuse).map_err(|error| error.to_string())?;
    let found = mode(&file.metadata().map_err(said)?) & 0o777;
    if found & !most == 0 { Ok(()) } else { set_mode(&file, found & most).map_err(said) }
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn mode(found: &Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions())
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> u32 {
    0o444
}
