//! `config(key, value)`: ONNX Runtime's keys and values, and a few of ours.
//!
//! A table a subject, a line or a few a key: its name, the values it takes and what each sets, what is
//! the default here, and what the documents say of it. `docs/options.md` is made from these tables.
//!
//! Source: ONNX Runtime 1.31, `onnxruntime_session_options_config_keys.h`, and the names that its C
//! API gives to the fields of session options.

mod devices;
mod key;
mod loading;
mod numbers;
mod optimizer;
mod running;
#[cfg(test)]
mod tests;
mod threading;

pub use self::key::{ConfigKey, Effect};
use crate::builder::SessionBuilder;
use crate::nearest::nearest;

const TABLES: &[&[ConfigKey]] =
    &[optimizer::KEYS, loading::KEYS, threading::KEYS, running::KEYS, numbers::KEYS, devices::KEYS];

/// Every key of [`SessionBuilder::config`], by subject.
pub fn config_keys() -> impl Iterator<Item = &'static ConfigKey> {
    TABLES.iter().copied().flatten()
}

/// A key that there is not, or a value that the key does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no such key.
    #[error("unknown key `{key}`{}", did_you_mean(*nearest))]
    Key {
        /// The key given.
        key: String,
        /// The one that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The key takes other values.
    #[error("`{value}` is no value of `{key}`: expected {expected}{}", did_you_mean(*nearest))]
    Value {
        /// The key.
        key: &'static str,
        /// The value given.
        value: String,
        /// The values there are.
        expected: String,
        /// The one that was probably meant.
        nearest: Option<&'static str>,
    },
    /// ONNX Runtime takes the value, but what it asks for cannot be had here.
    #[error("`{key}` cannot be `{value}` here: {reason}")]
    Refused {
        /// The key.
        key: &'static str,
        /// The value given.
        value: String,
        /// Why.
        reason: &'static str,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

impl SessionBuilder {
    /// Sets what ONNX Runtime's session options, or its `AddSessionConfigEntry`, set by this key. Of
    /// equal keys the last counts, and of a key and a method that set the same, the later call. The
    /// keys are [`config_keys`], and stand in `docs/options.md` with what each does here.
    ///
    /// ```
    /// # fn main() -> Result<(), ort_session::ConfigError> {
    /// use ort_session::Session;
    ///
    /// let builder = Session::builder()
    ///     .config("session.intra_op_num_threads", "2")?
    ///     .config("session.graph_optimization_level", "enable_extended")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such key, or it does not take the value; ONNX Runtime ignores either.
    pub fn config(mut self, key: &str, value: &str) -> Result<Self, ConfigError> {
        let Some(known) = config_keys().find(|known| known.name == key) else {
            let nearest = nearest(key, config_keys().map(|known| known.name));
            return Err(ConfigError::Key { key: key.to_owned(), nearest });
        };
        known.set(&mut self, value)?;
        Ok(self)
    }
}
