//! The one place that maps a file and releases its pages.
//!
//! Rust requires that the bytes behind a `&[u8]` do not change. A mapping satisfies this only
//! as long as the file is neither written to nor truncated. No program can check that, so it is
//! a condition for the caller who chooses [`Load::Mapped`](crate::Load::Mapped), where it is
//! documented. All other preconditions of the two calls below are checked here.
#![expect(unsafe_code, reason = "a mapping is valid only while its file is unmodified")]

use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::Mmap;

use crate::pages::page_size;

/// A whole file, mapped for reading and shared with every process that maps it.
#[derive(Clone, Debug)]
pub(crate) struct Mapping(Arc<Mmap>);

impl Mapping {
    /// Maps the file from its first byte to the last one it has now.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: the file must not be modified or truncated while it is mapped, in this process
        // or another. This is the documented condition of `Load::Mapped` and of all modes that map.
        let mapping = unsafe { Mmap::map(file) }?;
        Ok(Self(Arc::new(mapping)))
    }

    /// Makes every page resident and maps it into this process' page table.
    pub(crate) fn populate(&self) -> io::Result<()> {
        // The system may read a file that is not in its cache at once; this is only advice.
        #[cfg(unix)]
        let _ = self.0.advise(memmap2::Advice::WillNeed);
        #[cfg(target_os = "linux")]
        match self.0.advise(memmap2::Advice::PopulateRead) {
            // Unknown before Linux 5.14.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            done => return done,
        }
        for first in self.0.chunks(page_size()).filter_map(<[u8]>::first) {
            std::hint::black_box(*first);
        }
        Ok(())
    }

    /// Removes the pages that overlap `range` from this process; the next access reloads them
    /// from the file.
    #[cfg(unix)]
    pub(crate) fn drop_pages(&self, range: std::ops::Range<usize>) -> io::Result<()> {
        // memmap2 checks start and length, but not their sum.
        let Some(part) = self.0.get(range.clone()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let advice = memmap2::UncheckedAdvice::DontNeed;
        // SAFETY: the advice must not change what a live reference sees. The mapping is read-only
        // and shared, so a dropped page is reloaded with the content of the file, which
        // stays unmodified while it is mapped; and the range lies within the mapping.
        unsafe { self.0.unchecked_advise_range(advice, range.start, part.len()) }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
