//! The table: every function of the C API, by the file that defines it. A new function is added here by name.
//!
//! `Name[_, _]` is a function with C enums among its arguments, which it takes as integers.

#![expect(
    clippy::missing_transmute_annotations,
    reason = "the type of the table's field is the annotation"
)]

use std::ffi::CStr;

use ort_sys::OrtApi;

/// The version of onnxruntime's table: programs compare its minor number with that of their headers.
pub(crate) const VERSION: &CStr = c"1.31.0";

/// What was built, and how.
pub(crate) const BUILD_INFO: &CStr = c"ORT Build Info: ort-rs, CPU, cargo";

macro_rules! entry {
    ($module:ident $name:ident) => { crate::$module::$name };
    ($module:ident $name:ident [$($arg:ty),*]) => { crate::ffi::with_enums!(crate::$module::$name as fn($($arg),*)) };
}

macro_rules! table {
    ($($module:ident { $($name:ident $([$($arg:ty),*])?)* })*) => {
        /// The functions.
        pub(crate) static API: OrtApi = OrtApi { $($($name: entry!($module $name $([$($arg),*])?),)*)* };
    };
}

table! {
    error {
        CreateStatus[_, _] GetErrorCode GetErrorMessage ReleaseStatus
    }
    env {
        CreateEnv[_, _, _] CreateEnvWithCustomLogger[_, _, _, _, _] EnableTelemetryEvents
        DisableTelemetryEvents ReleaseEnv CreateEnvWithGlobalThreadPools[_, _, _, _]
        GetAvailableProviders ReleaseAvailableProviders SetLanguageProjection[_, _]
        CreateEnvWithCustomLoggerAndGlobalThreadPools[_, _, _, _, _, _]
        UpdateEnvWithCustomLogLevel[_, _] GetBuildInfoString CreateEnvWithOptions
    }
    session {
        CreateSession CreateSessionFromArray SessionGetInputCount SessionGetOutputCount
        SessionGetOverridableInitializerCount SessionGetInputTypeInfo SessionGetOutputTypeInfo
        SessionGetOverridableInitializerTypeInfo SessionGetInputName SessionGetOutputName
        SessionGetOverridableInitializerName ReleaseSession SessionEndProfiling
        SessionGetProfilingStartTimeNs CreatePrepackedWeightsContainer
        ReleasePrepackedWeightsContainer CreateSessionWithPrepackedWeightsContainer
        CreateSessionFromArrayWithPrepackedWeightsContainer SessionGetMemoryInfoForInputs
        SessionGetMemoryInfoForOutputs SessionGetEpDeviceForInputs SessionGetEpDeviceForOutputs
    }
    session_options {
        CreateSessionOptions SetOptimizedModelFilePath CloneSessionOptions
        SetSessionExecutionMode[_, _] EnableProfiling DisableProfiling EnableMemPattern
        DisableMemPattern EnableCpuMemArena DisableCpuMemArena SetSessionLogId
        SetSessionLogVerbosityLevel SetSessionLogSeverityLevel
        SetSessionGraphOptimizationLevel[_, _] SetIntraOpNumThreads SetInterOpNumThreads
        AddFreeDimensionOverride ReleaseSessionOptions DisablePerSessionThreads
        AddFreeDimensionOverrideByName SetUserLoggingFunction[_, _, _] SetDeterministicCompute
        SessionOptionsSetLoadCancellationFlag GetMemPatternEnabled GetSessionExecutionMode
    }
    missing {
        EpDevice_MemoryInfo CreateOpaqueValue GetOpaqueValue CreateSparseTensorAsOrtValue
        FillSparseTensorCoo FillSparseTensorCsr FillSparseTensorBlockSparse
        CreateSparseTensorWithValuesAsOrtValue UseCooIndices UseCsrIndices UseBlockSparseIndices
        GetSparseTensorFormat GetSparseTensorValuesTypeAndShape GetSparseTensorValues
        GetSparseTensorIndicesTypeShape GetSparseTensorIndices GetTrainingApi GetEpApi
        ValueInfo_GetValueProducer ValueInfo_GetValueNumConsumers ValueInfo_GetValueConsumers
        ValueInfo_GetInitializerValue ValueInfo_GetExternalInitializerInfo
        ValueInfo_IsRequiredGraphInput ValueInfo_IsOptionalGraphInput ValueInfo_IsGraphOutput
        ValueInfo_IsConstantInitializer ValueInfo_IsFromOuterScope Graph_GetNumOperatorSets
        Graph_GetOperatorSets Graph_GetInitializers Graph_GetParentNode Node_GetSinceVersion
        Node_GetInputs Node_GetOutputs Node_GetNumImplicitInputs Node_GetImplicitInputs
        Node_GetAttributes Node_GetNumSubgraphs Node_GetSubgraphs Node_GetGraph
        CreateSyncStreamForEpDevice SyncStream_GetHandle ReleaseSyncStream GetInteropApi
        RunOptionsSetSyncStream SetPerSessionThreadPoolCallbacks GetExperimentalFunction
        GetModelPackageApi
    }
    external_info {
        CreateExternalInitializerInfo ReleaseExternalInitializerInfo
        ExternalInitializerInfo_GetFilePath ExternalInitializerInfo_GetFileOffset
        ExternalInitializerInfo_GetByteSize
    }
    editor_types {
        ReleaseValueInfo GetValueInfoName GetValueInfoTypeInfo
    }
    editor {
        ReleaseNode ReleaseGraph ReleaseModel
    }
    graph_reading {
        Node_GetName Node_GetOperatorType Node_GetDomain Node_GetId Node_GetEpName
        Node_GetNumInputs Node_GetNumOutputs Node_GetNumAttributes Node_GetAttributeByName
        Graph_GetName Graph_GetModelPath Graph_GetOnnxIRVersion Graph_GetModelMetadata
        Graph_GetGraphView Graph_GetNumInputs Graph_GetNumOutputs Graph_GetNumInitializers
        Graph_GetNumNodes Graph_GetInputs Graph_GetOutputs Graph_GetNodes
    }
    further_apis {
        GetModelEditorApi GetCompileApi
    }
    custom_ops {
        CreateCustomOpDomain ReleaseCustomOpDomain CustomOpDomain_Add AddCustomOpDomain
        RegisterCustomOpsLibrary RegisterCustomOpsLibrary_V2 RegisterCustomOpsUsingFunction
        EnableOrtCustomOps
    }
    kernel_info {
        CopyKernelInfo ReleaseKernelInfo KernelInfo_GetInputCount KernelInfo_GetOutputCount
        KernelInfo_GetInputName KernelInfo_GetOutputName KernelInfo_GetInputTypeInfo
        KernelInfo_GetOutputTypeInfo KernelInfoGetConstantInput_tensor KernelInfo_GetNodeName
        KernelInfo_GetOperatorDomain KernelInfo_GetOperatorType
        KernelInfo_GetOperatorSinceVersion KernelInfo_GetConfigEntries KernelInfo_GetLogger
        KernelInfoGetAllocator[_, _, _]
    }
    kernel_attributes {
        KernelInfoGetAttribute_float KernelInfoGetAttribute_int64 KernelInfoGetAttribute_string
        KernelInfoGetAttribute_tensor KernelInfoGetAttributeArray_float
        KernelInfoGetAttributeArray_int64 KernelInfoGetAttributeArray_string
    }
    kernel_context {
        KernelContext_GetPreallocatedOutput KernelContext_GetInputCount KernelContext_GetOutputCount
        KernelContext_GetInput KernelContext_GetOutput KernelContext_GetLogger
        KernelContext_GetAllocator KernelContext_GetScratchBuffer
        KernelContext_ParallelFor[_, _, _, _, _] KernelContext_GetResource
        KernelContext_GetGPUComputeStream KernelContext_GetSyncStream
    }
    kernel_logger {
        Logger_LogMessage[_, _, _, _, _, _] Logger_GetLoggingSeverityLevel
    }
    shape_context {
        ShapeInferContext_GetInputCount ShapeInferContext_GetInputTypeShape
        ShapeInferContext_GetAttribute ShapeInferContext_SetOutputTypeShape
    }
    op_attr {
        CreateOpAttr[_, _, _, _, _] ReleaseOpAttr ReadOpAttr[_, _, _, _, _] OpAttr_GetType
        OpAttr_GetName OpAttr_GetTensorAttributeAsOrtValue
    }
    invoked_op {
        CreateOp[_, _, _, _, _, _, _, _, _, _, _, _] InvokeOp ReleaseOp
    }
    lora {
        CreateLoraAdapter CreateLoraAdapterFromArray ReleaseLoraAdapter
    }
    run_options {
        RunOptionsAddActiveLoraAdapter CreateRunOptions RunOptionsSetRunLogVerbosityLevel RunOptionsSetRunLogSeverityLevel
        RunOptionsSetRunTag RunOptionsGetRunLogVerbosityLevel RunOptionsGetRunLogSeverityLevel
        RunOptionsGetRunTag RunOptionsSetTerminate RunOptionsUnsetTerminate ReleaseRunOptions
        AddRunConfigEntry GetRunConfigEntry RunOptionsEnableProfiling RunOptionsDisableProfiling
    }
    tensors {
        CopyTensors CreateTensorAsOrtValue[_, _, _, _, _]
        CreateTensorWithDataAsOrtValue[_, _, _, _, _, _, _] GetTensorMutableData
        GetTensorTypeAndShape TensorAt GetTensorMemoryInfo
        CreateTensorWithDataAndDeleterAsOrtValue[_, _, _, _, _, _, _] GetTensorSizeInBytes
        GetTensorData GetTensorElementTypeAndShapeDataReference
    }
    value {
        IsTensor GetTypeInfo GetValueType GetValue GetValueCount CreateValue[_, _, _, _]
        ReleaseValue IsSparseTensor HasValue
    }
    strings {
        FillStringTensor GetStringTensorDataLength GetStringTensorContent
        GetStringTensorElementLength GetStringTensorElement FillStringTensorElement
        GetResizedStringTensorElementBuffer
    }
    type_info {
        CastTypeInfoToTensorInfo GetOnnxTypeFromTypeInfo ReleaseTypeInfo GetDenotationFromTypeInfo
        CastTypeInfoToMapTypeInfo CastTypeInfoToSequenceTypeInfo GetMapKeyType GetMapValueType
        GetSequenceElementType ReleaseMapTypeInfo ReleaseSequenceTypeInfo
        CastTypeInfoToOptionalTypeInfo GetOptionalContainedTypeInfo
    }
    tensor_info {
        CreateTensorTypeAndShapeInfo SetTensorElementType[_, _] SetDimensions GetTensorElementType
        GetDimensionsCount GetDimensions GetSymbolicDimensions GetTensorShapeElementCount
        ReleaseTensorTypeAndShapeInfo SetSymbolicDimensions TensorTypeAndShape_HasShape
    }
    memory_info {
        CreateMemoryInfo[_, _, _, _, _] CreateCpuMemoryInfo[_, _, _] CompareMemoryInfo
        MemoryInfoGetName MemoryInfoGetId MemoryInfoGetMemType MemoryInfoGetType ReleaseMemoryInfo
        MemoryInfoGetDeviceType CreateMemoryInfo_V2[_, _, _, _, _, _, _, _]
        MemoryInfoGetDeviceMemType MemoryInfoGetVendorId
    }
    allocators {
        AllocatorAlloc AllocatorFree AllocatorGetInfo GetAllocatorWithDefaultOptions
        CreateAllocator ReleaseAllocator CreateAndRegisterAllocator RegisterAllocator
        UnregisterAllocator CreateAndRegisterAllocatorV2 AllocatorGetStats
        CreateSharedAllocator[_, _, _, _, _, _] GetSharedAllocator ReleaseSharedAllocator[_, _, _]
    }
    metadata {
        SessionGetModelMetadata ModelMetadataGetProducerName ModelMetadataGetGraphName
        ModelMetadataGetDomain ModelMetadataGetDescription ModelMetadataLookupCustomMetadataMap
        ModelMetadataGetVersion ReleaseModelMetadata ModelMetadataGetCustomMetadataMapKeys
        ModelMetadataGetGraphDescription
    }
    threading {
        CreateThreadingOptions ReleaseThreadingOptions SetGlobalIntraOpNumThreads
        SetGlobalInterOpNumThreads SetGlobalSpinControl SetGlobalDenormalAsZero
        SessionOptionsSetCustomCreateThreadFn SessionOptionsSetCustomThreadCreationOptions
        SessionOptionsSetCustomJoinThreadFn SetGlobalCustomCreateThreadFn
        SetGlobalCustomThreadCreationOptions SetGlobalCustomJoinThreadFn
        SetGlobalIntraOpThreadAffinity
    }
    session_entries {
        SessionOptionsSetWeightlessSourceModelBuffer AddSessionConfigEntry AddInitializer
        AddExternalInitializers HasSessionConfigEntry GetSessionConfigEntry
        AddExternalInitializersFromMemory GetSessionOptionsConfigEntries
    }
    io_binding {
        RunWithBinding CreateIoBinding ReleaseIoBinding BindInput BindOutput BindOutputToDevice
        GetBoundOutputNames GetBoundOutputValues ClearBoundInputs ClearBoundOutputs
        SynchronizeBoundInputs SynchronizeBoundOutputs
    }
    providers {
        UpdateTensorRTProviderOptionsWithValue SessionOptionsAppendExecutionProvider_CUDA
        SessionOptionsAppendExecutionProvider_ROCM SessionOptionsAppendExecutionProvider_OpenVINO
        SessionOptionsAppendExecutionProvider_TensorRT SetCurrentGpuDeviceId GetCurrentGpuDeviceId
        SessionOptionsAppendExecutionProvider_TensorRT_V2 CreateTensorRTProviderOptions
        UpdateTensorRTProviderOptions GetTensorRTProviderOptionsAsString
        ReleaseTensorRTProviderOptions GetExecutionProviderApi
        SessionOptionsAppendExecutionProvider_CUDA_V2 CreateCUDAProviderOptions
        UpdateCUDAProviderOptions GetCUDAProviderOptionsAsString ReleaseCUDAProviderOptions
        SessionOptionsAppendExecutionProvider_MIGraphX SessionOptionsAppendExecutionProvider
        SessionOptionsAppendExecutionProvider_CANN CreateCANNProviderOptions
        UpdateCANNProviderOptions GetCANNProviderOptionsAsString ReleaseCANNProviderOptions
        SessionOptionsAppendExecutionProvider_Dnnl CreateDnnlProviderOptions
        UpdateDnnlProviderOptions GetDnnlProviderOptionsAsString ReleaseDnnlProviderOptions
        CreateROCMProviderOptions UpdateROCMProviderOptions GetROCMProviderOptionsAsString
        ReleaseROCMProviderOptions GetTensorRTProviderOptionsByName
        UpdateCUDAProviderOptionsWithValue GetCUDAProviderOptionsByName
        SessionOptionsAppendExecutionProvider_OpenVINO_V2
        SessionOptionsAppendExecutionProvider_VitisAI SetEpDynamicOptions
        RegisterExecutionProviderLibrary UnregisterExecutionProviderLibrary
        SessionOptionsSetEpSelectionPolicy[_, _] SessionOptionsSetEpSelectionPolicyDelegate
        SessionReleaseCapturedGraph SessionOptionsSetEpContextDataReadFunc
    }
    devices {
        GetEpDevices GetNumHardwareDevices GetHardwareDevices
        SessionOptionsAppendExecutionProvider_V2 GetModelCompatibilityForEpDevices
        HardwareDevice_Type HardwareDevice_VendorId HardwareDevice_Vendor HardwareDevice_DeviceId
        HardwareDevice_Metadata EpDevice_EpName EpDevice_EpVendor EpDevice_EpMetadata
        EpDevice_EpOptions EpDevice_Device GetHardwareDeviceEpIncompatibilityDetails
        DeviceEpIncompatibilityDetails_GetReasonsBitmask DeviceEpIncompatibilityDetails_GetNotes
        DeviceEpIncompatibilityDetails_GetErrorCode ReleaseDeviceEpIncompatibilityDetails
        GetCompatibilityInfoFromModel GetCompatibilityInfoFromModelBytes
    }
    assignment {
        Session_GetEpGraphAssignmentInfo EpAssignedSubgraph_GetEpName EpAssignedSubgraph_GetNodes
        EpAssignedNode_GetName EpAssignedNode_GetDomain EpAssignedNode_GetOperatorType
    }
    arena {
        CreateArenaCfg ReleaseArenaCfg CreateArenaCfgV2
    }
    run {
        Run RunAsync
    }
    key_values {
        CreateKeyValuePairs AddKeyValuePair GetKeyValue GetKeyValuePairs RemoveKeyValuePair
        ReleaseKeyValuePairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_declarations() {
        let version = format!("1.{}.0", ort_sys::ORT_API_VERSION);
        assert_eq!(VERSION.to_str(), Ok(version.as_str()));
    }
}
