//! The public items of every published crate, one per line, in `docs/api/CRATE.txt`, so that every interface change
//! shows in the diff.
//!
//! They are read from the sources as rustfmt lays them out. What is `pub` is public, since the lint
//! `unreachable_pub` rejects anything else. For items that a macro makes, the lines that it is called with are
//! listed.

mod items;

use std::collections::BTreeSet;

use crate::manifest::entries;
use crate::repository::{File, Repository};

/// The stale files: path and correct content.
pub(crate) fn stale(repository: &Repository) -> Vec<(String, String)> {
    let published = repository.crates().filter(|(_, manifest)| is_published(manifest));
    let lists = published.map(|(name, _)| (format!("docs/api/{name}.txt"), list(repository, name)));
    let is_stale = |(path, text): &(String, String)| {
        repository.file(path).is_none_or(|file| file.text != *text)
    };
    lists.filter(is_stale).collect()
}

/// Whether a crate is published.
pub(crate) fn is_published(manifest: &File) -> bool {
    let stays = |text: &str| {
        entries(text)
            .any(|it| it.section == "package" && it.key == "publish" && it.value == "false")
    };
    !stays(&manifest.text)
}

fn list(repository: &Repository, name: &str) -> String {
    let root = format!("{name}/src/");
    let of_crate = || repository.with_extension("rs").filter(|file| file.path.starts_with(&root));
    let tests: Vec<_> = of_crate().flat_map(tests_of).collect();
    let files: Vec<_> =
        of_crate().filter(|file| !tests.iter().any(|test| file.path.starts_with(test))).collect();
    let entry = repository.file(&format!("{root}lib.rs")).map_or("", |file| &file.text);
    let mut items = items::Items::default();
    for file in &files {
        items.add(&module(&file.path, &root, entry), &file.text);
    }
    let lines: BTreeSet<_> = items.finish();
    let mut text = format!("# Public items of {name}, written by `cargo xtask docs`.\n");
    lines.into_iter().for_each(|line| text += &(line + "\n"));
    text
}

/// The public module that a file belongs to, as a prefix of what it declares. Private modules are left out.
fn module(path: &str, root: &str, entry: &str) -> String {
    let inner = path.strip_prefix(root).unwrap_or(path);
    let first = inner.split(['/', '.']).next().unwrap_or(inner);
    let is_public = entry.lines().any(|line| line == format!("pub mod {first};"));
    if is_public { format!("{first}::") } else { String::new() }
}

/// The path prefixes of the modules that a file declares for tests only.
fn tests_of(file: &File) -> Vec<String> {
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let is_folder = ["/lib", "/mod", "/main"].iter().any(|name| stem.ends_with(name));
    let folder = if is_folder { stem.rsplit_once('/').map_or("", |(it, _)| it) } else { stem };
    let lines: Vec<_> = file.text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let names = declared.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
    names.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_items_of_this_repository_are_listed() {
        let stale = stale(&Repository::open().unwrap());
        let paths: Vec<_> = stale.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [""; 0], "run `cargo xtask docs` and review the diff");
    }

    #[test]
    fn a_list_has_what_is_public_and_no_tests() {
        let manifest = ("ort-a/Cargo.toml", "[package]\nname = \"ort-a\"\n");
        let private = ("ort-b/Cargo.toml", "[package]\nname = \"ort-b\"\npublish = false\n");
        let repository = Repository::of(&[
            manifest,
            private,
            ("ort-a/src/lib.rs", "pub mod m;\nmod n;\n#[cfg(test)]\nmod t;\n\npub use n::N;\n"),
            ("ort-a/src/m.rs", "pub fn f() {}\n"),
            ("ort-a/src/n.rs", "pub struct N;\n"),
            ("ort-a/src/t.rs", "pub fn test() {}\n"),
        ]);
        let [(path, text)] = &stale(&repository)[..] else { panic!("one crate is published") };
        assert_eq!(path, "docs/api/ort-a.txt");
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines, ["m::fn f()", "mod m", "struct N", "use n::N"]);
        let fresh = [manifest, private, ("docs/api/ort-a.txt", text), ("ort-a/src/lib.rs", "")];
        assert_eq!(stale(&Repository::of(&fresh)).len(), 1);
    }
}
