//! The list of crates, with the descriptions their manifests give.

use std::fmt::Write as _;

use crate::manifest::entries;
use crate::repository::Repository;

/// One row per crate, in order of their names.
pub(crate) fn table(repository: &Repository) -> String {
    let mut table = String::from("| crate | what it is |\n|---|---|\n");
    let mut crates: Vec<_> = repository.crates().collect();
    crates.sort_by_key(|&(name, _)| name);
    for (name, manifest) in crates {
        let description = entries(&manifest.text)
            .find(|entry| entry.section == "package" && entry.key == "description")
            .map_or("", |entry| entry.value.trim_matches('"'));
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{name}` | {description} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_a_row() {
        let repository = Repository::of(&[
            ("Cargo.toml", "[workspace]\n"),
            ("ort-a/Cargo.toml", "[package]\ndescription = \"Does a\"\n"),
        ]);
        let expected = "| crate | what it is |\n|---|---|\n| `ort-a` | Does a |\n";
        assert_eq!(table(&repository), expected);
    }
}
