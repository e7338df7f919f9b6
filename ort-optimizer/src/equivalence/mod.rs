//! A rewritten graph computes the same: bit by bit where every pass that ran is bitwise, and up to the sign of zeros
//! where one states that.

mod blocker;
mod blocks;
pub(crate) mod networks;
mod quantized;
mod random;
mod transposes;

use ort_graph::Graph;
use ort_ops::registry;
use ort_tensor::Tensor;
use proptest::prelude::*;

use crate::interpreter::run;
use crate::testing;
use crate::{Exactness, Level, Options, Reference, Report, optimize, passes};

fn parse(text: &str) -> Graph {
    Graph::parse(text, &registry()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The graph and its outputs, before and after.
fn optimized(text: &str, options: &Options) -> (Graph, Report) {
    let (graph, report) = optimize(parse(text), &registry(), options, &Reference).unwrap();
    graph.verify().unwrap_or_else(|error| panic!("{error}\n{graph}"));
    (graph, report)
}

/// Options with the passes that `is_enabled` accepts.
fn only(is_enabled: impl Fn(&str, Exactness) -> bool) -> Options {
    let others = passes().filter(|&(name, _, exactness)| !is_enabled(name, exactness));
    let disabled = others.map(|(name, ..)| name.to_owned()).collect();
    Options { level: Level::All, disabled, ..Options::default() }
}

/// The bits of a float tensor with every zero positive.
fn without_zero_signs(tensor: &Tensor) -> Tensor {
    match tensor.as_slice::<f32>() {
        Ok(floats) => {
            let floats: Vec<f32> = floats.iter().map(|&x| if x == 0.0 { 0.0 } else { x }).collect();
            Tensor::from_slice(tensor.shape(), &floats).unwrap()
        }
        Err(_) => tensor.clone(),
    }
}

proptest! {
    #[test]
    fn bitwise_passes_keep_every_bit(
        text in random::graph(), stop_after in prop::option::of(0_usize..8), seed in any::<u64>()
    ) {
        let graph = parse(&text);
        let inputs = random::inputs(&graph, seed);
        let expected = run(&graph, &inputs);
        let options = Options { stop_after, ..only(|_, exactness| exactness == Exactness::Bitwise) };
        let (after, report) = optimized(&text, &options);
        prop_assert_eq!(run(&after, &inputs), expected, "{}\n{}\n{:?}", text, after, report);
        prop_assert!(report.applied() <= stop_after.unwrap_or(usize::MAX));
    }

    #[test]
    fn neutral_elements_matter_to_zeros_only(text in random::graph(), seed in any::<u64>()) {
        let graph = parse(&text);
        let inputs = random::inputs(&graph, seed);
        let expected: Vec<Tensor> = run(&graph, &inputs).iter().map(without_zero_signs).collect();
        let options =
            only(|name, exactness| exactness == Exactness::Bitwise || name == "NoopElimination");
        let (after, _) = optimized(&text, &options);
        let found: Vec<Tensor> = run(&after, &inputs).iter().map(without_zero_signs).collect();
        prop_assert_eq!(found, expected, "{}\n{}", text, after);
    }

    #[test]
    fn inputs_and_outputs_keep_names_and_order(text in random::graph()) {
        let (before, (after, _)) = (parse(&text), optimized(&text, &Options::default()));
        let names = |graph: &Graph| {
            let all = graph.inputs().iter().chain(graph.outputs());
            all.map(|&id| graph.value(id).name.clone()).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&before), names(&after));
    }
}

/// Every float type of operators.
const FLOATS: [&str; 4] = ["float", "double", "float16", "bfloat16"];

/// Runs a network before and after, and compares the outputs.
fn assert_same(text: &str, options: &Options, exactness: Exactness, seed: u64) {
    let before = parse(text);
    let (after, report) = optimized(text, options);
    let inputs = testing::inputs(&before, seed, networks::SIZES);
    let (expected, found) = (run(&before, &inputs), run(&after, &inputs));
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert!(
            testing::is_same(expected, found, exactness),
            "output {i}: {found:?} is not {expected:?}; last: {:?}\n{text}\n{after}",
            report.last
        );
    }
}

