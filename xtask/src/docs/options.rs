//! The settings of a session: by key, and by method.

use std::fmt::Write as _;

use ort_session::{ConfigKey, Effect, config_keys};

use crate::docs::links::without_links;
use crate::repository::Repository;

/// One row per key of ONNX Runtime's, or of ours, that a session accepts.
pub(crate) fn keys(_repository: &Repository) -> String {
    let mut table = String::from(
        "| key | values | default | effect | what it does here, and how it differs | method | \
         `ort-cli` |\n|---|---|---|---|---|---|---|\n",
    );
    for key in config_keys() {
        let ConfigKey { name, default, effect, method, flag, .. } = *key;
        let [method, flag] = [method, flag].map(code);
        let (values, what) = (key.values(), what(key));
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| `{name}` | {values} | {default} | {effect} | {what} | {method} | {flag} |"
        );
    }
    table
}

fn what(key: &ConfigKey) -> String {
    match key.refused() {
        Some(("", reason)) => format!("Anything else is rejected: {reason}."),
        Some((value, reason)) => format!("{} `{value}` is rejected: {reason}.", key.doc),
        None => key.doc.to_owned(),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// One row per setter of the builder, with the first sentence of its documentation.
pub(crate) fn methods(repository: &Repository) -> String {
    let mut table = String::from("| method | what it sets | keys |\n|---|---|---|\n");
    for method in setters(repository, "SessionBuilder") {
        let keys = config_keys().filter(|key| key.method == method.name);
        let keys = keys.filter(|key| key.effect == Effect::Acts).map(|key| code(key.name));
        let keys = keys.collect::<Vec<_>>().join(", ");
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{}` | {} | {keys} |", method.signature, method.summary);
    }
    table
}

/// The same for the options of a run.
pub(crate) fn run_methods(repository: &Repository) -> String {
    let mut table = String::from("| method | what it sets |\n|---|---|\n");
    for method in setters(repository, "RunOptions") {
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{}` | {} |", method.signature, method.summary);
    }
    table
}

/// A method that takes and returns `self`.
#[derive(Debug, PartialEq, Eq)]
struct Setter {
    name: String,
    signature: String,
    summary: String,
}

/// The setters of a type of ort-session's.
fn setters(repository: &Repository, of: &str) -> Vec<Setter> {
    let is_source = |path: &str| path.starts_with("ort-session/src/") && path.ends_with(".rs");
    let sources = repository.files.iter().filter(|file| is_source(&file.path));
    sources.flat_map(|file| setters_in(&file.text, of)).collect()
}

/// Those of a source file, in its order.
fn setters_in(text: &str, of: &str) -> Vec<Setter> {
    let start = format!("\nimpl {of} {{\n");
    let mut setters = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&start) {
        let (body, behind) = after.split_once("\n}\n").unwrap_or((after, ""));
        let starts = body.match_indices("    pub fn ").map(|(at, start)| (at, at + start.len()));
        setters.extend(starts.filter_map(|(at, name)| setter(&body[..at], &body[name..])));
        rest = behind;
    }
    setters
}

fn setter(before: &str, declaration: &str) -> Option<Setter> {
    let head = declaration.split_once(" {\n")?.0;
    let (arguments, result) = head.rsplit_once(") -> ")?;
    if !result.starts_with("Self") && !result.starts_with("Result<Self") {
        return None;
    }
    let (name, arguments) = arguments.split_once('(')?;
    let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let arguments = arguments.trim_start().trim_start_matches("mut ");
    let arguments = arguments.strip_prefix("self")?.trim_matches(',');
    let signature = format!("{name}({})", arguments.trim());
    let docs: Vec<&str> = { before.lines().rev() }
        .take_while(|line| ["///", "#["].iter().any(|start| line.trim().starts_with(start)))
        .collect();
    let docs = docs.iter().rev().filter_map(|line| line.trim().strip_prefix("///")).map(str::trim);
    let summary = docs.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let summary = without_links(&summary);
    Some(Setter { name: name.to_owned(), signature, summary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_row() {
        let table = keys(&Repository::of(&[]));
        let row = "| `session.disable_prepacking` | 0 or 1 | 0 | yes | 1 lets kernels";
        assert!(table.contains(row), "{table}");
        let row = "| `ep.context_enable` | 0 | 0 | refused | Anything else is rejected: models are";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn only_setters_are_rows() {
        let text = "\nimpl SessionBuilder {\n    /// How far,\n    /// at most.\n    ///\n    /// More.\n    \
                    #[must_use]\n    pub fn level(mut self, level: Level) -> Self {\n        self\n    }\n\n    \
                    /// Both.\n    pub fn two(\n        self,\n        a: A,\n        b: B,\n    ) -> Self {\n    }\n\n    \
                    /// Ends.\n    pub fn commit(self) -> Session {\n    }\n}\n";
        let repository = Repository::of(&[("ort-session/src/builder.rs", text)]);
        let expected = "| method | what it sets | keys |\n|---|---|---|\n\
                        | `level(level: Level)` | How far, at most. | `session.graph_optimization_level` |\n\
                        | `two(a: A, b: B)` | Both. |  |\n";
        assert_eq!(methods(&repository), expected);
    }

    #[test]
    fn setters_of_runs_are_rows_and_constructors_are_not() {
        let text = "\nimpl RunOptions {\n    /// None.\n    pub fn new() -> Self {\n    }\n\n    \
                    /// Its name.\n    #[must_use]\n    pub fn tag(mut self, tag: T) -> Self {\n    }\n}\n";
        let repository = Repository::of(&[("ort-session/src/run_options.rs", text)]);
        let expected = "| method | what it sets |\n|---|---|\n| `tag(tag: T)` | Its name. |\n";
        assert_eq!(run_methods(&repository), expected);
    }
}
