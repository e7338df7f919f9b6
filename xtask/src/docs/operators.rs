//! The table of operators, from the registry.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::repository::Repository;

/// A row an operator: its domain, name, and the since-versions it covers.
pub(crate) fn table(_repository: &Repository) -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for def in ort_ops::registry().defs() {
        let (first, last) = def.versions;
        let versions = if first == last { first.to_string() } else { format!("{first}–{last}") };
        let domain = if def.domain.is_empty() { "ai.onnx" } else { def.domain };
        rows.entry((domain, def.name)).or_default().push(versions);
    }
    let mut table = format!("{} operators.\n\n| domain | operator | versions |\n", rows.len());
    table += "|---|---|---|\n";
    for ((domain, name), versions) in rows {
        // Writing to a string does not fail.
        let _ = writeln!(table, "| {domain} | {name} | {} |", versions.join(", "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_operator_is_a_row() {
        let table = table(&Repository::of(&[]));
        assert!(table.contains("| ai.onnx | Transpose | 1–25 |\n"));
    }
}
