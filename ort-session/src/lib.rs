//! The facade: load a `.onnx` or `.ort` model, optimize and plan it once, run it from any number of threads.
//!
//! ```no_run
//! use ort_session::{Session, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::builder().commit_from_file("model.onnx")?; // or "model.ort"
//! let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0])?;
//! let outputs = session.run([("x", &x)])?;
//! let y = outputs[0].as_tensor()?.view().to_ndarray::<f32>()?;
//! println!("{y}");
//! # Ok(())
//! # }
//! ```
//!
//! A session maps the file by default, and its constants are slices of the mapping. [`Session::run`]
//! takes `&self`: concurrent runs share the plan, and each has its own memory.
//!
//! [`SessionBuilder`] configures a session, by methods or by ONNX Runtime's keys and values:
//!
//! ```
//! # fn main() -> Result<(), ort_session::ConfigError> {
//! use ort_session::{Level, Session};
//!
//! let builder = Session::builder()
//!     .level(Level::Extended)
//!     .free_dimension("batch", 1)
//!     .config("session.set_denormal_as_zero", "0")?;
//! # let _ = builder;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/options.md` lists both, and the differences from ONNX Runtime. A session emits events about its
//! stages, and about anomalies of a model, through `tracing`.
//!
//! [`Session::run_with`] takes options: cancellation from any thread, or a deadline;
//! limits; the requested outputs, so that only the nodes they depend on run; and which events are emitted.
//! [`Session::run_into`] lets kernels write into the caller's memory.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use ort_session::{Cancel, DType, RunError, RunLimits, RunOptions, Session, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let session = Session::builder().commit_from_file("model.ort")?;
//! # let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0])?;
//! let cancel = Cancel::new(); // a clone lets another thread cancel the run
//! let options = RunOptions::new()
//!     .tag("request 17")
//!     .cancel(&cancel)
//!     .deadline(Instant::now() + Duration::from_millis(50))
//!     .limits(RunLimits { max_bytes: Some(1 << 30), ..RunLimits::default() })
//!     .outputs(["label"]);
//! let mut scores = Tensor::zeros(DType::F32, &[1, 10])?;
//! match session.run_into([("x", &x)], [("scores", &mut scores)], &options) {
//!     Ok(outputs) => println!("{:?}: {scores:?}", outputs.get("label")),
//!     Err(RunError::Cancelled { tag }) => println!("{tag} was cancelled"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Session::new_state`] keeps outputs that become inputs of the next run, such as the cache of a language model:
//! one [`State`] for each conversation, in which [`Session::run_state`] writes only what is new.
//!
//! A run emits events through `tracing` as well, in a span `run` if it has a tag.
//! [`RunOptions::enable_profiling`] writes a trace of one run, and [`SessionBuilder::enable_profiling`]
//! one of a session, loading included.
//!
//! Bound the resources of untrusted models: [`LoadLimits`] for nodes, depth, elements, bytes
//! and time of loading, [`RunLimits`] for memory, time and iterations of runs. Exceeding a limit is a
//! typed error, which names the node or value.
//!
//! ```
//! use std::time::Duration;
//! use ort_session::{LoadLimits, RunLimits, Session};
//!
//! let builder = Session::builder()
//!     .load_limits(LoadLimits {
//!         max_nodes: Some(10_000),
//!         max_time: Some(Duration::from_secs(10)),
//!         ..LoadLimits::default()
//!     })
//!     .run_limits(RunLimits { max_time: Some(Duration::from_secs(1)), ..RunLimits::default() });
//! # let _ = builder;
//! ```
//!
//! A run that fails, is cancelled or panics in a kernel releases its memory and does not affect other
//! runs: the session, its threads and the denormal mode of the caller's thread are restored.
//! A panic becomes [`RunError::Panicked`]. (A panic in a provider's `claim` or `compile` propagates to the
//! caller, and no session is created.) A session shared in an `Arc` may be dropped by one owner while
//! another thread runs it.
//!
//! [`SessionBuilder::optimize`] stops before planning: its result can be inspected, and saved as a file
//! that this crate and ONNX Runtime load.
//!
//! # When to use it alone
//!
//! Always: programs depend on this crate. The crates below it are for programs that need less than a session.

#![forbid(unsafe_code)]

mod activations;
mod adapter;
mod builder;
mod cache;
mod cancel;
mod caught;
mod check;
mod chosen;
mod code;
mod config;
mod control;
mod error;
mod external;
mod file_format;
mod fold;
mod free_dims;
mod initializers;
mod inputs;
mod inspect;
mod json_text;
mod listener;
mod load_limits;
mod log;
mod memory;
pub mod model;
mod nearest;
mod observed;
mod opened;
mod operators;
mod optimized;
mod outputs;
mod owned;
mod packed;
mod packs;
mod plan;
mod profile;
mod required_operators;
mod resolved;
mod run;
mod run_memory;
mod run_options;
mod save;
mod save_onnx;
mod save_ort;
mod session;
mod settings;
mod state;
mod thread_safety;
mod threads;
mod unread_pages;

