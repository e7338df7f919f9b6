//! A module is named after its contents. The names listed here say nothing about them.

use std::path::Path;

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, line_at, words};

const NAMELESS: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];

/// Reports files, folders and inline modules with such names.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let files = repository.with_extension("rs");
    files.flat_map(|file| path_names(file).into_iter().chain(inline_modules(file))).collect()
}

fn path_names(file: &File) -> Option<Problem> {
    let path = Path::new(&file.path).with_extension("");
    let name = path.iter().find_map(|part| NAMELESS.into_iter().find(|name| part == *name))?;
    Some(Problem::new(&file.path, 1, "name", format!("`{name}` says nothing about its contents")))
}

/// `mod x;` is found by its file.
fn inline_modules(file: &File) -> Vec<Problem> {
    let code = code_of(&file.text);
    let found = words(&code).zip(words(&code).skip(1));
    found
        .filter(|&((_, first), (start, name))| {
            let is_inline = code[start + name.len()..].trim_start().starts_with('{');
            first == "mod" && is_inline && NAMELESS.contains(&name)
        })
        .map(|(_, (start, name))| {
            let what = format!("`{name}` says nothing about its contents");
            Problem::new(&file.path, line_at(&code, start), "name", what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_found_in_paths_and_modules() {
        for (path, text, line) in [
            ("a/src/util.rs", "", Some(1)),
            ("a/src/helpers/x.rs", "", Some(1)),
            ("a/src/lib.rs", "\nmod common {\n}", Some(2)),
            ("a/src/lib.rs", "use x::common;", None),
            ("a/src/commonly.rs", "mod utility {}", None),
        ] {
            let problems = check(&Repository::of(&[(path, text)]));
            assert_eq!(problems.first().map(|problem| problem.line), line, "{path} {text}");
        }
    }
}
