//! What standard output is: a terminal of some width, which shows colours, or something else.

use std::fmt;
use std::io::{self, IsTerminal};

/// The columns of the terminal that standard output is; `None` if it is none, or does not say.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0)).filter(|&columns| columns > 0)
}

/// One of a terminal's 256 colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8);

/// A text in a colour, where that can be shown.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    if text.is_empty() { String::new() } else { styled(&format!("38;5;{}", colour.0), text) }
}

/// A text that stands out.
pub(crate) fn bold(text: impl fmt::Display) -> String {
    styled("1", &text.to_string())
}

/// A text that stands back.
pub(crate) fn faint(text: &str) -> String {
    styled("2", text)
}

/// Source: ECMA-48, 5th edition, select graphic rendition; its colours: ISO 8613-6.
fn styled(style: &str, text: &str) -> String {
    if has_styles() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Whether styles can be shown, and are wanted. Source: no-color.org; terminfo's terminal `dumb`.
fn has_styles() -> bool {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !is_plain && !is_dumb && io::stdout().is_terminal()
}