pub use crate::activations::{Activations, StepActivations};
pub use crate::adapter::{Adapter, AdapterError};
pub use crate::builder::SessionBuilder;
pub use crate::cache::{Cache, CacheEntry, Pruned, Retention};
pub use crate::cancel::Cancel;
pub use crate::code::ErrorCode;
pub use crate::config::{ConfigError, ConfigKey, Effect, config_keys};
pub use crate::error::{InputError, OutputError, SaveError, SessionError};
pub use crate::file_format::FileFormat;
pub use crate::free_dims::FreeDimensionError;
pub use crate::initializers::InitializerError;
pub use crate::inputs::{InputValue, RunInputs};
pub use crate::inspect::{
    DenormalWeights, Hints, Inspection, OperatorCount, WeightCount, denormal_weights, inspect,
};
pub use crate::listener::{Listener, LogEvent};
pub use crate::load_limits::{LoadLimitError, LoadLimits};
pub use crate::log::{Severity, UnknownSeverity};
pub use crate::memory::{CopyReason, MemoryReport, ModelUsage, Objects, Planned, Retained, Usage};
pub use crate::nearest::nearest;
pub use crate::optimized::{OperatorChange, Optimized, Pack, PackedSize};
pub use crate::outputs::{BoundOutputs, Outputs};
pub use crate::plan::PlanError;
pub use crate::profile::{ProfileError, RunTimes, Share, Span, StepTime, StepWork, Trace};
pub use crate::required_operators::RequiredOperators;
pub use crate::run::{IntermediateValue, LimitError, RunError};
pub use crate::run_memory::Arena;
pub use crate::run_options::{RunLimits, RunOptions};
pub use crate::save_onnx::ExternalElements;
pub use crate::session::{CacheUse, Metadata, Session, ValueDescription};
pub use crate::state::{State, StateError, StateFileError};
pub use crate::threads::{
    Affinities, AffinityError, CpuQuota, ExecutionMode, MachineThreads, SharedPool, ThreadCount,
    cpu_time,
};

// Types of other crates in this crate's signatures.
pub use bytes;
pub use ndarray;
pub use rayon;

pub use ort_threads::{Join, Spawn};

pub use ort_ep::{CompileError, DenormalsMet, ExecutionProvider, KernelError, Threads};
pub use ort_ep_cpu::{
    CpuOptions, CpuProvider, Denormals, Isa, IsaChoice, ParseOptionError, PeakPerformance,
    UnavailableIsa,
};
pub use ort_format::{
    AttributeType as FormatAttributeType, Damage as FormatDamage, DataType as FormatDataType,
    Fault as FormatFault, FormatError, Limits as FormatLimits, WriteError,
};
pub use ort_graph::{
    CycleError, Dim, Dims, ExportError, GraphError, ImportError, ImportLimits, ImportWarning,
    InferError, ModelInfo, OpError, PatchError, RegistryError, TensorType, Type, TypeConflict,
    UnsupportedNode,
};
pub use ort_loader::{
    AdviseError, Kind, Load, LoadError, MappingKind, MeasureError, MemoryMapping, ModelBytes,
    Pages, Process, ProcessMemory, Residency, Sharing, process_memory,
};
pub use ort_onnx::{Damage as OnnxDamage, ElementsError, OnnxError};
pub use ort_optimizer::{
    AssumedBlockSize, Contradiction, EvalError, Exactness, Level, NchwcError, OptimizeError,
    ParseLevelError, PassReport, Report, Step, UnknownLevel, Visit, names as optimizer_names,
};
pub use ort_tensor::{
    Bool, Complex, DType, Element, Map, Number, ParseDTypeError, Tensor, TensorError, TensorView,
    TensorViewMut, Value, ValueView, bf16, f16, with_dtype,
};

/// What an author of an [`ExecutionProvider`] also needs: the interface of providers, the graph whose
/// nodes they claim, and tensors as kernels read and write them.
pub mod provider {
    pub use smallvec;

    pub use ort_ep::{
        Claim, CompileError, DenormalsMet, EvalKernel, ExecutionProvider, Extension, Io, Kernel,
        KernelError, Layout, OneThread, PackStore, Packed, Prepared, Reader, Recipe, Reference,
        Threads,
    };
    pub use ort_graph::{
        Attr, Attrs, Behaviour, Body, BodyInputs, Control, CycleError, Dim, Dims, Fact, Facts,
        Graph, GraphError, InferError, NewNode, Node, NodeId, NodeSpec, OpDef, OpError, Operator,
        OperatorSource, PackedForm, Registry, RegistryError, TensorType, Text, TextError,
        TextErrorKind, Type, TypeConflict, ValueId, ValueInfo, VerifyError,
    };
    pub use ort_tensor::{
        AlignedBuf, DType, Ending, GrowingTensor, Home, Inputs, Memory, Output, Pace, Room, Shape,
        Tensor, TensorError, TensorView, TensorViewMut, Value, ValueView, Word, by_pieces, can_end,
        charge, collected, ended_by, filled, go_on, text_of, try_collected, with_room, within,
    };
}

/// The code in README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The code in docs/profiling.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/profiling.md")]
struct Profiling;
