//! Functions that are not implemented and report so: sparse tensors, opaque values, streams of devices, and graphs of
//! providers.
//!
//! A letter stands for the type of each argument, which is inferred from the table. Functions that return no status
//! return nothing, null or 0: no program can have an object to pass to them.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;
use std::ptr::null;

use ort_sys::{
    OrtEpApi, OrtInteropApi, OrtMemoryInfo, OrtModelPackageApi, OrtStatusPtr, OrtTrainingApi,
};

use crate::error::Error;
use crate::ffi::guard;

macro_rules! missing {
    ($($name:ident($($ty:ident)*);)*) => {$(
        pub(crate) extern "system" fn $name<$($ty),*>($(_: $ty),*) -> OrtStatusPtr {
            guard(|| Err(Error::not_implemented(concat!(stringify!($name), " is not implemented"))))
        }
    )*};
}

macro_rules! nothing {
    ($($name:ident($($ty:ident)*);)*) => {$(
        pub(crate) extern "system" fn $name<$($ty),*>($(_: $ty),*) {}
    )*};
}

macro_rules! constant {
    ($($name:ident($($ty:ident)*) -> $ret:ty = $value:expr;)*) => {$(
        pub(crate) extern "system" fn $name<$($ty),*>($(_: $ty),*) -> $ret {
            $value
        }
    )*};
}

// Opaque values have a type of a custom operator's own. Values here have the types of the standard.
missing! {
    CreateOpaqueValue(A B C D E); GetOpaqueValue(A B C D E);
}

// Sparse tensors: models with them run, since their constants are made dense.
missing! {
    CreateSparseTensorAsOrtValue(A B C D E); FillSparseTensorCoo(A B C D E F G);
    FillSparseTensorCsr(A B C D E F G H I); FillSparseTensorBlockSparse(A B C D E F G H);
    CreateSparseTensorWithValuesAsOrtValue(A B C D E F G H); UseCooIndices(A B C);
    UseCsrIndices(A B C D E); UseBlockSparseIndices(A B C D); GetSparseTensorFormat(A B);
    GetSparseTensorValuesTypeAndShape(A B); GetSparseTensorValues(A B);
    GetSparseTensorIndicesTypeShape(A B C); GetSparseTensorIndices(A B C D);
}

// Graphs of sessions, which only provider libraries get in onnxruntime. For graphs that are built, onnxruntime does not
// implement them either: types and edges are resolved when the session is created.
missing! {
    ValueInfo_GetValueProducer(A B C); ValueInfo_GetValueNumConsumers(A B);
    ValueInfo_GetValueConsumers(A B C D); ValueInfo_GetInitializerValue(A B);
    ValueInfo_GetExternalInitializerInfo(A B); ValueInfo_IsRequiredGraphInput(A B);
    ValueInfo_IsOptionalGraphInput(A B); ValueInfo_IsGraphOutput(A B);
    ValueInfo_IsConstantInitializer(A B); ValueInfo_IsFromOuterScope(A B);
    Graph_GetNumOperatorSets(A B); Graph_GetOperatorSets(A B C D); Graph_GetInitializers(A B C);
    Graph_GetParentNode(A B); Node_GetSinceVersion(A B); Node_GetInputs(A B C);
    Node_GetOutputs(A B C); Node_GetNumImplicitInputs(A B); Node_GetImplicitInputs(A B C);
    Node_GetAttributes(A B C); Node_GetNumSubgraphs(A B); Node_GetSubgraphs(A B C D);
    Node_GetGraph(A B);
}

// Streams are of devices other than the CPU; callbacks of thread pools are an option of onnxruntime's build.
missing! {
    CreateSyncStreamForEpDevice(A B C); SetPerSessionThreadPoolCallbacks(A B);
}

nothing! {
    ReleaseSyncStream(A);
    RunOptionsSetSyncStream(A B);
}

constant! {
    GetTrainingApi(A) -> *const OrtTrainingApi = null();
    GetEpApi() -> *const OrtEpApi = null();
    EpDevice_MemoryInfo(A B) -> *const OrtMemoryInfo = null();
    SyncStream_GetHandle(A) -> *mut c_void = std::ptr::null_mut();
    GetInteropApi() -> *const OrtInteropApi = null();
    GetExperimentalFunction(A) -> *const c_void = null();
    GetModelPackageApi() -> *const OrtModelPackageApi = null();
}
