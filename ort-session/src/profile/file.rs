//! The file of a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use web_time::{SystemTime, UNIX_EPOCH};

use super::trace::Trace;

/// A trace that is not available or cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The session is not profiled, or its trace was already taken or written.
    #[error("the session is not profiled, or its trace was already taken")]
    Off,
    /// The system cannot write the file.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Trace {
    /// Writes the trace as a file that Perfetto, `chrome://tracing` and ONNX Runtime's own tools read.
    ///
    /// # Errors
    /// If the system cannot write the file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ProfileError> {
        let path = path.as_ref();
        self.write_to(File::create(path), path)
    }

    /// Writes `PREFIX_2026-01-31_23-59-59_999.json`, the time in UTC; if that file exists,
    /// the next millisecond is used. Returns the path.
    pub(crate) fn write_dated(
        &self,
        prefix: &Path,
        time: SystemTime,
    ) -> Result<PathBuf, ProfileError> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut millis = u64::try_from(since.as_millis()).unwrap_or(0);
        loop {
            let mut name = prefix.as_os_str().to_owned();
            name.push(format!("_{}.json", date(millis)));
            let path = PathBuf::from(name);
            match File::create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => millis += 1,
                file => return self.write_to(file, &path).map(|()| path),
            }
        }
    }

    fn write_to(&self, file: io::Result<File>, path: &Path) -> Result<(), ProfileError> {
        let written = file.and_then(|file| {
            let mut out = BufWriter::new(file);
            self.write_json(&mut out)?;
            out.flush()
        });
        written.map_err(|source| ProfileError::Write { path: path.to_owned(), source })
    }
}

/// The date and time of a millisecond since 1970, in UTC.
fn date(millis: u64) -> String {
    let (seconds, milli) = (millis / 1000, millis % 1000);
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 0;
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month, day) = (month + 1, days + 1);
    format!("{year}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}_{milli:03}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01_00-00-00_007"),
            (951_782_399, "2000-02-28_23-59-59_007"),
            (951_782_400, "2000-02-29_00-00-00_007"),
            (1_709_251_199, "2024-02-29_23-59-59_007"),
            (4_102_444_799, "2099-12-31_23-59-59_007"),
            (4_107_542_400, "2100-03-01_00-00-00_007"),
        ] {
            assert_eq!(date(seconds * 1000 + 7), expected);
        }
    }
}
