//! How passes are tested: the text of a graph before and after, and the results of both.

use std::fmt::Write as _;

use expect_test::Expect;
use ort_graph::{Dim, Fact, Graph, ValueId};
use ort_tensor::{Bool, DType, Number, Tensor, with_dtype};
use ort_testing::Rng;

use crate::driver::optimize;
use crate::eval::Reference;
use crate::interpreter;
use crate::options::{Exactness, Options};
use crate::pass::Pass;
use crate::report::Report;

/// A graph of a text.
pub(crate) fn parse(text: &str) -> Graph {
    let graph = Graph::parse(text, &ort_ops::registry());
    let graph = graph.unwrap_or_else(|error| panic!("{error}\n{text}"));
    graph.verify().unwrap_or_else(|error| panic!("{error}\n{text}"));
    graph
}

/// Runs one pass to the end, and also up to each of its rewrites: every intermediate graph must be valid.
pub(crate) fn run(pass: &Pass, text: &str, opset: Option<i64>) -> (Graph, Report) {
    run_with(&Options { opset, ..Options::default() }, pass, text)
}

fn run_with(options: &Options, pass: &Pass, text: &str) -> (Graph, Report) {
    let others = crate::passes().filter(|(name, ..)| *name != pass.name);
    let disabled = others.map(|(name, ..)| name.to_owned()).collect();
    let enabled = vec![pass.name.to_owned()];
    let options = Options { disabled, enabled, ..options.clone() };
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

/// Checks that a pass alone rewrites `before` as expected, with its refusals, and that both graphs compute the same
/// from random inputs, as exactly as the pass states.
pub(crate) fn assert_optimized(pass: Pass, before: &str, expected: &Expect) {
    assert_optimized_with(&Options::default(), pass, before, expected);
}

/// The same in a model that imports this version of ai.onnx.
pub(crate) fn assert_optimized_in(opset: Option<i64>, pass: Pass, before: &str, expected: &Expect) {
    assert_optimized_with(&Options { opset, ..Options::default() }, pass, before, expected);
}

/// The same with other options.
pub(crate) fn assert_optimized_with(
    options: &Options,
    pass: Pass,
    before: &str,
    expected: &Expect,
) {
    let (graph, report) = run_with(options, &pass, before);
    expect_printed(&graph, &report, expected);
    assert_equivalent(&parse(before), &graph, pass.exactness);
}

/// The same without running the graphs.
pub(crate) fn assert_rewritten(pass: Pass, before: &str, expected: &Expect) {
    let (graph, report) = run(&pass, before, None);
    expect_printed(&graph, &report, expected);
}

fn expect_printed(graph: &Graph, report: &Report, expected: &Expect) {
    let mut printed = graph.to_string();
    for (reason, count) in report.passes.iter().flat_map(|pass| &pass.refused) {
        write!(printed, "\n{count} refused: {reason}").unwrap();
    }
    expected.assert_eq(&printed);
}

/// Checks that two graphs compute the same from random inputs.
pub(crate) fn assert_equivalent(before: &Graph, after: &Graph, exactness: Exactness) {
    for seed in 0..3 {
        let inputs = inputs(before, seed, &[]);
        let (expected, found) =
            (interpreter::run(before, &inputs), interpreter::run(after, &inputs));
        for (&id, (expected, found)) in before.outputs().iter().zip(expected.iter().zip(&found)) {
            let name = &before.value(id).name;
            assert_eq!(expected.shape(), found.shape(), "{name}\n{after}");
            assert_eq!(expected.dtype(), found.dtype(), "{name}\n{after}");
            let is_right = match exactness {
                Exactness::Rounding if is_quantized(before, id) => {
                    is_within_a_quantum(expected, found)
                }
                _ => is_same(expected, found, exactness),
            };
            assert!(is_right, "{name}: {found:?} is not {expected:?}\n{before}\n{after}");
        }
    }
}

/// Whether a QuantizeLinear computes the value.
fn is_quantized(graph: &Graph, id: ValueId) -> bool {
    let producer = graph.producer(id).map(|(node, _)| graph.node(node));
    producer.is_some_and(|node| node.op_type == "QuantizeLinear")
}

/// Whether quantized values differ by at most one: values that differ by less than half a quantum round to the same
/// or to adjacent ones.
fn is_within_a_quantum(expected: &Tensor, found: &Tensor) -> bool {
    with_dtype!(expected.dtype(), integer, T => {
        let pairs = expected.as_slice::<T>().unwrap().iter().zip(found.as_slice::<T>().unwrap());
        pairs.into_iter().all(|(x, y)| (x.to_f64() - y.to_f64()).abs() <= 1.0)
    }, else => false)
}

/// Whether two tensors are the same as far as a pass of this exactness promises.
pub(crate) fn is_same(expected: &Tensor, found: &Tensor, exactness: Exactness) -> bool {
    match exactness {
        Exactness::Bitwise => expected == found,
        Exactness::Rounding => is_close(expected, found, 256.0),
        Exactness::Approximate => is_close(expected, found, 131_072.0),
    }
}

/// Whether elements differ by at most this many roundings of the largest: each is a sum of at most some dozens of
/// terms not much larger than the largest result. For 16-bit floats, whose operators compute in f32 and round once,
/// an eighth as many. Integers must be equal.
fn is_close(expected: &Tensor, found: &Tensor, roundings: f64) -> bool {
    let (digits, roundings) = match expected.dtype() {
        DType::Bf16 => (8, roundings / 8.0),
        DType::F16 => (11, roundings / 8.0),
        DType::F32 => (24, roundings),
        DType::F64 => (53, roundings),
        _ => return expected == found,
    };
    let floats = |tensor: &Tensor| -> Vec<f64> {
        with_dtype!(tensor.dtype(), float, T => {
            tensor.as_slice::<T>().unwrap().iter().map(|x| x.to_f64()).collect()
        }, else => Vec::new())
    };
    let (expected, found) = (floats(expected), floats(found));
    let largest = expected.iter().filter(|x| x.is_finite()).fold(1.0, |y: f64, x| y.max(x.abs()));
    let bound = largest * roundings * 0.5_f64.powi(digits);
    let is_close =
        |(x, y): (&f64, &f64)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound;
    expected.iter().zip(&found).all(is_close)
}

/// Random inputs for a graph: floats in [-2, 2), integers from 0 to 2. A dimension with a name that
/// `sizes` does not have is 2, 3 or 4, the same wherever the name occurs; one without a name is 2.
pub(crate) fn inputs(graph: &Graph, seed: u64, sizes: &[(&str, usize)]) -> Vec<(String, Tensor)> {
    let mut rng = Rng::new(seed);
    let mut sizes: Vec<(String, usize)> =
        sizes.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
    let mut size = |dim: &Dim| match dim {
        Dim::Known(size) => *size,
        Dim::Symbol(name) => match sizes.iter().find(|(known, _)| **known == **name) {
            Some((_, size)) => *size,
            None => {
                let size = 2 + sizes.len() % 3;
                sizes.push((name.to_string(), size));
                size
            }
        },
        Dim::Unknown => 2,
    };
    let given = graph.inputs().iter().map(|&id| graph.value(id));
    let given = given.filter(|info| info.default.is_none() || rng.below(2) == 0);
    let given: Vec<_> = given.collect();
    let tensors = given.into_iter().map(|info| {
        let shape: Vec<usize> = match info.fact.dims() {
            Some(dims) => dims.iter().map(&mut size).collect(),
            None => vec![2, 3],
        };
        (info.name.clone(), random(&info.fact, &shape, &mut rng))
    });
    tensors.collect()
}

fn random(fact: &Fact, shape: &[usize], rng: &mut Rng) -> Tensor {
    let n = shape.iter().product();
    let dtype = fact.dtype().expect("an input has a type");
    if dtype == DType::Bool {
        let bools: Vec<Bool> = (0..n).map(|_| Bool::from(rng.below(2) == 0)).collect();
        return Tensor::from_slice(shape, &bools).unwrap();
    }
    with_dtype!(dtype, number, T => {
        let numbers: Vec<T> = (0..n)
            .map(|_| T::from_f64(match dtype.is_float() {
                true => f64::from(2.0 * rng.uniform()),
                false => f64::from(u8::try_from(rng.below(3)).unwrap()),
            }))
            .collect();
        Tensor::from_slice(shape, &numbers).unwrap()
    }, else => panic!("no random {dtype}"))
}
