//! Dependencies have a purpose and are used, manifests have a description and what a registry requires, and the
//! licenses exist.

use crate::api::is_published;
use crate::manifest::{Entry, entries};
use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, words};

/// What a published crate's manifest requires in addition to a description.
const PUBLISHED: [&str; 4] = ["repository", "readme", "keywords", "categories"];

const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Reports dependencies without a reason or a use, versions outside the root, empty descriptions, missing fields that
/// a registry requires, and missing licenses.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let missing = |name: &&str| repository.file(name).is_none();
    let mut problems: Vec<_> = LICENSES
        .into_iter()
        .filter(missing)
        .map(|name| Problem::new(name, 1, "license", "the text of the license is missing"))
        .collect();
    if let Some(root) = repository.file("Cargo.toml") {
        problems.extend(unexplained(root));
        problems.extend(unused_in_workspace(repository, root));
    }
    for (_, manifest) in repository.crates() {
        problems.extend(undescribed(manifest));
        problems.extend(own_versions(manifest));
        problems.extend(unused(repository, manifest));
        if is_published(manifest) {
            problems.extend(unpublishable(manifest));
        }
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
        let what = format!("`{}` has no comment that gives its purpose", entry.key);
        Problem::new(&root.path, entry.line, "dependency", what)
    };
    entries(&root.text).filter(is_unexplained).map(problem).collect()
}

/// Every dependency in the root is used by some crate.
fn unused_in_workspace(repository: &Repository, root: &File) -> Vec<Problem> {
    let takes = |text: &str, key: &str| {
        entries(text).any(|entry| entry.key == key && entry.needed().is_some())
    };
    let is_unused_anywhere = |entry: &Entry<'_>| {
        let is_dependency = entry.section == "workspace.dependencies";
        is_dependency && !repository.crates().any(|(_, manifest)| takes(&manifest.text, entry.key))
    };
    let problem = |entry: Entry<'_>| {
        Problem::new(
            &root.path,
            entry.line,
            "dependency",
            format!("no crate depends on `{}`", entry.key),
        )
    };
    entries(&root.text).filter(is_unused_anywhere).map(problem).collect()
}

/// Every dependency of a crate is named in its code or in the code of its documentation.
fn unused(repository: &Repository, manifest: &File) -> Vec<Problem> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let sources = repository.with_extension("rs").filter(|file| file.path.starts_with(folder));
    let sources: Vec<_> = sources.map(|file| (code_of(&file.text), &file.text)).collect();
    let is_in_docs = |text: &str, name: &str| {
        text.lines().any(|line| line.trim_start().starts_with("//") && line.contains(name))
    };
    let is_named = |name: &str| {
        sources.iter().any(|(code, text)| {
            words(code).any(|(_, word)| word == name) || is_in_docs(text, &format!("{name}::"))
        })
    };
    let is_unused =
        |entry: &Entry<'_>| entry.needed().is_some() && !is_named(&entry.key.replace('-', "_"));
    let problem = |entry: Entry<'_>| {
        let what = format!("`{}` is not used", entry.key);
        Problem::new(&manifest.path, entry.line, "dependency", what)
    };
    entries(&manifest.text).filter(is_unused).map(problem).collect()
}

fn unpublishable(manifest: &File) -> Vec<Problem> {
    let says = |key: &str| {
        entries(&manifest.text).any(|entry| entry.section == "package" && entry.key == key)
    };
    let missing = PUBLISHED.iter().filter(|key| !says(key));
    let problem = |key| {
        let what = format!("a registry requires `{key}`; or set `publish = false`");
        Problem::new(&manifest.path, 1, "publish", what)
    };
    missing.map(problem).collect()
}

fn undescribed(manifest: &File) -> Option<Problem> {
    let mut entries = entries(&manifest.text);
    let found = entries.find(|entry| entry.section == "package" && entry.key == "description");
    let line = found.map_or(1, |entry| entry.line);
    let is_described = found.is_some_and(|entry| entry.value.len() > r#""""#.len());
    (!is_described).then(|| {
        Problem::new(&manifest.path, line, "description", "the description must be one line")
    })
}

/// Versions are declared in the root.
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

    /// Next to a crate that uses `x` and `ort-a`.
    fn found(path: &str, text: &str) -> Vec<String> {
        let manifest = "[package]\ndescription = \"b\"\npublish = false\n[dependencies]\nx.workspace = true\n\
                        ort-a.workspace = true\n";
        let taken = [("b/Cargo.toml", manifest), ("b/src/lib.rs", "use x::X;\nuse ort_a::A;\n")];
        let files = [
            LICENSED[0],
            LICENSED[1],
            taken[0],
            taken[1],
            ("a/src/lib.rs", "use x::X;\n"),
            (path, text),
        ];
        check(&Repository::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_workspace_dependency_has_a_purpose() {
        let text =
            "[workspace.dependencies]\nort-a = { path = \"ort-a\" }\nx = \"1\" # it is good\n";
        assert_eq!(found("Cargo.toml", text), [""; 0]);
        assert_eq!(
            found("Cargo.toml", "[workspace.dependencies]\nx = { version = \"1\" }\n"),
            ["Cargo.toml:2: dependency: `x` has no comment that gives its purpose"]
        );
    }

    #[test]
    fn a_dependency_is_used() {
        assert_eq!(
            found("Cargo.toml", "[workspace.dependencies]\ny = \"1\" # it is good\n"),
            ["Cargo.toml:2: dependency: no crate depends on `y`"]
        );
        let takes_y =
            "[package]\ndescription = \"a\"\npublish = false\n[dependencies]\ny.workspace = true\n";
        assert_eq!(found("a/Cargo.toml", takes_y), ["a/Cargo.toml:5: dependency: `y` is not used"]);
    }

    #[test]
    fn a_crate_describes_itself_and_takes_its_versions_from_the_root() {
        let described = "[package]\npublish = false\ndescription = \"Does a\"\n";
        for needed in ["x.workspace = true", "x = { workspace = true, optional = true }"] {
            let text = format!("{described}[dependencies]\n{needed}\n");
            assert_eq!(found("a/Cargo.toml", &text), [""; 0]);
        }
        assert_eq!(
            found("a/Cargo.toml", &format!("{described}[dev-dependencies]\nx = \"1\"\n")),
            ["a/Cargo.toml:5: dependency: take `x` from the root: `x.workspace = true`"]
        );
        for (text, line) in [("publish = false\ndescription = \"\"\n", 3), ("publish = false\n", 1)]
        {
            let expected =
                format!("a/Cargo.toml:{line}: description: the description must be one line");
            assert_eq!(found("a/Cargo.toml", &format!("[package]\n{text}")), [expected]);
        }
    }

    #[test]
    fn a_published_crate_has_what_a_registry_requires() {
        let text = "[package]\ndescription = \"Does a\"\nrepository.workspace = true\nreadme = \"R\"\n\
                    keywords = []\ncategories = []\n";
        assert_eq!(found("a/Cargo.toml", text), [""; 0]);
        assert_eq!(
            found("a/Cargo.toml", &text.replace("categories = []\n", "")),
            ["a/Cargo.toml:1: publish: a registry requires `categories`; or set `publish = false`"]
        );
    }

    #[test]
    fn both_licenses_exist() {
        let problems = check(&Repository::of(&LICENSED[..1]));
        assert_eq!(
            problems[0].to_string(),
            "LICENSE-MIT:1: license: the text of the license is missing"
        );
    }
}
