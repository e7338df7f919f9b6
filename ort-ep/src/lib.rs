//! The execution provider interface: the contract between a session and its providers.
//!
//! A provider [claims](ExecutionProvider::claim) nodes of a graph, and
//! [compiles](ExecutionProvider::compile) each claim into a [`Kernel`], packing constants on the way. A kernel
//! is immutable: concurrent runs share it, and each lends it memory and threads through [`Io`].
//!
//! [`Reference`] is the minimal provider: every node runs its operator's own `eval`.
//! It is the reference implementation in tests, and the fallback of other providers, through [`EvalKernel`].
//!
//! # When to use it alone
//!
//! To write an execution provider that does not depend on the session. Implement [`ExecutionProvider`], and pass it to
//! `SessionBuilder::provider` of ort-session, which re-exports this crate as `ort_session::provider`.
//!
//! ```
//! use ort_ep::{ExecutionProvider, Layout, Reference};
//!
//! let provider: &dyn ExecutionProvider = &Reference;
//! assert_eq!(provider.name(), "ReferenceExecutionProvider");
//! assert_eq!(provider.preferred_layout(), Layout::Nchw);
//! ```

#![forbid(unsafe_code)]

mod error;
mod kernel;
mod pack;
mod provider;
mod reference;
mod threads;

pub use crate::error::{CompileError, KernelError};
pub use crate::kernel::{Extension, Io, Kernel, Prepared};
pub use crate::pack::{PackStore, Packed, Reader, Recipe};
pub use crate::provider::{Claim, DenormalsMet, ExecutionProvider, Layout};
pub use crate::reference::{EvalKernel, Reference};
pub use crate::threads::{OneThread, Threads};
