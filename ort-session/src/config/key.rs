//! The definition of a configuration key.

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
    /// The value if it is not set.
    pub default: &'static str,
    /// Whether it has an effect.
    pub effect: Effect,
    /// Its effect or why it has none, and the differences from ONNX Runtime.
    pub doc: &'static str,
    /// The method of [`SessionBuilder`] with the same effect; empty if there is none.
    pub method: &'static str,
    /// The option of ort-cli with the same effect; empty if there is none but `--config`.
    pub flag: &'static str,
    values: Values,
    /// A rejected value of ONNX Runtime's, and why.
    refused: Option<(&'static str, &'static str)>,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Its values have different effects.
    Acts,
    /// None: its values are accepted and ignored, without harm.
    Idle,
    /// Only values that request nothing are accepted.
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

/// A value and its effect.
pub(super) type Choice = (&'static str, fn(&mut SessionBuilder));

/// The values of a key, and their effect.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    /// `0` or `1`.
    Flag(fn(&mut SessionBuilder, bool)),
    /// One of these.
    Choices(&'static [Choice]),
    /// One of these; any other is rejected, for the reason in the docs.
    Only(&'static [&'static str]),
    /// A number in a range.
    Number(u64, u64, fn(&mut SessionBuilder, u64)),
    /// Any text, with a description.
    Text(&'static str, fn(&mut SessionBuilder, &str)),
    /// A text of a certain form; the function returns whether it is valid, and then applies it.
    Form(&'static str, fn(&mut SessionBuilder, &str) -> bool),
}

/// A key with an effect.
pub(super) const fn acts(
    name: &'static str,
    default: &'static str,
    values: Values,
    doc: &'static str,
) -> ConfigKey {
    let effect = Effect::Acts;
    ConfigKey { name, default, effect, doc, method: "", flag: "", values, refused: None }
}

/// A key that is accepted and has no effect.
pub(super) const fn idle(
    name: &'static str,
    default: &'static str,
    values: Values,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey { effect: Effect::Idle, ..acts(name, default, values, doc) }
}

/// A key that accepts only some values.
pub(super) const fn only(
    name: &'static str,
    values: &'static [&'static str],
    doc: &'static str,
) -> ConfigKey {
    let default = if values[0].is_empty() { "nothing" } else { values[0] };
    ConfigKey { effect: Effect::Refused, ..acts(name, default, Values::Only(values), doc) }
}

/// A flag without effect.
pub(super) const ANY_FLAG: Values = Values::Flag(|_, _| {});

/// A text without effect.
pub(super) const ANY_TEXT: Values = Values::Text("any text", |_, _| {});

/// A number without effect.
pub(super) const ANY_NUMBER: Values = Values::Number(0, u64::MAX, |_, _| {});

impl ConfigKey {
    /// The method with the same effect.
    pub(super) const fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    /// The option of ort-cli with the same effect.
    pub(super) const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    /// Rejects one of ONNX Runtime's values.
    pub(super) const fn refuses(self, value: &'static str, reason: &'static str) -> Self {
        Self { refused: Some((value, reason)), ..self }
    }

    /// A rejected value of ONNX Runtime's, and why; an empty value represents all that
    /// [`ConfigKey::values`] does not list.
    pub const fn refused(&self) -> Option<(&'static str, &'static str)> {
        match self.values {
            Values::Only(_) => Some(("", self.doc)),
            _ => self.refused,
        }
    }

    /// A description of its values.
    pub fn values(&self) -> String {
        match self.values {
            Values::Flag(_) => "0 or 1".to_owned(),
            Values::Choices(choices) => listed(choices.iter().map(|(word, _)| *word)),
            Values::Only(words) => listed(words.iter().copied()),
            Values::Number(least, u64::MAX, _) => format!("a number of at least {least}"),
            Values::Number(least, most, _) => format!("a number from {least} to {most}"),
            Values::Text(form, _) | Values::Form(form, _) => form.to_owned(),
        }
    }

    /// Applies `value`.
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
        // For short words, such as single digits, a suggestion is meaningless.
        let nearest = nearest.filter(|word| word.len() > 2);
        ConfigError::Value { key, value, expected, nearest }
    }
}

/// The words separated by commas, with `or` before the last; the empty word has a name.
fn listed(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<&str> =
        words.map(|word| if word.is_empty() { "nothing" } else { word }).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
