//! How long the optimizer takes for graphs of 1,000 to 16,000 nodes: foldable convolutions, decomposed activations,
//! shape arithmetic, and all levels.
//!
//! `cargo run --release -p ort-optimizer --example time_many_nodes`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement prints, or fails")]

use std::fmt::Write as _;
use std::time::Instant;

use ort_graph::Graph;
use ort_optimizer::{Options, Reference, optimize};

/// The nodes of one block.
const BLOCK: usize = 10;

fn main() {
    let registry = ort_ops::registry();
    for n_nodes in [1_000, 2_000, 4_000, 8_000, 16_000] {
        let graph = Graph::parse(&text(n_nodes / BLOCK), &registry).unwrap();
        let options = Options { layout_block: Some(16), opset: Some(17), ..Options::default() };
        let start = Instant::now();
        let (after, report) = optimize(graph, &registry, &options, &Reference).unwrap();
        let elapsed = start.elapsed();
        let mut passes = report.passes;
        passes.sort_by_key(|pass| std::cmp::Reverse(pass.micros));
        let slowest: Vec<String> = passes[..3]
            .iter()
            .map(|pass| format!("{} {:.1} ms", pass.name, pass.micros as f64 / 1e3))
            .collect();
        println!(
            "{n_nodes:6} nodes -> {:6}: {:8.1} ms ({})",
            after.n_nodes(),
            elapsed.as_secs_f64() * 1e3,
            slowest.join(", ")
        );
    }
}

/// A chain of blocks, each of [`BLOCK`] nodes.
fn text(n_blocks: usize) -> String {
    let mut text = String::from("graph(x0: float[n,4,8,8]) -> (y) {\n");
    text += "  w = const float[4,4,1,1] fill 0.25\n  c = const float[4] fill 0.5\n";
    text += "  zero = const int64[] 0\n  three = const float[] 3\n  low = const float[] 0\n";
    text += "  high = const float[] 6\n  rest = const int64[3] [4, 8, 8]\n  axes = const int64[1] [0]\n";
    for i in 0..n_blocks {
        let j = i + 1;
        write!(
            text,
            "  a{i} = Conv-11 (x{i}, w)\n  b{i} = BatchNormalization-15 (a{i}, c, c, c, c)\n  \
             d{i} = Add-14 (b{i}, three)\n  e{i} = Clip-13 (d{i}, low, high)\n  \
             f{i} = Mul-14 (b{i}, e{i})\n  g{i} = Div-14 (f{i}, high)\n  s{i} = Shape-15 [start: 0, end: 1] (x{i})\n  \
             h{i} = Concat-13 [axis: 0] (s{i}, rest)\n  k{i} = Reshape-14 (g{i}, h{i})\n  \
             x{j} = Add-14 (k{i}, x{i})\n"
        )
        .unwrap();
    }
    writeln!(text, "  y = Relu-14 (x{n_blocks})\n}}").unwrap();
    text
}
