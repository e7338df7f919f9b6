//! Each promise names the tests and commands that fail if it is not true, and they exist.
//!
//! Promises are the rows of a table below `<!-- promises -->`; the last cell of a row has names in backticks: of functions
//! with a `#[test]`, of `cargo xtask fuzz --target NAME`, or paths of programs.

use std::collections::BTreeSet;

use crate::markers::{Block, blocks};
use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, words};

const MARKER: &str = "promises";
const TEST: &str = "#[test]";
/// The start of a command whose last word is the name of a file below [`TARGETS`].
const FUZZ: &str = "cargo xtask fuzz --target ";
const TARGETS: &str = "ort-fuzz/src/targets/";

/// Reports promises without proof, and proofs that do not exist.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let tests = tests(repository);
    let exists = |proof: &str| match proof.strip_prefix(FUZZ) {
        Some(target) => [".rs", "/mod.rs"]
            .iter()
            .any(|end| repository.file(&format!("{TARGETS}{target}{end}")).is_some()),
        None => tests.contains(proof) || repository.file(proof).is_some(),
    };
    let of_file = |file: &File| match blocks(&file.path, &file.text, |marker| marker == MARKER) {
        Ok(blocks) => blocks.iter().flat_map(|block| broken(file, block, &exists)).collect(),
        Err(problem) => vec![problem],
    };
    repository.with_extension("md").flat_map(of_file).collect()
}

/// The names of all tests.
fn tests(repository: &Repository) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for file in repository.with_extension("rs") {
        let code = code_of(&file.text);
        for after in code.split(TEST).skip(1) {
            let mut words = words(after).map(|(_, word)| word).skip_while(|word| *word != "fn");
            tests.extend(words.nth(1).map(str::to_owned));
        }
    }
    tests
}

fn broken(file: &File, block: &Block<'_>, exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let rows = block.content.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let promises = rows.skip(2);
    promises
        .flat_map(|(i, row)| {
            let what = wrong(row, exists);
            what.into_iter().map(move |what| (block.line + 1 + i, what))
        })
        .map(|(line, what)| Problem::new(&file.path, line, "promise", what))
        .collect()
}

/// What is wrong with a row.
fn wrong(row: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let proofs: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if proofs.is_empty() {
        return vec!["no test is named that fails if this is not true".to_owned()];
    }
    let missing = proofs.into_iter().filter(|proof| !exists(proof));
    missing.map(|proof| format!("there is no test or command `{proof}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: (&str, &str) = (
        "a/src/lib.rs",
        "#[test]\nfn it_holds() {}\n#[test]\nfn it_returns() -> R {}\nfn not() {}",
    );
    const TARGET: (&str, &str) = ("ort-fuzz/src/targets/text.rs", "");
    const PROGRAM: (&str, &str) = ("tools/soak.py", "");

    fn found(proofs: &str) -> Vec<String> {
        let text = format!(
            "<!-- promises -->\n| a | b |\n|---|---|\n| x `y` | {proofs} |\n<!-- end -->\n"
        );
        let files = [("SECURITY.md", &*text), CODE, TARGET, PROGRAM];
        check(&Repository::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_promise_names_tests_that_exist() {
        for proofs in
            ["`it_holds`, `it_returns`", "`tools/soak.py`", "`cargo xtask fuzz --target text`"]
        {
            assert_eq!(found(proofs), [""; 0]);
        }
        for proof in ["not", "it_hold", "cargo xtask fuzz --target words", "tools/gone.py"] {
            let expected = format!("SECURITY.md:4: promise: there is no test or command `{proof}`");
            assert_eq!(found(&format!("`it_holds`, `{proof}`")), [expected]);
        }
        assert_eq!(
            found("believe us"),
            ["SECURITY.md:4: promise: no test is named that fails if this is not true"]
        );
    }
}
