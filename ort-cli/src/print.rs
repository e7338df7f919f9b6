//! Everything that is printed: lines, notes, errors and tables.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// Prints a result on standard output.
pub(crate) fn line(text: impl fmt::Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{text}").map_err(Failure::Print)
}

/// Tells something on standard error that is no result.
#[expect(clippy::print_stderr, reason = "a program talks to its user")]
pub(crate) fn note(text: impl fmt::Display) {
    eprintln!("note: {text}");
}

/// Tells on standard error what `--verbose` asks for.
#[expect(clippy::print_stderr, reason = "a program talks to its user")]
pub(crate) fn detail(text: impl fmt::Display) {
    eprintln!("{text}");
}

/// Tells on standard error why the program ends.
#[expect(clippy::print_stderr, reason = "a program talks to its user")]
pub(crate) fn error(failure: &Failure) {
    // A name in a file may hold any character, but an error is one line.
    eprintln!("error: {}", failure.to_string().replace(['\n', '\r'], " "));
}

/// Tells on standard error what is odd, and does not end the program.
#[expect(clippy::print_stderr, reason = "a program talks to its user")]
pub(crate) fn warning(text: &str) {
    eprintln!("warning: {}", text.replace(['\n', '\r'], " "));
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

/// A text that stands out, where the terminal can do that.
pub(crate) fn bold(text: impl fmt::Display) -> String {
    styled("1", &text.to_string())
}

/// Source: ECMA-48, 5th edition, select graphic rendition; no-color.org.
fn styled(style: &str, text: &str) -> String {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_plain || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    format!("\x1b[{style}m{text}\x1b[0m")
}

/// Which side the cells of a column are flush with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Left,
    Right,
}

/// The style of a table's head.
const FAINT: &str = "2";

/// A table without lines: two spaces before each column, each as wide as its widest cell.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    flush: [Flush; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with this head.
    pub(crate) fn new(columns: [(&str, Flush); N]) -> Self {
        let head = columns.map(|(name, _)| name.to_owned());
        Self { flush: columns.map(|(_, flush)| flush), rows: vec![head] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |i: usize| self.rows.iter().map(|row| row[i].chars().count()).max();
        let widths: [usize; N] = std::array::from_fn(|i| width(i).unwrap_or(0));
        for (i, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, width), flush) in row.iter().zip(widths).zip(self.flush) {
                line += &match flush {
                    Flush::Left => format!("  {cell:width$}"),
                    Flush::Right => format!("  {cell:>width$}"),
                };
            }
            match i {
                0 => f.write_str(&styled(FAINT, line.trim_end()))?,
                _ => write!(f, "\n{}", line.trim_end())?,
            }
        }
        Ok(())
    }
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

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("name", Flush::Left), ("n", Flush::Right)]);
        table.row(["é".to_owned(), "12".to_owned()]);
        table.row(["longer".to_owned(), "3".to_owned()]);
        assert_eq!(table.to_string(), "  name     n\n  é       12\n  longer   3");
    }
}
