//! A graph converted to NCHWc with blocks of 8 or 16 is lowered to an equivalent one.

use std::fmt::Write as _;

use crate::{Level, Options, Reference, optimize};
use ort_graph::Graph;
use ort_ops::registry;
use ort_tensor::Tensor;

use super::blocker::block;
use super::parse;
use crate::interpreter::run;

/// Small whole numbers: all sums of their products are exact.
struct Whole(u64);

impl Whole {
    fn next(&mut self) -> i32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i32::try_from(self.0 >> 61).unwrap() - 3
    }

    fn list(&mut self, n: usize) -> String {
        let mut text = String::new();
        (0..n).for_each(|_| write!(text, "{}, ", self.next()).unwrap());
        text.trim_end_matches(", ").to_owned()
    }
}

/// The text with constants before its first node, one for each name and shape.
fn with_weights(head: &str, weights: &[(&str, &[usize])], body: &str) -> String {
    let mut whole = Whole(3);
    let mut text = format!("{head} {{\n");
    for (name, shape) in weights {
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let list = whole.list(shape.iter().product());
        writeln!(text, "{name} = const float[{}] [{list}]", dims.join(",")).unwrap();
    }
    text + body + "\n}"
}

/// The operators of a graph, and the shapes of their constants that are not empty (some versions need an empty one
/// for an absent input).
fn inventory(graph: &Graph) -> Vec<String> {
    let describe = |id| {
        let node = graph.node(id);
        let constants = node.inputs.iter().flatten().filter_map(|&id| graph.constant(id));
        let constants = constants.filter(|tensor| !tensor.is_empty());
        let shapes: Vec<_> = constants.map(Tensor::shape).collect();
        format!("{} {shapes:?}", node.op_type)
    };
    let mut inventory: Vec<String> = graph.node_ids().map(describe).collect();
    inventory.sort();
    inventory
}

/// Checks that `text` in NCHWc is the same function, evaluated directly and lowered, and that lowering adds no cost.
fn assert_lowered(text: &str, stated: Option<usize>) {
    let plain = parse(text);
    let mut whole = Whole(11);
    let inputs: Vec<(String, Tensor)> = plain
        .inputs()
        .iter()
        .map(|&id| {
            let info = plain.value(id);
            let shape = info.fact.shape().unwrap();
            let data: Vec<f32> = (0..shape.iter().product()).map(|_| whole.next() as f32).collect();
            (info.name.clone(), Tensor::from_slice(&shape, &data).unwrap())
        })
        .collect();
    let expected = run(&plain, &inputs);
    for size in [8, 16] {
        assert_eq!(run(&block(&plain, size, true), &inputs), expected, "in blocks of {size}");
        let graph = block(&plain, size, false);
        assert!(graph.to_string().contains("com.microsoft.nchwc"), "{graph}");
        let nchwc_block_size = stated.map(|_| size);
        let options = Options { level: Level::Disable, nchwc_block_size, ..Options::default() };
        let lowered = optimize(graph, &registry(), &options, &Reference);
        let (lowered, report) = lowered.unwrap_or_else(|error| panic!("{size}: {error}"));
        lowered.verify().unwrap();
        assert_eq!(report.passes[0].name, "NchwcLowering");
        assert_eq!(run(&lowered, &inputs), expected, "out of blocks of {size}\n{lowered}");
        assert_eq!(inventory(&lowered), inventory(&plain), "{size}\n{lowered}");
    }
}

#[test]
fn convolutions_of_every_form_lose_their_padding() {
    let weights: [(&str, &[usize]); 8] = [
        ("w1", &[12, 3, 3, 3]),
        ("b1", &[12]),
        ("w2", &[12, 1, 3, 3]),
        ("w3", &[36, 12, 1, 1]),
        ("w4", &[24, 36, 3, 3]),
        ("b4", &[24]),
        ("w5", &[24, 36, 1, 1]),
        ("w6", &[5, 24, 2, 2]),
    ];
    let body = "
        a = Conv-11 [pads: [1, 1, 1, 1], strides: [2, 2]] (x, w1, b1)
        b = Conv-11 [group: 12, pads: [1, 1, 1, 1]] (a, w2)
        c = Relu-14 (b)
        d = Conv-11 (c, w3)
        e = Conv-11 [pads: [1, 1, 1, 1]] (d, w4, b4)
        f = Conv-11 (d, w5)
        g = Add-14 (e, f)
        y = Conv-11 (g, w6)
        z = Transpose-13 [perm: [0, 2, 3, 1]] (c)";
    assert_lowered(&with_weights("graph(x: float[2,3,7,6]) -> (y, z)", &weights, body), None);
}

#[test]
fn pools_groups_and_joins_of_whole_blocks_come_out() {
    let weights: [(&str, &[usize]); 4] = [
        ("w1", &[32, 5, 3, 2]),
        ("w2", &[32, 16, 1, 1]),
        ("w3", &[32, 32, 1, 1]),
        ("w4", &[20, 64, 1, 1]),
    ];
    let body = r#"
        scales = const float[4] [1, 1, 2, 2]
        a = Conv-11 (x, w1)
        b = MaxPool-12 [kernel_shape: [2, 2], pads: [0, 1, 1, 0]] (a)
        c = Conv-11 [group: 2] (b, w2)
        d = GlobalMaxPool-1 (c)
        e = Conv-11 (d, w3)
        f = Add-14 (c, e)
        g = Concat-13 [axis: 1] (b, f)
        h = Resize-13 [coordinate_transformation_mode: "asymmetric", mode: "nearest",
          nearest_mode: "floor"] (g, _, scales)
        y = Conv-11 (h, w4)"#;
    assert_lowered(&with_weights("graph(x: float[1,5,6,5]) -> (y)", &weights, body), None);
}

