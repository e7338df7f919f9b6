//! The list of the teaching programs, with the description of each.

use std::fmt::Write as _;

use crate::repository::Repository;

const FOLDER: &str = "ort-examples/src/bin/";

/// One row per program: its name, the first sentence of its documentation, and its arguments.
pub(crate) fn table(repository: &Repository) -> String {
    let mut table = String::from("| program | what it shows | arguments |\n|---|---|---|\n");
    for file in repository.with_extension("rs") {
        let Some(name) = file.path.strip_prefix(FOLDER).and_then(|it| it.strip_suffix(".rs"))
        else {
            continue;
        };
        let docs = file.text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
        let what = docs.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let arguments =
            file.text.split_once("\"usage: ").and_then(|(_, rest)| rest.split_once('"'));
        let arguments = arguments.map_or("", |(usage, _)| usage);
        let arguments = arguments.strip_prefix(name).unwrap_or(arguments).trim();
        let arguments = if arguments.is_empty() { String::new() } else { format!("`{arguments}`") };
        let path = &file.path;
        // Writing to a string does not fail.
        let _ = writeln!(table, "| [`{name}`]({path}) | {what} | {arguments} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_row() {
        let source =
            "//! Adds\n//! numbers.\n//!\n//! More.\nfn main() { f(\"usage: add A B\"); }\n";
        let table = table(&Repository::of(&[("ort-examples/src/bin/add.rs", source)]));
        let row = "| [`add`](ort-examples/src/bin/add.rs) | Adds numbers. | `A B` |";
        assert_eq!(table.lines().nth(2), Some(row));
    }
}
