//! Whether standard output is a terminal, its width, and whether it shows colours.

use std::fmt;
use std::io::{self, IsTerminal};

/// The width of the terminal in columns; `None` if standard output is not one, or its width is unknown.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0)).filter(|&columns| columns > 0)
}

/// One of a terminal's 256 colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8);

/// A text in a colour, if supported.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    if text.is_empty() { String::new() } else { styled(&format!("38;5;{}", colour.0), text) }
}

/// A bold text.
pub(crate) fn bold(text: impl fmt::Display) -> String {
    styled("1", &text.to_string())
}

/// A faint text.
pub(crate) fn faint(text: &str) -> String {
    styled("2", text)
}

/// Source: ECMA-48, 5th edition, select graphic rendition; its colours: ISO 8613-6.
fn styled(style: &str, text: &str) -> String {
    if has_styles() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Whether styles are supported and not disabled. Source: no-color.org; terminfo's terminal `dumb`.
fn has_styles() -> bool {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_plain && !is_dumb && io::stdout().is_terminal()
}
