//! How passes are tested: the text of a graph before, and after.

use std::fmt::Write as _;

use expect_test::Expect;
use ort_graph::Graph;

use crate::driver::optimize;
use crate::eval::Reference;
use crate::options::{Level, Options};
use crate::pass::Pass;
use crate::report::Report;

/// A graph of a text.
pub(crate) fn parse(text: &str) -> Graph {
    let graph = Graph::parse(text, &ort_ops::registry());
    let graph = graph.unwrap_or_else(|error| panic!("{error}\n{text}"));
    graph.verify().unwrap_or_else(|error| panic!("{error}\n{text}"));
    graph
}

/// Runs one pass to the end, and also up to each of its rewrites: every graph on the way must hold
/// together.
fn run(pass: &Pass, text: &str) -> (Graph, Report) {
    let others = crate::passes().filter(|(name, ..)| *name != pass.name);
    let disabled = others.map(|(name, ..)| name.to_owned()).collect();
    let options = Options { level: Level::All, disabled, ..Options::default() };
    let optimized = |options: &Options| {
        let (graph, report) =
            optimize(parse(text), &ort_ops::registry(), options, &Reference).unwrap();
        graph.verify().unwrap_or_else(|error| panic!("{error}\n{graph}"));
        (graph, report)
    };
    let (graph, report) = optimized(&options);
    for n in 0..report.applied() {
        let stopped = optimized(&Options { stop_after: Some(n), ..options.clone() });
        assert_eq!(stopped.1.applied(), n);
    }
    (graph, report)
}

/// That a pass alone makes of `before` what is expected, and says why it left the rest.
pub(crate) fn assert_optimized(pass: Pass, before: &str, expected: &Expect) {
    let (graph, report) = run(&pass, before);
    let mut printed = graph.to_string();
    for (reason, count) in report.passes.iter().flat_map(|pass| &pass.refused) {
        write!(printed, "\n{count} refused: {reason}").unwrap();
    }
    expected.assert_eq(&printed);
}