proptest! {
    #[test]
    fn every_level_computes_the_same(
        n_layers in 1_usize..12, dtype in 0_usize..4, seed in any::<u64>(), level in 1_usize..5,
        layout_block in prop::sample::select(vec![None, Some(4), Some(8), Some(16)])
    ) {
        let text = networks::network(FLOATS[dtype], n_layers, seed);
        let opset = seed.is_multiple_of(2).then_some(21);
        let options = Options { level: Level::ALL[level], layout_block, opset, ..Options::default() };
        assert_same(&text, &options, Exactness::Rounding, seed);
    }

    #[test]
    fn bitwise_passes_keep_every_bit_of_a_network(
        n_layers in 1_usize..12, dtype in 0_usize..4, seed in any::<u64>(),
        stop_after in prop::option::of(0_usize..16)
    ) {
        let text = networks::network(FLOATS[dtype], n_layers, seed);
        let options = Options { stop_after, ..only(|_, exactness| exactness == Exactness::Bitwise) };
        assert_same(&text, &options, Exactness::Bitwise, seed);
    }

    #[test]
    fn each_pass_alone_is_as_exact_as_it_says(
        n_layers in 1_usize..8, seed in any::<u64>(), pass in any::<prop::sample::Index>()
    ) {
        let all: Vec<_> = passes().collect();
        let (chosen, _, exactness) = all[pass.index(all.len())];
        let text = networks::network("float", n_layers, seed);
        let options = Options {
            enabled: vec![chosen.to_owned()],
            layout_block: Some(8),
            opset: Some(21),
            ..only(|name, _| name == chosen)
        };
        assert_same(&text, &options, exactness, seed);
    }
}

/// Networks that a pass once changed the bits of.
#[test]
fn bitwise_passes_keep_every_bit_of_found_networks() {
    // A ReduceMean whose axes became others.
    let text = networks::network("double", 11, 7_976_886_743_277_082_867);
    let options = only(|_, exactness| exactness == Exactness::Bitwise);
    assert_same(&text, &options, Exactness::Bitwise, 7_976_886_743_277_082_867);
}

/// Passes that find nothing in random networks, and where they are tested instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("NotWhereFusion", "random::graph"),
    ("EliminateSlice", "random::graph"),
    ("EliminateDropout", "random::graph"),
    ("ExpandElimination", "random::graph"),
    ("CastElimination", "random::graph"),
    ("ConstantFolding", "random::graph"),
    ("HalfGeluFusion", "networks of 16 bits"),
    ("InsertCastTransformer", "networks of 16 bits"),
    ("DeadCodeElimination", "random::graph"),
    ("LoopInvariantState", "random::graph"),
    ("LoopProjection", "its own tests"),
    ("LabelEncoderFusion", "its own tests"),
    ("DoubleQDQPairsRemover", "quantized"),
    ("QDQPropagationTransformer", "quantized"),
    ("ClipQuantFusion", "quantized"),
    ("ReluQuantFusion", "quantized"),
    ("QDQSelectorActionTransformer", "quantized"),
    ("QDQConstantFolding", "quantized"),
    ("MatMulIntegerToFloatFusion", "its own tests"),
    ("DynamicQuantizeMatMulFusion", "its own tests"),
    ("DQMatMulNBitsFusion", "its own tests"),
    ("MatMulNBitsFusion", "its own tests"),
    ("NchwcLowering", "blocks"),
    ("NhwcTransformer", "transposes::images"),
];

/// Without matches for a pass, or with nothing but NaN, the comparisons above would test nothing.
#[test]
fn networks_have_something_for_every_pass() {
    let mut applied = std::collections::BTreeMap::new();
    let (mut n_finite, mut n_elements) = (0, 0);
    for seed in 0..400 {
        let text = networks::network("float", 10, seed);
        let opset = [None, Some(21)][usize::from(seed % 2 == 0)];
        let options = Options { layout_block: Some(8), opset, ..Options::default() };
        let (after, report) = optimized(&text, &options);
        for pass in report.passes {
            *applied.entry(pass.name).or_insert(0) += pass.applied;
        }
        if seed % 20 == 0 {
            for tensor in run(&after, &testing::inputs(&parse(&text), seed, networks::SIZES)) {
                let floats = tensor.as_slice::<f32>().unwrap();
                n_finite += floats.iter().filter(|x| x.is_finite()).count();
                n_elements += floats.len();
            }
        }
    }
    assert!(n_finite * 10 > n_elements * 9, "{n_finite} of {n_elements} are finite");
    let is_elsewhere = |name: &str| ELSEWHERE.iter().any(|(other, _)| *other == name);
    let idle: Vec<&str> = applied
        .iter()
        .filter(|&(name, n)| *n == 0 && !is_elsewhere(name))
        .map(|(n, _)| *n)
        .collect();
    assert_eq!(idle, Vec::<&str>::new());
}

