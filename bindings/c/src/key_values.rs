//! `OrtKeyValuePairs`: strings by name.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};
use std::ptr::null;

use crate::error::text;
use crate::ffi::{Out, OutHandle, export};

/// Strings by name, in the order in which they were added, and as C arrays.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    entries: Vec<(CString, CString)>,
    keys: Vec<*const c_char>,
    values: Vec<*const c_char>,
}

impl KeyValues {
    /// Sets the value of a name.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        let (key, value) = (text(key), text(value));
        match self.entries.iter_mut().find(|(other, _)| *other == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key, value)),
        }
        self.update();
    }

    fn update(&mut self) {
        self.keys = self.entries.iter().map(|(key, _)| key.as_ptr()).collect();
        self.values = self.entries.iter().map(|(_, value)| value.as_ptr()).collect();
    }
}

export! {
    fn CreateKeyValuePairs(out: OutHandle<'_, KeyValues>) -> () = (); {
        out.set(KeyValues::default());
        Ok(())
    }

    fn AddKeyValuePair(kvps: &mut KeyValues, key: &str, value: &str) -> () = (); {
        if !key.is_empty() {
            kvps.set(key, value);
        }
        Ok(())
    }

    fn GetKeyValue(kvps: &KeyValues, key: &str) -> *const c_char = null(); {
        let found = kvps.entries.iter().find(|(other, _)| other.as_bytes() == key.as_bytes());
        Ok(found.map_or(null(), |(_, value)| value.as_ptr()))
    }

    fn GetKeyValuePairs(
        kvps: &KeyValues,
        keys: Out<'_, *const *const c_char>,
        values: Out<'_, *const *const c_char>,
        num_entries: Out<'_, usize>,
    ) -> () = (); {
        keys.set(kvps.keys.as_ptr());
        values.set(kvps.values.as_ptr());
        num_entries.set(kvps.entries.len());
        Ok(())
    }

    fn RemoveKeyValuePair(kvps: &mut KeyValues, key: &str) -> () = (); {
        kvps.entries.retain(|(other, _)| other.as_bytes() != key.as_bytes());
        kvps.update();
        Ok(())
    }

    fn ReleaseKeyValuePairs(kvps: Option<Box<KeyValues>>) -> () = (); {
        drop(kvps);
        Ok(())
    }
}
