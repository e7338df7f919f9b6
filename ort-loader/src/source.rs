//! The one place that maps a file and hands its pages back.
//!
//! Rust promises that the bytes behind a `&[u8]` do not change. A mapping keeps that promise only
//! as long as the file is neither written to nor truncated; no program can check that, so the
//! promise is passed on to the caller who chooses [`Load::Mapped`](crate::Load::Mapped), where it is
//! documented. Everything else about the two calls below is checked here.
#![expect(unsafe_code, reason = "a mapping is valid only while its file stays as it is")]

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
        // or another. `Load::Mapped` states this as its condition, and that of all that map.
        let mapping = unsafe { Mmap::map(file) }?;
        Ok(Self(Arc::new(mapping)))
    }

    /// Brings every page into memory and into this process' table of pages.
    pub(crate) fn populate(&self) -> io::Result<()> {
        // The system may read all of a file that is not in its cache at once; what it makes of it is
        // its business.
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

    /// Takes the pages that `range` touches out of this process; the next access brings them back
    /// from the file.
    #[cfg(unix)]
    pub(crate) fn drop_pages(&self, range: std::ops::Range<usize>) -> io::Result<()> {
        // memmap2 looks at start and length, but not at their sum.
        let Some(part) = self.0.get(range.clone()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let advice = memmap2::UncheckedAdvice::DontNeed;
        // SAFETY: the advice must not change what a live reference sees. The mapping is read-only
        // and shared, so a dropped page can only come back with the content of the file, which
        // stays unmodified while it is mapped; and the range lies within the mapping.
        unsafe { self.0.unchecked_advise_range(advice, range.start, part.len()) }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
