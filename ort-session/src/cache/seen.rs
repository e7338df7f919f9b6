//! Records the state of a file that was read as a whole, so that it need not be read again.

use std::fs::{self, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ort_loader::{Link, open_file};

use super::record_path;
use super::trust::create_folder;
use crate::save::write_with_mode;

/// The first line of a record.
const HEADER: &str = "ort-session: seen 1";
/// More than the size of any record.
const MAX_BYTES: u64 = 4096;
/// The resolution of file times: a change within a tick may leave the times equal. Linux
/// ticks at least a hundred times a second.
const TICK: Duration = Duration::from_millis(50);
/// The resolution of file systems that store whole seconds.
const COARSE_TICK: Duration = Duration::from_secs(3);

/// The metadata of a file. Any write to the file changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Device and inode, if there are any.
    place: (u64, u64),
    len: u64,
    /// The modification time, since 1970.
    modified: Duration,
    /// The time of the last change of any metadata; `modified` if the system does not report it.
    changed: Duration,
}

impl State {
    /// The state of the file at `path`; `None` if there is none, or it has no times.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let (place, changed) = place_and_change(&metadata, modified)?;
        Some(Self { place, len: metadata.len(), modified, changed })
    }

    /// Whether a change after `now` would be visible in the times.
    fn is_settled(&self, now: Duration) -> bool {
        let last = self.modified.max(self.changed);
        let tick = if last.subsec_nanos() == 0 { COARSE_TICK } else { TICK };
        last + tick <= now
    }

    /// Waits until a change would be visible, if that is soon: some hundredths of a second after the last one.
    pub(super) fn settle(&self) {
        let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
        let settled = self.modified.max(self.changed) + TICK;
        if !self.is_settled(now) && settled.saturating_sub(now) <= TICK {
            std::thread::sleep(settled.saturating_sub(now));
        }
    }

    fn line(&self) -> String {
        let Self { place: (device, inode), len, modified, changed } = self;
        format!("{device} {inode} {len} {} {}", modified.as_nanos(), changed.as_nanos())
    }
}

#[cfg(unix)]
fn place_and_change(metadata: &Metadata, _: Duration) -> Option<((u64, u64), Duration)> {
    use std::os::unix::fs::MetadataExt;

    let (seconds, nanos) = (metadata.ctime(), metadata.ctime_nsec());
    let changed = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
    Some(((metadata.dev(), metadata.ino()), changed))
}

#[cfg(not(unix))]
fn place_and_change(_: &Metadata, modified: Duration) -> Option<((u64, u64), Duration)> {
    Some(((0, 0), modified))
}

/// The record of the model that a file holds.
pub(super) struct Seen(PathBuf);

impl Seen {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The record of the packed file at `path`.
    pub(super) fn of(path: &Path) -> Self {
        Self(record_path(path))
    }

    /// The model that a file in this state holds, if it was read and has not changed since.
    pub(super) fn recall(&self, state: &State) -> Option<String> {
        let (file, mut text) = (open_file(&self.0, Link::Refuse).ok()?, String::new());
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let is_it = lines.next()? == HEADER && lines.next()? == state.line();
        let (then, of, end) = (lines.next()?, lines.next()?, lines.next());
        let then = Duration::from_nanos(then.parse().ok()?);
        (is_it && state.is_settled(then) && end == Some("end")).then(|| of.to_owned())
    }

    /// Records that a file in this state holds the model `of`. On failure, the file is read again
    /// the next time.
    pub(super) fn remember(&self, state: &State, of: &str) {
        let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
        let text = format!("{HEADER}\n{}\n{}\n{of}\nend\n", state.line(), now.as_nanos());
        let folder = self.0.parent().map_or(Ok(()), create_folder);
        let folder = folder.map_err(|error| error.to_string());
        let write = || write_with_mode(&self.0, text.as_bytes(), 0o600);
        if let Err(error) = folder.and_then(|()| write().map_err(|error| error.to_string())) {
            tracing::debug!(%error, "the file will be read again");
        }
    }

    /// Records that the file was used now.
    pub(super) fn touch(&self) {
        let file = open_file(&self.0, Link::Refuse).ok();
        // Without write access there is no record.
        let _ = file.map(|file| file.set_modified(SystemTime::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &Path, text: &str) -> State {
        fs::write(path, text).unwrap();
        State::of(path).unwrap()
    }

    /// The same as if it had changed a minute ago.
    fn settled(state: &State) -> State {
        let minute = Duration::from_secs(60);
        let (modified, changed) = (state.modified - minute, state.changed - minute);
        State { modified, changed, ..state.clone() }
    }

    #[test]
    fn a_file_is_known_until_anything_about_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let state = settled(&written(&folder.path().join("file"), "text"));
        let seen = Seen::at(folder.path().join("new/seen"));
        assert_eq!(seen.recall(&state), None);
        seen.remember(&state, "model");
        assert_eq!(seen.recall(&state).as_deref(), Some("model"));
        let nanosecond = Duration::from_nanos(1);
        for other in [
            State { place: (state.place.0, state.place.1 + 1), ..state.clone() },
            State { len: 5, ..state.clone() },
            State { modified: state.modified + nanosecond, ..state.clone() },
            State { changed: state.changed + nanosecond, ..state.clone() },
        ] {
            assert_eq!(seen.recall(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_recent_change_may_hide_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let seen = Seen::of(&path);
        let state = written(&path, "text");
        let far = State { modified: state.modified + Duration::from_secs(60), ..state };
        seen.remember(&far, "model");
        assert_eq!(seen.recall(&far), None);
        let whole = Duration::from_secs(far.modified.as_secs() - 62);
        for (behind, is_known) in [(0, false), (1, false), (4, true)] {
            let modified = whole - Duration::from_secs(behind);
            let coarse = State { modified, changed: modified, ..far.clone() };
            assert_eq!(coarse.is_settled(whole), is_known, "{behind} s");
        }
    }

    #[test]
    fn a_new_file_is_known_once_its_times_have_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (state, seen) = (written(&path, "text"), Seen::of(&path));
        state.settle();
        seen.remember(&state, "model");
        // Not where the file system stores whole seconds.
        let is_fine = state.modified.max(state.changed).subsec_nanos() != 0;
        assert_eq!(seen.recall(&state).is_some(), is_fine);
    }

    #[test]
    fn a_damaged_record_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (state, seen) = (settled(&written(&path, "text")), Seen::of(&path));
        seen.remember(&state, "model");
        let text = fs::read_to_string(&seen.0).unwrap();
        for len in 0..text.len() - 1 {
            fs::write(&seen.0, &text[..len]).unwrap();
            assert_eq!(seen.recall(&state), None, "{len} bytes");
        }
        fs::write(&seen.0, text.replacen("seen 1", "seen 2", 1)).unwrap();
        assert_eq!(seen.recall(&state), None);
        fs::write(&seen.0, [0xff; 9]).unwrap();
        assert_eq!(seen.recall(&state), None);
    }
}
