//! `OrtModelMetadata`: the metadata in a model's file.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;
use std::ptr::null_mut;

use ort_session::ModelInfo;

use crate::ffi::{Allocator, Out, OutHandle, export};
use crate::session::Session;

/// onnxruntime's value for a missing version.
const NO_VERSION: i64 = i64::MAX;

/// The metadata in a model's file.
#[derive(Debug)]
pub(crate) struct Metadata(pub(crate) ModelInfo);

export! {
    fn SessionGetModelMetadata(session: &Session, out: OutHandle<'_, Metadata>) {
        out.set(Metadata(session.model().clone()));
        Ok(())
    }

    fn ReleaseModelMetadata(metadata: Option<Box<Metadata>>) -> () = (); {
        drop(metadata);
        Ok(())
    }

    fn ModelMetadataGetProducerName(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&model_metadata.0.producer_name)?);
        Ok(())
    }

    fn ModelMetadataGetGraphName(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&model_metadata.0.graph_name)?);
        Ok(())
    }

    fn ModelMetadataGetGraphDescription(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&model_metadata.0.graph_doc_string)?);
        Ok(())
    }

    fn ModelMetadataGetDomain(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&model_metadata.0.domain)?);
        Ok(())
    }

    fn ModelMetadataGetDescription(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&model_metadata.0.doc_string)?);
        Ok(())
    }

    /// Null without such a key.
    fn ModelMetadataLookupCustomMetadataMap(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        key: &str,
        value: Out<'_, *mut c_char>,
    ) {
        let found = model_metadata.0.metadata.iter().find(|(other, _)| other == key);
        value.set(found.map_or(Ok(null_mut()), |(_, text)| allocator.text(text))?);
        Ok(())
    }

    /// Null without any.
    fn ModelMetadataGetCustomMetadataMapKeys(
        model_metadata: &Metadata,
        allocator: Allocator<'_>,
        keys: Out<'_, *mut *mut c_char>,
        num_keys: Out<'_, i64>,
    ) {
        let made = model_metadata.0.metadata.iter().map(|(key, _)| allocator.text(key));
        let made = made.collect::<Result<Vec<_>, _>>()?;
        keys.set(allocator.array(&made)?);
        num_keys.set(i64::try_from(made.len()).unwrap_or(i64::MAX));
        Ok(())
    }

    fn ModelMetadataGetVersion(model_metadata: &Metadata, value: Out<'_, i64>) {
        value.set(model_metadata.0.model_version.unwrap_or(NO_VERSION));
        Ok(())
    }
}
