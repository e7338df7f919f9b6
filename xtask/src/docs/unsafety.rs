//! The table of files with `unsafe`, from the budget.

use std::fmt::Write as _;

use crate::repository::Repository;
use crate::tidy::allowances;

/// One row per file.
pub(crate) fn table(repository: &Repository) -> String {
    let mut table = String::from("| file | blocks | what for |\n|---|---:|---|\n");
    for (path, n_blocks, reason) in allowances(repository) {
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{path}` | {n_blocks} | {reason} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_row_with_its_reason() {
        let budget =
            ("xtask/unsafe-budget.txt", "# path blocks reason\na/src/x.rs  1  maps a file\n");
        let table = table(&Repository::of(&[budget, ("a/src/x.rs", "unsafe { f() }")]));
        assert!(table.ends_with("| `a/src/x.rs` | 1 | maps a file |\n"), "{table}");
    }
}
