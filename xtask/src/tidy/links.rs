//! Links of documents lead to existing files.

use std::path::Path;

use crate::problem::Problem;
use crate::repository::{File, Repository};

/// Reports links to files or folders that do not exist.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    repository.with_extension("md").flat_map(|file| dead(repository, file)).collect()
}

fn dead(repository: &Repository, file: &File) -> Vec<Problem> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut is_code = false;
    let mut problems = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for target in targets(line).filter(|target| !exists(repository, folder, target)) {
            problems.push(Problem::new(
                &file.path,
                i + 1,
                "links",
                format!("there is no `{target}`"),
            ));
        }
    }
    problems
}

/// The targets of a line's links to files.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split("](").skip(1);
    let targets = behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let files = targets.map(|target| target.split_once('#').map_or(target, |(file, _)| file));
    files.filter(|file| !file.is_empty() && !file.contains("://") && !file.contains("::"))
}

/// Whether a file or a folder of the repository has this path, seen from `folder`.
fn exists(repository: &Repository, folder: &Path, target: &str) -> bool {
    let path = resolved(folder, target);
    let is_there = |file: &File| {
        file.path.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    repository.files.iter().any(is_there)
}

/// The path in the repository that `target` means in a document of `folder`.
pub(super) fn resolved(folder: &Path, target: &str) -> String {
    let mut path: Vec<&str> = folder.iter().filter_map(|part| part.to_str()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(path.pop()),
            "." | "" => {}
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_no_file_is_a_problem() {
        for (link, n_problems) in [
            ("[a](b.md) [x](x.rs#L3) [f](../src) [g](../src/)", 0),
            ("[a](https://x.y/z), [h](#here), `[i](A::b)`", 0),
            ("```\n[a](no.md)\n```", 0),
            ("[a](b.md) [a](no.md)", 1),
            ("[a](../sr)", 1),
        ] {
            let files =
                [("docs/a.md", link), ("docs/b.md", ""), ("docs/x.rs", ""), ("src/m.rs", "")];
            assert_eq!(check(&Repository::of(&files)).len(), n_problems, "{link}");
        }
    }
}
