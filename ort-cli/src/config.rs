//! `--config KEY=VALUE`: which the session interprets.

use std::str::FromStr;

use ort_session::{ConfigError, Session, SessionBuilder};

/// A key and a value that a session accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    key: String,
    value: String,
}

/// A setting that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseSettingError {
    #[error("expected KEY=VALUE")]
    Form,
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl FromStr for Setting {
    type Err = ParseSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or(ParseSettingError::Form)?;
        Session::builder().config(key, value)?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl Setting {
    /// Applies it to a builder.
    pub(crate) fn apply(&self, builder: SessionBuilder) -> SessionBuilder {
        let set = builder.config(&self.key, &self.value);
        set.expect("invariant: only what a session accepts is parsed")
    }
}
