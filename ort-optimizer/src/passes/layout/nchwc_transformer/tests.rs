//! The pass on small networks.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use ort_graph::{Graph, IdSet, NodeId};
use ort_ops::registry;
use ort_testing::Rng;
use proptest::prelude::*;

use super::build::build;
use super::plan::choose;
use super::survey::{Kind, Survey};
use crate::equivalence::networks::{SIZES, network};
use crate::eval::Reference;
use crate::interpreter::run;
use crate::optimize;
use crate::options::{Exactness, Level, Options};
use crate::testing::{assert_optimized_with, inputs, is_same, parse};

/// Checks the result of the pass alone, with blocks of 8.
fn assert_blocked(level: Level, before: &str, expected: &Expect) {
    let options = Options { level, layout_block: Some(8), ..Options::default() };
    assert_optimized_with(&options, super::PASS, before, expected);
}

#[test]
fn a_residual_block_stays_in_nchwc() {
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

/// A network with some of the possible nodes in NCHWc, whatever the cost; and their kinds.
fn with_some_in_nchwc(graph: &Graph, options: &Options, seed: u64) -> Option<(Graph, Vec<Kind>)> {
    let survey = Survey::of(graph, options)?;
    let mut rng = Rng::new(seed);
    let one_in = rng.below(4);
    let mut is_chosen = || one_in == 0 || rng.below(one_in + 1) > 0;
    let candidates = survey.order.iter().filter(|id| survey.kinds.contains_key(id));
    let mut chosen: IdSet<NodeId> = candidates.filter(|_| is_chosen()).copied().collect();
    loop {
        match build(&survey, &chosen) {
            Ok(patch) => {
                let mut graph = graph.clone();
                patch.commit(&mut graph, &registry()).unwrap();
                let kinds = chosen.iter().map(|id| survey.kinds[id].clone()).collect();
                return Some((graph.compact().unwrap(), kinds));
            }
            Err(unable) => unable.iter().for_each(|(id, _)| assert!(chosen.remove(id))),
        }
    }
}

proptest! {
    /// To NCHWc and back.
    #[test]
    fn any_choice_computes_the_same(
        n_layers in 1_usize..12, seed in any::<u64>(), is_free in any::<bool>(),
        block in prop::sample::select(vec![4_usize, 8, 16])
    ) {
        let level = if is_free { Level::All } else { Level::Layout };
        let options = Options { level, layout_block: Some(block), ..Options::default() };
        let before = parse(&network("float", n_layers, seed));
        let inputs = inputs(&before, seed, SIZES);
        let expected = run(&before, &inputs);
        let Some((after, _)) = with_some_in_nchwc(&before, &options, seed) else { return Ok(()) };
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

/// Without nodes of some kind, the comparison above would not test it.
#[test]
fn networks_have_every_kind() {
    let options = Options { layout_block: Some(4), ..Options::default() };
    let mut n_found = BTreeMap::new();
    for seed in 0..400 {
        let graph = parse(&network("float", 8, seed));
        let found = with_some_in_nchwc(&graph, &options, seed);
        for kind in found.into_iter().flat_map(|(_, kinds)| kinds) {
            let name = format!("{kind:?}");
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
            *n_found.entry(name).or_insert(0) += 1;
        }
    }
    let kinds: Vec<&str> = n_found.keys().map(String::as_str).collect();
    let expected = [
        "Affine",
        "Concat",
        "Conv",
        "Elementwise",
        "FromLast",
        "GlobalPool",
        "Pool",
        "Shape",
        "Slice",
        "Split",
        "ToLast",
        "Upsample",
    ];
    assert_eq!(kinds, expected, "{n_found:?}");
}

#[test]
fn squeeze_and_excite_is_in_nchwc_and_padding_stays_between_channels() {
    assert_blocked(
        Level::Layout,
        r#"graph(x: float[1,8,h,w]) -> (y) {
           w1 = const float[12,8,3,3] fill 0.1
           w2 = const float[4,12,1,1] fill 0.1
           w3 = const float[12,4,1,1] fill 0.1
           w4 = const float[8,24,3,3] fill 0.1
           scales = const float[4] [1, 1, 2, 2]
           a = Conv-11 [pads: [1, 1, 1, 1]] (x, w1)
           b = GlobalAveragePool-1 (a)
           c = Conv-11 (b, w2)
           d = Conv-11 (c, w3)
           e = HardSigmoid-6 (d)
           f = Mul-14 (a, e)
           g = AveragePool-19 [kernel_shape: [2, 2], strides: [2, 2]] (f)
           i = Resize-13 [coordinate_transformation_mode: "asymmetric", mode: "nearest",
             nearest_mode: "floor"] (g, _, scales)
           j = Concat-13 [axis: 1] (i, i)
           k = Conv-11 [pads: [1, 1, 1, 1]] (j, w4)
           y = Transpose-13 [perm: [0, 2, 3, 1]] (k)
         }"#,
        &expect![[r#"
            graph(x: float[1,8,h,w]) -> (y) {
              w1_2 = const float[16,8,3,3] #bbce45b7f7a65c65
              w2_2 = const float[8,16,1,1] #95525e250414b645
              w3_2 = const float[16,8,1,1] #ab0385aab10a6645
              split = const int64[5] [0, -1, 0, 0, 8]
              merged = const int64[4] [0, -1, 0, 0]
              w4_2 = const float[8,32,3,3] #da8a42e0b70aeda5
              x_2 = com.microsoft.nchwc:ReorderInput-1 [block_size: 8] (x)
              a_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (x_2, w1_2)
              b_2 = com.microsoft.nchwc:GlobalAveragePool-1 [block_size: 8] (a_2)
              c_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1] (b_2, w2_2)
              d_2 = com.microsoft.nchwc:Conv-1 [activation: "HardSigmoid", activation_params: [0.2, 0.5], block_size: 8, group: 1] (c_2, w3_2)
              a_3 = Reshape-5 (a_2, split)
              e_2 = Reshape-5 (d_2, split)
              f_2 = Mul-14 (a_3, e_2)
              f_3 = Reshape-5 (f_2, merged)
              g_2 = com.microsoft.nchwc:AveragePool-1 [block_size: 8, kernel_shape: [2, 2], strides: [2, 2]] (f_3)
              i_2 = com.microsoft.nchwc:Upsample-1 [block_size: 8, coordinate_transformation_mode: "asymmetric", mode: "nearest", scales: [1, 1, 2, 2]] (g_2)
              j_2 = Concat-13 [axis: 1] (i_2, i_2)
              k_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (j_2, w4_2)
              y = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 8, channels_last: 1] (k_2)
            }"#]],
    );
}

#[test]
fn our_own_forms_need_level_all() {
    let text = "graph(x: float[n,15,h,w]) -> (y) {
           w1 = const float[40,15,3,3] fill 0.01
           w2 = const float[40,40,3,3] fill 0.01
           a = Conv-11 [pads: [1, 1, 1, 1]] (x, w1)
           b = HardSwish-14 (a)
           c = Conv-11 [pads: [1, 1, 1, 1]] (b, w2)
           y = Relu-14 (c)
         }";
    assert_blocked(
        Level::Layout,
        text,
        &expect![[r#"
            graph(x: float[n,15,h,w]) -> (y) {
              w1 = const float[40,15,3,3] fill 0.01
              w2_2 = const float[40,40,3,3] fill 0.01
              a = Conv-11 [pads: [1, 1, 1, 1]] (x, w1)
              b = HardSwish-14 (a)
              b_2 = com.microsoft.nchwc:ReorderInput-1 [block_size: 8] (b)
              c_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1]] (b_2, w2_2)
              y = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 40] (c_2)
            }
            1 refused: reordering would take longer than it gains"#]],
    );
    assert_blocked(
        Level::All,
        text,
        &expect![[r#"
            graph(x: float[n,15,h,w]) -> (y) {
              w1_2 = const float[40,16,3,3] #5cc17127852adf45
              w2_2 = const float[40,40,3,3] fill 0.01
              x_2 = com.microsoft.nchwc:ReorderInput-1 [block_size: 8] (x)
              a_2 = com.microsoft.nchwc:Conv-1 [activation: "HardSwish", block_size: 8, group: 1, pads: [1, 1, 1, 1]] (x_2, w1_2)
              c_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1]] (a_2, w2_2)
              y = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 40] (c_2)
            }"#]],
    );
}

