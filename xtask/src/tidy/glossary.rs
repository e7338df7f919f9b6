//! Each entry of the glossary links the file that defines the item it names.
//!
//! An entry is a list item, with the lines that continue it; its links have the form
//! ``[`Claim`](../ort-ep/src/provider.rs)``.

use std::path::Path;

use crate::problem::Problem;
use crate::repository::Repository;
use crate::scan::{code_of, words};
use crate::tidy::links::resolved;

const FOLDER: &str = "docs";
const DOCUMENT: &str = "docs/glossary.md";
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "fn"];

/// Reports entries without a definition, and definitions that the linked file does not contain.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let Some(document) = repository.file(DOCUMENT) else {
        return vec![Problem::new(DOCUMENT, 1, "glossary", "the document is missing")];
    };
    let problem = |(line, what): (usize, String)| Problem::new(DOCUMENT, line, "glossary", what);
    entries(&document.text)
        .into_iter()
        .flat_map(|(line, entry)| dead(repository, &entry).into_iter().map(move |it| (line, it)))
        .map(problem)
        .collect()
}

/// The list items of a document, each with its first line's number.
fn entries(text: &str) -> Vec<(usize, String)> {
    let mut entries: Vec<(usize, String)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.starts_with("- ") {
            entries.push((i + 1, line.to_owned()));
        } else if let (true, Some((_, entry))) = (line.starts_with("  "), entries.last_mut()) {
            entry.push_str(line);
        }
    }
    entries
}

/// What is wrong with the definitions of an entry.
fn dead(repository: &Repository, entry: &str) -> Vec<String> {
    let definitions: Vec<_> = definitions(entry).collect();
    if definitions.is_empty() {
        return vec!["an entry links no definition".to_owned()];
    }
    let is_dead = |(name, target): &(&str, &str)| {
        let file = repository.file(&resolved(Path::new(FOLDER), target));
        !file.is_some_and(|file| defines(&code_of(&file.text), name))
    };
    let dead = definitions.into_iter().filter(is_dead);
    dead.map(|(name, target)| format!("`{target}` does not define `{name}`")).collect()
}

/// Names in backticks, and where their links lead.
fn definitions(entry: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = entry.split("[`").skip(1);
    links.filter_map(|link| {
        let (name, rest) = link.split_once("`](")?;
        Some((name, rest.split_once(')')?.0))
    })
}

fn defines(code: &str, name: &str) -> bool {
    let words: Vec<_> = words(code).map(|(_, word)| word).collect();
    words.windows(2).any(|pair| KEYWORDS.contains(&pair[0]) && pair[1] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "//! Once a struct Old.\npub struct Claim<'a>(&'a str);\npub fn within() {}\n";

    #[test]
    fn an_entry_without_its_definition_is_a_problem() {
        for (entry, lines) in [
            ("- **claim** ([`Claim`](../ep/src/claim.rs)): nodes.", &[][..]),
            ("- **a**\n  ([`within`](../ep/src/claim.rs)): bytes.\n\nText.", &[]),
            ("Text.\n- **old** ([`Old`](../ep/src/claim.rs)): gone.", &[2]),
            ("- **a** ([`Clai`](../ep/src/claim.rs)): a part of a name.", &[1]),
            ("- **a** ([`Claim`](../ep/src/gone.rs)): no file.", &[1]),
            ("- **a**: no link.\n- **b**: nor here, but `Claim`.", &[1, 2]),
            ("- [`Claim`](../ep/src/claim.rs), [`No`](../ep/src/claim.rs)", &[1]),
        ] {
            let files = [("docs/glossary.md", entry), ("ep/src/claim.rs", CODE)];
            let problems = check(&Repository::of(&files));
            assert_eq!(problems.iter().map(|it| it.line).collect::<Vec<_>>(), lines, "{entry}");
        }
    }

    #[test]
    fn a_missing_glossary_is_a_problem() {
        assert_eq!(check(&Repository::of(&[("docs/a.md", "")])).len(), 1);
    }
}
