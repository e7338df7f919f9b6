//! Memory that tensors own: aligned, zeroed, and returned to the system when it is large.

use std::fmt;
use std::ops::Range;
use std::sync::Weak;

use bytemuck::{Pod, Zeroable};
use memmap2::{MmapMut, MmapOptions};

use crate::room::{Lease, check};
use crate::{TensorError, spares};

/// Whether the system has mappings; otherwise, as in a browser, every buffer comes from the heap.
const HAS_MAPPINGS: bool = cfg!(any(unix, windows));

/// Buffers of this size and above are separate mappings, so that dropping one lowers the process' RSS
/// with any allocator. glibc also starts to map here, but each freed mapping raises its threshold, up to
/// twice the size.
const OWN_MAPPING_BYTES: usize = 128 << 10;

/// The same for buffers that last as long as a session: memory of this size that comes from the heap is seldom
/// returned, because small long-lived objects lie in between.
const LASTING_MAPPING_BYTES: usize = 32 << 10;

/// The huge page size of x86-64 and most other processors. The first touch of a mapping costs a page
/// fault: 4 MiB take 0.3 ms to touch in huge pages and 1.2 ms in pages of 4 KiB (Linux 6.18 in
/// a virtual machine). Only whole huge pages are requested, so that a buffer takes no more memory than its size.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// One cache line: the unit that gives heap buffers their alignment.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Zeroed bytes, aligned to 64, owned by one tensor or by an arena.
pub struct AlignedBuf {
    memory: Memory,
    len: usize,
    home: Option<Weak<dyn Home>>,
    /// The allowance's bytes, returned when this is dropped.
    _lease: Lease,
}

/// Where buffers go for reuse when they are dropped.
pub trait Home: Send + Sync {
    /// Takes in a buffer with its content, or drops it.
    fn take_in(&self, buf: AlignedBuf);
}

enum Memory {
    Heap(Vec<Line>),
    Mapped(Pages),
}

/// When the small pages of a mapping become resident.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// All at once, where the system supports it: tensors are written as a whole, and clearing 800 KiB takes no
    /// longer than in the heap; page by page it takes three times as long.
    All,
    /// On first access.
    Later,
}

/// The bytes of a mapping from `start` on.
pub(crate) struct Pages {
    mapping: MmapMut,
    start: usize,
    /// The requested length.
    pub(crate) len: usize,
}

/// The initial content of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    Zeros,
    /// Any content: it is overwritten as a whole.
    Anything,
}

impl AlignedBuf {
    /// The alignment of the first byte.
    pub const ALIGN: usize = 64;

