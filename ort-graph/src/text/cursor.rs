//! Where the parser is in the text, and the small things it can read there.

use ort_tensor::{DType, TensorError};

use super::is_name_char;
use crate::graph::GraphError;

/// Text that is no graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: TextErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// Something else is expected here.
    #[error("expected {what}")]
    Expected {
        /// What is expected.
        what: &'static str,
    },
    /// No value of this name is defined before, here or in an enclosing graph.
    #[error("there is no value `{name}`")]
    UnknownValue {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("`{name}` is defined twice")]
    DefinedTwice {
        /// The name.
        name: String,
    },
    /// An element that the type does not have.
    #[error("`{element}` is no {dtype}")]
    Element {
        /// The element.
        element: String,
        /// The type.
        dtype: DType,
    },
    /// Contents of which only the hash was printed.
    #[error("the contents are missing, only their hash is given")]
    Elided,
    /// Too many or too few elements, or contents that are too large.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A node that is not valid.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What follows; spaces and line ends are skipped before anything is read.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// An error here.
    pub(super) fn error(&mut self, kind: impl Into<TextErrorKind>) -> TextError {
        self.rest();
        let before = &self.text[..self.at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        TextError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            kind: kind.into(),
        }
    }

    pub(super) fn expected<T>(&mut self, what: &'static str) -> Result<T, TextError> {
        Err(self.error(TextErrorKind::Expected { what }))
    }

    /// Whether `token` follows.
    pub(super) fn sees(&mut self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Consumes `token` if it follows.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let is_there = self.sees(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    /// Consumes `token`, which must follow.
    pub(super) fn expect(&mut self, token: &'static str) -> Result<(), TextError> {
        if self.eat(token) { Ok(()) } else { self.expected(token) }
    }

    /// The characters that follow up to one that `ends` accepts; `None` if there is none.
    pub(super) fn until(&mut self, ends: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    /// A word of letters, digits, `_`, `.` and `/`.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.until(|c| !is_name_char(c))
    }

    /// Consumes the word `word` if it follows, and not a longer one.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let start = *self;
        let is_there = self.word() == Some(word);
        if !is_there {
            *self = start;
        }
        is_there
    }

    /// A name, in quotes or not.
    pub(super) fn name(&mut self, what: &'static str) -> Result<String, TextError> {
        if self.sees("\"") {
            return self.string();
        }
        match self.word() {
            Some(word) => Ok(word.to_owned()),
            None => self.expected(what),
        }
    }

    /// A non-negative number.
    pub(super) fn digits<T: std::str::FromStr>(
        &mut self,
        what: &'static str,
    ) -> Result<T, TextError> {
        let start = *self;
        match self.until(|c| !c.is_ascii_digit()).and_then(|digits| digits.parse().ok()) {
            Some(number) => Ok(number),
            None => {
                *self = start;
                self.expected(what)
            }
        }
    }

    /// A string in quotes, with Rust's escapes.
    pub(super) fn string(&mut self) -> Result<String, TextError> {
        self.expect("\"")?;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let mut chars = rest.chars();
            let (char, rest) = match chars.next() {
                Some('"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some('\\') => match unescape(chars.as_str()) {
                    Some(unescaped) => unescaped,
                    None => return self.expected("an escape"),
                },
                Some(char) => (char, chars.as_str()),
                None => return self.expected("the end of the string"),
            };
            string.push(char);
            self.at = self.text.len() - rest.len();
        }
    }

    /// What `item` reads, between `open` and `close`, with commas between.
    pub(super) fn list<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, TextError>,
    ) -> Result<Vec<T>, TextError> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}

/// The character that an escape stands for, and what follows it.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let mut chars = escape.chars();
    let char = match chars.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'u' => {
            let (hex, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            return Some((char::from_u32(u32::from_str_radix(hex, 16).ok()?)?, rest));
        }
        char => char,
    };
    Some((char, chars.as_str()))
}
