//! The objects of a mutant, which are released at its end.

use std::ptr::{null, null_mut};

use super::ort_capi::ort_sys::{
    OrtAllocator, OrtAllocatorType, OrtEnv, OrtLoggingLevel, OrtMemType, OrtMemoryInfo,
    OrtRunOptions, OrtSession, OrtSessionOptions, OrtStatusPtr, OrtTypeInfo, OrtValue,
};
use ort_testing::Rng;

use super::call::call;

/// Objects of one type.
pub(super) struct Pool<T>(Vec<*mut T>);

impl<T> Pool<T> {
    /// One of them, or null.
    pub(super) fn any(&self, rng: &mut Rng) -> *mut T {
        if rng.below(16) == 0 {
            null_mut()
        } else {
            self.0.get(rng.index(self.0.len())).copied().unwrap_or(null_mut())
        }
    }

    /// Adds what a function makes.
    pub(super) fn made(&mut self, make: impl FnOnce(&mut *mut T) -> OrtStatusPtr) -> OrtStatusPtr {
        let mut out = null_mut();
        let status = make(&mut out);
        if !out.is_null() {
            self.0.push(out);
        }
        status
    }
}

/// All objects.
pub(super) struct Objects {
    env: *mut OrtEnv,
    info: *mut OrtMemoryInfo,
    allocator: *mut OrtAllocator,
    pub(super) options: Pool<OrtSessionOptions>,
    pub(super) run_options: Pool<OrtRunOptions>,
    pub(super) sessions: Pool<OrtSession>,
    pub(super) values: Pool<OrtValue>,
    pub(super) types: Pool<OrtTypeInfo>,
}

impl Objects {
    pub(super) fn new() -> Self {
        let (mut env, mut info, mut allocator) = (null_mut(), null_mut(), null_mut());
        let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL;
        let (arena, memory) = (OrtAllocatorType::OrtArenaAllocator, OrtMemType::OrtMemTypeDefault);
        let statuses = [
            call!(CreateEnv(level, c"fuzz".as_ptr(), &raw mut env)),
            call!(CreateCpuMemoryInfo(arena, memory, &raw mut info)),
            call!(GetAllocatorWithDefaultOptions(&raw mut allocator)),
        ];
        assert!(statuses.iter().all(|status| status.0.is_null()), "the C API does not start");
        Self {
            env,
            info,
            allocator,
            options: Pool(Vec::new()),
            run_options: Pool(Vec::new()),
            sessions: Pool(Vec::new()),
            values: Pool(Vec::new()),
            types: Pool(Vec::new()),
        }
    }

    pub(super) fn env(&self, rng: &mut Rng) -> *const OrtEnv {
        if rng.below(16) == 0 { null() } else { self.env }
    }

    pub(super) fn info(&self, rng: &mut Rng) -> *const OrtMemoryInfo {
        if rng.below(16) == 0 { null() } else { self.info }
    }

    pub(super) fn allocator(&self, rng: &mut Rng) -> *mut OrtAllocator {
        if rng.below(16) == 0 { null_mut() } else { self.allocator }
    }

    /// Frees memory of the allocator.
    pub(super) fn free(&self, memory: *mut std::ffi::c_void) {
        if !memory.is_null() {
            let status = call!(AllocatorFree(self.allocator, memory));
            assert!(status.0.is_null(), "memory is not freed");
        }
    }

    pub(super) fn release(self) {
        self.values.0.into_iter().for_each(|it| call!(ReleaseValue(it)));
        self.types.0.into_iter().for_each(|it| call!(ReleaseTypeInfo(it)));
        self.sessions.0.into_iter().for_each(|it| call!(ReleaseSession(it)));
        self.run_options.0.into_iter().for_each(|it| call!(ReleaseRunOptions(it)));
        self.options.0.into_iter().for_each(|it| call!(ReleaseSessionOptions(it)));
        call!(ReleaseMemoryInfo(self.info));
        call!(ReleaseEnv(self.env));
    }
}
