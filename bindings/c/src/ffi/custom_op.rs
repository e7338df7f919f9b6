//! Custom operators of programs: `OrtCustomOp`, a struct of functions, and the kernels that it creates.
//!
//! Later versions of the struct have more fields: those that a program's version lacks are not read.

#![expect(unsafe_code, reason = "a struct of C's functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_sys::{
    ORT_API_VERSION, OrtApi, OrtCustomOp, OrtKernelContext, OrtKernelInfo, OrtShapeInferContext,
    OrtStatusPtr,
};

use super::arg::Arg;
use super::handle::opaque;
use super::taken::result;
use crate::error::Error;
use crate::kernel_context::KernelContext;
use crate::kernel_info::KernelInfo;
use crate::shape_context::ShapeContext;
use crate::table::API;

type Op = *const OrtCustomOp;
type Get<R> = Option<unsafe extern "system" fn(Op) -> R>;
type GetAt<R> = Option<unsafe extern "system" fn(Op, usize) -> R>;
type Pairs = Option<unsafe extern "system" fn(*mut *mut c_int, *mut *mut c_int) -> usize>;
type FreePairs = Option<unsafe extern "system" fn(*mut c_int, *mut c_int)>;

/// The struct, with integers in place of C's enums: programs may return any value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Fields {
    version: u32,
    create:
        Option<unsafe extern "system" fn(Op, *const OrtApi, *const OrtKernelInfo) -> *mut c_void>,
    name: Get<*const c_char>,
    provider: Get<*const c_char>,
    input_type: GetAt<i32>,
    n_inputs: Get<usize>,
    output_type: GetAt<i32>,
    n_outputs: Get<usize>,
    compute: Option<unsafe extern "system" fn(*mut c_void, *mut OrtKernelContext)>,
    destroy: Option<unsafe extern "system" fn(*mut c_void)>,
    // Since version 8.
    input_kind: GetAt<i32>,
    output_kind: GetAt<i32>,
    // Since version 13 or 14.
    input_memory: GetAt<i32>,
    min_inputs: Get<c_int>,
    inputs_are_alike: Get<c_int>,
    min_outputs: Get<c_int>,
    outputs_are_alike: Get<c_int>,
    // Since version 16.
    create_v2: Option<
        unsafe extern "system" fn(
            Op,
            *const OrtApi,
            *const OrtKernelInfo,
            *mut *mut c_void,
        ) -> OrtStatusPtr,
    >,
    compute_v2:
        Option<unsafe extern "system" fn(*mut c_void, *mut OrtKernelContext) -> OrtStatusPtr>,
    // Since version 17.
    infer: Option<unsafe extern "system" fn(Op, *mut OrtShapeInferContext) -> OrtStatusPtr>,
    start_version: Get<c_int>,
    end_version: Get<c_int>,
    // Since version 18.
    in_place: Pairs,
    free_in_place: FreePairs,
    aliases: Pairs,
    free_aliases: FreePairs,
}

const _: () = assert!(size_of::<Fields>() == size_of::<OrtCustomOp>());
const _: () = assert!(offset_of!(Fields, create_v2) == offset_of!(OrtCustomOp, CreateKernelV2));

/// How many bytes a program's version of the struct has.
const fn n_bytes(version: u32) -> usize {
    match version {
        0..8 => offset_of!(Fields, input_kind),
        8..14 => offset_of!(Fields, input_memory),
        14 | 15 => offset_of!(Fields, create_v2),
        16 => offset_of!(Fields, infer),
        17 => offset_of!(Fields, in_place),
        _ => size_of::<Fields>(),
    }
}

/// Whether an input or output must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// The last of them may be there any number of times.
    Variadic,
}

/// Whether a parameter is an input or an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// A custom operator. The program keeps it as long as the sessions that use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CustomOp {
    op: NonNull<OrtCustomOp>,
    fields: Fields,
}

// SAFETY: the struct does not change once it is registered. Functions that the C API calls from one thread at a time are
// called with a lock.
unsafe impl Send for CustomOp {}
// SAFETY: as above.
unsafe impl Sync for CustomOp {}

