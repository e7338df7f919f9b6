//! Reads from Triton's `config.pbtxt` what the server uses; other fields are skipped.
//!
//! The format is that of protobuf's text: `name: value`, `name { fields }`, `name: [ values ]`.

use std::time::Duration;

/// The fields that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// 0 or absent: no batches.
    pub(super) max_batch_size: Option<u64>,
    /// Whether there is `dynamic_batching`, and its `max_queue_delay_microseconds`.
    pub(super) dynamic_batching: Option<Duration>,
    /// The sum of the counts of `instance_group`.
    pub(super) n_instances: Option<u64>,
    /// `max_queue_size` of `default_queue_policy`.
    pub(super) max_queue: Option<u64>,
}

/// A text that is not in the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config.pbtxt, line {line}: {what}")]
pub(super) struct ConfigError {
    line: usize,
    what: String,
}

/// The configuration in `text`.
///
/// # Errors
/// If it is not in the format, or a field that is used is not a number.
pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
    let mut parser = Parser { rest: text, line: 1 };
    let mut config = Config::default();
    parser.fields(None, &mut Vec::new(), &mut config)?;
    Ok(config)
}

/// Deeper nesting is an error.
const MAX_DEPTH: usize = 32;

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Parser<'a> {
    /// Fields until `end`, or the end of the text.
    fn fields(
        &mut self,
        end: Option<&str>,
        path: &mut Vec<&'a str>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        loop {
            let Some(name) = self.token()? else {
                return if end.is_none() {
                    Ok(())
                } else {
                    Err(self.error("a message has no end"))
                };
            };
            match name {
                _ if Some(name) == end => return Ok(()),
                "," | ";" => continue,
                _ if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                    return Err(self.error(&format!("expected a field, found `{name}`")));
                }
                _ => path.push(name),
            }
            if path.len() > MAX_DEPTH {
                return Err(self.error("messages are nested too deeply"));
            }
            if path[..] == ["dynamic_batching"] {
                config.dynamic_batching.get_or_insert_default();
            }
            let mut value = self.expected("a value")?;
            if value == ":" {
                value = self.expected("a value")?;
            }
            self.value(value, path, config)?;
            path.pop();
        }
    }

    fn value(
        &mut self,
        value: &'a str,
        path: &mut Vec<&'a str>,
        config: &mut Config,
    ) -> Result<(), ConfigError> {
        match value {
            "{" => self.fields(Some("}"), path, config),
            "<" => self.fields(Some(">"), path, config),
            "[" => loop {
                match self.expected("`]`")? {
                    "]" => return Ok(()),
                    "," => {}
                    "[" => return Err(self.error("a list is in a list")),
                    value => self.value(value, path, config)?,
                }
            },
            "}" | ">" | "]" | "," | ";" | ":" => {
                Err(self.error(&format!("expected a value, found `{value}`")))
            }
            scalar => self.scalar(scalar, path, config),
        }
    }

    fn scalar(&self, value: &str, path: &[&str], config: &mut Config) -> Result<(), ConfigError> {
        let number = || {
            let name = path.join(".");
            value
                .parse()
                .map_err(|_| self.error(&format!("{name} is `{value}`, expected a number")))
        };
        match path {
            ["max_batch_size"] => config.max_batch_size = Some(number()?),
            ["instance_group", "count"] => {
                let sum = config.n_instances.unwrap_or(0).saturating_add(number()?);
                config.n_instances = Some(sum);
            }
            ["dynamic_batching", "max_queue_delay_microseconds"] => {
                config.dynamic_batching = Some(Duration::from_micros(number()?));
            }
            ["dynamic_batching", "default_queue_policy", "max_queue_size"] => {
                config.max_queue = Some(number()?);
            }
            _ => {}
        }
        Ok(())
    }

    fn expected(&mut self, what: &str) -> Result<&'a str, ConfigError> {
        self.token()?.ok_or_else(|| self.error(&format!("the text ends, expected {what}")))
    }

    /// The next string, word or sign.
    fn token(&mut self) -> Result<Option<&'a str>, ConfigError> {
        loop {
            let Some(first) = self.rest.chars().next() else { return Ok(None) };
            if first == '#' {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if first.is_whitespace() {
                self.take(first.len_utf8());
            } else if first == '"' || first == '\'' {
                let mut escaped = false;
                let end = self.rest[1..].find(|c| {
                    let is_end = c == first && !escaped;
                    escaped = c == '\\' && !escaped;
                    is_end
                });
                let end = end.ok_or_else(|| self.error("a string has no end"))?;
                return Ok(Some(self.take(end + 2)));
            } else if "{}[]<>:,;".contains(first) {
                return Ok(Some(self.take(1)));
            } else {
                let is_end = |c: char| c.is_whitespace() || "{}[]<>:,;#\"'".contains(c);
                return Ok(Some(self.take(self.rest.find(is_end).unwrap_or(self.rest.len()))));
            }
        }
    }

    fn take(&mut self, n: usize) -> &'a str {
        let (token, rest) = self.rest.split_at(n);
        self.line += token.matches('\n').count();
        self.rest = rest;
        token
    }

    fn error(&self, what: &str) -> ConfigError {
        ConfigError { line: self.line, what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_fields_are_read_and_others_skipped() {
        let text = r#"
            name: "a{b" # a comment {
            platform: 'onnxruntime_onnx'
            max_batch_size: 16
            input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] }, { name: "y" } ]
            instance_group [ { count: 2 kind: KIND_CPU }, { count: 1 } ]
            dynamic_batching {
              preferred_batch_size: [ 4, 8 ]
              max_queue_delay_microseconds: 250
              default_queue_policy < max_queue_size: 7 >
            }
            parameters { key: "k" value: { string_value: "max_batch_size: 3" } }
        "#;
        let expected = Config {
            max_batch_size: Some(16),
            dynamic_batching: Some(Duration::from_micros(250)),
            n_instances: Some(3),
            max_queue: Some(7),
        };
        assert_eq!(parse(text), Ok(expected));
        let default = Config { dynamic_batching: Some(Duration::ZERO), ..Config::default() };
        assert_eq!(parse("dynamic_batching { }"), Ok(default));
        assert_eq!(parse(""), Ok(Config::default()));
    }

    #[test]
    fn a_damaged_text_names_the_line() {
        for (text, expected) in [
            ("\nmax_batch_size: x", "line 2: max_batch_size is `x`, expected a number"),
            ("a {\n", "line 2: a message has no end"),
            ("a: \"b", "line 1: a string has no end"),
            ("a", "line 1: the text ends, expected a value"),
            ("a: }", "line 1: expected a value, found `}`"),
            ("3: 4", "line 1: expected a field, found `3`"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), format!("config.pbtxt, {expected}"));
        }
        assert!(parse(&"a {".repeat(100_000)).is_err());
    }
}
