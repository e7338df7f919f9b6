//! The report as text.

use super::values::{Compared, Comparison, Source};
use super::{Report, Side};
use crate::commands::headline;
use crate::number::{self, count, plural, significant};
use crate::table::{Flush, Table};

/// The report; with `nodes`, every value that was compared.
pub(super) fn of(report: &Report<'_>, nodes: bool) -> String {
    let [a, b] = &report.sides;
    let headline = |side: &Side<'_>| headline(side.path, &side.session, &side.options);
    let mut text = format!("A  {}\nB  {}\n\n{}", headline(a), headline(b), outputs(report));
    if nodes {
        text += &format!("\n\n{}", values(&report.values.compared));
    }
    text += &format!("\n\n  {}\n\n{}", first_difference(report), times(&report.sides));
    text
}

/// The columns that show how far two values differ.
const COLUMNS: [(&str, Flush); 4] = [
    ("elements", Flush::Right),
    ("differ", Flush::Right),
    ("max abs", Flush::Right),
    ("max rel", Flush::Right),
];

fn cells(comparison: &Comparison) -> [String; 4] {
    match comparison {
        Comparison::Tensors(it) => {
            let numbers = [it.max_abs, it.max_rel].map(significant);
            let [max_abs, max_rel] = numbers;
            [count(it.n_elements), count(it.n_beyond), max_abs, max_rel]
        }
        _ => ["", "", "", ""].map(str::to_owned),
    }
}

/// What the columns do not show.
fn remark(comparison: &Comparison) -> String {
    match comparison {
        Comparison::Tensors(it) => it.first.as_ref().map_or_else(String::new, |first| {
            format!("first at {:?}: {} in A, {} in B", first.index, first.expected, first.found)
        }),
        Comparison::Same => String::new(),
        Comparison::Other(difference) => difference.clone(),
    }
}

fn outputs(report: &Report<'_>) -> String {
    let [elements, differ, max_abs, max_rel] = COLUMNS;
    let name = ("output", Flush::Left);
    let mut table = Table::new([name, elements, differ, max_abs, max_rel, ("", Flush::Left)]);
    for (name, comparison) in &report.outputs {
        let [elements, differ, max_abs, max_rel] = cells(comparison);
        let remark = remark(comparison);
        table.row([name.clone(), elements, differ, max_abs, max_rel, remark]);
    }
    table.to_string()
}

fn values(compared: &[Compared]) -> String {
    let [elements, differ, max_abs, max_rel] = COLUMNS;
    let left = |name| (name, Flush::Left);
    let (value, node, op) = (left("value"), left("node"), left("operator"));
    let mut table = Table::new([value, node, op, elements, differ, max_abs, max_rel, left("")]);
    for Compared { name, sources, comparison } in compared {
        let [elements, differ, max_abs, max_rel] = cells(comparison);
        let Source { node, op_type } = sources[0].clone();
        let remark = remark(comparison);
        table.row([name.clone(), node, op_type, elements, differ, max_abs, max_rel, remark]);
    }
    table.to_string()
}

fn first_difference(report: &Report<'_>) -> String {
    let values = &report.values;
    let [n_a, n_b] = values.counts;
    let n = values.compared.len();
    let compared =
        format!("{} compared, of {} in A and {} in B", plural(n, "value"), count(n_a), count(n_b));
    let Some(Compared { name, sources: [a, b], comparison }) = values.first_difference() else {
        return format!("{compared}: no difference");
    };
    let node = |source: &Source| format!("node `{}` ({})", source.node, source.op_type);
    let of_b = if a == b { String::new() } else { format!(", in B {}", node(b)) };
    let how = match comparison {
        Comparison::Tensors(it) => format!(
            "{} of {} elements, by at most {}; {}",
            count(it.n_beyond),
            count(it.n_elements),
            significant(it.max_beyond),
            remark(comparison)
        ),
        _ => remark(comparison),
    };
    format!("{compared}\n  first difference: `{name}` of {}{of_b}:\n  {how}", node(a))
}

fn times(sides: &[Side<'_>; 2]) -> String {
    let right = ["load", "first", "p10", "p50", "p90", "runs"].map(|name| (name, Flush::Right));
    let [load, first, p10, p50, p90, runs] = right;
    let mut table = Table::new([("", Flush::Left), load, first, p10, p50, p90, runs]);
    for (side, name) in sides.iter().zip(["A", "B"]) {
        let times = side.percentiles();
        table.row([
            name.to_owned(),
            number::time(side.session.metadata().load_time),
            number::time(side.first),
            number::time(times.at(10.0)),
            number::time(times.at(50.0)),
            number::time(times.at(90.0)),
            count(times.len()),
        ]);
    }
    table.to_string()
}
