//! Dependencies earn their place, crates say what they are, and the licenses are there.

use crate::manifest::{Entry, entries};
use crate::problem::Problem;
use crate::repository::{File, Repository};

const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Reports dependencies without a reason, versions outside the root, empty descriptions and missing
/// licenses.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let missing = |name: &&str| repository.file(name).is_none();
    let mut problems: Vec<_> = LICENSES
        .into_iter()
        .filter(missing)
        .map(|name| Problem::new(name, 1, "license", "the text of the license is missing"))
        .collect();
    if let Some(root) = repository.file("Cargo.toml") {
        problems.extend(unexplained(root));
    }
    for (_, manifest) in repository.crates() {
        problems.extend(undescribed(manifest));
        problems.extend(own_versions(manifest));
    }
    problems
}

fn unexplained(root: &File) -> Vec<Problem> {
    let is_unexplained = |entry: &Entry<'_>| {
        let is_ours = entry.value.contains("path = ");
        let is_dependency = entry.section == "workspace.dependencies";
        is_dependency && !is_ours && entry.comment.is_none_or(str::is_empty)
    };
    let problem = |entry: Entry<'_>| {
        let what = format!("`{}` has no comment that says what it is for", entry.key);
        Problem::new(&root.path, entry.line, "dependency", what)
    };
    entries(&root.text).filter(is_unexplained).map(problem).collect()
}

fn undescribed(manifest: &File) -> Option<Problem> {
    let mut entries = entries(&manifest.text);
    let found = entries.find(|entry| entry.section == "package" && entry.key == "description");
    let line = found.map_or(1, |entry| entry.line);
    let is_described = found.is_some_and(|entry| entry.value.len() > r#""""#.len());
    (!is_described).then(|| {
        Problem::new(&manifest.path, line, "description", "one line says what the crate is")
    })
}

/// A version stands once, in the root.
fn own_versions(manifest: &File) -> Vec<Problem> {
    let is_own = |entry: &Entry<'_>| entry.needed().is_some() && !entry.is_from_workspace();
    let problem = |entry: Entry<'_>| {
        let what = format!("take `{0}` from the root: `{0}.workspace = true`", entry.key);
        Problem::new(&manifest.path, entry.line, "dependency", what)
    };
    entries(&manifest.text).filter(is_own).map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LICENSED: [(&str, &str); 2] = [("LICENSE-APACHE", ""), ("LICENSE-MIT", "")];

    fn found(path: &str, text: &str) -> Vec<String> {
        let files = [LICENSED[0], LICENSED[1], (path, text)];
        check(&Repository::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_of_the_workspace_says_what_it_is_for() {
        let text =
            "[workspace.dependencies]\nort-a = { path = \"ort-a\" }\nx = \"1\" # it is good\n";
        assert_eq!(found("Cargo.toml", text), [""; 0]);
        assert_eq!(
            found("Cargo.toml", "[workspace.dependencies]\nx = { version = \"1\" }\n"),
            ["Cargo.toml:2: dependency: `x` has no comment that says what it is for"]
        );
    }

    #[test]
    fn a_crate_describes_itself_and_takes_its_versions_from_the_root() {
        let described = "[package]\ndescription = \"Does a\"\n";
        for needed in ["x.workspace = true", "x = { workspace = true, optional = true }"] {
            let text = format!("{described}[dependencies]\n{needed}\n");
            assert_eq!(found("a/Cargo.toml", &text), [""; 0]);
        }
        assert_eq!(
            found("a/Cargo.toml", &format!("{described}[dev-dependencies]\nx = \"1\"\n")),
            ["a/Cargo.toml:4: dependency: take `x` from the root: `x.workspace = true`"]
        );
        for (text, line) in [("[package]\ndescription = \"\"\n", 2), ("[package]\n", 1)] {
            let expected =
                format!("a/Cargo.toml:{line}: description: one line says what the crate is");
            assert_eq!(found("a/Cargo.toml", text), [expected]);
        }
    }

    #[test]
    fn both_licenses_are_there() {
        let problems = check(&Repository::of(&LICENSED[..1]));
        assert_eq!(
            problems[0].to_string(),
            "LICENSE-MIT:1: license: the text of the license is missing"
        );
    }
}