#[test]
fn inputs_of_any_number_of_channels_and_values_with_other_readers_come_out() {
    let weights: [(&str, &[usize]); 3] =
        [("w1", &[10, 20, 1, 1]), ("w2", &[7, 10, 1, 1]), ("w3", &[16, 20, 1, 1])];
    let body = "
        a = Conv-11 (x, w1)
        b = Conv-11 (x, w3)
        c = AveragePool-19 [kernel_shape: [2, 1]] (b)
        y = Conv-11 (a, w2)
        z = Softmax-13 [axis: 1] (a)
        n = If-16 [
          then_branch: graph() -> (p) { p = Neg-13 (c) },
          else_branch: graph() -> (q) { q = Relu-14 (a) }
        ] (yes)";
    let body = format!("yes = const bool[] true {body}");
    let head = "graph(x: float[1,20,3,2]) -> (y, z, a, n)";
    assert_lowered(&with_weights(head, &weights, &body), None);
}

#[test]
fn a_file_without_evidence_is_lowered_with_the_stated_block_size() {
    let weights: [(&str, &[usize]); 2] = [("w1", &[32, 3, 1, 1]), ("w2", &[16, 32, 1, 1])];
    let body = "a = Conv-11 (x, w1) y = Conv-11 (a, w2)";
    let text = with_weights("graph(x: float[1,3,3,2]) -> (y)", &weights, body);
    assert_lowered(&text, Some(8));
    for (own, expected) in [(Some(8), 8), (Some(16), 16), (Some(32), 16), (None, 16)] {
        let graph = block(&parse(&text), 8, false);
        let options = Options { layout_block: own, ..Options::default() };
        let (_, report) = optimize(graph, &registry(), &options, &Reference).unwrap();
        let assumed = report.assumed_block_size.unwrap();
        assert_eq!(assumed.block_size, expected, "{own:?}");
        let text = assumed.to_string();
        assert!(text.contains(&format!("is assumed to be {expected}: the file does not state it")));
        assert!(text.contains("between 8 and 16 (`Conv`, `Conv`; "), "{text}");
    }
    let stated = Options { nchwc_block_size: Some(8), ..Options::default() };
    let graph = block(&parse(&text), 8, false);
    let (_, report) = optimize(graph, &registry(), &stated, &Reference).unwrap();
    assert_eq!(report.assumed_block_size, None);
}

#[test]
fn a_reshape_of_nchwc_values_reads_the_memory_order() {
    let text = |reshapes: &str| {
        let body = "
            a = com.microsoft.nchwc:ReorderInput-1 (x)
            flat = const int64[2] [0, -1]
            RESHAPES";
        let weights: [(&str, &[usize]); 0] = [];
        with_weights(
            "graph(x: float[2,32,3,5]) -> (y)",
            &weights,
            &body.replace("RESHAPES", reshapes),
        )
    };
    let whole = text("y = Reshape-14 (a, flat)");
    let of_five_axes = text(
        "split = const int64[5] [0, -1, 0, 0, BLOCK]
         b = Reshape-14 (a, split)
         y = Reshape-14 (b, flat)",
    );
    let elements: Vec<f32> = (0_u16..960).map(f32::from).collect();
    let inputs = [("x".to_owned(), Tensor::from_slice(&[2, 32, 3, 5], &elements).unwrap())];
    for (text, size) in [(&whole, 8), (&whole, 16), (&of_five_axes, 8), (&of_five_axes, 16)] {
        let graph = parse(&text.replace("BLOCK", &size.to_string()));
        let expected = to_nchwc(&elements, size);
        let (level, nchwc_block_size) = (Level::Disable, Some(size));
        let options = Options { level, nchwc_block_size, ..Options::default() };
        let (lowered, report) = optimize(graph, &registry(), &options, &Reference).unwrap();
        lowered.verify().unwrap();
        assert!(!lowered.to_string().contains("nchwc") && report.assumed_block_size.is_none());
        let y = run(&lowered, &inputs);
        assert_eq!(y[0].as_slice::<f32>().unwrap(), expected, "{size}\n{lowered}");
    }
    let (_, report) =
        optimize(parse(&whole), &registry(), &Options::default(), &Reference).unwrap();
    assert_eq!(report.assumed_block_size.unwrap().nodes, ["Reshape"]);
}

/// Two images of 32 channels of 15 elements, in NCHWc.
fn to_nchwc(elements: &[f32], size: usize) -> Vec<f32> {
    let mut blocks = Vec::new();
    for block in elements.chunks_exact(size * 15) {
        for pixel in 0..15 {
            blocks.extend(block.iter().skip(pixel).step_by(15));
        }
    }
    blocks
}
