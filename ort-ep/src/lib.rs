//! What a place to run promises: the contract between a session and its execution providers.
//!
//! A provider looks at a graph and [claims](ExecutionProvider::claim) nodes; what it claims it
//! [compiles](ExecutionProvider::compile) into [`Kernel`]s, packing constants on the way. A kernel
//! is immutable: concurrent runs share it, and each lends it memory and threads through [`Io`].
//!
//! [`Reference`] is the contract's plainest fulfilment: every node runs its operator's own `eval`.
//! It is the oracle of the tests and what other providers fall back to, through [`EvalKernel`].
//!
//! # When to use it alone
//!
//! To write an execution provider that does not depend on the session. Implement [`ExecutionProvider`], and give it to
//! `SessionBuilder::provider` of ort-session, which exports all of this as `ort_session::provider`.
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
pub use crate::kernel::{Io, Kernel, Prepared};
pub use crate::pack::{PackStore, Packed, Recipe};
pub use crate::provider::{Claim, DenormalsMet, ExecutionProvider, Layout};
pub use crate::reference::{EvalKernel, Reference};
pub use crate::threads::{OneThread, Threads};
