//! ARCHITECTURE.md describes every crate, and its table of dependencies agrees with the manifests.
//!
//! The table is between `<!-- arrows -->` and `<!-- end -->`, one row per crate: its name, the
//! crates it may use, and those that only its tests may use.

use std::collections::BTreeMap;

use crate::manifest::{Entry, Needed, entries};
use crate::markers::blocks;
use crate::problem::Problem;
use crate::repository::{File, Repository};

const DOCUMENT: &str = "ARCHITECTURE.md";
const INVARIANT: &str = "Invariant: ";

/// The crates of the workspace that a crate may use.
struct Arrows<'a> {
    line: usize,
    always: Vec<&'a str>,
    in_tests: Vec<&'a str>,
}

/// Reports crates without a paragraph, and dependencies that the table does not allow.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let Some(document) = repository.file(DOCUMENT) else {
        return vec![Problem::new(DOCUMENT, 1, "architecture", "the document is missing")];
    };
    let mut problems = Vec::new();
    for (name, _) in repository.crates() {
        problems.extend(undescribed(document, name));
    }
    match table(document) {
        Ok(table) => problems.extend(arrows(repository, &table)),
        Err(problem) => problems.push(problem),
    }
    problems
}

/// A crate has a section with its name for a heading: what it is, and its invariant.
fn undescribed(document: &File, name: &str) -> Option<Problem> {
    let is_heading = |line: &str| line.starts_with('#');
    let of_crate = |line: &&str| line.trim_start_matches('#').trim().trim_matches('`') == name;
    let mut lines = document.text.lines().enumerate();
    let Some((i, _)) = lines.find(|(_, line)| is_heading(line) && of_crate(line)) else {
        let what = format!("no section has the heading `{name}`");
        return Some(Problem::new(DOCUMENT, 1, "architecture", what));
    };
    let section = lines.map(|(_, line)| line).take_while(|line| !is_heading(line));
    let section: Vec<_> = section.filter(|line| !line.is_empty()).collect();
    let n_invariants = section.iter().filter(|line| line.starts_with(INVARIANT)).count();
    let is_described = section.first().is_some_and(|line| !line.starts_with(INVARIANT));
    (n_invariants == 0 || !is_described).then(|| {
        let what = format!("`{name}` needs a paragraph and a line that starts `{INVARIANT}`");
        Problem::new(DOCUMENT, i + 1, "architecture", what)
    })
}

fn table(document: &File) -> Result<BTreeMap<&str, Arrows<'_>>, Problem> {
    let blocks = blocks(DOCUMENT, &document.text, |marker| marker == "arrows")?;
    let [block] = blocks.as_slice() else {
        let what = format!("{} tables `<!-- arrows -->`, expected one", blocks.len());
        return Err(Problem::new(DOCUMENT, 1, "arrows", what));
    };
    let rows = block.content.lines().enumerate().skip(2);
    let rows = rows.filter(|(_, line)| line.starts_with('|'));
    rows.map(|(i, line)| row(block.line + 1 + i, line)).collect()
}

fn row(line: usize, text: &str) -> Result<(&str, Arrows<'_>), Problem> {
    let cells: Vec<_> = text.trim().trim_matches('|').split('|').collect();
    let [name, always, in_tests] = cells.as_slice() else {
        let what = format!("{} columns, expected three", cells.len());
        return Err(Problem::new(DOCUMENT, line, "arrows", what));
    };
    let arrows = Arrows { line, always: names(always), in_tests: names(in_tests) };
    Ok((name.trim().trim_matches('`'), arrows))
}

fn names(cell: &str) -> Vec<&str> {
    let names = cell.split(',').map(|name| name.trim().trim_matches('`'));
    names.filter(|name| !name.is_empty()).collect()
}

fn arrows(repository: &Repository, table: &BTreeMap<&str, Arrows<'_>>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, manifest) in repository.crates() {
        match table.get(name) {
            Some(arrows) => problems.extend(not_allowed(repository, manifest, arrows)),
            None => {
                let what = format!("`{name}` has no row in the table of dependencies");
                problems.push(Problem::new(DOCUMENT, 1, "arrows", what));
            }
        }
    }
    for (name, arrows) in table {
        if !repository.crates().any(|(known, _)| known == *name) {
            let what = format!("there is no crate `{name}`");
            problems.push(Problem::new(DOCUMENT, arrows.line, "arrows", what));
        }
    }
    problems
}

fn not_allowed(repository: &Repository, manifest: &File, arrows: &Arrows<'_>) -> Vec<Problem> {
    let is_ours = |key: &str| repository.crates().any(|(name, _)| name == key);
    let is_forbidden = |entry: &Entry<'_>| match entry.needed() {
        _ if !is_ours(entry.key) || arrows.always.contains(&entry.key) => false,
        Some(Needed::Always) => true,
        Some(Needed::ByTests) => !arrows.in_tests.contains(&entry.key),
        None => false,
    };
    let problem = |entry: Entry<'_>| {
        let what =
            format!("a dependency on `{}` is not allowed ({DOCUMENT}:{})", entry.key, arrows.line);
        Problem::new(&manifest.path, entry.line, "arrows", what)
    };
    entries(&manifest.text).filter(is_forbidden).map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
# Architecture

## `ort-a`

Does a.

Invariant: never b.

## ort-b

Does b.
Invariant: never c.

<!-- arrows -->
| crate | may use | tests may use |
|---|---|---|
| ort-a | | `ort-c` |
| ort-b | `ort-a` | |
<!-- end -->
";

    fn found(document: &str, b: &str) -> Vec<String> {
        let files = [(DOCUMENT, document), ("ort-a/Cargo.toml", ""), ("ort-b/Cargo.toml", b)];
        check(&Repository::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_must_be_allowed() {
        for section in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            let of_b = format!("[{section}]\nort-a.workspace = true\nrayon.workspace = true\n");
            assert_eq!(found(GOOD, &of_b), [""; 0]);
            let reversed = GOOD.replace("| `ort-a` |", "| |");
            assert_eq!(
                found(&reversed, &of_b),
                [
                    "ort-b/Cargo.toml:2: arrows: a dependency on `ort-a` is not allowed (ARCHITECTURE.md:18)"
                ]
            );
            let in_tests = GOOD.replace("| `ort-a` | |", "| | ort-a |");
            let n_problems = usize::from(section != "dev-dependencies");
            assert_eq!(found(&in_tests, &of_b).len(), n_problems, "{section}");
        }
    }

    #[test]
    fn a_crate_needs_a_row_a_paragraph_and_an_invariant() {
        for (from, to, problem) in [
            ("## ort-b\n", "", ":1: architecture: no section has the heading `ort-b`"),
            (
                "Does b.\n",
                "",
                ":9: architecture: `ort-b` needs a paragraph and a line that starts `Invariant: `",
            ),
            (
                "Invariant: never c.",
                "Nor c.",
                ":9: architecture: `ort-b` needs a paragraph and a line that starts `Invariant: `",
            ),
            (
                "| ort-b | `ort-a` | |\n",
                "",
                ":1: arrows: `ort-b` has no row in the table of dependencies",
            ),
            ("| ort-b |", "| ort-b | ort-c |", ":18: arrows: 4 columns, expected three"),
            ("<!-- arrows -->", "", ":1: arrows: 0 tables `<!-- arrows -->`, expected one"),
            (
                "<!-- end -->",
                "| ort-z | | |\n<!-- end -->",
                ":19: arrows: there is no crate `ort-z`",
            ),
        ] {
            assert_eq!(found(&GOOD.replace(from, to), ""), [format!("{DOCUMENT}{problem}")]);
        }
    }
}
