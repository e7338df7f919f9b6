//! The list of optimizer passes, in the order in which they run.

use std::fmt::Write as _;

use crate::repository::Repository;

/// One row per pass: its name, level and exactness.
pub(crate) fn table(_repository: &Repository) -> String {
    let mut table = String::from("| pass | level | exactness |\n|---|---|---|\n");
    for (name, level, exactness) in ort_optimizer::passes() {
        // Writing to a string does not fail.
        let _ = writeln!(table, "| {name} | {level} | {exactness} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_a_row() {
        let table = table(&Repository::of(&[]));
        assert!(table.contains("| ConstantFolding | basic | bitwise |\n"), "{table}");
    }
}
