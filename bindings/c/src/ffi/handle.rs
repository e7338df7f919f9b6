//! The types behind C's opaque pointers: a pointer that the library returned points to one of these.

/// A type of ours that programs see as a pointer to an opaque C type.
pub(crate) trait Handle: Sized {
    /// The opaque type.
    type Opaque;
}

macro_rules! handles {
    ($($ours:path => $theirs:ident;)*) => {
        $(impl Handle for $ours { type Opaque = ort_sys::$theirs; })*
    };
}

handles! {
    crate::error::Error => OrtStatus;
    crate::env::Env => OrtEnv;
    crate::threading::Threading => OrtThreadingOptions;
    crate::key_values::KeyValues => OrtKeyValuePairs;
    crate::session_options::SessionOptions => OrtSessionOptions;
    crate::run_options::RunOptions => OrtRunOptions;
    crate::lora::LoraAdapter => OrtLoraAdapter;
    crate::session::Session => OrtSession;
    crate::metadata::Metadata => OrtModelMetadata;
    crate::io_binding::IoBinding => OrtIoBinding;
    crate::value::Value => OrtValue;
    crate::type_info::TypeInfo => OrtTypeInfo;
    crate::type_info::MapInfo => OrtMapTypeInfo;
    crate::type_info::SequenceInfo => OrtSequenceTypeInfo;
    crate::type_info::OptionalInfo => OrtOptionalTypeInfo;
    crate::tensor_info::TensorInfo => OrtTensorTypeAndShapeInfo;
    crate::memory_info::MemoryInfo => OrtMemoryInfo;
    crate::arena::ArenaConfig => OrtArenaCfg;
    crate::custom_ops::CustomOpDomain => OrtCustomOpDomain;
    crate::kernel_info::KernelInfo => OrtKernelInfo;
    crate::kernel_context::KernelContext<'_, '_> => OrtKernelContext;
    crate::kernel_logger::KernelLogger => OrtLogger;
    crate::shape_context::ShapeContext => OrtShapeInferContext;
    crate::invoked_op::InvokedOp => OrtOp;
    crate::editor_types::ValueInfo => OrtValueInfo;
    crate::editor::EditedNode => OrtNode;
    crate::editor::EditedGraph => OrtGraph;
    crate::editor::EditedModel => OrtModel;
    crate::external_info::ExternalInfo => OrtExternalInitializerInfo;
    crate::devices::EpDevice => OrtEpDevice;
    crate::devices::HardwareDevice => OrtHardwareDevice;
    crate::devices::Incompatibility => OrtDeviceEpIncompatibilityDetails;
    crate::assignment::AssignedSubgraph => OrtEpAssignedSubgraph;
    crate::assignment::AssignedNode => OrtEpAssignedNode;
    crate::compile::Compilation => OrtModelCompilationOptions;
    crate::op_attr::OpAttr => OrtOpAttr;
    crate::session::PrepackedWeights => OrtPrepackedWeightsContainer;
}

/// A pointer for C to a value that Rust owns.
pub(crate) const fn opaque<T: Handle>(value: &T) -> *const T::Opaque {
    std::ptr::from_ref(value).cast()
}

/// A pointer for C to a value that it owns from now on.
pub(crate) fn into_handle<T: Handle>(value: T) -> *mut T::Opaque {
    Box::into_raw(Box::new(value)).cast()
}
