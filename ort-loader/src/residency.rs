//! Which pages of a buffer are in memory, from the kernel's own table.
//!
//! `/proc/self/pagemap` has one entry of eight bytes for each page of the address space. It is
//! exact for a buffer that shares its mapping with others, where `smaps` has one sum for all of
//! them; and it tells the truth about files of other users, for which `mincore` reports every page
//! as resident.
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst (bits 56 and 63, since 4.2).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::error::MeasureError;
use crate::pages::page_size;

const PAGEMAP: &str = "/proc/self/pagemap";
const ENTRY_BYTES: usize = size_of::<u64>();

/// Bit 63: the page is in memory and mapped into this process.
const PRESENT: u64 = 1 << 63;
/// Bit 56: and into nothing else.
const EXCLUSIVE: u64 = 1 << 56;

/// How many bytes of a buffer are in memory: `resident = shared + private`.
///
/// A page of a mapped file that is in the system's cache but was not touched by this process is
/// not resident; the kernel maps some pages around each one that is touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Mapped into this process now. At most the buffer's length.
    pub resident: usize,
    /// Of these, on pages that something else maps too: another process, or this one again.
    pub shared: usize,
    /// Of these, on pages that nothing else maps at this moment. A page of a file counts here as
    /// long as this is the only process that uses it; it costs nothing to give back.
    pub private: usize,
}

/// Reads the entries of every page that `buffer` touches.
pub(crate) fn residency(buffer: &[u8]) -> Result<Option<Residency>, MeasureError> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    match read_pagemap(buffer, page_size()) {
        Ok(residency) => Ok(Some(residency)),
        Err(source) => Err(MeasureError::Unreadable { file: PAGEMAP, source }),
    }
}

fn read_pagemap(buffer: &[u8], page: usize) -> io::Result<Residency> {
    let start = buffer.as_ptr().addr();
    let end = start + buffer.len();
    let mut table = BufReader::new(File::open(PAGEMAP)?);
    let first_entry = u64::try_from(start / page * ENTRY_BYTES).map_err(io::Error::other)?;
    table.seek(SeekFrom::Start(first_entry))?;

    let mut sum = Residency::default();
    let mut address = start;
    while address < end {
        let page_end = (address / page + 1) * page;
        let n_bytes = page_end.min(end) - address;
        let mut entry = [0; ENTRY_BYTES];
        table.read_exact(&mut entry)?;
        sum.add_page(u64::from_ne_bytes(entry), n_bytes);
        address = page_end;
    }
    Ok(sum)
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
