//! `OrtLoraAdapter`: values for inputs of a model, for the runs whose options have it.

#![expect(non_snake_case, reason = "names of the C API")]

use std::path::Path;
use std::sync::Arc;

use ort_session::Adapter;
use ort_sys::OrtAllocator;

use crate::error::Error;
use crate::ffi::{Memory, OutHandle, export};

/// An adapter, shared by the program and by run options.
#[derive(Clone, Debug)]
pub(crate) struct LoraAdapter(pub(crate) Arc<Adapter>);

export! {
    /// The allocator is ignored: it is for devices.
    fn CreateLoraAdapter(
        adapter_file_path: &Path,
        _allocator: *mut OrtAllocator,
        out: OutHandle<'_, LoraAdapter>,
    ) {
        out.set(LoraAdapter(Arc::new(Adapter::from_path(adapter_file_path)?)));
        Ok(())
    }

    /// The bytes are copied.
    fn CreateLoraAdapterFromArray(
        bytes: Memory<'_>[num_bytes],
        num_bytes: usize,
        _allocator: *mut OrtAllocator,
        out: OutHandle<'_, LoraAdapter>,
    ) {
        let _ = num_bytes;
        let adapter = Adapter::from_bytes(&bytes.to_model_bytes()?)?;
        out.set(LoraAdapter(Arc::new(adapter)));
        Ok(())
    }

    fn ReleaseLoraAdapter(adapter: Option<Box<LoraAdapter>>) -> () = (); {
        drop(adapter);
        Ok(())
    }
}
