//! The public items of one source file.
//!
//! ```text
//! for each item: attributes, head up to `{` or `;`, body up to the `}` that closes it
//!     cfg(test)                       skip it
//!     impl, mod, a macro's braces     look into the body
//!     pub …                           a line of the head, and of public fields, variants and methods
//! ```

use std::collections::BTreeSet;

use crate::scan::{code_of, words};

/// Macros that make public items of lines that are not items themselves.
const DECLARING: [&str; 3] = ["schema!", "enums!", "getters!"];

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Items {
    lines: BTreeSet<String>,
    /// Names of public types.
    types: BTreeSet<String>,
    /// Heads of implementations of traits, which count if their type is public.
    traits: Vec<(String, String)>,
}

struct Item<'a> {
    attributes: Vec<&'a str>,
    /// In one line.
    head: String,
    /// What is in its braces; empty without.
    body: &'a str,
}

impl Items {
    /// Adds those of a file whose public module is `module`.
    pub(crate) fn add(&mut self, module: &str, text: &str) {
        self.within(module, &code_of(text));
    }

    /// One line per item.
    pub(crate) fn finish(mut self) -> BTreeSet<String> {
        for (head, of) in self.traits {
            if self.types.contains(&of) {
                self.lines.insert(head);
            }
        }
        self.lines
    }

    fn within(&mut self, prefix: &str, code: &str) {
        for item in split(code) {
            if !item.attributes.contains(&"#[cfg(test)]") {
                self.item(prefix, &item);
            }
        }
    }

    fn item(&mut self, prefix: &str, item: &Item<'_>) {
        let head = item.head.as_str();
        if let Some(name) = head.strip_prefix("macro_rules! ") {
            let is_public = item.attributes.contains(&"#[macro_export]");
            self.lines.extend(is_public.then(|| format!("macro {name}!")));
            return;
        }
        if head.starts_with("impl") {
            return self.implementation(prefix, item);
        }
        if head.ends_with('!') && !head.contains(' ') {
            return self.call(prefix, head, item.body);
        }
        let Some(public) = head.strip_prefix("pub ") else { return };
        let (kind, rest) = public.split_once(' ').unwrap_or((public, ""));
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest);
        let derived = item
            .attributes
            .iter()
            .filter(|it| it.starts_with("#[derive") || **it == "#[non_exhaustive]");
        let attributes: String = derived.map(|attribute| format!(" {attribute}")).collect();
        self.lines.insert(format!("{prefix}{}{attributes}", declaration(public)));
        if ["struct", "enum", "trait", "type", "union"].contains(&kind) {
            self.types.insert(name.to_owned());
        }
        let prefix = format!("{prefix}{name}::");
        match kind {
            "mod" => self.within(&prefix, item.body),
            "struct" => self.parts(&prefix, item.body, |part| part.strip_prefix("pub ")),
            "enum" => self.parts(&prefix, item.body, |variant| Some(variant)),
            "trait" => {
                let methods = split(item.body);
                self.lines
                    .extend(methods.iter().map(|it| format!("{prefix}{}", declaration(&it.head))));
            }
            _ => {}
        }
    }

    /// What is in the braces of a macro that is called: items, or lines of which it makes items.
    fn call(&mut self, prefix: &str, name: &str, body: &str) {
        self.within(prefix, body);
        if DECLARING.contains(&name) {
            let lines =
                body.lines().map(one_line).filter(|line| line.contains(char::is_alphanumeric));
            self.lines.extend(lines.map(|line| format!("{prefix}{name} {line}")));
        }
    }

    /// Fields or variants.
    fn parts(&mut self, prefix: &str, body: &str, public: fn(&str) -> Option<&str>) {
        for part in split_at_commas(body) {
            let part = one_line(without_attributes(part));
            self.lines.extend(
                public(&part).filter(|it| !it.is_empty()).map(|it| format!("{prefix}{it}")),
            );
        }
    }

    fn implementation(&mut self, prefix: &str, item: &Item<'_>) {
        let of = item.head.split_once(" for ").map(|(_, of)| of);
        let target = of.unwrap_or_else(|| after_generics(&item.head["impl".len()..]));
        let Some((_, name)) = words(target.split(['<', ' ']).next().unwrap_or(target)).last()
        else {
            return;
        };
        match of {
            Some(_) => self.traits.push((format!("{prefix}{}", item.head), name.to_owned())),
            None => self.within(&format!("{prefix}{name}::"), item.body),
        }
    }
}

