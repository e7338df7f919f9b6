//! Allocators: ours, and those that programs pass.

#![expect(unsafe_code, reason = "an allocator is a struct of C's functions")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use ort_sys::{OrtAllocator, OrtKeyValuePairs, OrtMemoryInfo, OrtStatusPtr, OrtSyncStream};

use super::arg::{Arg, Counted};
use super::export::guard;
use super::handle::opaque;
use super::memory::Block;
use super::out::OutHandle;
use super::taken::result;
use crate::error::Error;
use crate::key_values::KeyValues;
use crate::memory_info::CPU;

/// The alignment of blocks. As many bytes before a block hold its size.
const ALIGN: usize = 64;

/// An allocator: its functions, and their state behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocator<'a> {
    raw: NonNull<OrtAllocator>,
    life: PhantomData<&'a OrtAllocator>,
}

impl Arg for Allocator<'_> {
    type Raw = *mut OrtAllocator;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or_else(|| Error::null(name))?;
        Ok(Self { raw, life: PhantomData })
    }
}

/// An allocator behind a const pointer.
pub(crate) struct ConstAllocator<'a>(pub(crate) Allocator<'a>);

impl Arg for ConstAllocator<'_> {
    type Raw = *const OrtAllocator;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Allocator::of(raw.cast_mut(), name) }.map(Self)
    }
}

impl Allocator<'_> {
    pub(crate) fn alloc(self, n_bytes: usize) -> Result<NonNull<u8>, Error> {
        // SAFETY: it points to an allocator; this field has been there since version 1.
        let alloc = unsafe { (*self.raw.as_ptr()).Alloc };
        let alloc = alloc.ok_or_else(|| Error::argument("allocator", "has no Alloc"))?;
        // SAFETY: an allocator's function is called with it.
        let block = unsafe { alloc(self.raw.as_ptr(), n_bytes) };
        let no_memory = || Error::fail(format!("the allocator failed to allocate {n_bytes} bytes"));
        NonNull::new(block.cast()).ok_or_else(no_memory)
    }

    pub(crate) fn free(self, block: *mut c_void) -> Result<(), Error> {
        // SAFETY: it points to an allocator; this field has been there since version 1.
        let free = unsafe { (*self.raw.as_ptr()).Free };
        let free = free.ok_or_else(|| Error::argument("allocator", "has no Free"))?;
        // SAFETY: an allocator's function is called with it, and with one of its blocks.
        unsafe { free(self.raw.as_ptr(), block) };
        Ok(())
    }

    pub(crate) fn info(self) -> Result<*const OrtMemoryInfo, Error> {
        // SAFETY: it points to an allocator; this field has been there since version 1.
        let info = unsafe { (*self.raw.as_ptr()).Info };
        let info = info.ok_or_else(|| Error::argument("allocator", "has no Info"))?;
        // SAFETY: an allocator's function is called with it.
        Ok(unsafe { info(self.raw.as_ptr()) })
    }

    /// Whether it is ours.
    pub(crate) fn is_default(self) -> bool {
        std::ptr::eq(self.raw.as_ptr(), &raw const DEFAULT)
    }

    pub(crate) const fn as_ptr(self) -> *mut OrtAllocator {
        self.raw.as_ptr()
    }

    pub(super) const fn as_non_null(self) -> NonNull<OrtAllocator> {
        self.raw
    }

    /// A block with these bytes.
    fn copy(self, bytes: &[u8]) -> Result<NonNull<u8>, Error> {
        let block = self.alloc(bytes.len().max(1))?;
        // SAFETY: the block is new and as large.
        unsafe { block.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(block)
    }

    /// A NUL-terminated copy of a text. C does not see what follows a NUL within it.
    pub(crate) fn text(self, text: &str) -> Result<*mut c_char, Error> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Ok(self.copy(&bytes)?.as_ptr().cast())
    }

    /// Bytes without a terminating NUL; null for none.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<*mut c_char, Error> {
        if bytes.is_empty() { Ok(null_mut()) } else { Ok(self.copy(bytes)?.as_ptr().cast()) }
    }

    /// An array of pointers or numbers; null for none.
    pub(crate) fn array<T: Copy>(self, items: &[T]) -> Result<*mut T, Error> {
        if items.is_empty() {
            return Ok(null_mut());
        }
        let block = self.alloc(size_of_val(items))?.cast::<T>();
        if !block.is_aligned() {
            return Err(Error::argument("allocator", "returned a misaligned block"));
        }
        // SAFETY: the block is new, as large, and aligned.
        unsafe { block.as_ptr().copy_from_nonoverlapping(items.as_ptr(), items.len()) };
        Ok(block.as_ptr())
    }

    /// Zeros, which are returned to the allocator when the block is dropped.
    pub(crate) fn block(self, n_bytes: usize) -> Result<Block, Error> {
        let data = self.alloc(n_bytes.max(1))?;
        // SAFETY: the block is new and as large.
        unsafe { data.as_ptr().write_bytes(0, n_bytes) };
        Ok(Block::of_allocator(data, n_bytes, self.raw))
    }
}

/// An array of strings from an allocator, with the strings.
pub(crate) struct AllocatedStrings<'a> {
    texts: &'a [*mut c_char],
    array: *mut *mut c_char,
}

impl Counted for AllocatedStrings<'_> {
    type Raw = *mut *mut c_char;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        let texts = unsafe { <&[*mut c_char]>::of(raw.cast_const(), n, name) }?;
        Ok(Self { texts, array: raw })
    }
}

