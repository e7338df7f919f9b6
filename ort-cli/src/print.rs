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

/// Writes a note to standard error.
pub(crate) fn note(text: impl fmt::Display) {
    write_line(format!("note: {text}"));
}

/// Writes what `--verbose` requests to standard error.
pub(crate) fn detail(text: impl fmt::Display) {
    write_line(text.to_string());
}

/// Writes the program's error to standard error.
pub(crate) fn error(failure: &Failure) {
    // A name in a file may contain any character, but an error is one line.
    write_line(format!("error: {}", failure.to_string().replace(['\n', '\r'], " ")));
}

/// Writes a warning to standard error.
pub(crate) fn warning(text: &str) {
    write_line(format!("warning: {}", text.replace(['\n', '\r'], " ")));
}

/// Writes a line at once, so that lines of processes that share standard error do not mix.
fn write_line(line: String) {
    // A failure to write cannot be reported anywhere.
    let _ = io::stderr().write_all((line + "\n").as_bytes());
}

/// A text as one line of at most `max` characters: texts from a file may be long.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A text escaped for HTML and SVG, in an element or in double quotes: a name from a file may contain
/// any character.
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
    fn a_name_from_a_file_is_escaped() {
        let (text, expected) = ("<a \"b\">&'\u{1b}\n\u{7}", "&lt;a &quot;b&quot;&gt;&amp;' \n ");
        assert_eq!(escaped(text), expected);
    }

    #[test]
    fn a_long_text_becomes_one_short_line() {
        assert_eq!(one_line(" a\nb\r\n\tc ", 5), "a b c");
        assert_eq!(one_line("äöü äöü", 5), "äöü ä…");
        assert_eq!(one_line("", 5), "");
    }
}
