//! Prints milliseconds and GFLOP/s of 3×3 convolutions in blocks of channels on one thread, directly
//! and by Winograd's filtering, in alternation: best of many rounds. A direct convolution's
//! operations count for both.
//!
//! `cargo run --release -p ort-kernels --example winograd [ISA] [CHANNELS HEIGHT WIDTH FILTERS]…`
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]

use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::{Conv, Form, Start};
use ort_kernels::winograd::{TILE, Winograd, pack, packed_len, scratch_len, variant};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 60;
/// Bytes between two rounds of a case, so that filters come from where a model's come from.
const OTHER: usize = 24 << 20;
/// Channels, height and width of the image, filters.
const CASES: [[usize; 4]; 20] = [
    [64, 56, 56, 64],
    [128, 28, 28, 128],
    [256, 14, 14, 256],
    [512, 7, 7, 512],
    [16, 208, 208, 16],
    [32, 104, 104, 32],
    [16, 160, 160, 16],
    [32, 80, 80, 32],
    [64, 40, 40, 64],
    [128, 20, 20, 128],
    [96, 160, 160, 32],
    [256, 20, 20, 64],
    [64, 32, 128, 64],
    [128, 16, 64, 128],
    [256, 8, 32, 256],
    [512, 4, 16, 512],
    [64, 112, 112, 128],
    [128, 56, 56, 256],
    [256, 56, 56, 256],
    [512, 28, 28, 512],
];

fn main() {
    let isa = std::env::args().find_map(|name| Isa::by_name(&name)).unwrap_or_else(Isa::best);
    println!("{:>20} {:>19} {:>19} {:>6}", isa.name(), "direct ms GFLOP/s", "winograd", "ratio");
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<4>().0;
    let mut other = vec![0_u8; OTHER];
    for &sizes in if given.is_empty() { &CASES[..] } else { given } {
        let [channels, height, width, filters] = sizes;
        let gflop = 2e-9 * (channels * height * width * filters * 9) as f64;
        let [direct, winograd] = measure(isa, sizes, &mut other);
        print!("{:>20}", sizes.map(|x| x.to_string()).join(" "));
        [direct, winograd].iter().for_each(|s| print!("{:>10.3} {:>8.1}", s * 1e3, gflop / s));
        println!("{:>7.2}", direct / winograd);
    }
}

/// Seconds: directly, and by Winograd's filtering.
fn measure(isa: Isa, [channels, height, width, filters]: [usize; 4], other: &mut [u8]) -> [f64; 2] {
    let block = if isa.avx512().is_some() { 16 } else { 8 };
    let axes = [height, width].map(|n| Axis {
        input: n,
        output: n,
        kernel: 3,
        stride: 1,
        dilation: 1,
        pad: [1, 1],
    });
    let x: Vec<f32> = (0..channels * height * width).map(|i| (i % 11) as f32).collect();
    let w: Vec<f32> = (0..filters * channels * 9).map(|i| (i % 7) as f32).collect();
    let mut packed = vec![0.0; packed_len(filters, channels)];
    pack(block, variant(isa, block).filters, channels, &w, &mut packed);
    let mut out = vec![0.0; filters * height * width];
    let mut scratch = vec![0.0; scratch_len(isa, block, channels, &axes)];
    let (start, activation) = (Start::default(), Activation::Relu);
    let conv = Conv { isa, block, form: Form::Blocks, axes, x: &x, w: &w, start, activation };
    let winograd = Winograd { conv, packed: &packed };
    let mut best = [f64::INFINITY; 2];
    for round in 0..ROUNDS {
        other.fill(u8::try_from(round).unwrap_or(0));
        black_box(&mut *other);
        let mut y: Vec<_> = out.chunks_exact_mut(height * width * block).collect();
        let time = Instant::now();
        match round % 2 {
            0 => conv.run(0..height * width, &mut y),
            _ => winograd.run(0..height.div_ceil(TILE), &mut y, &mut scratch),
        }
        best[round % 2] = best[round % 2].min(time.elapsed().as_secs_f64());
        black_box(&mut out);
    }
    best
}
