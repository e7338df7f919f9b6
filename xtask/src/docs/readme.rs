//! The page of a crate in a registry: the documentation of its `lib.rs`.

use crate::docs::links::without_links;
use crate::repository::Repository;

/// The documentation of the crate `name`, as a page outside of rustdoc shows it. Empty if it has none.
pub(crate) fn documentation(repository: &Repository, name: &str) -> String {
    let file = repository.file(&format!("{name}/src/lib.rs"));
    file.map_or_else(String::new, |file| page(&file.text))
}

fn page(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = lines.join("\n");
    let mut page = String::from("\n");
    // Text and code alternate.
    for (i, part) in text.split("```").enumerate() {
        page += &if i % 2 == 0 { prose(part) } else { code(part) };
    }
    page + "\n\n"
}

/// Headings one level lower, below the name of the crate.
fn prose(text: &str) -> String {
    let lines = text.split('\n').map(|line| match line.starts_with("# ") {
        true => format!("#{line}"),
        false => line.to_owned(),
    });
    without_links(&lines.collect::<Vec<_>>().join("\n"))
}

/// A block without the lines that rustdoc hides.
fn code(block: &str) -> String {
    let (language, body) = block.split_once('\n').unwrap_or((block, ""));
    let language = if language == "text" { language } else { "rust" };
    let is_shown = |line: &&str| *line != "#" && !line.starts_with("# ");
    let body: Vec<_> = body.split('\n').filter(is_shown).collect();
    format!("```{language}\n{}```", body.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_documentation_without_rustdoc_syntax() {
        let source = "//! Does [`a`](b::a).\n//!\n//! # Alone\n//!\n//! ```no_run\n//! # hidden\n//! f();\n//! ```\n\nmod x;\n";
        let repository = Repository::of(&[("ort-a/src/lib.rs", source)]);
        let expected = "\nDoes `a`.\n\n## Alone\n\n```rust\nf();\n```\n\n";
        assert_eq!(documentation(&repository, "ort-a"), expected);
        assert_eq!(documentation(&repository, "ort-b"), "");
    }
}
