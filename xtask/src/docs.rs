//! Keeps the generated blocks of the documents, and the lists of public items in `docs/api/`, equal to what the
//! code says.
//!
//! A document contains `<!-- generated: NAME -->` and `<!-- end -->`; the generator of that name writes the lines
//! between them. A new generator is a file below `docs/` and a line in [`GENERATORS`].

mod crates;
mod dependencies;
mod examples;
mod links;
mod operators;
mod options;
mod passes;
mod readme;
mod unsafety;

use std::fs;

use crate::api;
use crate::markers::{Block, blocks};
use crate::problem::{Failure, Problem};
use crate::repository::{File, Repository};

/// Name and content of a block. A generator reads the repository or links the crate whose registry
/// it prints.
type Generator = (&'static str, fn(&Repository) -> String);

const GENERATORS: &[Generator] = &[
    ("crates", crates::table),
    ("dependencies", dependencies::table),
    ("examples", examples::table),
    ("features", dependencies::features),
    ("operator coverage", operators::coverage),
    ("operators", operators::table),
    ("passes", passes::table),
    ("run methods", options::run_methods),
    ("session keys", options::keys),
    ("session methods", options::methods),
    ("unsafe", unsafety::table),
];

const MARKER: &str = "generated: ";

/// The prefix of a block that contains the documentation of a crate.
const DOCUMENTATION: &str = "documentation of ";

/// Writes every block and every list of public items that is stale.
pub(crate) fn write(repository: &Repository) -> Result<Vec<Problem>, Failure> {
    let mut problems = Vec::new();
    for (path, text) in api::stale(repository) {
        let path = repository.root.join(path);
        fs::write(&path, text).map_err(|source| Failure::File { path, source })?;
    }
    for file in repository.with_extension("md") {
        match regenerate(repository, file) {
            Ok(document) if document.stale.is_empty() => {}
            Ok(document) => {
                let path = repository.root.join(&file.path);
                fs::write(&path, document.text).map_err(|source| Failure::File { path, source })?;
            }
            Err(problem) => problems.push(problem),
        }
    }
    Ok(problems)
}

/// One problem per stale block or list.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Problem>, Failure> {
    let stale = |(path, _): (String, String)| {
        let what = "the public API is not the one in this file: run `cargo xtask docs`";
        Problem::new(&path, 1, "docs", what)
    };
    let mut problems: Vec<_> = api::stale(repository).into_iter().map(stale).collect();
    for file in repository.with_extension("md") {
        match regenerate(repository, file) {
            Ok(document) => problems.extend(document.stale),
            Err(problem) => problems.push(problem),
        }
    }
    Ok(problems)
}

/// A document as it should be.
struct Document {
    text: String,
    /// The blocks that were stale.
    stale: Vec<Problem>,
}

fn regenerate(repository: &Repository, file: &File) -> Result<Document, Problem> {
    let mut document = Document { text: String::new(), stale: Vec::new() };
    let mut copied = 0;
    for block in blocks(&file.path, &file.text, |marker| marker.starts_with(MARKER))? {
        let content = generate(repository, &file.path, &block)?;
        document.text += &file.text[copied..block.start];
        document.text += &content;
        copied = block.start + block.content.len();
        if content != block.content {
            let what = format!("`{}` is stale: run `cargo xtask docs`", block.marker);
            document.stale.push(Problem::new(&file.path, block.line, "docs", what));
        }
    }
    document.text += &file.text[copied..];
    Ok(document)
}

fn generate(repository: &Repository, path: &str, block: &Block<'_>) -> Result<String, Problem> {
    let name = &block.marker[MARKER.len()..];
    if let Some(of) = name.strip_prefix(DOCUMENTATION) {
        return Ok(readme::documentation(repository, of));
    }
    match GENERATORS.iter().find(|(known, _)| *known == name) {
        Some((_, generator)) => Ok(generator(repository)),
        None => {
            let known: Vec<_> = GENERATORS.iter().map(|(name, _)| *name).collect();
            let what = format!("no generator `{name}`, only {}", known.join(", "));
            Err(Problem::new(path, block.line, "docs", what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("ort-a/Cargo.toml", "[package]\ndescription = \"Does a\"\n");

    fn document(text: &str) -> Result<Document, Problem> {
        let repository = Repository::of(&[MANIFEST, ("A.md", text)]);
        regenerate(&repository, repository.file("A.md").unwrap())
    }

    #[test]
    fn a_stale_block_is_found_and_replaced_and_then_fresh() {
        let stale =
            document("before\n<!-- generated: crates -->\nold\n<!-- end -->\nafter\n").unwrap();
        let found: Vec<_> = stale.stale.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["A.md:2: docs: `generated: crates` is stale: run `cargo xtask docs`"]);
        assert!(stale.text.starts_with("before\n<!-- generated: crates -->\n|"), "{}", stale.text);
        assert!(stale.text.ends_with("|\n<!-- end -->\nafter\n"), "{}", stale.text);

        let fresh = document(&stale.text).unwrap();
        assert_eq!((fresh.text, fresh.stale), (stale.text, Vec::new()));
    }

    #[test]
    fn a_block_without_a_generator_is_a_problem() {
        let problem = document("<!-- generated: weather -->\n<!-- end -->\n").err().unwrap();
        assert_eq!(
            problem.to_string(),
            "A.md:1: docs: no generator `weather`, only crates, dependencies, examples, features, \
             operator coverage, operators, passes, run methods, session keys, session methods, unsafe"
        );
    }
}
