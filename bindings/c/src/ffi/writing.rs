//! Functions of programs that write models and their initializers.

#![expect(unsafe_code, reason = "functions of C, and what they return")]

use std::ptr::{null, null_mut};

use ort_sys::{OrtGetInitializerLocationFunc, OrtWriteBufferFunc};

use super::arg::Arg;
use super::handle::opaque;
use super::taken::result;
use super::threads::UserData;
use crate::error::{Error, text};
use crate::external_info::ExternalInfo;
use crate::value::Value;

/// A function that receives the bytes of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) function: OrtWriteBufferFunc,
    pub(crate) state: UserData,
}

impl Writer {
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let function = self.function.ok_or_else(|| Error::null("write_func"))?;
        // SAFETY: the program passed the function, to be called like that.
        result(unsafe { function(self.state.0, bytes.as_ptr().cast(), bytes.len()) })
    }
}

/// A function that says where an initializer is stored, and stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locator {
    pub(crate) function: OrtGetInitializerLocationFunc,
    pub(crate) state: UserData,
}

impl Locator {
    /// `None` leaves it in the model.
    pub(crate) fn locate(
        &self,
        name: &str,
        value: &Value,
    ) -> Result<Option<Box<ExternalInfo>>, Error> {
        let missing = || Error::null("get_initializer_location_func");
        let function = self.function.ok_or_else(missing)?;
        let (name, mut info) = (text(name), null_mut());
        let state = self.state.0;
        // SAFETY: the program passed the function, to be called like that.
        let status =
            unsafe { function(state, name.as_ptr(), opaque(value), null(), &raw mut info) };
        // SAFETY: it is null, or an object of the library, which owns it from then on.
        let info = unsafe { Option::<Box<ExternalInfo>>::of(info, "new_external_info") };
        result(status)?;
        info
    }
}
