//! Prints GFLOP/s of typical convolutions on one thread, for each instruction set of this machine,
//! and of the direct algorithm, if there are few filters.
//!
//! `cargo run --release -p ort-kernels --example conv [CHANNELS SIDE FILTERS KERNEL STRIDE]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::conv_f32::{Axis, Columns, Depthwise, Direct};
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided, pack_a};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::time::Instant;

/// Floating-point operations per timing.
const WORK: f64 = 2e7;
const ROUNDS: usize = 100;
/// Channels, side of the image, filters (0: depthwise), side of the kernel, stride.
const CASES: [[usize; 5]; 15] = [
    [24, 104, 24, 3, 1],
    [24, 104, 48, 3, 2],
    [48, 104, 24, 1, 1],
    [3, 224, 64, 7, 2],
    [3, 320, 16, 3, 2],
    [16, 160, 16, 3, 1],
    [64, 56, 64, 3, 1],
    [64, 56, 256, 1, 1],
    [128, 28, 128, 3, 1],
    [512, 7, 512, 3, 1],
    [256, 56, 128, 3, 2],
    [96, 112, 0, 3, 1],
    [96, 112, 0, 3, 2],
    [240, 28, 0, 5, 1],
    [960, 7, 0, 3, 1],
];

fn main() {
    print!("{:>26}", "channels side filters k s");
    Isa::all().for_each(|isa| print!("{:>10} {:>10}", isa.name(), "direct"));
    println!();
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<5>().0;
    for &case in if given.is_empty() { &CASES[..] } else { given } {
        print!("{:>26}", case.map(|x| x.to_string()).join(" "));
        for isa in Isa::all() {
            let [columns, direct] = measure(isa, case);
            print!("{columns:>10.1} {direct:>10.1}");
        }
        println!();
    }
}

fn measure(isa: Isa, [channels, side, filters, kernel, stride]: [usize; 5]) -> [f64; 2] {
    // Patches do not overlap.
    let pad = if kernel == stride { 0 } else { kernel / 2 };
    let output = (side + 2 * pad - kernel) / stride + 1;
    let axis = Axis { input: side, output, kernel, stride, dilation: 1, pad: [pad, pad] };
    let image: Vec<f32> = (0..channels * side * side).map(|i| (i % 11) as f32).collect();
    let taps = kernel * kernel;
    let weights: Vec<f32> = (0..filters.max(1) * channels * taps).map(|i| (i % 7) as f32).collect();
    let mut out = vec![0.0; output * output * if filters == 0 { channels } else { filters }];
    let flops = 2.0 * (out.len() * taps * if filters == 0 { 1 } else { channels }) as f64;
    if filters == 0 {
        let axes = [Axis::UNIT, axis, axis];
        let mut scratch = vec![0.0; Depthwise::scratch_len(&axes)];
        let [speed, _] = speeds(flops, |_| {
            for (c, out) in out.chunks_exact_mut(output * output).enumerate() {
                let plane = &image[c * side * side..][..side * side];
                let weights = &weights[c * taps..][..taps];
                let activation = Activation::Relu;
                let depthwise = Depthwise { isa, axes, weights, bias: 0.5, activation };
                depthwise.run(plane, 0..output, out, &mut scratch);
            }
            black_box(&mut out);
        });
        return [speed, 0.0];
    }
    let columns = Columns::new(&image, channels, [Axis::UNIT, axis, axis]);
    let (m, n, k) = (filters, columns.n(), columns.k());
    let mut packed = vec![0.0; m * k];
    pack_a(isa, &Matrix::row_major(&weights, m, k), 1.0, &mut packed);
    let (a, start) = (Lhs::Packed(&packed), Start::Zero);
    let gemm = Gemm { isa, m, n, k, a, b: columns, start, activation: Activation::Relu };
    let mut scratch = vec![0.0; gemm.scratch_len(m)];
    let axes = [axis, axis];
    let (x, w, activation) = (image.as_slice(), packed.as_slice(), Activation::Relu);
    let (bias, is_sum) = (None, false);
    let direct = Direct { isa, filters, channels, axes, x, w, bias, is_sum, activation };
    let mut band = vec![0.0; Direct::scratch_len(channels, &axes)];
    let is_suited = Direct::is_suited(isa, [filters, channels], &axes);
    let [columns, direct] = speeds(flops, |is_direct| {
        let mut rows = Strided { data: &mut out, stride: n };
        match is_direct && is_suited {
            true => direct.run(&gemm.whole(), &mut rows, &mut band),
            false => gemm.run(&gemm.whole(), &mut rows, &mut scratch),
        }
        black_box(&mut out);
    });
    [columns, if is_suited { direct } else { 0.0 }]
}

/// GFLOP/s of two algorithms in alternation, best of `ROUNDS`.
fn speeds(flops: f64, mut call: impl FnMut(bool)) -> [f64; 2] {
    let mut best = [0.0f64; 2];
    for round in 0..2 * ROUNDS {
        let (way, start) = (round % 2, Instant::now());
        let mut done = 0.0;
        while done < WORK {
            call(way == 1);
            done += flops;
        }
        best[way] = best[way].max(done / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}
