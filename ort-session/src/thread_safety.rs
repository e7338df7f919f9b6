//! Compile-time checks that sessions, their inputs and outputs, and errors can be sent between
//! threads.

// The lint does not fire in a build for tests.
#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the checks cover all exports of the crate")
)]
use crate::*;

const fn is_send_and_sync<T: Send + Sync + 'static>() {}

macro_rules! send_and_sync {
    ($($type:ty),* $(,)?) => { const _: () = { $(is_send_and_sync::<$type>();)* }; };
}

send_and_sync!(
    Session,
    SessionBuilder,
    Optimized,
    RunOptions,
    Cancel,
    ModelBytes,
    Tensor,
    Value,
    Outputs,
    MemoryReport,
    Trace,
);

send_and_sync!(
    AdviseError,
    AffinityError,
    CompileError,
    ConfigError,
    CycleError,
    ElementsError,
    EvalError,
    ExportError,
    FormatError,
    FreeDimensionError,
    GraphError,
    ImportError,
    InferError,
    InitializerError,
    InputError,
    KernelError,
    LimitError,
    LoadError,
    LoadLimitError,
    MeasureError,
    NchwcError,
    OnnxError,
    OpError,
    OptimizeError,
    OutputError,
    PatchError,
    PlanError,
    ProfileError,
    RegistryError,
    RunError,
    SaveError,
    SessionError,
    TensorError,
    TypeConflict,
    UnavailableIsa,
    WriteError,
);
