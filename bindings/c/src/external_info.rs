//! `OrtExternalInitializerInfo`: where an initializer is stored outside of its model's file.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::CString;
use std::path::Path;
use std::ptr::null;

use ort_session::ExternalElements;
use ort_sys::os_char;

use crate::error::{Error, text};
use crate::ffi::{OutHandle, export};

/// A place in a file.
#[derive(Debug)]
pub(crate) struct ExternalInfo {
    path: CString,
    offset: i64,
    n_bytes: usize,
}

impl ExternalInfo {
    /// The same for a model.
    pub(crate) fn to_elements(&self) -> Result<ExternalElements, Error> {
        let negative = || Error::argument("file_offset", "is negative");
        Ok(ExternalElements {
            file: self.path.to_string_lossy().into_owned(),
            offset: u64::try_from(self.offset).map_err(|_| negative())?,
            n_bytes: u64::try_from(self.n_bytes).unwrap_or(u64::MAX),
        })
    }
}

export! {
    fn CreateExternalInitializerInfo(
        filepath: &Path,
        file_offset: i64,
        byte_size: usize,
        out: OutHandle<'_, ExternalInfo>,
    ) {
        let path = filepath.to_str().ok_or_else(|| Error::argument("filepath", "is not UTF-8"))?;
        out.set(ExternalInfo { path: text(path), offset: file_offset, n_bytes: byte_size });
        Ok(())
    }

    fn ReleaseExternalInitializerInfo(info: Option<Box<ExternalInfo>>) -> () = (); {
        drop(info);
        Ok(())
    }

    /// The pointer is valid as long as the object.
    fn ExternalInitializerInfo_GetFilePath(info: &ExternalInfo) -> *const os_char = null(); {
        Ok(info.path.as_ptr().cast())
    }

    fn ExternalInitializerInfo_GetFileOffset(info: &ExternalInfo) -> i64 = 0; {
        Ok(info.offset)
    }

    fn ExternalInitializerInfo_GetByteSize(info: &ExternalInfo) -> usize = 0; {
        Ok(info.n_bytes)
    }
}
