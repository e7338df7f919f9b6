//! Functions of session options that add entries: keys, initializers, files.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;

use crate::error::Error;
use crate::ffi::{Files, Memory, Out, OutHandle, Room, export};
use crate::key_values::KeyValues;
use crate::session_options::SessionOptions;
use crate::value::Value;

impl SessionOptions {
    fn add_initializer(
        &mut self,
        name: &str,
        value: &Value,
        is_external: bool,
    ) -> Result<(), Error> {
        if self.initializers.iter().any(|(other, ..)| other == name) {
            return Err(Error::invalid(format!("the initializer `{name}` has already been added")));
        }
        self.initializers.push((name.to_owned(), value.lent()?, is_external));
        Ok(())
    }
}

export! {
    fn AddSessionConfigEntry(options: &mut SessionOptions, config_key: &str, config_value: &str) {
        if config_key.is_empty() || config_key.len() > 1024 {
            return Err(Error::argument("config_key", "must have 1 to 1024 bytes"));
        }
        if config_value.len() > 8192 {
            return Err(Error::argument("config_value", "must have at most 8192 bytes"));
        }
        options.entries.insert(config_key.to_owned(), config_value.to_owned());
        Ok(())
    }

    fn HasSessionConfigEntry(options: &SessionOptions, config_key: &str, out: Out<'_, i32>) {
        out.set(options.entries.contains_key(config_key).into());
        Ok(())
    }

    fn GetSessionConfigEntry(
        options: &SessionOptions,
        config_key: &str,
        config_value: Room<'_, c_char>,
        size: Out<'_, usize>,
    ) {
        let none = || Error::fail(format!("SessionOptions does not have configuration with key: {config_key}"));
        config_value.text(options.entries.get(config_key).ok_or_else(none)?, size)
    }

    fn GetSessionOptionsConfigEntries(
        options: &SessionOptions,
        out: OutHandle<'_, KeyValues>,
    ) {
        let mut entries = KeyValues::default();
        options.entries.iter().for_each(|(key, value)| entries.set(key, value));
        out.set(entries);
        Ok(())
    }

    /// Accepted and not used: it is for models whose nodes a provider has compiled without weights.
    fn SessionOptionsSetWeightlessSourceModelBuffer(
        _options: &mut SessionOptions,
        source_model_data: Memory<'_>[source_model_data_length],
        source_model_data_length: usize,
    ) {
        match source_model_data.0.len() {
            0 => Err(Error::argument("source_model_data_length", format!("is {source_model_data_length}"))),
            _ => Ok(()),
        }
    }

    /// The value's memory is kept, not copied.
    fn AddInitializer(options: &mut SessionOptions, name: &str, val: &Value) {
        options.add_initializer(name, val, false)
    }

    /// The same for initializers that the model has in external files, which are then not read.
    fn AddExternalInitializers(
        options: &mut SessionOptions,
        initializer_names: Vec<&str>[initializers_num],
        initializers: Vec<&Value>[initializers_num],
        initializers_num: usize,
    ) {
        let _ = initializers_num;
        initializer_names.iter().zip(initializers).try_for_each(|(name, value)| {
            options.add_initializer(name, value, true)
        })
    }

    /// The bytes of the model's external files, by their names in the model. They are copied.
    fn AddExternalInitializersFromMemory(
        options: &mut SessionOptions,
        external_initializer_file_names: Vec<&str>[num_external_initializer_files],
        external_initializer_file_buffer_array: Files[num_external_initializer_files],
        external_initializer_file_lengths: &[usize][num_external_initializer_files],
        num_external_initializer_files: usize,
    ) {
        let _ = num_external_initializer_files;
        let files = external_initializer_file_buffer_array.of_lengths(external_initializer_file_lengths)?;
        for (name, bytes) in external_initializer_file_names.into_iter().zip(files) {
            options.files.push((name.to_owned(), bytes.to_model_bytes()?));
        }
        Ok(())
    }
}