#[test]
fn values_with_other_readers_are_reordered_once() {
    assert_blocked(
        Level::Layout,
        "graph(x: float[1,16,h,w], c: bool[], k = float[16,16,1,1] fill 0.5) -> (a, z, s, y) {
           w = const float[16,16,3,3] fill 0.1
           slope = const float[16,1,1] fill 0.5
           a = Conv-11 [pads: [1, 1, 1, 1]] (x, w)
           b = Conv-11 [pads: [1, 1, 1, 1]] (x, w)
           d = PRelu-16 (b, slope)
           e = Conv-11 (d, k)
           z = If-16 [
             then_branch: graph() -> (p) { p = Neg-13 (a) },
             else_branch: graph() -> (q) {
               w2 = const float[64,16,3,3] fill 0.02
               w3 = const float[16,64,3,3] fill 0.02
               r = Conv-11 [pads: [1, 1, 1, 1]] (d, w2)
               q = Conv-11 [pads: [1, 1, 1, 1]] (r, w3)
             }
           ] (c)
           s = Shape-15 (b)
           y = Add-14 (e, d)
         }",
        &expect![[r#"
            graph(x: float[1,16,h,w], c: bool[], k = float[16,16,1,1] fill 0.5) -> (a, z, s, y) {
              slope = const float[16,1,1] fill 0.5
              w_2 = const float[16,16,3,3] fill 0.1
              x_2 = com.microsoft.nchwc:ReorderInput-1 [block_size: 8] (x)
              a_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (x_2, w_2)
              b_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (x_2, w_2)
              a = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 16] (a_2)
              b = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 16] (b_2)
              d = PRelu-16 (b, slope)
              e = Conv-11 (d, k)
              z = If-16 [else_branch: graph() -> (q) {
                w2_2 = const float[64,16,3,3] fill 0.02
                w3_2 = const float[16,64,3,3] fill 0.02
                d_2 = com.microsoft.nchwc:ReorderInput-1 [block_size: 8] (d)
                r_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (d_2, w2_2)
                q_2 = com.microsoft.nchwc:Conv-1 [block_size: 8, group: 1, pads: [1, 1, 1, 1]] (r_2, w3_2)
                q = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 16] (q_2)
              }, then_branch: graph() -> (p) {
                p = Neg-13 (a)
              }] (c)
              s = Shape-15 (b)
              y = Add-14 (e, d)
            }
            1 refused: its filters are not constant"#]],
    );
}

