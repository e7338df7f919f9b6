//! A profile as text tables.

use ort_session::{StepTime, Type};

use super::{FIGURES, Profile, Row, shape};
use crate::number;
use crate::table::{Flush, Table};

impl Profile {
    /// The peak performance, to which the figures are compared.
    pub(crate) fn peak_text(&self) -> String {
        format!(
            "\n  peak {} GFLOP/s · memory {} GB/s · each node at its fastest of {}",
            number::significant(self.peak.gflops.round()),
            number::significant((self.peak.gigabytes * 10.0).round() / 10.0),
            number::plural(self.n_runs, "run"),
        )
    }

    pub(crate) fn operators_text(&self) -> String {
        use Flush::{Left, Right};
        let [a, b, c, d, e, f, g, h] = FIGURES;
        let first = [("operator", Left), ("kernel", Left), ("calls", Right)];
        let [operator, kernel, calls] = first;
        let mut table = Table::new([operator, kernel, calls, a, b, c, d, e, f, g, h]);
        for row in self.operators() {
            let [a, b, c, d, e, f, g, h] = self.figures(&row).map(|cell| cell.text);
            let calls = number::significant(row.work.calls);
            let (operator, kernel) = names(&row);
            table.row([operator, kernel, calls, a, b, c, d, e, f, g, h]);
        }
        let share = number::significant((self.eval_share() * 1000.0).round() / 10.0);
        format!("\n{table}\n\n  share of time in plain eval: {share} %")
    }

    pub(crate) fn nodes_text(&self, max: usize) -> String {
        use Flush::Left;
        let [a, b, c, d, e, f, g, h] = FIGURES;
        let [node, operator, kernel, output, inputs] =
            ["node", "operator", "kernel", "output", "inputs"].map(|name| (name, Left));
        let mut table =
            Table::new([node, operator, kernel, a, b, c, d, e, f, g, h, output, inputs]);
        for row in self.nodes.iter().take(max) {
            let [a, b, c, d, e, f, g, h] = self.figures(row).map(|cell| cell.text);
            let (operator, kernel) = names(row);
            let (node, output, inputs) =
                (node_text(&row.step), row.output_text(), row.inputs_text());
            table.row([node, operator, kernel, a, b, c, d, e, f, g, h, output, inputs]);
        }
        format!("\n{table}")
    }
}

fn names(row: &Row) -> (String, String) {
    (row.step.work.op_type.clone(), row.step.work.variant.to_owned())
}

/// The node's name, shortened, and how many equal nodes ran.
fn node_text(step: &StepTime) -> String {
    const MAX: usize = 40;
    let node = &step.work.node;
    let n_chars = node.chars().count();
    let tail: String = node.chars().skip(n_chars.saturating_sub(MAX)).collect();
    let name = if n_chars > MAX { format!("…{tail}") } else { tail };
    match step.work.n_nodes {
        1 => name,
        n => format!("{name} +{}", n - 1),
    }
}

impl Row {
    /// The shape of the first output.
    pub(crate) fn output_text(&self) -> String {
        self.step.work.outputs.first().map_or_else(String::new, shape_text)
    }

    /// The shapes of the inputs, and the attributes that determine the amount of work.
    pub(crate) fn inputs_text(&self) -> String {
        let work = &self.step.work;
        let inputs: Vec<String> = work.inputs.iter().take(2).map(shape_text).collect();
        let mut text = inputs.join(" · ");
        for (name, values) in &work.attributes {
            let determines_work = match name.as_str() {
                "group" | "dilations" | "strides" => values.iter().any(|&n| n != 1),
                "kernel_shape" => work.inputs.len() == 1,
                _ => false,
            };
            if determines_work {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                text += &format!(" · {name} {}", values.join("x"));
            }
        }
        text
    }
}

/// `1x3x224x224`.
fn shape_text(ty: &Type) -> String {
    match shape(ty).as_deref() {
        None => "?".to_owned(),
        Some([]) => "scalar".to_owned(),
        Some(dims) => dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x"),
    }
}
