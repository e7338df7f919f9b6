//! The memory of a whole process, as counted by the kernel.
//!
//! Source: Linux, Documentation/filesystems/proc.rst (`status` since 4.5, `smaps_rollup` since
//! 4.14).

use std::borrow::Cow;
use std::fs;
use std::io;

use crate::error::MeasureError;
use crate::smaps::{MemoryMapping, read_mappings};

const STATUS: &str = "status";
const ROLLUP: &str = "smaps_rollup";
const MAPPINGS: &str = "smaps";

/// The process to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// This one.
    Own,
    /// The process with this id; the kernel reports only those of the same user.
    Id(u32),
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident pages that no file backs: heap, stacks, activations.
    pub rss_anon: u64,
    /// Resident pages of files: mapped models, the program, its libraries.
    pub rss_file: u64,
    /// Resident pages of shared memory.
    pub rss_shmem: u64,
    /// The peak of the sum of the three.
    pub peak_rss: u64,
    /// The number of threads.
    pub n_threads: u64,
    /// From `smaps_rollup`; `None` on a kernel built without it.
    pub sharing: Option<Sharing>,
}

/// The same resident pages, by sharing. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Each page divided by the number of processes that map it: the sum over all processes is the
    /// total memory in use.
    pub pss: u64,
    /// Pages that only it maps.
    pub private: u64,
    /// Pages that other processes map, too.
    pub shared: u64,
}

impl ProcessMemory {
    /// All resident pages.
    pub const fn rss(&self) -> u64 {
        self.rss_anon + self.rss_file + self.rss_shmem
    }
}

impl Process {
    /// The kernel's counters. `Ok(None)` where there are none: everywhere but on Linux.
    ///
    /// The counters of `status` may lag by some pages for each thread or processor; those of
    /// [`Sharing`] come from a walk over all pages and are exact.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if `/proc` is not mounted, does not show the process or lacks a counter.
    pub fn memory(self) -> Result<Option<ProcessMemory>, MeasureError> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let status = Counters::read(self.file(STATUS))?;
        Ok(Some(ProcessMemory {
            rss_anon: status.bytes("RssAnon")?,
            rss_file: status.bytes("RssFile")?,
            rss_shmem: status.bytes("RssShmem")?,
            peak_rss: status.bytes("VmHWM")?,
            n_threads: status.count("Threads")?,
            sharing: Sharing::read(self.file(ROLLUP))?,
        }))
    }

    /// Every mapping, in the order of addresses. `Ok(None)` everywhere but on Linux.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if `/proc` is not mounted, does not show the process, or the list of mappings
    /// is malformed.
    pub fn mappings(self) -> Result<Option<Vec<MemoryMapping>>, MeasureError> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let program = fs::read_link(&*self.file("exe")).ok();
        read_mappings(self.file(MAPPINGS), program.as_deref()).map(Some)
    }

    fn file(self, name: &str) -> Cow<'static, str> {
        match self {
            Self::Own => format!("/proc/self/{name}").into(),
            Self::Id(id) => format!("/proc/{id}/{name}").into(),
        }
    }
}

/// [`Process::memory`] of this process.
///
/// # Errors
///
/// As [`Process::memory`].
pub fn process_memory() -> Result<Option<ProcessMemory>, MeasureError> {
    Process::Own.memory()
}

impl Sharing {
    fn read(file: Cow<'static, str>) -> Result<Option<Self>, MeasureError> {
        let rollup = match Counters::read(file) {
            Err(MeasureError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            rollup => rollup?,
        };
        Ok(Some(Self {
            pss: rollup.bytes("Pss")?,
            private: rollup.bytes("Private_Clean")? + rollup.bytes("Private_Dirty")?,
            shared: rollup.bytes("Shared_Clean")? + rollup.bytes("Shared_Dirty")?,
        }))
    }
}

/// Lines of the form `Name:   12 kB`.
struct Counters {
    file: Cow<'static, str>,
    text: String,
}

impl Counters {
    fn read(file: Cow<'static, str>) -> Result<Self, MeasureError> {
        match fs::read(&*file) {
            // It contains the name of the process, which may be any bytes.
            Ok(bytes) => Ok(Self { file, text: String::from_utf8_lossy(&bytes).into_owned() }),
            Err(source) => Err(MeasureError::Unreadable { file, source }),
        }
    }

    fn value(&self, field: &'static str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
    }

    fn count(&self, field: &'static str) -> Result<u64, MeasureError> {
        self.value(field)
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| MeasureError::NoSize { file: self.file.clone(), field })
    }

    fn bytes(&self, field: &'static str) -> Result<u64, MeasureError> {
        self.value(field)
            .and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok())
            .and_then(|kib| kib.checked_mul(1024))
            .ok_or_else(|| MeasureError::NoSize { file: self.file.clone(), field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(text: &str) -> Counters {
        Counters { file: Process::Own.file(STATUS), text: text.into() }
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let counters =
            counters("RssAnonymous:\t 1 kB\nRssAnon:\t    116 kB\nPss_Dirty: 7 kB\nPss: 3 kB\n");
        assert_eq!(counters.bytes("RssAnon").unwrap(), 116 * 1024);
        assert_eq!(counters.bytes("Pss").unwrap(), 3 * 1024);
    }

    #[test]
    fn a_missing_or_malformed_counter_is_an_error() {
        for text in
            ["", "VmHWM: 12", "VmHWM: x kB", "VmHWM 12 kB", "VmHWM: 99999999999999999999 kB"]
        {
            let error = counters(text).bytes("VmHWM").unwrap_err();
            assert_eq!(
                error.to_string(),
                "/proc/self/status: no number, or no size in kB, under VmHWM",
                "{text}"
            );
        }
    }

    #[test]
    fn another_process_is_measured_by_its_id() {
        let own = Process::Id(std::process::id()).memory();
        let (Ok(Some(own)), Ok(Some(memory))) = (own, process_memory()) else {
            return println!("skipped: this system does not report it");
        };
        assert_eq!(own.sharing.is_some(), memory.sharing.is_some());
        // Process ids are at most 2^22.
        let error = Process::Id(u32::MAX).memory().unwrap_err();
        assert!(error.to_string().starts_with("/proc/4294967295/status: cannot"), "{error}");
    }

    #[test]
    fn a_process_has_memory() {
        let memory = match process_memory() {
            Ok(Some(memory)) => memory,
            Ok(None) => return println!("skipped: this system has no counters"),
            Err(error) => return println!("skipped: {error}"),
        };
        assert!(memory.rss_anon > 0 && memory.rss_file > 0, "{memory:?}");
        assert!(memory.peak_rss > 0 && memory.n_threads > 0, "{memory:?}");
        if let Some(sharing) = memory.sharing {
            assert!(sharing.pss >= sharing.private, "{sharing:?}");
            assert!(sharing.pss <= sharing.private + sharing.shared, "{sharing:?}");
        }
    }
}
