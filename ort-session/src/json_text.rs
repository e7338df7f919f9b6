//! A text as a string of JSON.

use std::fmt::{Display, Formatter, Result};

/// The text in quotation marks, with escapes. Source: RFC 8259, 7.
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

impl Display for JsonText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