impl Arg for CustomOp {
    type Raw = *const OrtCustomOp;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        let op = NonNull::new(raw.cast_mut()).ok_or_else(|| Error::null(name))?;
        // SAFETY: it points to a struct, which begins with its version in every version.
        let version = unsafe { raw.cast::<u32>().read() };
        if !(1..=ORT_API_VERSION).contains(&version) {
            let text = format!("has version {version}, and the newest is {ORT_API_VERSION}");
            return Err(Error::argument(name, text));
        }
        // SAFETY: null is valid for every field: none of them is there.
        let mut fields = unsafe { std::mem::zeroed::<Fields>() };
        let to = (&raw mut fields).cast::<u8>();
        // SAFETY: the struct has as many bytes in its version, at most those of `Fields`.
        unsafe { to.copy_from_nonoverlapping(raw.cast(), n_bytes(version)) };
        let op = Self { op, fields };
        match op.missing() {
            Some(function) => Err(Error::argument(name, format!("has no {function}"))),
            None => Ok(op),
        }
    }
}

impl CustomOp {
    /// A function that every operator needs, and this one lacks.
    fn missing(&self) -> Option<&'static str> {
        let Fields { create, create_v2, compute, compute_v2, .. } = self.fields;
        let needed = [
            ("GetName", self.fields.name.is_some()),
            ("GetInputType", self.fields.input_type.is_some()),
            ("GetInputTypeCount", self.fields.n_inputs.is_some()),
            ("GetOutputType", self.fields.output_type.is_some()),
            ("GetOutputTypeCount", self.fields.n_outputs.is_some()),
            ("CreateKernel", create.is_some() || create_v2.is_some()),
            ("KernelCompute", compute.is_some() || compute_v2.is_some()),
            ("KernelDestroy", self.fields.destroy.is_some()),
        ];
        needed.into_iter().find(|(_, is_there)| !is_there).map(|(function, _)| function)
    }

    fn get<R>(&self, function: Get<R>) -> Option<R> {
        // SAFETY: a function of the struct is called with it.
        function.map(|function| unsafe { function(self.op.as_ptr()) })
    }

    fn get_at<R>(&self, function: GetAt<R>, index: usize) -> Option<R> {
        // SAFETY: a function of the struct is called with it, and with an index in range.
        function.map(|function| unsafe { function(self.op.as_ptr(), index) })
    }

    fn text(&self, function: Get<*const c_char>) -> Option<String> {
        let text = self.get(function).filter(|text| !text.is_null())?;
        // SAFETY: such functions return NUL-terminated strings that live as long as the operator.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    }

    pub(crate) fn name(&self) -> String {
        self.text(self.fields.name).unwrap_or_default()
    }

    /// The provider that it is for; none is the CPU's.
    pub(crate) fn provider(&self) -> Option<String> {
        self.text(self.fields.provider)
    }

    pub(crate) fn count(&self, side: Side) -> usize {
        let count = match side {
            Side::Input => self.fields.n_inputs,
            Side::Output => self.fields.n_outputs,
        };
        self.get(count).unwrap_or_default()
    }

    /// The C API's number of the element type at a position.
    pub(crate) fn element_type(&self, side: Side, index: usize) -> i32 {
        let ty = match side {
            Side::Input => self.fields.input_type,
            Side::Output => self.fields.output_type,
        };
        self.get_at(ty, index).unwrap_or_default()
    }

    pub(crate) fn presence(&self, side: Side, index: usize) -> Presence {
        let kind = match side {
            Side::Input => self.fields.input_kind,
            Side::Output => self.fields.output_kind,
        };
        match self.get_at(kind, index) {
            Some(1) => Presence::Optional,
            Some(2) => Presence::Variadic,
            _ => Presence::Required,
        }
    }

    /// The minimum number of times that a variadic parameter is there, and whether all have one type.
    pub(crate) fn variadic(&self, side: Side) -> (usize, bool) {
        let (min, alike) = match side {
            Side::Input => (self.fields.min_inputs, self.fields.inputs_are_alike),
            Side::Output => (self.fields.min_outputs, self.fields.outputs_are_alike),
        };
        let min = self.get(min).and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        (min, self.get(alike).is_none_or(|alike| alike != 0))
    }

    /// The oldest and newest version that it implements; a negative newest one is no limit.
    pub(crate) fn versions(&self) -> (i32, i32) {
        let start = self.get(self.fields.start_version).unwrap_or(1);
        let end = self.get(self.fields.end_version).filter(|&end| end >= 0);
        (start, end.unwrap_or(i32::MAX))
    }

    /// Pairs (input, output): the output may overwrite the input.
    pub(crate) fn in_place(&self) -> Vec<(usize, usize)> {
        pairs(self.fields.in_place, self.fields.free_in_place)
    }

    /// Pairs (input, output): the output has the bytes of the input until the kernel changes them.
    pub(crate) fn aliases(&self) -> Vec<(usize, usize)> {
        pairs(self.fields.aliases, self.fields.free_aliases)
    }

    /// Calls the function that infers shapes, if there is one.
    pub(crate) fn infer(&self, context: &ShapeContext) -> Result<(), Error> {
        let Some(infer) = self.fields.infer else { return Ok(()) };
        let _one = one_at_a_time();
        // SAFETY: a function of the struct is called with it, and with a context that lives during the call.
        let status = unsafe { infer(self.op.as_ptr(), opaque(context).cast_mut()) };
        result(status)
    }

    /// Creates a kernel. `info` is kept with it.
    pub(crate) fn kernel(&self, info: &KernelInfo) -> Result<CustomKernel, Error> {
        let (op, info, mut kernel) = (self.op.as_ptr(), opaque(info), null_mut());
        let _one = one_at_a_time();
        match (self.fields.create_v2, self.fields.create) {
            (Some(create), _) => {
                // SAFETY: a function of the struct is called with it, and with space for the kernel.
                let status = unsafe { create(op, &raw const API, info, &raw mut kernel) };
                result(status)?;
            }
            // SAFETY: a function of the struct is called with it.
            (None, Some(create)) => kernel = unsafe { create(op, &raw const API, info) },
            (None, None) => return Err(Error::fail("the operator has no CreateKernel")),
        }
        Ok(CustomKernel { kernel, fields: self.fields })
    }
}