/// A head without the value of a constant.
fn declaration(head: &str) -> &str {
    let is_value = ["const ", "static "].iter().any(|kind| head.starts_with(kind));
    let is_function = words(head).take(3).any(|(_, word)| word == "fn");
    if is_value && !is_function { head.split(" =").next().unwrap_or(head) } else { head }
}

/// What follows `<…>`.
fn after_generics(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => return text[at..].trim_start(),
            _ => {}
        }
    }
    text
}

fn without_attributes(mut part: &str) -> &str {
    while let Some(rest) = part.trim_start().strip_prefix("#[") {
        part = rest.split_at(closing(rest, '[', ']')).1.get(1..).unwrap_or_default();
    }
    part
}

/// The items of a file or of a body, in order.
fn split(code: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut attributes = Vec::new();
    let mut rest = code.trim_start();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("#[").or_else(|| rest.strip_prefix("#![")) {
            let end = rest.len() - inner.len() + closing(inner, '[', ']') + 1;
            attributes.push(rest[..end.min(rest.len())].trim());
            rest = rest.get(end..).unwrap_or_default().trim_start();
            continue;
        }
        let end = head_len(rest);
        let (head, after) = rest.split_at(end);
        let body = after.strip_prefix('{').map_or("", |body| &body[..closing(body, '{', '}')]);
        let len = if body.is_empty() && !after.starts_with('{') { 1 } else { body.len() + 2 };
        items.push(Item {
            attributes: std::mem::take(&mut attributes),
            head: one_line(head),
            body,
        });
        rest = after.get(len..).unwrap_or_default().trim_start();
    }
    items
}

/// Where the head of an item ends: at the `{` or `;` outside of all brackets. The braces of an import belong to it.
fn head_len(text: &str) -> usize {
    let is_import = text.starts_with("pub use ") || text.starts_with("use ");
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' if depth == 0 && !is_import => return at,
            ';' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The offset of the bracket that closes the one before `text`.
fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 1_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

fn split_at_commas(body: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in body.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if !body[..at].ends_with(['-', '=']) => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&body[start..]);
    parts
}

/// The words with one space between them, as if the formatter had not broken lines.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("( ", "(")
        .replace(", )", ")")
        .replace(",)", ")")
        .replace("< ", "<")
        .replace(", >", ">")
        .replace(", }", " }")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut items = Items::default();
        items.add("", text);
        items.finish().into_iter().collect()
    }

    #[test]
    fn what_is_public_is_a_line() {
        for (text, lines) in [
            ("pub(crate) fn f() {}\nfn g() {}\n", &[][..]),
            (
                "/// Docs.\npub fn f(\n    a: A,\n    b: [u8; 2],\n) -> B {\n    {}\n}\n",
                &["fn f(a: A, b: [u8; 2]) -> B"],
            ),
            (
                "#[cfg(test)]\nmod tests {\n    pub fn f() {}\n}\npub const C: [u8; 2] = [1, 2];\n",
                &["const C: [u8; 2]"],
            ),
            (
                "#[derive(Debug)]\npub struct S {\n    #[a]\n    pub x: M<u8, u8>,\n    y: u8,\n}\n",
                &["S::x: M<u8, u8>", "struct S #[derive(Debug)]"],
            ),
            (
                "#[non_exhaustive]\npub enum E {\n    #[error(\"{x}\")]\n    A { x: u8 },\n    B(u8),\n}\n",
                &["E::A { x: u8 }", "E::B(u8)", "enum E #[non_exhaustive]"],
            ),
            (
                "pub trait T {\n    fn a(&self);\n    fn b(&self) {}\n}\n",
                &["T::fn a(&self)", "T::fn b(&self)", "trait T"],
            ),
            (
                "pub struct S;\nimpl<T: A<B>> S {\n    pub fn f(&self) {}\n    fn g() {}\n}\n",
                &["S::fn f(&self)", "struct S"],
            ),
            (
                "struct P;\npub struct S(pub u8);\nimpl A for P {}\nimpl<'a> A for S {\n    fn a() {}\n}\n",
                &["impl<'a> A for S", "struct S(pub u8)"],
            ),
            (
                "per_isa! {\n    pub fn f<FMA>(x: u8) {}\n}\nmacro_rules! m {\n    () => { pub fn g() {} };\n}\n",
                &["fn f<FMA>(x: u8)"],
            ),
            (
                "pub use a::{B, C};\npub mod m {\n    pub use d::E;\n}\n",
                &["m::use d::E", "mod m", "use a::{B, C}"],
            ),
        ] {
            assert_eq!(found(text), lines, "{text}");
        }
    }
}
