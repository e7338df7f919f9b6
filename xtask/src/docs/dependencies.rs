//! External dependencies, each with its reason and the crates that use it, and features.

use std::fmt::Write as _;

use crate::manifest::{Needed, entries};
use crate::repository::Repository;

/// One row per dependency, with its comment in the root's manifest.
pub(crate) fn table(repository: &Repository) -> String {
    let mut table = String::from(
        "| dependency | what it is for | crates | only their tests |\n|---|---|---|---|\n",
    );
    let Some(root) = repository.file("Cargo.toml") else { return table };
    let is_outside = |value: &str| !value.contains("path = ");
    let outside = entries(&root.text)
        .filter(|entry| entry.section == "workspace.dependencies" && is_outside(entry.value));
    for entry in outside {
        let [always, by_tests] =
            [Needed::Always, Needed::ByTests].map(|needed| takers(repository, entry.key, needed));
        let reason = entry.comment.unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{}` | {reason} | {always} | {by_tests} |", entry.key);
    }
    table
}

/// The crates whose manifests list this dependency as `needed`.
fn takers(repository: &Repository, dependency: &str, needed: Needed) -> String {
    let takes =
        |text| entries(text).any(|entry| entry.key == dependency && entry.needed() == Some(needed));
    let names = repository.crates().filter(|(_, manifest)| takes(&manifest.text));
    names.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// One row per feature of a crate, with its comment in the manifest.
pub(crate) fn features(repository: &Repository) -> String {
    let mut table =
        String::from("| crate | feature | by default | what it adds |\n|---|---|---|---|\n");
    for (name, manifest) in repository.crates() {
        let features = || entries(&manifest.text).filter(|entry| entry.section == "features");
        let by_default = features().find(|entry| entry.key == "default").map_or("", |it| it.value);
        for entry in features().filter(|entry| entry.key != "default") {
            let is_default = by_default.contains(&format!("\"{}\"", entry.key));
            let is_default = if is_default { "yes" } else { "no" };
            let what = entry.comment.unwrap_or_default();
            // Writing to a string does not fail.
            let _ = writeln!(table, "| `{name}` | `{}` | {is_default} | {what} |", entry.key);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_a_row_with_its_reason_and_users() {
        let repository = Repository::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nort-a = { path = \"a\" }\nx = \"1\" # adds\n",
            ),
            ("ort-a/Cargo.toml", "[dependencies]\nx.workspace = true\n"),
            ("ort-b/Cargo.toml", "[dev-dependencies]\nx.workspace = true\n"),
        ]);
        let row = table(&repository).lines().nth(2).map(str::to_owned);
        assert_eq!(row.as_deref(), Some("| `x` | adds | ort-a | ort-b |"));
    }

    #[test]
    fn a_feature_is_a_row() {
        let manifest = "[features]\ndefault = [\"f\"]\nf = [] # F\ng = [] # G\n";
        let table = features(&Repository::of(&[("ort-a/Cargo.toml", manifest)]));
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| `ort-a` | `f` | yes | F |", "| `ort-a` | `g` | no | G |"]);
    }
}