impl AllocatedStrings<'_> {
    /// Returns all of it.
    pub(crate) fn free(self, allocator: Allocator<'_>) -> Result<(), Error> {
        self.texts.iter().try_for_each(|text| allocator.free(text.cast()))?;
        allocator.free(self.array.cast())
    }
}

/// The library's own allocator.
pub(crate) fn default_allocator() -> Allocator<'static> {
    Allocator { raw: NonNull::from(&DEFAULT), life: PhantomData }
}

static DEFAULT: OrtAllocator = OrtAllocator {
    version: ort_sys::ORT_API_VERSION,
    Alloc: Some(alloc),
    Free: Some(free),
    Info: Some(info),
    Reserve: Some(reserve),
    GetStats: Some(stats),
    AllocOnStream: Some(alloc_on_stream),
    Shrink: Some(shrink),
};

/// What the library's allocator has allocated.
#[derive(Debug)]
struct Stats {
    n_allocs: AtomicU64,
    total: AtomicU64,
    in_use: AtomicU64,
    most: AtomicU64,
    largest: AtomicU64,
}

static STATS: Stats = Stats {
    n_allocs: AtomicU64::new(0),
    total: AtomicU64::new(0),
    in_use: AtomicU64::new(0),
    most: AtomicU64::new(0),
    largest: AtomicU64::new(0),
};

impl Stats {
    fn count_alloc(&self, n_bytes: usize) {
        let n_bytes = u64::try_from(n_bytes).unwrap_or(u64::MAX);
        self.n_allocs.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(n_bytes, Ordering::Relaxed);
        let in_use = self.in_use.fetch_add(n_bytes, Ordering::Relaxed).saturating_add(n_bytes);
        self.most.fetch_max(in_use, Ordering::Relaxed);
        self.largest.fetch_max(n_bytes, Ordering::Relaxed);
    }

    fn count_free(&self, n_bytes: usize) {
        self.in_use.fetch_sub(u64::try_from(n_bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The same under onnxruntime's names.
    fn named(&self) -> KeyValues {
        let named = [
            ("NumAllocs", &self.n_allocs),
            ("TotalAllocated", &self.total),
            ("InUse", &self.in_use),
            ("MaxInUse", &self.most),
            ("MaxAllocSize", &self.largest),
        ];
        let mut stats = KeyValues::default();
        for (name, value) in named {
            stats.set(name, &value.load(Ordering::Relaxed).to_string());
        }
        stats
    }
}

fn layout(n_bytes: usize) -> Option<Layout> {
    Layout::from_size_align(n_bytes.checked_add(ALIGN)?, ALIGN).ok()
}

unsafe extern "system" fn alloc(_: *mut OrtAllocator, n_bytes: usize) -> *mut c_void {
    let Some(layout) = layout(n_bytes).filter(|_| n_bytes > 0) else { return null_mut() };
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return null_mut();
    }
    // SAFETY: a layout begins with aligned space for the size.
    unsafe { start.cast::<usize>().write(n_bytes) };
    STATS.count_alloc(n_bytes);
    start.wrapping_add(ALIGN).cast()
}

unsafe extern "system" fn free(_: *mut OrtAllocator, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    let start = block.cast::<u8>().wrapping_sub(ALIGN);
    // SAFETY: `alloc` has written the size before the block.
    let n_bytes = unsafe { start.cast::<usize>().read() };
    let Some(layout) = layout(n_bytes) else { return };
    STATS.count_free(n_bytes);
    // SAFETY: `alloc` has made it, with this layout.
    unsafe { dealloc(start, layout) };
}

unsafe extern "system" fn info(_: *const OrtAllocator) -> *const OrtMemoryInfo {
    opaque(&CPU)
}

unsafe extern "system" fn reserve(allocator: *const OrtAllocator, n_bytes: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { alloc(allocator.cast_mut(), n_bytes) }
}

unsafe extern "system" fn stats(
    _: *const OrtAllocator,
    out: *mut *mut OrtKeyValuePairs,
) -> OrtStatusPtr {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let out = unsafe { OutHandle::of(out, "out") }?;
        out.set(STATS.named());
        Ok(())
    })
}

unsafe extern "system" fn alloc_on_stream(
    allocator: *mut OrtAllocator,
    n_bytes: usize,
    _: *mut OrtSyncStream,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { alloc(allocator, n_bytes) }
}

unsafe extern "system" fn shrink(_: *mut OrtAllocator) -> OrtStatusPtr {
    OrtStatusPtr::default()
}

/// The statistics of an allocator, as far as it has any.
pub(crate) fn stats_of(allocator: Allocator<'_>) -> Result<*mut OrtKeyValuePairs, Error> {
    let none = || Error::not_implemented("AllocatorGetStats: the allocator has no GetStats");
    // SAFETY: it points to an allocator; this field has been there since version 1.
    let version = unsafe { (*allocator.raw.as_ptr()).version };
    if version < 23 {
        return Err(none());
    }
    // SAFETY: the field has been there since version 23.
    let stats = unsafe { (*allocator.raw.as_ptr()).GetStats }.ok_or_else(none)?;
    let mut named = null_mut();
    // SAFETY: an allocator's function is called with it, and with space for a result.
    result(unsafe { stats(allocator.raw.as_ptr(), &raw mut named) })?;
    Ok(named)
}
