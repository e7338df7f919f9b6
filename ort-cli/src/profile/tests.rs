//! Two made-up runs of a convolution, an addition and a transposition.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use ort_session::{DType, DenormalsMet, PeakPerformance, StepTime, StepWork, Tensor, Type, Value};

use super::Profile;

/// A tensor of f32.
fn float(shape: &[usize]) -> Type {
    Type::of_value(&Value::Tensor(Tensor::zeros(DType::F32, shape).unwrap()))
}

fn work(op_type: &str, variant: &'static str, shapes: &[&[usize]]) -> StepWork {
    let (y, inputs) = shapes.split_last().unwrap();
    let n_elements = |shape: &&[usize]| shape.iter().product::<usize>();
    StepWork {
        node: format!("/a/{op_type}"),
        op_type: op_type.to_owned(),
        variant,
        n_nodes: 1,
        inputs: inputs.iter().map(|shape| float(shape)).collect(),
        outputs: vec![float(y)],
        n_bytes: 4 * shapes.iter().map(n_elements).sum::<usize>(),
        ..StepWork::default()
    }
}

fn step(work: StepWork, micros: u64, denormals: Option<DenormalsMet>) -> StepTime {
    let time = Duration::from_micros(micros);
    let (start, helpers) = (Duration::ZERO, [].into_iter().collect());
    StepTime { work: Arc::new(work), start, time, thread: 1, helpers, denormals }
}

/// The second run is twice as slow as the first, except for the addition; in it the convolution meets
/// denormals.
fn profile() -> Profile {
    let (x, w, y) = ([1, 64, 28, 28], [64, 1, 3, 3], [1, 64, 14, 14]);
    let run = |factor: u64| {
        let mut conv = work("Conv", "conv/avx2", &[&x, &w, &y]);
        conv.attributes = vec![
            ("group".to_owned(), vec![64]),
            ("pads".to_owned(), vec![1, 1, 1, 1]),
            ("strides".to_owned(), vec![2, 2]),
        ];
        conv.flops = 2 * 9 * 64 * 14 * 14;
        let mut add = work("Add", "chain/avx2", &[&y, &y, &y]);
        (add.flops, add.n_nodes) = (64 * 14 * 14, 3);
        let to_last = || step(work("Transpose", "eval", &[&y, &[1, 14, 14, 64]]), 5 * factor, None);
        let met = DenormalsMet { operands: false, results: factor == 2 };
        let conv = step(conv, 50 * factor, Some(met));
        vec![to_last(), conv, step(add, 20, Some(DenormalsMet::default())), to_last()]
    };
    let runs = [run(1), run(2)];
    Profile::of(PeakPerformance { gflops: 100.0, gigabytes: 10.0 }, runs.iter().map(Vec::as_slice))
}

/// Compares without the indentation of all lines.
fn check(found: &str, expected: &Expect) {
    let lines = found.trim_start_matches('\n').lines();
    let lines = lines.map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)));
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn a_table_shows_operators_at_their_fastest() {
    let expected = expect![[r#"
          peak 100 GFLOP/s · memory 10 GB/s · each node at its fastest of 2 runs
    "#]];
    check(&profile().peak_text(), &expected);
    let expected = expect![[r#"
        operator   kernel      calls   time   share  GFLOP/s  of peak  GB/s  of bound  bound   denormals
        Conv       conv/avx2       1  50 µs  62.5 %      4.5    4.5 %   5.1    50.6 %  memory  results
        Add        chain/avx2      1  20 µs  25.0 %      0.6    0.6 %   7.5    75.3 %  memory  –
        Transpose  eval            2  10 µs  12.5 %        –        –  20.1   200.7 %  memory  ?

        share of time in plain eval: 12.5 %
    "#]];
    check(&profile().operators_text(), &expected);
}

#[test]
fn a_table_shows_the_slowest_nodes_with_what_they_read() {
    let expected = expect![[r#"
        node       operator  kernel       time   share  GFLOP/s  of peak  GB/s  of bound  bound   denormals  output      inputs
        /a/Conv    Conv      conv/avx2   50 µs  62.5 %      4.5    4.5 %   5.1    50.6 %  memory  results    1x64x14x14  1x64x28x28 · 64x1x3x3 · group 64 · strides 2x2
        /a/Add +2  Add       chain/avx2  20 µs  25.0 %      0.6    0.6 %   7.5    75.3 %  memory  –          1x64x14x14  1x64x14x14 · 1x64x14x14
    "#]];
    check(&profile().nodes_text(2), &expected);
}

#[test]
fn json_has_the_same_figures() {
    let profile = profile();
    let expected = expect![[r#"
        {"gbytes_per_s":10.0,"gflops":100.0}
        {"bound":"memory","bytes":253184.0,"calls":1.0,"denormals":"results","flops":225792.0,"gbytes_per_s":5.0637,"gflops":4.5158,"kernel":"conv/avx2","ms":0.05,"operator":"Conv","share":0.625,"share_of_bound":0.5064,"share_of_peak":0.0452}
        {"bound":"memory","bytes":200704.0,"calls":2.0,"denormals":null,"flops":0.0,"gbytes_per_s":20.0704,"gflops":null,"kernel":"eval","ms":0.01,"operator":"Transpose","share":0.125,"share_of_bound":2.007,"share_of_peak":null}
        {"attributes":{"group":[64],"pads":[1,1,1,1],"strides":[2,2]},"bound":"memory","bytes":253184.0,"calls":1.0,"denormals":"results","flops":225792.0,"gbytes_per_s":5.0637,"gflops":4.5158,"inputs":[[1,64,28,28],[64,1,3,3]],"kernel":"conv/avx2","ms":0.05,"node":"/a/Conv","nodes":1,"operator":"Conv","outputs":[[1,64,14,14]],"share":0.625,"share_of_bound":0.5064,"share_of_peak":0.0452}
    "#]];
    let (operators, nodes) = (profile.operators_json(), profile.nodes_json(1));
    assert_eq!(nodes.as_array().map(Vec::len), Some(1));
    let rows = [&profile.peak_json(), &operators[0], &operators[2], &nodes[0]];
    check(&rows.map(ToString::to_string).join("\n"), &expected);
}
