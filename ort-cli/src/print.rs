//! Everything that is printed: lines, notes and errors.

use std::fmt;
use std::io::{self, Write};

use crate::failure::Failure;

/// Prints a result on standard output.
pub(crate) fn line(text: impl fmt::Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{text}").map_err(Failure::Print)
}

/// Prints a file's text on standard output.
pub(crate) fn text(bytes: &[u8]) -> Result<(), Failure> {
    io::stdout().lock().write_all(bytes).map_err(Failure::Print)
}

/// Tells something on standard error that is no result.
pub(crate) fn note(text: impl fmt::Display) {
    tell(format!("note: {text}"));
}

/// Tells on standard error what `--verbose` asks for.
pub(crate) fn detail(text: impl fmt::Display) {
    tell(text.to_string());
}

/// Tells on standard error why the program ends.
pub(crate) fn error(failure: &Failure) {
    // A name in a file may hold any character, but an error is one line.
    tell(format!("error: {}", failure.to_string().replace(['\n', '\r'], " ")));
}

/// Tells on standard error what is odd, and does not end the program.
pub(crate) fn warning(text: &str) {
    tell(format!("warning: {}", text.replace(['\n', '\r'], " ")));
}

/// Writes a line at once: processes that share standard error do not mix theirs.
fn tell(line: String) {
    // There is nowhere else to tell that it cannot be told.
    let _ = io::stderr().write_all((line + "\n").as_bytes());
}

/// A text as one line of at most so many characters: what comes from a file may be long.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A text as HTML and SVG have it, in an element or in double quotes: a name from a file may hold any
/// character.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // XML 1.0 has no way to write the other control characters.
            c if c.is_control() && c != '\n' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_file_is_no_markup() {
        let (text, expected) = ("<a \"b\">&'\u{1b}\n\u{7}", "&lt;a &quot;b&quot;&gt;&amp;' \n ");
        assert_eq!(escaped(text), expected);
    }

    #[test]
    fn a_long_text_of_many_lines_becomes_a_short_one_of_one() {
        assert_eq!(one_line(" a\nb\r\n\tc ", 5), "a b c");
        assert_eq!(one_line("äöü äöü", 5), "äöü ä…");
        assert_eq!(one_line("", 5), "");
    }
}
