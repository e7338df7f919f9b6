//! Which pages of a buffer are in memory, from the kernel's own table.
//!
//! `/proc/self/pagemap` has one entry of eight bytes for each page of the address space. It is
//! exact for a buffer that shares its mapping with others, where `smaps` has one sum for the
//! mapping; and it is correct for files of other users, for which `mincore` reports every page
//! as resident.
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst (bits 56 and 63, since 4.2).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::iter::Sum;
use std::ops::Add;

use crate::error::MeasureError;
use crate::pages::page_size;

const PAGEMAP: &str = "/proc/self/pagemap";
const ENTRY_BYTES: usize = size_of::<u64>();

/// Bit 63: the page is in memory and mapped into this process.
const PRESENT: u64 = 1 << 63;
/// Bit 56: mapped into this process only.
const EXCLUSIVE: u64 = 1 << 56;

/// The resident bytes of a buffer: `resident = shared + private`.
///
/// A page of a mapped file that is in the page cache but was not touched by this process is
/// not resident; the kernel maps some pages around each touched one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Mapped into this process now. At most the buffer's length.
    pub resident: usize,
    /// Of these, on pages that are mapped a second time, by another process or by this one.
    pub shared: usize,
    /// Of these, on pages that are mapped only once at the moment. A page of a file counts here as
    /// long as no other process uses it; releasing it is free.
    pub private: usize,
}

/// The kernel's page table of this process, opened once to measure many buffers.
#[derive(Debug)]
pub struct PageTable {
    file: BufReader<File>,
    page_bytes: usize,
}

impl PageTable {
    /// Opens it. `Ok(None)` where there is none: everywhere but on Linux.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if it cannot be read: `/proc` is not mounted, or hidden.
    pub fn open() -> Result<Option<Self>, MeasureError> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let file = File::open(PAGEMAP).map_err(unreadable)?;
        Ok(Some(Self { file: BufReader::new(file), page_bytes: page_size() }))
    }

    /// The residency of `buffer`: reads the entry of every page that it overlaps.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if the kernel does not report it.
    pub fn residency(&mut self, buffer: &[u8]) -> Result<Residency, MeasureError> {
        self.read(buffer).map_err(unreadable)
    }

    fn read(&mut self, buffer: &[u8]) -> io::Result<Residency> {
        let start = buffer.as_ptr().addr();
        let end = start + buffer.len();
        let page = self.page_bytes;
        let first_entry = u64::try_from(start / page * ENTRY_BYTES).map_err(io::Error::other)?;
        self.file.seek(SeekFrom::Start(first_entry))?;

        let mut sum = Residency::default();
        let mut address = start;
        while address < end {
            let page_end = (address / page + 1) * page;
            let n_bytes = page_end.min(end) - address;
            let mut entry = [0; ENTRY_BYTES];
            self.file.read_exact(&mut entry)?;
            sum.add_page(u64::from_ne_bytes(entry), n_bytes);
            address = page_end;
        }
        Ok(sum)
    }
}

/// The residency of one buffer.
pub(crate) fn residency(buffer: &[u8]) -> Result<Option<Residency>, MeasureError> {
    PageTable::open()?.map(|mut table| table.residency(buffer)).transpose()
}

fn unreadable(source: io::Error) -> MeasureError {
    MeasureError::Unreadable { file: PAGEMAP.into(), source }
}

impl Residency {
    fn add_page(&mut self, entry: u64, n_bytes: usize) {
        if entry & PRESENT == 0 {
            return;
        }
        self.resident += n_bytes;
        if entry & EXCLUSIVE == 0 {
            self.shared += n_bytes;
        } else {
            self.private += n_bytes;
        }
    }
}

impl Add for Residency {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            resident: self.resident + other.resident,
            shared: self.shared + other.shared,
            private: self.private + other.private,
        }
    }
}

impl Sum for Residency {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}