/// A kernel: one for each node of a session.
#[derive(Debug)]
pub(crate) struct CustomKernel {
    kernel: *mut c_void,
    fields: Fields,
}

// SAFETY: the C API requires that kernels compute on any thread, and on several at once.
unsafe impl Send for CustomKernel {}
// SAFETY: as above.
unsafe impl Sync for CustomKernel {}

impl CustomKernel {
    pub(crate) fn compute(&self, context: &KernelContext<'_, '_>) -> Result<(), Error> {
        let context = opaque(context).cast_mut();
        match (self.fields.compute_v2, self.fields.compute) {
            // SAFETY: the kernel's function is called with it, and with a context that lives during the call.
            (Some(compute), _) => result(unsafe { compute(self.kernel, context) }),
            (None, Some(compute)) => {
                // SAFETY: as above.
                unsafe { compute(self.kernel, context) };
                Ok(())
            }
            (None, None) => Err(Error::fail("the operator has no KernelCompute")),
        }
    }
}

impl Drop for CustomKernel {
    fn drop(&mut self) {
        if let Some(destroy) = self.fields.destroy {
            // SAFETY: the kernel's function is called with it, once.
            unsafe { destroy(self.kernel) };
        }
    }
}

/// Programs expect that kernels are created, and shapes inferred, by one thread at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pairs from an array of inputs and one of outputs, which the program frees.
fn pairs(get: Pairs, free: FreePairs) -> Vec<(usize, usize)> {
    let Some(get) = get else { return Vec::new() };
    let (mut inputs, mut outputs) = (null_mut(), null_mut());
    // SAFETY: the function is called with space for two arrays.
    let n = unsafe { get(&raw mut inputs, &raw mut outputs) };
    let at = |array: *mut c_int, i: usize| {
        // SAFETY: each array has `n` numbers.
        let index = (!array.is_null()).then(|| unsafe { array.wrapping_add(i).read() })?;
        usize::try_from(index).ok()
    };
    let pairs = (0..n).filter_map(|i| Some((at(inputs, i)?, at(outputs, i)?))).collect();
    if let Some(free) = free.filter(|_| n > 0) {
        // SAFETY: the arrays come from the function before, and are freed once.
        unsafe { free(inputs, outputs) };
    }
    pairs
}
