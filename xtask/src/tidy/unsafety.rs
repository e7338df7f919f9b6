//! `unsafe` is confined to few files, each with a maximum number of blocks.
//!
//! `xtask/unsafe-budget.txt` lists them: a path, a number, and the reason. Fewer blocks are fine; more blocks or
//! another file require an edit there.

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, line_at, words};

const BUDGET: &str = "xtask/unsafe-budget.txt";
const FORBID: &str = "#![forbid(unsafe_code)]";

/// A line of the budget.
struct Allowance<'a> {
    line: usize,
    path: &'a str,
    n_blocks: usize,
    reason: &'a str,
}

/// Reports `unsafe` in other files, more of it than allowed, and crates that do not forbid it.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let (budget, mut problems) = budget(repository);
    for file in repository.with_extension("rs") {
        match budget.iter().find(|allowance| allowance.path == file.path) {
            Some(allowance) => problems.extend(excess(file, allowance)),
            None => problems.extend(misplaced(file)),
        }
    }
    for (_, manifest) in repository.crates() {
        let source = manifest.path.replace("Cargo.toml", "src/");
        let is_exempt = budget.iter().any(|it| it.path.starts_with(&source));
        let root = ["lib.rs", "main.rs"].map(|root| format!("{source}{root}"));
        if let Some(file) = root.iter().find_map(|root| repository.file(root))
            && !is_exempt
        {
            problems.extend(not_forbidden(file));
        }
    }
    problems
}

/// The count of each file that may contain `unsafe`, in one line.
pub(crate) fn summary(repository: &Repository) -> String {
    let counts = budget(repository).0.into_iter().map(|it| {
        let n_blocks = repository.file(it.path).map_or(0, n_blocks);
        format!("{} {n_blocks} of {}", it.path, it.n_blocks)
    });
    format!("unsafe blocks: {}", counts.collect::<Vec<_>>().join(", "))
}

/// Path, maximum number of blocks, and reason of each file that may contain `unsafe`.
pub(crate) fn allowances(repository: &Repository) -> Vec<(&str, usize, &str)> {
    budget(repository).0.into_iter().map(|it| (it.path, it.n_blocks, it.reason)).collect()
}

fn budget(repository: &Repository) -> (Vec<Allowance<'_>>, Vec<Problem>) {
    let Some(file) = repository.file(BUDGET) else {
        return (Vec::new(), vec![Problem::new(BUDGET, 1, "unsafe", "there is no budget")]);
    };
    let (mut budget, mut problems) = (Vec::new(), Vec::new());
    for (i, line) in file.text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        match allowance(i + 1, line) {
            Some(it) if !it.reason.is_empty() && repository.file(it.path).is_some() => {
                budget.push(it)
            }
            _ => {
                let what = "expected an existing path, a number and a reason";
                problems.push(Problem::new(BUDGET, i + 1, "unsafe", what));
            }
        }
    }
    (budget, problems)
}

fn allowance(line: usize, text: &str) -> Option<Allowance<'_>> {
    let (path, rest) = text.split_once(' ')?;
    let (n_blocks, reason) = rest.trim_start().split_once(' ')?;
    Some(Allowance { line, path, n_blocks: n_blocks.parse().ok()?, reason: reason.trim() })
}

fn excess(file: &File, allowance: &Allowance<'_>) -> Option<Problem> {
    let (n_blocks, n_allowed) = (n_blocks(file), allowance.n_blocks);
    let what =
        format!("{n_blocks} unsafe blocks, at most {n_allowed} ({BUDGET}:{})", allowance.line);
    (n_blocks > n_allowed).then(|| Problem::new(&file.path, 1, "unsafe", what))
}

fn n_blocks(file: &File) -> usize {
    let code = code_of(&file.text);
    let is_block = |offset: usize| code[offset + "unsafe".len()..].trim_start().starts_with('{');
    words(&code).filter(|&(offset, word)| word == "unsafe" && is_block(offset)).count()
}

fn misplaced(file: &File) -> Vec<Problem> {
    let code = code_of(&file.text);
    let found = words(&code).filter(|&(_, word)| word == "unsafe");
    let what = format!("only files listed in {BUDGET} may contain `unsafe`");
    found
        .map(|(start, _)| Problem::new(&file.path, line_at(&code, start), "unsafe", &*what))
        .collect()
}

/// The attribute must be the first code of the crate, below its documentation.
fn not_forbidden(file: &File) -> Option<Problem> {
    let code = code_of(&file.text);
    let what = format!("the crate does not begin with `{FORBID}`");
    (!code.trim_start().starts_with(FORBID)).then(|| Problem::new(&file.path, 1, "unsafe", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_OF_ONE: (&str, &str) = (BUDGET, "# path blocks reason\na/src/x.rs  1  maps\n");

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_in_the_budget_has_at_most_its_number_of_blocks() {
        let one = "unsafe fn f() { unsafe { g() } } // unsafe {}";
        assert_eq!(found(&[BUDGET_OF_ONE, ("a/src/x.rs", one)]), [""; 0]);
        let two = "fn f() { unsafe { g() }; unsafe{ h() } }";
        assert_eq!(
            found(&[BUDGET_OF_ONE, ("a/src/x.rs", two)]),
            ["a/src/x.rs:1: unsafe: 2 unsafe blocks, at most 1 (xtask/unsafe-budget.txt:2)"]
        );
    }

    #[test]
    fn other_files_have_no_unsafe() {
        let x = ("a/src/x.rs", "");
        assert_eq!(
            found(&[BUDGET_OF_ONE, x, ("b/src/y.rs", "\nunsafe impl Send for X {}")]),
            [
                "b/src/y.rs:2: unsafe: only files listed in xtask/unsafe-budget.txt may contain `unsafe`"
            ]
        );
        assert_eq!(found(&[BUDGET_OF_ONE, x, ("b/src/y.rs", "// unsafe\n\"unsafe\"")]), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_budget_forbids_it_first() {
        let (x, manifest) = (("a/src/x.rs", ""), ("b/Cargo.toml", ""));
        let good = "//! Docs.\n\n#![forbid(unsafe_code)]\n";
        assert_eq!(found(&[BUDGET_OF_ONE, x, manifest, ("b/src/lib.rs", good)]), [""; 0]);
        let late = "//! Docs.\nmod x;\n#![forbid(unsafe_code)]\n";
        assert_eq!(
            found(&[BUDGET_OF_ONE, x, manifest, ("b/src/lib.rs", late)]),
            ["b/src/lib.rs:1: unsafe: the crate does not begin with `#![forbid(unsafe_code)]`"]
        );
        assert_eq!(found(&[BUDGET_OF_ONE, x, ("a/Cargo.toml", ""), ("a/src/lib.rs", "")]), [""; 0]);
    }

    #[test]
    fn a_budget_names_existing_files_and_reasons() {
        for line in ["a/src/gone.rs 1 maps", "a/src/x.rs 1", "a/src/x.rs many maps"] {
            let problems = found(&[(BUDGET, line), ("a/src/x.rs", "")]);
            assert_eq!(
                problems,
                [
                    "xtask/unsafe-budget.txt:1: unsafe: expected an existing path, a number and a reason"
                ]
            );
        }
    }
}
