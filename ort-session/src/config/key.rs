//! What a key is made of.

// collects are bounded: as long as what the caller sets

use std::fmt;
use std::ops::RangeInclusive;

use super::ConfigError;
use crate::builder::SessionBuilder;
use crate::nearest::nearest;

/// A key of [`SessionBuilder::config`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConfigKey {
    /// Its name.
    pub name: &'static str,
    /// What counts if it is not set.
    pub default: &'static str,
    /// Whether it does anything.
    pub effect: Effect,
    /// What it does here or why it does nothing, and how that differs from ONNX Runtime.
    pub doc: &'static str,
    /// The method of [`SessionBuilder`] that sets the same; empty if there is none.
    pub method: &'static str,
    /// The option of ort-cli that sets the same; empty if there is none but `--config`.
    pub flag: &'static str,
    values: Values,
    /// A value of ONNX Runtime's that is refused, and why.
    refused: Option<(&'static str, &'static str)>,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Its values differ in what they do.
    Acts,
    /// Nothing: its values are accepted since nobody loses by it.
    Idle,
    /// It takes only those values of ONNX Runtime's that ask for nothing.
    Refused,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Acts => "yes",
            Self::Idle => "none",
            Self::Refused => "refused",
        })
    }
}

/// A value, and what it sets.
pub(super) type Choice = (&'static str, fn(&mut SessionBuilder));

/// The values of a key, and what they set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    /// `0` or `1`.
    Flag(fn(&mut SessionBuilder, bool)),
    /// One of these.
    Choices(&'static [Choice]),
    /// One of these; any other is refused, for the reason that the docs give.
    Only(&'static [&'static str]),
    /// A number from one to another.
    Number(u64, u64, fn(&mut SessionBuilder, u64)),
    /// Any text; this tells what it is.
    Text(&'static str, fn(&mut SessionBuilder, &str)),
    /// A text of this form; whether one is of it, and then what it sets.
    Form(&'static str, fn(&mut SessionBuilder, &str) -> bool),
}

/// A key whose values do something.
pub(super) const fn acts(
    name: &'static str,
    default: &'static str,
    values: Values,
    doc: &'static str,
) -> ConfigKey {
    let effect = Effect::Acts;
    ConfigKey { name, default, effect, doc, method: "", flag: "", values, refused: None }
}

/// A key that is accepted and does nothing.
pub(super) const fn idle(
    name: &'static str,
    default: &'static str,
    values: Values,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey { effect: Effect::Idle, ..acts(name, default, values, doc) }
}

/// A key of which all but some values are refused.
pub(super) const fn only(
    name: &'static str,
    values: &'static [&'static str],
    doc: &'static str,
) -> ConfigKey {
    let default = if values[0].is_empty() { "nothing" } else { values[0] };
    ConfigKey { effect: Effect::Refused, ..acts(name, default, Values::Only(values), doc) }
}

/// A flag that sets nothing.
pub(super) const ANY_FLAG: Values = Values::Flag(|_, _| {});

/// A text that sets nothing.
pub(super) const ANY_TEXT: Values = Values::Text("any text", |_, _| {});

/// A whole number that sets nothing.
pub(super) const ANY_NUMBER: Values = Values::Number(0, u64::MAX, |_, _| {});

impl ConfigKey {
    /// The method that sets the same.
    pub(super) const fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    /// The option of ort-cli that sets the same.
    pub(super) const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    /// Refuses one of ONNX Runtime's values.
    pub(super) const fn refuses(self, value: &'static str, reason: &'static str) -> Self {
        Self { refused: Some((value, reason)), ..self }
    }

    /// A value of ONNX Runtime's that is refused, and why; an empty value stands for all that
    /// [`ConfigKey::values`] does not list.
    pub const fn refused(&self) -> Option<(&'static str, &'static str)> {
        match self.values {
            Values::Only(_) => Some(("", self.doc)),
            _ => self.refused,
        }
    }

    /// The values it takes, in words.
    pub fn values(&self) -> String {
        match self.values {
            Values::Flag(_) => "0 or 1".to_owned(),
            Values::Choices(choices) => listed(choices.iter().map(|(word, _)| *word)),
            Values::Only(words) => listed(words.iter().copied()),
            Values::Number(least, u64::MAX, _) => format!("a number from {least} on"),
            Values::Number(least, most, _) => format!("a number from {least} to {most}"),
            Values::Text(form, _) | Values::Form(form, _) => form.to_owned(),
        }
    }

    /// Sets what `value` sets.
    pub(super) fn set(
        &'static self,
        builder: &mut SessionBuilder,
        value: &str,
    ) -> Result<(), ConfigError> {
        if let Some((refused, reason)) = self.refused
            && refused == value
        {
            return Err(ConfigError::Refused { key: self.name, value: value.to_owned(), reason });
        }
        match self.values {
            Values::Flag(set) => set(builder, self.is_on(value)?),
            Values::Choices(choices) => {
                let choice = choices.iter().find(|(word, _)| *word == value);
                let known = || nearest(value, choices.iter().map(|(word, _)| *word));
                choice.ok_or_else(|| self.wrong(value, known()))?.1(builder);
            }
            Values::Only(words) if words.contains(&value) => {}
            Values::Only(_) => {
                let (key, value) = (self.name, value.to_owned());
                return Err(ConfigError::Refused { key, value, reason: self.doc });
            }
            Values::Number(least, most, set) => set(builder, self.number(value, least..=most)?),
            Values::Text(_, set) => set(builder, value),
            Values::Form(_, set) if set(builder, value) => {}
            Values::Form(..) => return Err(self.wrong(value, None)),
        }
        Ok(())
    }

    fn is_on(&self, value: &str) -> Result<bool, ConfigError> {
        match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(self.wrong(value, None)),
        }
    }

    fn number(&self, value: &str, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
        let number = value.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| self.wrong(value, None))
    }

    fn wrong(&self, value: &str, nearest: Option<&'static str>) -> ConfigError {
        let (key, value, expected) = (self.name, value.to_owned(), self.values());
        // One letter of a number is as far from any other.
        let nearest = nearest.filter(|word| word.len() > 2);
        ConfigError::Value { key, value, expected, nearest }
    }
}

/// The words with `or` before the last; the empty one is called so.
fn listed(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<&str> =
        words.map(|word| if word.is_empty() { "nothing" } else { word }).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
