//! What the pass makes of small networks.

use std::collections::HashSet;

use expect_test::{Expect, expect};
use ort_graph::{Graph, NodeId};
use ort_ops::registry;
use ort_testing::Rng;
use proptest::prelude::*;

use super::build::build;
use super::survey::Survey;
use crate::equivalence::networks::{SIZES, network};
use crate::eval::Reference;
use crate::interpreter::run;
use crate::options::{Exactness, Level, Options};
use crate::optimize;
use crate::testing::{assert_optimized_with, inputs, is_same, parse};

/// That of the pass alone, in blocks of 8.
fn assert_blocked(level: Level, before: &str, expected: &Expect) {
    let options = Options { level, layout_block: Some(8), ..Options::default() };
    assert_optimized_with(&options, super::PASS, before, expected);
}

#[test]
fn a_residual_block_stays_in_blocks() {
    assert_blocked(
        Level::Layout,
        "graph(x: float[n,3,h,w]) -> (y) {
           w1 = const float[12,3,3,3] fill 0.1
           b1 = const float[12] fill 0.5
           w2 = const float[12,12,3,3] fill 0.1
           w3 = const float[12,1,3,3] fill 0.1
           a = Conv-11 [pads: [1, 1, 1, 1], strides: [2, 2]] (x, w1, b1)
           b = Relu-14 (a)
           c = Conv-11 [pads: [1, 1, 1, 1]] (b, w2, b1)
           d = Relu-14 (c)
           e = Conv-11 [group: 12, pads: [1, 1, 1, 1]] (d, w3)
           f = Add-14 (e, b)
           g = Relu-14 (f)
           y = MaxPool-12 [kernel_shape: [2, 2], strides: [2, 2]] (g)
         }",
        &expect![[r#"
            graph(x: float[n,3,h,w]) -> (y) {
              w1_2 = const float[16,3,3,3] #f9fe7e57a5fac70d
              b1_2 = const float[16] [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0]
              w2_2 = const float[16,16,3,3] #df4f4d18c9e33685
              w3_2 = const float[16,1,3,3] #bd78d136bfe9507d
              a_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1], strides: [2, 2]] (x, w1_2, b1_2)
              c_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1]] (a_2, w2_2, b1_2)
              e_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 16, pads: [1, 1, 1, 1]] (c_2, w3_2, _, a_2)
              y_2 = com.microsoft.nchwc:MaxPool-1 [block_size: 8, kernel_shape: [2, 2], strides: [2, 2]] (e_2)
              y = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 12] (y_2)
            }"#]],
    );
}

/// A network with some of the nodes on blocks that can be, whatever that costs.
fn with_some_in_blocks(graph: &Graph, options: &Options, seed: u64) -> Option<Graph> {
    let survey = Survey::of(graph, options)?;
    let mut rng = Rng::new(seed);
    let one_in = rng.below(4);
    let mut is_chosen = |id: &&NodeId| survey.kinds.contains_key(id) && (one_in == 0 || rng.below(one_in + 1) > 0);
    let mut chosen: HashSet<NodeId> = survey.order.iter().filter(&mut is_chosen).copied().collect();
    loop {
        match build(&survey, &chosen) {
            Ok(patch) => {
                let mut graph = graph.clone();
                patch.commit(&mut graph, &registry()).unwrap();
                return Some(graph.compact().unwrap());
            }
            Err(unable) => unable.iter().for_each(|(id, _)| assert!(chosen.remove(id))),
        }
    }
}

proptest! {
    /// In blocks, and out of them again.
    #[test]
    fn any_choice_gives_what_the_network_gives(
        n_layers in 1_usize..12, seed in any::<u64>(), is_free in any::<bool>(),
        block in prop::sample::select(vec![4_usize, 8, 16])
    ) {
        let level = if is_free { Level::All } else { Level::Layout };
        let options = Options { level, layout_block: Some(block), ..Options::default() };
        let before = parse(&network("float", n_layers, seed));
        let inputs = inputs(&before, seed, SIZES);
        let expected = run(&before, &inputs);
        let Some(after) = with_some_in_blocks(&before, &options, seed) else { return Ok(()) };
        let assert_same = |after: &Graph| {
            after.verify().unwrap();
            for (expected, found) in expected.iter().zip(run(after, &inputs)) {
                assert!(is_same(expected, &found, Exactness::Rounding), "{before}\n{after}");
            }
        };
        assert_same(&after);
        if block > 4 {
            let options = Options { level: Level::Disable, ..Options::default() };
            let lowered = optimize(after.clone(), &registry(), &options, &Reference);
            let (lowered, _) = lowered.unwrap_or_else(|error| panic!("{error}\n{after}"));
            assert_same(&lowered);
        }
    }
}