    /// `len` zero bytes; `None` if they exceed the thread's allowance ([`within`](crate::within)) or the system
    /// has not enough memory.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        Self::try_mapped_from(OWN_MAPPING_BYTES, len, Touch::All, Holding::Zeros)
    }

    /// The same for buffers that last as long as a session: from 32 KiB on a separate mapping.
    pub fn try_lasting(len: usize) -> Option<Self> {
        Self::try_mapped_from(LASTING_MAPPING_BYTES, len, Touch::All, Holding::Zeros)
    }

    /// The same for a block that may be used only in part: pages that are never touched take no memory.
    pub fn try_block(len: usize) -> Option<Self> {
        Self::try_mapped_from(LASTING_MAPPING_BYTES, len, Touch::Later, Holding::Zeros)
    }

    fn try_mapped_from(least: usize, len: usize, touch: Touch, holding: Holding) -> Option<Self> {
        let lease = Lease::take(len).ok()?;
        let memory = if HAS_MAPPINGS && len >= least {
            Memory::Mapped(match Pages::spare(len, touch, holding) {
                Some(pages) => pages,
                None => Pages::try_zeroed(len, touch)?,
            })
        } else {
            Memory::Heap(bytemuck::try_zeroed_vec(len.div_ceil(size_of::<Line>())).ok()?)
        };
        Some(Self { memory, len, home: None, _lease: lease })
    }

    /// `len` zero bytes. If the system cannot map them, they come from the heap, which aborts if
    /// it cannot grow. Use [`AlignedBuf::try_zeroed`] for sizes from a file or a caller.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| {
            let lines = bytemuck::zeroed_vec(len.div_ceil(size_of::<Line>()));
            Self { memory: Memory::Heap(lines), len, home: None, _lease: Lease::NONE }
        })
    }

    /// [`AlignedBuf::try_lasting`] that falls back as [`AlignedBuf::zeroed`] does.
    pub fn lasting(len: usize) -> Self {
        Self::try_lasting(len).unwrap_or_else(|| Self::zeroed(len))
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn try_copy_of(bytes: &[u8]) -> Result<Self, TensorError> {
        Self::copied_to(bytes, OWN_MAPPING_BYTES)
    }

    /// The same for a buffer that lasts as long as a session.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn try_lasting_copy_of(bytes: &[u8]) -> Result<Self, TensorError> {
        Self::copied_to(bytes, LASTING_MAPPING_BYTES)
    }

    /// A buffer of any content that is dropped soon: within [`reusing`](crate::reusing), any mapping that is large enough
    /// serves.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn try_temporary(len: usize) -> Result<Self, TensorError> {
        check(len)?;
        let pages = if len >= LASTING_MAPPING_BYTES { spares::take_larger(len) } else { None };
        let Some(pages) = pages else {
            let no_memory = TensorError::NoMemory { n_bytes: len, limit: None };
            let buf = Self::try_mapped_from(OWN_MAPPING_BYTES, len, Touch::All, Holding::Anything);
            return buf.ok_or(no_memory);
        };
        let lease = Lease::take(len)?;
        Ok(Self { memory: Memory::Mapped(pages), len, home: None, _lease: lease })
    }

    fn copied_to(bytes: &[u8], least: usize) -> Result<Self, TensorError> {
        check(bytes.len())?;
        let no_memory = TensorError::NoMemory { n_bytes: bytes.len(), limit: None };
        let buf = Self::try_mapped_from(least, bytes.len(), Touch::All, Holding::Anything);
        let mut buf = buf.ok_or(no_memory)?;
        buf.as_mut().copy_from_slice(bytes);
        Ok(buf)
    }

    /// A copy of `bytes`; aborts as [`AlignedBuf::zeroed`] does.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::zeroed(bytes.len());
        buf.as_mut().copy_from_slice(bytes);
        buf
    }

    /// The same buffer, which is passed to `home` instead of being dropped, if `home` is alive then.
    #[must_use]
    pub fn with_home(mut self, home: Weak<dyn Home>) -> Self {
        self.home = Some(home);
        self
    }

    /// Whether a buffer of `len` bytes is a separate mapping: dropping it returns the memory to the system
    /// at once, and every new one costs page faults.
    pub const fn is_mapping(len: usize) -> bool {
        HAS_MAPPINGS && len >= OWN_MAPPING_BYTES
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The length to which it can grow without more memory.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap(lines) => size_of_val(lines.as_slice()),
            Memory::Mapped(pages) => pages.mapping.len() - pages.start,
        }
    }

    /// Sets the length, if the memory suffices; the content of added bytes is unspecified.
    #[must_use]
    pub fn set_len(&mut self, len: usize) -> bool {
        let has_room = len <= self.capacity();
        if has_room {
            self.len = len;
        }
        has_room
    }

    /// Maps the pages of a part of it at once, where the system can: faster than page faults one by one.
    pub fn populate(&self, part: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Memory::Mapped(pages) = &self.memory
            && part.start <= part.end
            && part.end <= self.len
        {
            // A failure is ignored: page faults serve as well.
            let _ = pages.mapping.advise_range(
                memmap2::Advice::PopulateWrite,
                pages.start + part.start,
                part.len(),
            );
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Pages {
    /// A mapping that this thread no longer needs; blocks do not use one, as its pages already take memory.
    fn spare(len: usize, touch: Touch, holding: Holding) -> Option<Self> {
        let mut pages = (touch == Touch::All).then(|| spares::take(len)).flatten()?;
        if holding == Holding::Zeros {
            let start = pages.start;
            pages.mapping[start..][..len].fill(0);
        }
        Some(pages)
    }

    /// A mapping of `len` bytes, in huge pages as far as it fills them, where the system has them. Pages that
    /// are never touched take no memory, including those before `start`.
    fn try_zeroed(len: usize, touch: Touch) -> Option<Self> {
        if len < HUGE_PAGE_BYTES {
            let mut options = MmapOptions::new();
            if touch == Touch::All {
                options.populate();
            }
            return Some(Self { mapping: options.len(len).map_anon().ok()?, start: 0, len });
        }
        let mapping = MmapMut::map_anon(len.checked_add(HUGE_PAGE_BYTES)?).ok()?;
        let start = mapping.as_ptr().align_offset(HUGE_PAGE_BYTES).min(HUGE_PAGE_BYTES);
        // A failure is ignored: small pages on demand serve as well.
        #[cfg(target_os = "linux")]
        {
            let huge = len & !(HUGE_PAGE_BYTES - 1);
            let _ = mapping.advise_range(memmap2::Advice::HugePage, start, huge);
            if touch == Touch::All && huge < len {
                let rest = (start + huge, len - huge);
                let _ = mapping.advise_range(memmap2::Advice::PopulateWrite, rest.0, rest.1);
            }
        }
        Some(Self { mapping, start, len })
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(home) = self.home.take().and_then(|home| home.upgrade()) {
            let memory = std::mem::replace(&mut self.memory, Memory::Heap(Vec::new()));
            let len = self.len;
            home.take_in(Self { memory, len, home: None, _lease: Lease::NONE });
        } else if let Memory::Mapped(_) = self.memory
            && let Memory::Mapped(pages) =
                std::mem::replace(&mut self.memory, Memory::Heap(Vec::new()))
        {
            spares::put(pages);
        }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(lines) => &bytemuck::cast_slice(lines)[..self.len],
            Memory::Mapped(pages) => &pages.mapping[pages.start..][..self.len],
        }
    }
}

impl AsMut<[u8]> for AlignedBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(lines) => &mut bytemuck::cast_slice_mut(lines)[..self.len],
            Memory::Mapped(pages) => &mut pages.mapping[pages.start..][..self.len],
        }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.memory {
            Memory::Heap(_) => "heap",
            Memory::Mapped(_) => "mapping",
        };
        write!(f, "AlignedBuf({} bytes, {kind})", self.len)
    }
}

#[cfg(test)]
mod tests;
