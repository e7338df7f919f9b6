//! ONNX Runtime's C API on [`ort_session`].
//!
//! Programs in C, C++, Node, Go, Java, C#, Swift and Ruby reach ONNX Runtime through one table of functions,
//! `OrtApi`, which a library named `libonnxruntime` returns from `OrtGetApiBase`. This is such a library. Rust
//! programs that use the crate `ort` take the table without a shared library:
//!
//! ```text
//! ort::set_api(onnxruntime::api());
//! ```
//!
//! with the feature `alternative-backend` of `ort`. `docs/c.md` lists what is supported.
//!
//! Every function is written in safe Rust, in its family's file. `ffi` converts arguments and results, and is
//! the only part that handles pointers. `table` lists the functions.

#![expect(unsafe_code, reason = "`export!` of `ffi` wraps safe functions in C functions")]

mod allocators;
mod arena;
mod assignment;
mod compile;
mod custom_operator;
mod custom_ops;
mod custom_provider;
mod devices;
mod edit_check;
mod editor;
mod editor_session;
mod editor_types;
mod element_type;
mod env;
mod error;
mod external_info;
mod ffi;
mod further_apis;
mod graph_reading;
mod initializer_file;
mod invoked_op;
mod io_binding;
mod kernel_attributes;
mod kernel_context;
mod kernel_info;
mod kernel_logger;
mod key_values;
mod lora;
mod memory_info;
mod memory_report;
mod metadata;
mod missing;
mod model_source;
mod op_attr;
mod providers;
mod run;
mod run_options;
mod session;
mod session_entries;
mod session_options;
mod shape_context;
mod strings;
mod table;
mod tensor_info;
mod tensors;
mod threading;
mod type_info;
mod value;

pub use ort_sys;

/// The table of functions, for `ort::set_api`.
pub fn api() -> ort_sys::OrtApi {
    table::API.clone()
}
