//! `config(key, value)`: ONNX Runtime's keys and values, and a few of our own.
//!
//! One table for each subject, and an entry for each key: its name, its values and their effect,
//! the default, and the documentation. `docs/options.md` is generated from these tables.
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

/// An unknown key, or an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The key is unknown.
    #[error("unknown key `{key}`{}", did_you_mean(*nearest))]
    Key {
        /// The key.
        key: String,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The value is invalid.
    #[error("`{value}` is not a value of `{key}`: expected {expected}{}", did_you_mean(*nearest))]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// A description of the valid values.
        expected: String,
        /// The value that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A valid value of ONNX Runtime's that is not supported.
    #[error("`{key}` cannot be `{value}` here: {reason}")]
    Refused {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The reason.
        reason: &'static str,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

impl SessionBuilder {
    /// Sets an option by the name and value that ONNX Runtime's session options, or `AddSessionConfigEntry`, have for it.
    /// If a key is set twice, or a key and a method set the same option, the later call wins. The
    /// keys are [`config_keys`]; `docs/options.md` lists the effect of each.
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
    /// If the key is unknown, or the value invalid; ONNX Runtime ignores both.
    pub fn config(mut self, key: &str, value: &str) -> Result<Self, ConfigError> {
        let Some(known) = config_keys().find(|known| known.name == key) else {
            let nearest = nearest(key, config_keys().map(|known| known.name));
            return Err(ConfigError::Key { key: key.to_owned(), nearest });
        };
        known.set(&mut self, value)?;
        Ok(self)
    }
}
