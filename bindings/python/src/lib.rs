//! The extension module below the Python package `ort_rs`: sessions, values and options, as thin as possible.
//!
//! ```text
//! adapter    LoRA adapters, from and to files
//! array      memory that numpy and tensors share
//! convert    booleans, integers and strings of options
//! dlpack     exchange of tensors with other libraries
//! dtypes     element types: numpy's, ml_dtypes', ONNX's
//! feeds      Python objects to inputs: borrowed in place
//! results    outputs to Python objects
//! session    load and run, without the GIL
//! ```
//!
//! Names and defaults of onnxruntime are in Python, below `python/ort_rs`.

mod adapter;
mod array;
mod builder;
mod convert;
mod dlpack;
mod dtypes;
mod errors;
mod feeds;
mod log;
mod model_meta;
mod node_arg;
mod optimized;
mod reports;
mod results;
mod run_options;
mod session;
mod strings;
mod value;

use pyo3::pymodule;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::adapter::{LoraAdapter, read_adapter, write_adapter};
    #[pymodule_export]
    use super::builder::{Builder, LoadCancel};
    #[pymodule_export]
    use super::convert::{entry, flag, number, text};
    #[pymodule_export]
    use super::dtypes::onnx_type;
    #[pymodule_export]
    use super::errors::{
        DeviceReset, EPFail, EngineError, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
        ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
        NotImplemented, RuntimeException,
    };
    #[pymodule_export]
    use super::log::set_log_callback;
    #[pymodule_export]
    use super::model_meta::ModelMetadata;
    #[pymodule_export]
    use super::node_arg::NodeArg;
    #[pymodule_export]
    use super::optimized::Optimized;
    #[pymodule_export]
    use super::run_options::RunOptions;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::value::OrtValue;
    use crate::log;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        log::listen();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("build_profile", if cfg!(debug_assertions) { "dev" } else { "release" })?;
        module.add("optimizers", ort_session::optimizer_names().collect::<Vec<_>>())
    }
}
