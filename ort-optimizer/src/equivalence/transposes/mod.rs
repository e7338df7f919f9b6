//! Graphs whose Transposes move, and whose images become NHWC: results stay equal bit by bit, and no more bytes are
//! moved than before.

mod chain;
mod images;

use ort_graph::{Attr, Graph, NodeId};
use ort_ops::registry;
use proptest::prelude::*;

use self::chain::chain;
use super::{only, parse};
use crate::interpreter::run;
use crate::testing::inputs;
use crate::{Options, Reference, Report, optimize};

/// The bytes that Transposes move when a graph runs: those of constants are computed before, and those that only move
/// dimensions of 1 move nothing.
fn moved_bytes(graph: &Graph) -> usize {
    let moved = |id: NodeId| {
        let node = graph.node(id);
        let (from, to) = (node.inputs[0].unwrap(), node.outputs[0].unwrap());
        let Some(Attr::Ints(perm)) = node.attrs.get("perm") else { panic!("no permutation") };
        let shape = graph.fact(to).shape().unwrap();
        let is_alias = perm.iter().zip(&shape).filter(|(_, n)| **n != 1).is_sorted();
        let n_bytes = graph.fact(to).dtype().unwrap().n_bytes(shape.iter().product()).unwrap();
        if graph.constant(from).is_some() || is_alias { 0 } else { n_bytes }
    };
    graph.node_ids().filter(|&id| graph.node(id).op_type == "Transpose").map(moved).sum()
}

/// The graph after these passes and the folding of constants; they must terminate.
fn optimized(text: &str, passes: &[&str]) -> (Graph, Report) {
    let always = ["ConstantFolding", "DeadCodeElimination"];
    let options = only(|name, _| always.contains(&name) || passes.contains(&name));
    let options = Options { stop_after: Some(1000), ..options };
    let (after, report) = optimize(parse(text), &registry(), &options, &Reference).unwrap();
    after.verify().unwrap();
    assert!(report.applied() < 1000, "no end\n{text}\n{after}");
    (after, report)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn transposes_that_move_change_nothing_and_move_less(
        (text, sizes) in chain(), seed in any::<u64>()
    ) {
        let (before, (after, report)) = (parse(&text), optimized(&text, &["TransposeOptimizer"]));
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(name, n)| (&**name, *n)).collect();
        let inputs = inputs(&before, seed, &sizes);
        let (expected, found) = (run(&before, &inputs), run(&after, &inputs));
        prop_assert_eq!(expected, found, "{}\n{}\n{:?}", text, after, report);
        if sizes.is_empty() {
            prop_assert!(moved_bytes(&after) <= moved_bytes(&before), "{}\n{}", text, after);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nhwc_images_contain_the_same_values(
        text in images::network(), seed in any::<u64>()
    ) {
        let before = parse(&text);
        let (after, report) = optimized(&text, &["NhwcTransformer", "TransposeOptimizer"]);
        let inputs = inputs(&before, seed, &[]);
        let (expected, found) = (run(&before, &inputs), run(&after, &inputs));
        prop_assert_eq!(expected, found, "{}\n{}\n{:?}", text, after, report);
    }
}

/// A long chain that is one region, and many readers of one value: quadratic work would be noticed.
#[test]
fn thousands_of_transposes_are_optimized() {
    let mut text = String::from("graph(x: float[3,3]) -> (y1999) {\ny0 = Transpose-13 (x)\n");
    for i in 1..2000 {
        let j = i - 1;
        text += &match i % 20 {
            0 => format!("y{i} = Transpose-13 (y{j})\n"),
            1 => format!("a{i} = Transpose-13 (x) y{i} = Softmax-13 [axis: 0] (y{j})\n"),
            2 => format!("a{i} = Transpose-13 (x) y{i} = Add-14 (y{j}, a{i})\n"),
            _ => format!("y{i} = Relu-14 (y{j})\n"),
        };
    }
    let (graph, _) = optimized(&(text + "}"), &["TransposeOptimizer"]);
    assert!(graph.n_nodes() <= 2000, "{}", graph.n_nodes());
}
