//! The table of operators, from the registry, compared with ONNX Runtime's kernels.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ort_graph::OpDef;
use ort_tensor::DType;

use crate::repository::Repository;

/// Written by `tools/list_onnxruntime_kernels.py`: domain, operator, first and newest version,
/// element types.
const ONNXRUNTIME: &str = include_str!("onnxruntime_kernels.txt");

/// The columns: a heading, and the element types below it.
const COLUMNS: &[(&str, &[DType])] = {
    use DType::*;
    &[
        ("f32", &[F32]),
        ("f64", &[F64]),
        ("f16", &[F16]),
        ("bf16", &[Bf16]),
        ("i8", &[I8]),
        ("i16", &[I16]),
        ("i32", &[I32]),
        ("i64", &[I64]),
        ("u8", &[U8]),
        ("u16", &[U16]),
        ("u32", &[U32]),
        ("u64", &[U64]),
        ("bool", &[Bool]),
        ("string", &[String]),
        ("complex", &[Complex64, Complex128]),
        ("f8", &[F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz]),
        ("f8e8m0", &[F8E8M0]),
        ("f4", &[F4E2M1]),
        ("i4 u4", &[I4, U4]),
        ("i2 u2", &[I2, U2]),
    ]
};

/// The coverage of an operator by one of the two.
#[derive(Default)]
struct Coverage {
    versions: Vec<(i32, i32)>,
    types: Vec<DType>,
}

impl Coverage {
    fn add(&mut self, versions: (i32, i32), types: impl Iterator<Item = DType>) {
        self.versions.push(versions);
        self.types.extend(types);
    }

    /// Whether at least one of these types is supported.
    fn takes(&self, types: &[DType]) -> bool {
        types.iter().any(|dtype| self.types.contains(dtype))
    }

    fn versions(&self) -> String {
        let print = |&(first, last): &(i32, i32)| {
            if first == last { first.to_string() } else { format!("{first}–{last}") }
        };
        self.versions.iter().map(print).collect::<Vec<_>>().join(", ")
    }
}

/// Ours and ONNX Runtime's, by domain and operator.
type Rows<'a> = BTreeMap<(&'a str, &'a str), [Coverage; 2]>;

/// One row per operator: our versions and those of ONNX Runtime, and the element types of each.
pub(crate) fn table(_repository: &Repository) -> String {
    let defs = ort_ops::registry().defs();
    let rows = rows(&defs, ONNXRUNTIME);
    let n = |which: usize| rows.values().filter(|row| !row[which].versions.is_empty()).count();
    let mut table = format!("{} operators here, {} in ONNX Runtime.\n\n", n(0), n(1));
    let headings: Vec<_> = COLUMNS.iter().map(|&(heading, _)| heading).collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        table,
        "| domain | operator | versions | in ONNX Runtime | {} |\n|---|---|---|---|{}",
        headings.join(" | "),
        ":-:|".repeat(headings.len())
    );
    for ((domain, name), row) in &rows {
        let [ours, theirs] = row;
        let marks: Vec<_> = COLUMNS.iter().map(|(_, types)| mark(row, types)).collect();
        let (ours, theirs, marks) = (ours.versions(), theirs.versions(), marks.join(" | "));
        let _ = writeln!(table, "| {domain} | {name} | {ours} | {theirs} | {marks} |");
    }
    table
}

/// One row per domain: how many operators there are, and how many support each type, here and in ONNX Runtime.
pub(crate) fn coverage(_repository: &Repository) -> String {
    let defs = ort_ops::registry().defs();
    let rows = rows(&defs, ONNXRUNTIME);
    let headings: Vec<_> = COLUMNS.iter().map(|&(heading, _)| heading).collect();
    let mut table = format!("| domain | operators | {} |\n", headings.join(" | "));
    let _ = writeln!(table, "|---|---|{}", ":-:|".repeat(headings.len()));
    let mut domains: Vec<_> = rows.keys().map(|&(domain, _)| domain).collect();
    domains.dedup();
    for domain in domains {
        let own = || rows.iter().filter(|((of, _), _)| *of == domain).map(|(_, row)| row);
        let both = |holds: &dyn Fn(&Coverage) -> bool| {
            let n = [0, 1].map(|which| own().filter(|row| holds(&row[which])).count());
            if n == [0, 0] { String::new() } else { format!("{} / {}", n[0], n[1]) }
        };
        let operators = both(&|coverage| !coverage.versions.is_empty());
        let cells = COLUMNS.iter().map(|(_, types)| both(&|coverage| coverage.takes(types)));
        let cells: Vec<_> = cells.collect();
        let _ = writeln!(table, "| {domain} | {operators} | {} |", cells.join(" | "));
    }
    table
}

fn rows<'a>(defs: &[OpDef], onnxruntime: &'a str) -> Rows<'a> {
    let mut rows = Rows::new();
    for def in defs {
        let domain = if def.domain.is_empty() { "ai.onnx" } else { def.domain };
        let types = DType::ALL.iter().copied().filter(|&dtype| (def.types)(dtype));
        rows.entry((domain, def.name)).or_default()[0].add(def.versions, types);
    }
    for line in onnxruntime.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let [domain, name, first, last, types @ ..] = words.as_slice() else { continue };
        let versions = (first.parse().unwrap_or_default(), last.parse().unwrap_or_default());
        let types = types.iter().filter_map(|name| name.parse().ok());
        rows.entry((domain, name)).or_default()[1].add(versions, types);
    }
    rows
}

/// Which of the two support at least one of these types.
fn mark(row: &[Coverage; 2], types: &[DType]) -> &'static str {
    match (row[0].takes(types), row[1].takes(types)) {
        (true, true) => "●",
        (true, false) => "+",
        (false, true) => "−",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_operator_is_a_row() {
        let table = table(&Repository::of(&[]));
        assert!(table.contains("| ai.onnx | Transpose | 1–25 | 1–25 | ● |"));
    }

    #[test]
    fn coverage_counts_each_domain() {
        let table = coverage(&Repository::of(&[]));
        assert!(table.contains("| com.microsoft.nchwc | 8 / 8 | 8 / 8 |"), "{table}");
    }

    #[test]
    fn an_operator_of_either_is_a_row_and_types_are_marked() {
        let rows = rows(&[], "# who made this\nai.onnx Relu 6 14 float int8\n");
        let [(name, row)] = rows.iter().collect::<Vec<_>>()[..] else { panic!("one row") };
        assert_eq!((*name, row[1].versions()), (("ai.onnx", "Relu"), "6–14".to_owned()));
        assert_eq!([DType::F32, DType::F64].map(|dtype| mark(row, &[dtype])), ["−", ""]);
    }
}
