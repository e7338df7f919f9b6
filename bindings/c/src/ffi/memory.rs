//! Memory for the elements of tensors, and its owner.
//!
//! As in onnxruntime, a program that writes to a tensor while a run reads it gets old or new numbers: elements are
//! plain numbers, for which every bit pattern is valid.

#![expect(unsafe_code, reason = "programs pass memory as pointers")]

use std::ffi::c_void;
use std::ptr::NonNull;

use ort_session::Tensor;
use ort_sys::OrtAllocator;

use super::allocator::Allocator;

/// Memory and its owner. It does not move.
#[derive(Debug)]
pub(crate) struct Block {
    data: NonNull<u8>,
    len: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// A result of a run.
    #[expect(dead_code, reason = "held until it is dropped, never read")]
    Tensor(Tensor),
    /// The program.
    Caller,
    /// An allocator, which frees it.
    Allocator(NonNull<OrtAllocator>),
}

// SAFETY: a block is an address and its owner, which may move to any thread: the C API requires allocators to be
// thread-safe. Races on its bytes are described at the top.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// The elements of a numeric tensor, copied if it is shared.
    pub(crate) fn of_tensor(mut tensor: Tensor) -> Self {
        let bytes = tensor.view_mut().into_bytes().unwrap_or_default();
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        Self { data, len, owner: Owner::Tensor(tensor) }
    }

    /// The elements of a constant, which are not written to: C gets them as such.
    pub(crate) fn of_constant(tensor: Tensor) -> Option<Self> {
        let bytes = tensor.view().as_bytes()?;
        let (data, len) = (NonNull::from(bytes).cast(), bytes.len());
        Some(Self { data, len, owner: Owner::Tensor(tensor) })
    }

    /// Memory that a kernel borrows during a run: an input, which C gets as constant.
    pub(crate) fn of_input(bytes: &[u8]) -> Self {
        Self { data: NonNull::from(bytes).cast(), len: bytes.len(), owner: Owner::Caller }
    }

    /// Memory that a kernel borrows during a run: an output.
    pub(crate) fn of_output(bytes: &mut [u8]) -> Self {
        let len = bytes.len();
        Self { data: NonNull::from(bytes).cast(), len, owner: Owner::Caller }
    }

    /// Memory of the program. The pointer may be null if the length is 0.
    pub(crate) fn of_caller(data: *mut c_void, len: usize) -> Option<Self> {
        let data = NonNull::new(data.cast()).or((len == 0).then(NonNull::dangling))?;
        Some(Self { data, len, owner: Owner::Caller })
    }

    /// Memory that an allocator frees.
    pub(crate) const fn of_allocator(
        data: NonNull<u8>,
        len: usize,
        allocator: NonNull<OrtAllocator>,
    ) -> Self {
        Self { data, len, owner: Owner::Allocator(allocator) }
    }

    /// The same memory, which an allocator frees from now on.
    pub(crate) fn freed_by(mut self, allocator: Allocator<'_>) -> Self {
        self.owner = Owner::Allocator(allocator.as_non_null());
        self
    }

    pub(crate) const fn as_ptr(&self) -> *mut c_void {
        self.data.as_ptr().cast()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn bytes(&self) -> &[u8] {
        // SAFETY: the owner keeps `len` bytes there; see the top for races.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// The bytes, to write: the program guarantees exclusive access.
    #[expect(clippy::mut_from_ref, reason = "C's objects have no exclusive owner")]
    pub(crate) const fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: as `bytes`, and tensors of the C API are in writable memory.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Whether it overlaps these bytes.
    pub(crate) fn overlaps(&self, bytes: &[u8]) -> bool {
        let (own, other) = (self.bytes().as_ptr_range(), bytes.as_ptr_range());
        own.start < other.end && other.start < own.end
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Owner::Allocator(allocator) = self.owner {
            // SAFETY: the program keeps an allocator as long as its blocks; this field has been there
            // since version 1.
            let free = unsafe { (*allocator.as_ptr()).Free };
            if let Some(free) = free {
                // SAFETY: an allocator's function is called with it, and with one of its blocks.
                unsafe { free(allocator.as_ptr(), self.as_ptr()) };
            }
        }
    }
}