/// Of `½·x·(1 + erf(x/√2))` the quotient perturbs erf by at most 2⁻²⁴·½, erf and the sum (up to 2)
/// round by 2⁻²⁴ and 2·2⁻²⁴, and the two products by 2⁻²⁴ each: less than 2⁻²²·|x| in all.
#[test]
fn a_fused_gelu_differs_by_roundings_only() {
    let text = "graph(x: float[401]) -> (y) {
        root = const float[] 1.4142135
        one = const float[] 1
        half = const float[] 0.5
        a = Div-14 (x, root)
        b = Erf-13 (a)
        c = Add-14 (b, one)
        d = Mul-14 (x, c)
        y = Mul-14 (d, half)
    }";
    let (before, (after, _)) = (parse(text), optimized(text, &Options::default()));
    assert_eq!(after.n_nodes(), 1);
    let xs: Vec<f32> = (-200_i16..=200).map(|i| f32::from(i) / 16.0).collect();
    let inputs = [("x".to_owned(), Tensor::from_slice(&[401], &xs).unwrap())];
    let (expected, found) = (run(&before, &inputs), run(&after, &inputs));
    let pairs =
        expected[0].as_slice::<f32>().unwrap().iter().zip(found[0].as_slice::<f32>().unwrap());
    for (x, (expected, found)) in xs.iter().zip(pairs) {
        let bound = x.abs() * 2.0_f32.powi(-22);
        assert!((expected - found).abs() <= bound, "gelu({x}): {found} is not {expected}");
    }
}

/// Wide and deep: quadratic work would be noticed.
#[test]
fn ten_thousand_nodes_are_optimized() {
    let mut text = String::from("graph(x: float[2,3], c: bool[]) -> (y9999) {\n");
    text +=
        "zero = const float[] 0 one = const float[] 1 k = const int64[2] [2, 3] y0 = Neg-13 (x)\n";
    for i in 1..10_000 {
        let j = i - 1;
        text += &match i % 7 {
            0 => format!("y{i} = Identity-14 (y{j})\n"),
            1 => format!("y{i} = Add-14 (y{j}, zero)\n"),
            2 => format!("a{i} = Add-14 (zero, one) y{i} = Mul-14 (y{j}, a{i})\n"),
            3 => format!("s{i} = Shape-15 (y{j}) y{i} = Expand-13 (y{j}, s{i})\n"),
            4 => format!("y{i} = Relu-14 (y{j}) z{i} = Relu-14 (y{j})\n"),
            5 => format!("a{i} = Neg-13 (x) y{i} = Mul-14 (y{j}, a{i})\n"),
            _ => format!("y{i} = Reshape-14 (y{j}, k)\n"),
        };
    }
    text += "}";
    let (graph, _) = optimized(&text, &Options::default());
    assert!(graph.n_nodes() < 5_000, "{}", graph.n_nodes());
}

#[test]
fn a_disabled_optimizer_leaves_the_graph_alone() {
    let text = "graph(x: float[2]) -> (y) {\n  a = Identity-1 (x)\n  y = Identity-1 (a)\n}";
    let (graph, report) = optimized(text, &Options { level: Level::Disable, ..Options::default() });
    assert_eq!(graph.to_string(), text);
    assert_eq!(report, Report::default());
}

#[test]
fn folded_constants_stay_within_their_bytes() {
    let text = "graph() -> (a, b) {
        x = const float[100] fill 2
        a = Neg-13 (x)
        b = Abs-13 (x)
    }";
    let (graph, report) = optimized(text, &Options { max_folded_bytes: 799, ..Options::default() });
    assert_eq!((graph.n_nodes(), report.applied()), (1, 1));
    let refused: Vec<_> = report.passes.iter().flat_map(|pass| &pass.refused).collect();
    assert_eq!(refused, [&("folded constants would take too many bytes", 1)]);
}
