//! Blocks of a document that tools read or write:
//!
//! ```text
//! <!-- generated: crates -->
//! …
//! <!-- end -->
//! ```

use crate::problem::Problem;

/// The text between two markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The text of the first marker: `generated: crates`.
    pub(crate) marker: &'a str,
    /// The first marker's line, counted from 1.
    pub(crate) line: usize,
    /// The lines between the markers, each with its end.
    pub(crate) content: &'a str,
    /// Where the content starts in the document, in bytes.
    pub(crate) start: usize,
}

const END: &str = "end";

/// Every block whose marker `is_start` accepts, or the problem of the one that does not end.
pub(crate) fn blocks<'a>(
    path: &str,
    text: &'a str,
    is_start: impl Fn(&str) -> bool,
) -> Result<Vec<Block<'a>>, Problem> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'a>> = None;
    let mut offset = 0;
    for (i, line) in text.split_inclusive('\n').enumerate() {
        match (marker(line), open.take()) {
            (Some(END), Some(mut block)) => {
                block.content = &text[block.start..offset];
                blocks.push(block);
            }
            (Some(marker), None) if is_start(marker) => {
                let start = offset + line.len();
                open = Some(Block { marker, line: i + 1, content: "", start });
            }
            (_, still_open) => open = still_open,
        }
        offset += line.len();
    }
    match open {
        Some(block) => {
            Err(Problem::new(path, block.line, "docs", "this block has no `<!-- end -->`"))
        }
        None => Ok(blocks),
    }
}

fn marker(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Result<Vec<&str>, Problem> {
        let blocks = blocks("a.md", text, |marker| marker.starts_with("generated: "))?;
        Ok(blocks.into_iter().map(|block| block.content).collect())
    }

    #[test]
    fn a_block_is_the_text_between_its_markers() {
        let text = "# A\n<!-- generated: x -->\na\nb\n<!-- end -->\n<!-- a comment -->\n<!-- generated: y -->\n<!-- end -->\n";
        assert_eq!(contents(text), Ok(vec!["a\nb\n", ""]));
    }

    #[test]
    fn a_block_without_an_end_is_a_problem() {
        let problem = contents("\n<!-- generated: x -->\na\n").unwrap_err();
        assert_eq!(problem.to_string(), "a.md:2: docs: this block has no `<!-- end -->`");
    }

    #[test]
    fn other_comments_open_and_close_nothing() {
        assert_eq!(contents("<!-- other -->\na\n<!-- end -->\n"), Ok(Vec::new()));
    }
}
