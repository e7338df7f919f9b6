//! Reads and writes graphs as text, the language of every test of a rewrite.
//!
//! ```text
//! graph(x: float[n,3,8,8], scale = float[1] [2]) -> (y) {
//!   w = const float[4,3,1,1] fill 0.5
//!   h = Conv-11 "stem" [strides: [2, 2]] (x, w, _)
//!   t, _ = com.microsoft:Thing-1 [alpha: 0.5, mode: "fast"] (h)
//!   y: float[n,4,4,4] = If-19 [else_branch: graph() -> (t) {}, then_branch: graph() -> (z) {
//!     z = Relu-14 (t)
//!   }] (c)
//! }
//! ```
//!
//! - An input is `name: type`, or `name = contents` if these are its default.
//! - A constant is `name = const contents`; a node `outputs = domain:Operator-version "its name"
//!   [attributes] (inputs)`, of which domain, name and attributes may be left out. An input or
//!   output that is absent is `_`. Any output can declare its type.
//! - Contents are an element type, dimensions, and `[element, …]`, `fill element`, or for a scalar
//!   the element. Elements are numbers, `true` and `false`, strings, or the element's bits as
//!   `0x…`. Long contents print as `#` and a hash, which cannot be read back.
//! - A subgraph reads values of the enclosing graphs by name; where its own name for one differs, it declares `name =
//! outer theirs`.
//! - Dimensions are numbers, symbols or `?`; `float[...]` has unknown rank. Numbers in attributes
//!   are floats if they have a point or an exponent. Empty lists state their type: `ints []`.
//! - Names that are not made of letters, digits, `_`, `.` and `/`, or begin with a digit or point, are quoted.

mod cursor;
mod literal;
mod parse;
mod print;

pub use self::cursor::{TextError, TextErrorKind};
pub use self::print::Text;

/// Whether a name needs no quotes.
fn is_bare(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/');
    name != "_" && name.starts_with(is_first) && name.chars().all(is_name_char)
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.')
}

#[cfg(test)]
mod tests;
