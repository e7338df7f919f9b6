//! Functions that are not implemented and report so: sparse tensors, opaque values, plugin devices, graphs of other
//! providers, and changes of existing models.
//!
//! A letter stands for the type of each argument, which is inferred from the table. Functions that return no status
//! return nothing, null or 0: no program can have an object to pass to them.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{c_char, c_void};
use std::ptr::null;

use ort_sys::{
    OrtEpApi, OrtHardwareDevice, OrtHardwareDeviceType, OrtInteropApi, OrtKeyValuePairs,
    OrtMemoryInfo, OrtModelPackageApi, OrtStatusPtr, OrtTrainingApi, os_char,
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

missing! {
    CreateModelEditorSession(A B C D); CreateModelEditorSessionFromArray(A B C D E);
    ApplyModelToModelEditorSession(A B); FinalizeModelEditorSession(A B C);
    CreateOpaqueValue(A B C D E); GetOpaqueValue(A B C D E);
    CreateSparseTensorAsOrtValue(A B C D E); FillSparseTensorCoo(A B C D E F G);
    FillSparseTensorCsr(A B C D E F G H I); FillSparseTensorBlockSparse(A B C D E F G H);
    CreateSparseTensorWithValuesAsOrtValue(A B C D E F G H); UseCooIndices(A B C);
    UseCsrIndices(A B C D E); UseBlockSparseIndices(A B C D); GetSparseTensorFormat(A B);
    GetSparseTensorValuesTypeAndShape(A B); GetSparseTensorValues(A B);
    GetSparseTensorIndicesTypeShape(A B C); GetSparseTensorIndices(A B C D);
    ValueInfo_GetValueProducer(A B C); ValueInfo_GetValueNumConsumers(A B);
    ValueInfo_GetValueConsumers(A B C D); ValueInfo_GetInitializerValue(A B);
    ValueInfo_GetExternalInitializerInfo(A B); ValueInfo_IsRequiredGraphInput(A B);
    ValueInfo_IsOptionalGraphInput(A B); ValueInfo_IsGraphOutput(A B);
    ValueInfo_IsConstantInitializer(A B); ValueInfo_IsFromOuterScope(A B); Graph_GetName(A B);
    Graph_GetModelPath(A B); Graph_GetOnnxIRVersion(A B); Graph_GetNumOperatorSets(A B);
    Graph_GetOperatorSets(A B C D); Graph_GetInitializers(A B C); Graph_GetParentNode(A B);
    Graph_GetGraphView(A B C D); Node_GetId(A B); Node_GetSinceVersion(A B);
    Node_GetInputs(A B C); Node_GetOutputs(A B C); Node_GetNumImplicitInputs(A B);
    Node_GetImplicitInputs(A B C); Node_GetAttributes(A B C); Node_GetNumSubgraphs(A B);
    Node_GetSubgraphs(A B C D); Node_GetGraph(A B); Node_GetEpName(A B);
    CreateSyncStreamForEpDevice(A B C); CopyTensors(A B C D E); Graph_GetModelMetadata(A B);
    CreateExternalInitializerInfo(A B C D); GetHardwareDeviceEpIncompatibilityDetails(A B C D);
    DeviceEpIncompatibilityDetails_GetReasonsBitmask(A B);
    DeviceEpIncompatibilityDetails_GetNotes(A B);
    DeviceEpIncompatibilityDetails_GetErrorCode(A B); GetCompatibilityInfoFromModel(A B C D);
    GetCompatibilityInfoFromModelBytes(A B C D E); Session_GetEpGraphAssignmentInfo(A B C);
    EpAssignedSubgraph_GetEpName(A B); EpAssignedSubgraph_GetNodes(A B C);
    EpAssignedNode_GetName(A B); EpAssignedNode_GetDomain(A B);
    EpAssignedNode_GetOperatorType(A B); SetPerSessionThreadPoolCallbacks(A B);
    SessionOptionsSetWeightlessSourceModelBuffer(A B C);
    KernelContext_GetPreallocatedOutput(A B C);
}

nothing! {
    ReleaseExternalInitializerInfo(A); ReleaseSyncStream(A);
    ReleaseDeviceEpIncompatibilityDetails(A); RunOptionsSetSyncStream(A B);
}

constant! {
    GetTrainingApi(A) -> *const OrtTrainingApi = null();
    HardwareDevice_Type(A) -> OrtHardwareDeviceType = OrtHardwareDeviceType::OrtHardwareDeviceType_CPU;
    HardwareDevice_VendorId(A) -> u32 = 0;
    HardwareDevice_Vendor(A) -> *const c_char = null();
    HardwareDevice_DeviceId(A) -> u32 = 0;
    HardwareDevice_Metadata(A) -> *const OrtKeyValuePairs = null();
    EpDevice_EpName(A) -> *const c_char = null();
    EpDevice_EpVendor(A) -> *const c_char = null();
    EpDevice_EpMetadata(A) -> *const OrtKeyValuePairs = null();
    EpDevice_EpOptions(A) -> *const OrtKeyValuePairs = null();
    EpDevice_Device(A) -> *const OrtHardwareDevice = null();
    GetEpApi() -> *const OrtEpApi = null();
    ExternalInitializerInfo_GetFilePath(A) -> *const os_char = null();
    ExternalInitializerInfo_GetFileOffset(A) -> i64 = 0;
    ExternalInitializerInfo_GetByteSize(A) -> usize = 0;
    EpDevice_MemoryInfo(A B) -> *const OrtMemoryInfo = null();
    SyncStream_GetHandle(A) -> *mut c_void = std::ptr::null_mut();
    GetInteropApi() -> *const OrtInteropApi = null();
    GetExperimentalFunction(A) -> *const c_void = null();
    GetModelPackageApi() -> *const OrtModelPackageApi = null();
}
