//! Tests of `conv_transpose`.

use ort_ep::{ExecutionProvider, Io};
use ort_graph::{Attr, Graph};
use ort_kernels::Isa;
use ort_tensor::{AlignedBuf, Inputs, Output, Tensor, Value, ValueView};

use crate::case::{Case, Packs, StdThreads, bound_of_tiles, exact, floats, integers, within};
use crate::{CpuOptions, CpuProvider};

/// Groups, shapes of `x` and `w`, and attributes: pairs of name and one value per axis.
type Sizes<'a> = (i64, &'a [usize], &'a [usize], &'a [(&'a str, &'a [i64])]);

const CASES: [Sizes<'_>; 35] = [
    (1, &[1, 3, 4, 5], &[3, 2, 2, 2], &[("strides", &[2, 2])]),
    (1, &[2, 5, 6, 7], &[5, 20, 3, 3], &[("pads", &[1, 1, 1, 1])]),
    (1, &[1, 4, 5, 6], &[4, 3, 3, 2], &[("strides", &[3, 2]), ("dilations", &[2, 3])]),
    (2, &[1, 4, 7, 3], &[4, 5, 3, 3], &[("output_padding", &[1, 0]), ("strides", &[2, 1])]),
    (1, &[1, 2, 30], &[2, 3, 4], &[("strides", &[2]), ("pads", &[1, 2])]),
    (1, &[1, 2, 3, 4, 5], &[2, 3, 2, 2, 2], &[]),
    (1, &[1, 2, 6, 6], &[2, 1, 3, 3], &[("output_shape", &[12, 11]), ("strides", &[2, 2])]),
    (1, &[1, 2, 3, 3], &[2, 2, 9, 9], &[("pads", &[4, 4, 4, 4])]),
    // Outputs that no tap reaches, and taps without any output.
    (1, &[1, 2, 4, 5], &[2, 3, 2, 2], &[("strides", &[3, 4]), ("output_padding", &[1, 3])]),
    (1, &[1, 2, 3], &[2, 3, 2], &[("strides", &[5]), ("pads", &[3, 4])]),
    (1, &[1, 2, 5, 4], &[2, 1, 1, 3], &[("strides", &[2, 2]), ("pads", &[4, 1, 4, 0])]),
    (1, &[1, 2, 4, 4], &[2, 2, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (1, &[1, 3, 5, 7], &[3, 2, 2, 2], &[("strides", &[2, 2]), ("pads", &[1, 1, 0, 1])]),
    (1, &[1, 2, 3, 4, 3], &[2, 2, 2, 3, 2], &[("strides", &[2, 1, 2])]),
    // Several blocks of channels, and large enough for several threads.
    (1, &[1, 24, 40, 41], &[24, 40, 2, 2], &[("strides", &[2, 2])]),
    (2, &[1, 24, 61, 40], &[24, 1, 2, 2], &[("strides", &[2, 2])]),
    (1, &[1, 64, 3000], &[64, 1, 4], &[("strides", &[2]), ("pads", &[1, 1])]),
    (1, &[2, 32, 20, 21], &[32, 130, 3, 3], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    // A last block of fewer channels than the others, and several strips of positions.
    (1, &[1, 3, 64, 64], &[3, 64, 2, 2], &[("strides", &[2, 2])]),
    (1, &[1, 3, 36, 9], &[3, 64, 3, 3], &[("strides", &[3, 3])]),
    (1, &[1, 3, 8, 51], &[3, 127, 2, 2], &[]),
    // One input channel per group.
    (4, &[2, 4, 5, 6], &[4, 1, 3, 3], &[("strides", &[2, 2]), ("pads", &[1, 1, 0, 1])]),
    (3, &[1, 3, 7, 40], &[3, 2, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (2, &[1, 2, 5, 17], &[2, 1, 3, 2], &[("strides", &[3, 4]), ("output_padding", &[2, 3])]),
    (2, &[1, 2, 33], &[2, 1, 16], &[("strides", &[8]), ("pads", &[4, 4])]),
    (2, &[1, 2, 3, 4, 9], &[2, 1, 3, 2, 3], &[("strides", &[2, 1, 3])]),
    (2, &[1, 2, 6, 9], &[2, 1, 3, 2], &[("strides", &[2, 3]), ("dilations", &[3, 2])]),
    (1, &[1, 1, 6, 9], &[1, 3, 3, 3], &[("pads", &[2, 4, 1, 3])]),
    // Rows in pieces, of which the first begins and the last ends within a position.
    (2, &[1, 2, 1, 70000], &[2, 1, 1, 2], &[]),
    (2, &[1, 2, 9001], &[2, 1, 12], &[("strides", &[2]), ("pads", &[5, 5])]),
    (2, &[1, 2, 3, 4003], &[2, 1, 3, 7], &[("strides", &[2, 3]), ("pads", &[1, 1, 1, 3])]),
    // Pads that are longer than the taps reach.
    (2, &[1, 2, 3, 40], &[2, 1, 3, 3], &[("strides", &[2, 2]), ("pads", &[0, 9, 0, 9])]),
    // There are too many remainders.
    (1, &[1, 1, 1, 2], &[1, 1, 1, 2], &[("strides", &[1, 20000])]),
    // Empty.
    (1, &[0, 2, 3, 3], &[2, 2, 2, 2], &[]),
    (1, &[1, 0, 3, 3], &[0, 2, 2, 2], &[]),
];

/// Checks a convolution with and without a bias, and which kernel it has where there are vectors.
#[track_caller]
fn check(
    (group, x, w, attrs): Sizes<'_>,
    kernel: Option<&str>,
    options: CpuOptions,
    is_close: impl Fn(f64, f64) -> bool,
) {
    let case = Case::new("ConvTranspose", 11).attr("group", Attr::Int(group)).options(options);
    let case = case.input(integers(x)).weight(integers(w));
    let with_ints =
        |case: Case, (name, ints): &(&str, &[i64])| case.attr(name, Attr::Ints(ints.to_vec()));
    let case = attrs.iter().fold(case, with_ints);
    let is_expected = kernel.is_none_or(|name| case.variant().starts_with(name));
    assert!(is_expected || Isa::best() == Isa::Generic, "{x:?} {w:?}: {}", case.variant());
    case.clone().check(&is_close);
    case.weight(integers(&[w[1] * usize::try_from(group).unwrap()])).check(&is_close);
}

#[test]
fn sums_of_small_integers_are_exact() {
    let options = CpuOptions { winograd: false, ..CpuOptions::default() };
    for (group, x, w, attrs) in CASES {
        check((group, x, w, attrs), None, options, exact);
    }
}

/// Those that are computed in blocks of channels, most remainders by Winograd's algorithm.
const BLOCKED: [Sizes<'_>; 14] = [
    (1, &[1, 64, 20, 16], &[64, 64, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    // Several images and groups, parts of both channels and rows, and gaps.
    (2, &[2, 64, 23, 30], &[64, 48, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (
        1,
        &[1, 48, 41, 9],
        &[48, 144, 5, 5],
        &[("strides", &[2, 2]), ("pads", &[2, 2, 2, 2]), ("output_padding", &[1, 1])],
    ),
    (1, &[1, 96, 30, 20], &[96, 48, 4, 3], &[("strides", &[2, 4]), ("pads", &[1, 0, 1, 2])]),
    // Some remainders with one tap.
    (
        1,
        &[1, 64, 20, 20],
        &[64, 64, 3, 3],
        &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1]), ("output_padding", &[1, 1])],
    ),
    (
        1,
        &[1, 64, 20, 20],
        &[64, 160, 3, 3],
        &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1]), ("output_padding", &[1, 1])],
    ),
    // Parts with different numbers of channels, and several chunks of rows.
    (1, &[1, 16, 40, 60], &[16, 144, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    // Remainders that share their inputs, and pads that cut off whole positions.
    (1, &[1, 48, 13, 11], &[48, 48, 8, 8], &[("strides", &[4, 4]), ("pads", &[2, 5, 2, 1])]),
    (1, &[1, 32, 30, 31], &[32, 64, 3, 3], &[("pads", &[1, 1, 1, 1])]),
    // Channels, and rows of channels and remainders, that do not fill blocks.
    (1, &[1, 32, 30, 30], &[32, 3, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (1, &[1, 56, 24, 24], &[56, 1, 9, 9], &[("strides", &[3, 3]), ("pads", &[3, 3, 3, 3])]),
    (2, &[2, 44, 20, 21], &[44, 30, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    // One dimension, and two of which one has one row.
    (1, &[1, 128, 100], &[128, 64, 16], &[("strides", &[8]), ("pads", &[4, 4])]),
    (1, &[2, 64, 1, 333], &[64, 64, 1, 4], &[("strides", &[1, 2]), ("pads", &[0, 1, 0, 1])]),
];

/// Those that are computed in blocks because they have few positions.
const FEW: [Sizes<'_>; 4] = [
    (1, &[1, 100, 1, 1], &[100, 64, 4, 4], &[]),
    (2, &[3, 64, 1, 2], &[64, 20, 3, 3], &[("strides", &[2, 2]), ("pads", &[0, 1, 1, 1])]),
    (1, &[1, 48, 3, 3], &[48, 40, 4, 4], &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (1, &[1, 32, 5], &[32, 24, 2], &[("strides", &[2])]),
];

#[test]
fn few_positions_are_in_blocks() {
    for (group, x, w, attrs) in FEW {
        for winograd in [true, false] {
            let options = CpuOptions { winograd, ..CpuOptions::default() };
            check((group, x, w, attrs), Some("conv_transpose_nchwc/"), options, exact);
        }
    }
}

#[test]
fn sums_in_blocks_are_within_the_bound_of_their_tiles() {
    for sizes @ (_, _, w, _) in BLOCKED {
        let bound = bound_of_tiles(u16::try_from(w[0]).unwrap(), [3, 3]);
        check(sizes, Some("conv_transpose_winograd/"), CpuOptions::default(), within(bound));
    }
}

/// The result of the steps of a graph with one input, and how many nodes each has.
fn run(graph: &Graph, options: CpuOptions, x: &Tensor) -> (Tensor, Vec<usize>) {
    let provider = CpuProvider::new(options).unwrap();
    let (mut x, mut n_nodes) = (x.clone(), Vec::new());
    let mut at = graph.inputs()[0];
    while at != graph.outputs()[0] {
        let roots = graph.topological_order().unwrap().into_iter().rev();
        let claims = roots.map(|root| provider.claim(graph, root).unwrap());
        let claim = claims.into_iter().find(|claim| claim.inputs[0] == Some(at)).unwrap();
        let kernel = Packs::Made.compile(&provider, graph, &claim);
        let constants: Vec<Tensor> = claim.inputs[1..]
            .iter()
            .map(|id| graph.constant(id.unwrap()).unwrap().clone())
            .collect();
        let inputs: Vec<&Tensor> = std::iter::once(&x).chain(&constants).collect();
        let shapes: Vec<&[usize]> = inputs.iter().map(|tensor| tensor.shape()).collect();
        let prepared = kernel.prepare(&shapes).unwrap();
        let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
        let scratch = if prepared.scratch_bytes == 0 { &mut [] } else { scratch.as_mut() };
        let views: Vec<_> =
            inputs.iter().map(|tensor| Some(ValueView::Tensor(tensor.view()))).collect();
        let (inputs, threads) = (Inputs::new(&views), &StdThreads(2));
        let mut outputs = [Output::free()];
        kernel.run(&prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads }).unwrap();
        let [output] = outputs;
        let Some(Value::Tensor(y)) = output.into_value() else { panic!("no output") };
        n_nodes.push(claim.nodes.len());
        (x, at) = (y, claim.outputs[0].unwrap());
    }
    (x, n_nodes)
}

#[test]
fn a_following_function_is_fused() {
    for function in ["Relu-14", "Sigmoid-13", "HardSwish-14", "Elu-6"] {
        let text = format!(
            "graph(x: float[1,3,9,8]) -> (y) {{
               w = const float[3,5,2,2] fill 0.25
               b = const float[5] [-1, 0, 1, 2, 3]
               a = ConvTranspose-11 [strides: [2, 3]] (x, w, b)
               y = {function} (a)
             }}"
        );
        let graph = Graph::parse(&text, &ort_ops::registry()).unwrap();
        let x = floats(&[1, 3, 9, 8]);
        for isa in Isa::all() {
            let isa = isa.name().parse().unwrap();
            let options = CpuOptions { isa, max_threads: Some(3), ..CpuOptions::default() };
            let (expected, steps) = run(&graph, CpuOptions { fuses: false, ..options }, &x);
            assert_eq!(steps, [1, 1]);
            let (found, steps) = run(&graph, options, &x);
            assert_eq!(found, expected, "{function} {isa:?}");
            assert_eq!(steps.len(), if function == "Elu-6" { 2 } else { 1 }, "{function}");
        }
    }
}
