//! Rules for every line, and the first line, of a file.

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::code_of;

/// Words that no tracked file contains, because they mean something on one machine only. Written in two parts, so
/// that this file does not contain them either.
const LOCAL: [(&str, &str); 3] = [("../", "shared"), ("farm", "-"), ("/wo", "rk/")];

/// Attributes that no test needs: assert the wrong behaviour with a note, or assert the error itself.
const UNWANTED: [(&str, &str); 2] = [
    ("#[ignore", "run the test, or delete it"),
    ("#[should_panic", "assert what is returned instead"),
];

/// Reports invalid lines, and missing module documentation.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &repository.files {
        problems.extend(local_words(file));
    }
    for file in repository.with_extension("rs") {
        problems.extend(module_docs(file));
        problems.extend(blanks(file));
        problems.extend(unwanted(file));
    }
    problems
}

fn local_words(file: &File) -> Vec<Problem> {
    let words = LOCAL.map(|(start, end)| format!("{start}{end}"));
    lines_where(file, "local word", |line| {
        let word = words.iter().find(|word| line.contains(*word))?;
        Some(format!("`{word}` means nothing outside one machine"))
    })
}

fn module_docs(file: &File) -> Option<Problem> {
    let what = "the file does not open with `//!` documentation";
    (!file.text.starts_with("//!")).then(|| Problem::new(&file.path, 1, "module docs", what))
}

fn blanks(file: &File) -> Vec<Problem> {
    let text = file.text.split('\n').map(|line| {
        if line.contains('\t') {
            Some("a tab")
        } else if line.ends_with([' ', '\r']) {
            Some("whitespace at the end of the line")
        } else {
            None
        }
    });
    let found = text.enumerate().filter_map(|(i, what)| Some((i + 1, what?)));
    found.map(|(line, what)| Problem::new(&file.path, line, "blanks", what)).collect()
}

fn unwanted(file: &File) -> Vec<Problem> {
    let code = File { path: file.path.clone(), text: code_of(&file.text) };
    lines_where(&code, "tests", |line| {
        let (attribute, advice) = UNWANTED.iter().find(|(it, _)| line.contains(it))?;
        Some(format!("`{attribute}]`: {advice}"))
    })
}

fn lines_where(
    file: &File,
    rule: &'static str,
    what: impl Fn(&str) -> Option<String>,
) -> Vec<Problem> {
    let lines = file.text.lines().enumerate();
    lines.filter_map(|(i, line)| Some(Problem::new(&file.path, i + 1, rule, what(line)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_line() {
        for (path, text, found) in [
            ("a.rs", "//! Docs.\nfn f() {}\n", None),
            ("a.rs", "fn f() {}\n", Some((1, "module docs"))),
            ("a.rs", "//! Docs.\n \n", Some((2, "blanks"))),
            ("a.rs", "//! Docs.\r\n", Some((1, "blanks"))),
            ("a.rs", "//! Docs.\n\tx\n", Some((2, "blanks"))),
            ("a.rs", "//! Docs.\n#[ignore = \"slow\"]\n", Some((2, "tests"))),
            ("a.rs", "//! Docs: no `#[should_panic]`.\n", None),
            ("a.md", "x \n\ty", None),
            ("a.md", concat!("x\nsee ../", "shared/x"), Some((2, "local word"))),
            ("a.md", concat!("in /wo", "rk/x"), Some((1, "local word"))),
        ] {
            let problems = check(&Repository::of(&[(path, text)]));
            let first = problems.first().map(|problem| (problem.line, problem.rule));
            assert_eq!(first, found, "{text}");
        }
    }
}