#[test]
fn slower_or_unsupported_nodes_stay_in_nchw() {
    assert_blocked(
        Level::Layout,
        "graph(x: float[1,16,h,w], s: float[1,16,8], k: float[16,16,1,1]) -> (a, b, c, d, e, f) {
           w1 = const float[16,16,1,1] fill 0.1
           w2 = const float[8,16,3] fill 0.1
           w3 = const float[12,8,3,3] fill 0.1
           w4 = const float[1,16,3,3] fill 0.1
           a = Conv-11 (x, w1)
           b = Conv-11 (s, w2)
           c = Conv-11 (x, k)
           d = Conv-11 [group: 2, pads: [1, 1, 1, 1]] (x, w3)
           e = Conv-11 [pads: [1, 1, 1, 1]] (x, w4)
           f = Relu-14 (x)
         }",
        &expect![[r#"
            graph(x: float[1,16,h,w], s: float[1,16,8], k: float[16,16,1,1]) -> (a, b, c, d, e, f) {
              w1 = const float[16,16,1,1] fill 0.1
              w2 = const float[8,16,3] fill 0.1
              w3 = const float[12,8,3,3] fill 0.1
              w4 = const float[1,16,3,3] fill 0.1
              a = Conv-11 (x, w1)
              b = Conv-11 (s, w2)
              c = Conv-11 (x, k)
              d = Conv-11 [group: 2, pads: [1, 1, 1, 1]] (x, w3)
              e = Conv-11 [pads: [1, 1, 1, 1]] (x, w4)
              f = Relu-14 (x)
            }
            2 refused: reordering would take longer than it gains
            1 refused: it is not a convolution of images
            1 refused: its filters are not constant
            1 refused: its groups are not whole blocks"#]],
    );
}

#[test]
fn few_channels_are_reordered_only_while_a_cache_holds_the_image() {
    for (side, expected) in [(56, 1), (112, 0)] {
        let text = format!(
            "graph(x: float[1,10,{side},{side}]) -> (y) {{
               w = const float[16,10,3,3] fill 0.1
               y = Conv-11 [pads: [1, 1, 1, 1]] (x, w)
             }}"
        );
        let graph = parse(&text);
        let options = Options { layout_block: Some(8), ..Options::default() };
        let survey = Survey::of(&graph, &options).unwrap();
        assert_eq!(choose(&survey, &IdSet::default()).len(), expected, "{side}");
    }
}
