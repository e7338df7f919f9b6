//! Limits of files, functions and parameter lists.

use std::collections::BTreeMap;

use crate::functions::{Function, functions};
use crate::problem::Problem;
use crate::repository::Repository;

const FILE_LINES: usize = 400;
/// The folder of the teaching programs, which have a smaller limit.
const EXAMPLES: &str = "ort-examples/src/bin/";
const EXAMPLE_LINES: usize = 80;
const FUNCTION_LINES: usize = 60;
/// 95 % of the functions in a crate are not longer than this.
const MOST_FUNCTIONS_LINES: usize = 35;
const PARAMETERS: usize = 5;
/// Files there declare functions of the C API, whose parameters are fixed.
const FOREIGN: &str = "bindings/c/";

/// A function and its file.
type Placed<'a> = (&'a str, Function);

/// Reports what is too long.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in repository.with_extension("rs") {
        let n_lines = file.text.lines().count();
        let most = if file.path.starts_with(EXAMPLES) { EXAMPLE_LINES } else { FILE_LINES };
        if n_lines > most {
            let what = format!("{n_lines} lines, at most {most}");
            problems.push(Problem::new(&file.path, most + 1, "file size", what));
        }
    }
    let all = placed(repository);
    problems.extend(all.iter().filter_map(|(path, function)| too_long(path, function)));
    problems.extend(all.iter().filter_map(|(path, function)| too_wide(path, function)));
    let mut by_crate = BTreeMap::<_, Vec<_>>::new();
    for placed in &all {
        by_crate.entry(placed.0.split('/').next()).or_default().push(placed);
    }
    problems.extend(by_crate.into_values().flat_map(too_many_long));
    problems
}

/// The counts, in one line.
pub(crate) fn summary(repository: &Repository) -> String {
    let n_files = repository.with_extension("rs").count();
    let mut lengths: Vec<_> = placed(repository).iter().map(|(_, it)| it.n_lines).collect();
    lengths.sort_unstable();
    let quantile = |percent| lengths.get(lengths.len() * percent / 100).copied().unwrap_or(0);
    format!(
        "{n_files} files; {} functions, lines p50 {} p95 {} max {}",
        lengths.len(),
        quantile(50),
        quantile(95),
        lengths.last().unwrap_or(&0),
    )
}

fn placed(repository: &Repository) -> Vec<Placed<'_>> {
    let files = repository.with_extension("rs");
    files.flat_map(|file| functions(&file.text).into_iter().map(|it| (&*file.path, it))).collect()
}

fn too_long(path: &str, function: &Function) -> Option<Problem> {
    let Function { name, n_lines, is_table, .. } = function;
    let what = format!("`{name}` has {n_lines} lines of code, at most {FUNCTION_LINES}");
    (*n_lines > FUNCTION_LINES && !is_table)
        .then(|| Problem::new(path, function.line, "function size", what))
}

fn too_wide(path: &str, function: &Function) -> Option<Problem> {
    let Function { name, n_params, .. } = function;
    let what = format!("`{name}` has {n_params} parameters, at most {PARAMETERS}: take a struct");
    let is_wide = *n_params > PARAMETERS && !path.starts_with(FOREIGN);
    is_wide.then(|| Problem::new(path, function.line, "parameters", what))
}

/// One problem per long function, if more than 5 % are long. Those above the hard limit count, but were reported
/// already.
fn too_many_long(of_crate: Vec<&Placed<'_>>) -> Vec<Problem> {
    let n_allowed = of_crate.len().div_ceil(20);
    let is_long = |(_, it): &&&Placed<'_>| it.n_lines > MOST_FUNCTIONS_LINES && !it.is_table;
    let long: Vec<_> = of_crate.iter().filter(is_long).collect();
    if long.len() <= n_allowed {
        return Vec::new();
    }
    let of_all = format!(
        "more than {MOST_FUNCTIONS_LINES}; {} functions of this crate do, at most {n_allowed} may",
        long.len()
    );
    let problem = |&&&(path, ref it): &&&Placed<'_>| {
        let what = format!("`{}` has {} lines of code, {of_all}", it.name, it.n_lines);
        Problem::new(path, it.line, "function size", what)
    };
    long.iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(n_lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    x();\n".repeat(n_lines - 2))
    }

    fn found(text: &str) -> Vec<String> {
        let problems = check(&Repository::of(&[("a/src/lib.rs", text)]));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_has_400_lines_at_most() {
        assert_eq!(found(&"\n".repeat(400)), [""; 0]);
        assert_eq!(
            found(&"\n".repeat(401)),
            ["a/src/lib.rs:401: file size: 401 lines, at most 400"]
        );
        let example = ("ort-examples/src/bin/a.rs", "\n".repeat(81));
        let problems = check(&Repository::of(&[(example.0, &example.1)]));
        assert_eq!(
            problems[0].to_string(),
            "ort-examples/src/bin/a.rs:81: file size: 81 lines, at most 80"
        );
    }

    #[test]
    fn a_function_has_60_lines_at_most_unless_it_is_a_table() {
        assert_eq!(found(&function_of(60)), [""; 0]);
        assert_eq!(
            found(&function_of(61)),
            ["a/src/lib.rs:1: function size: `f` has 61 lines of code, at most 60"]
        );
        assert_eq!(found(&format!("// table: of x\n{}", function_of(61))), [""; 0]);
    }

    #[test]
    fn five_percent_of_the_functions_may_be_long() {
        let short = function_of(3).repeat(18);
        assert_eq!(found(&format!("{short}{}", function_of(36))), [""; 0]);
        let problems = found(&format!("{}{}{short}", function_of(36), function_of(35)));
        assert_eq!(problems, [""; 0]);
        let problems = found(&format!("{}{}{short}", function_of(36), function_of(40)));
        assert_eq!(
            problems,
            [
                "a/src/lib.rs:1: function size: `f` has 36 lines of code, more than 35; \
                 2 functions of this crate do, at most 1 may",
                "a/src/lib.rs:37: function size: `f` has 40 lines of code, more than 35; \
                 2 functions of this crate do, at most 1 may",
            ]
        );
    }

    #[test]
    fn a_function_has_five_parameters_at_most() {
        assert_eq!(found("fn f(&self, b: u8, c: u8, d: u8, e: u8) {}"), [""; 0]);
        assert_eq!(
            found("fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}"),
            ["a/src/lib.rs:1: parameters: `f` has 6 parameters, at most 5: take a struct"]
        );
    }
}
