//! Functions on `OrtAllocator`.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;

use ort_sys::{OrtAllocator, OrtEpDevice, OrtKeyValuePairs, OrtMemoryInfo};

use crate::arena::ArenaConfig;
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, ConstAllocator, Out, Shared, default_allocator, export, stats_of};
use crate::key_values::KeyValues;
use crate::memory_info::MemoryInfo;
use crate::session::Session;

export! {
    fn GetAllocatorWithDefaultOptions(out: Out<'_, *mut OrtAllocator>) {
        out.set(default_allocator().as_ptr());
        Ok(())
    }

    /// The only allocator.
    fn CreateAllocator(
        _session: &Session,
        mem_info: &MemoryInfo,
        out: Out<'_, *mut OrtAllocator>,
    ) {
        mem_info.expect_cpu()?;
        out.set(default_allocator().as_ptr());
        Ok(())
    }

    /// Does nothing: the allocator lives as long as the process.
    fn ReleaseAllocator(_allocator: *mut OrtAllocator) -> () = (); {
        Ok(())
    }

    fn AllocatorAlloc(ort_allocator: Allocator<'_>, size: usize, out: Out<'_, *mut c_void>) {
        out.set(match size {
            0 => std::ptr::null_mut(),
            size => ort_allocator.alloc(size)?.as_ptr().cast(),
        });
        Ok(())
    }

    fn AllocatorFree(ort_allocator: Allocator<'_>, p: *mut c_void) {
        ort_allocator.free(p)
    }

    fn AllocatorGetInfo(ort_allocator: ConstAllocator<'_>, out: Out<'_, *const OrtMemoryInfo>) {
        out.set(ort_allocator.0.info()?);
        Ok(())
    }

    fn AllocatorGetStats(
        ort_allocator: ConstAllocator<'_>,
        out: Out<'_, *mut OrtKeyValuePairs>,
    ) {
        out.set(stats_of(ort_allocator.0)?);
        Ok(())
    }

    /// Accepted; memory of runs is planned.
    fn CreateAndRegisterAllocator(
        _env: Shared<'_, Env>,
        mem_info: &MemoryInfo,
        _arena_cfg: Option<&ArenaConfig>,
    ) {
        mem_info.expect_cpu()
    }

    /// Accepted; memory of runs is planned.
    fn CreateAndRegisterAllocatorV2(
        _env: Shared<'_, Env>,
        provider_type: &str,
        mem_info: &MemoryInfo,
        _arena_cfg: Option<&ArenaConfig>,
        _provider_options_keys: Vec<&str>[num_keys],
        _provider_options_values: Vec<&str>[num_keys],
        num_keys: usize,
    ) {
        let _ = num_keys;
        crate::providers::expect_known(provider_type)?;
        mem_info.expect_cpu()
    }

    /// Accepted; memory of runs is planned, and never comes from an allocator.
    fn RegisterAllocator(_env: Shared<'_, Env>, allocator: Allocator<'_>) {
        match allocator.is_default() {
            true => Err(Error::argument("allocator", "is the library's own")),
            false => Ok(()),
        }
    }

    /// Accepted.
    fn UnregisterAllocator(_env: Shared<'_, Env>, mem_info: &MemoryInfo) {
        mem_info.expect_cpu()
    }

    /// The only allocator.
    fn GetSharedAllocator(
        _env: Shared<'_, Env>,
        mem_info: &MemoryInfo,
        allocator: Out<'_, *mut OrtAllocator>,
    ) {
        mem_info.expect_cpu()?;
        allocator.set(default_allocator().as_ptr());
        Ok(())
    }

    /// Rejected, as in onnxruntime for the CPU provider: it uses the default allocator.
    fn CreateSharedAllocator(
        _env: Shared<'_, Env>,
        _ep_device: *const OrtEpDevice,
        _mem_type: i32,
        _allocator_type: i32,
        _allocator_options: Option<&KeyValues>,
        _allocator: Out<'_, *mut OrtAllocator>,
    ) {
        Err(Error::argument("ep_device", "has no memory of its own: the CPU provider uses the default allocator"))
    }

    /// Rejected: there are none.
    fn ReleaseSharedAllocator(
        _env: Shared<'_, Env>,
        _ep_device: *const OrtEpDevice,
        _mem_type: i32,
    ) {
        Err(Error::argument("ep_device", "has no memory of its own: the CPU provider uses the default allocator"))
    }
}
