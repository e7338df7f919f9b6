//! Prints milliseconds and GFLOP/s of NCHWc convolutions on one thread, direct and
//! by Winograd's algorithm, in alternation: best of many rounds. The operations of the direct convolution
//! count for both. The last column is the milliseconds for transforming the filters.
//!
//! `cargo run --release -p ort-kernels --example winograd [ISA] [CHANNELS HEIGHT WIDTH FILTERS KH KW]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::{Conv, Form, Start};
use ort_kernels::winograd::{Filters, Tile, Winograd, variant};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 46;
/// The number of initial rounds, which transform the filters.
const PACKS: usize = 6;
/// Bytes touched between two rounds of a case, so that filters come from memory, as in a model.
const OTHER: usize = 24 << 20;
/// Channels, height and width of the image, filters, taps.
const CASES: [[usize; 6]; 28] = [
    [64, 56, 56, 64, 3, 3],
    [128, 28, 28, 128, 3, 3],
    [256, 14, 14, 256, 3, 3],
    [512, 7, 7, 512, 3, 3],
    [16, 208, 208, 16, 3, 3],
    [32, 104, 104, 32, 3, 3],
    [16, 160, 160, 16, 3, 3],
    [32, 80, 80, 32, 3, 3],
    [64, 40, 40, 64, 3, 3],
    [128, 20, 20, 128, 3, 3],
    [96, 160, 160, 32, 3, 3],
    [256, 20, 20, 64, 3, 3],
    [64, 32, 128, 64, 3, 3],
    [128, 16, 64, 128, 3, 3],
    [256, 8, 32, 256, 3, 3],
    [512, 4, 16, 512, 3, 3],
    [64, 112, 112, 128, 3, 3],
    [128, 56, 56, 256, 3, 3],
    [256, 56, 56, 256, 3, 3],
    [512, 28, 28, 512, 3, 3],
    [256, 508, 1, 512, 5, 1],
    [64, 1, 512, 64, 1, 5],
    [64, 40, 40, 64, 1, 5],
    [16, 160, 160, 16, 5, 1],
    [256, 508, 1, 512, 3, 1],
    [64, 1, 512, 64, 1, 3],
    [64, 40, 40, 64, 1, 3],
    [960, 1, 40, 64, 1, 3],
];

fn main() {
    let isa = std::env::args().find_map(|name| Isa::by_name(&name)).unwrap_or_else(Isa::best);
    println!(
        "{:>20} {:>19} {:>19} {:>6} {:>9}",
        isa.name(),
        "direct ms GFLOP/s",
        "winograd",
        "ratio",
        "filters"
    );
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<6>().0;
    let mut other = vec![0_u8; OTHER];
    for &sizes in if given.is_empty() { &CASES[..] } else { given } {
        let gflop = 2e-9 * sizes.iter().product::<usize>() as f64;
        let [direct, winograd, pack] = measure(isa, sizes, &mut other);
        print!("{:>20}", sizes.map(|x| x.to_string()).join(" "));
        [direct, winograd].iter().for_each(|s| print!("{:>10.3} {:>8.1}", s * 1e3, gflop / s));
        println!("{:>7.2}{:>10.3}", direct / winograd, pack * 1e3);
    }
}

/// Seconds: direct, by Winograd's algorithm, and for transforming the filters.
fn measure(isa: Isa, sizes: [usize; 6], other: &mut [u8]) -> [f64; 3] {
    let [channels, height, width, filters, kh, kw] = sizes;
    let block = if isa.avx512().is_some() { 16 } else { 8 };
    let axes = [(height, kh), (width, kw)].map(|(n, kernel)| Axis {
        input: n,
        output: n,
        kernel,
        pad: [kernel / 2; 2],
        ..Axis::UNIT
    });
    let tile = Tile::of(block, &axes).expect("a supported convolution");
    let x: Vec<f32> = (0..channels * height * width).map(|i| (i % 11) as f32).collect();
    let w: Vec<f32> = (0..filters * channels * kh * kw).map(|i| (i % 7) as f32).collect();
    let mut packed = vec![0.0; tile.packed_len(filters, channels)];
    let set = variant(isa, block).filters;
    let plain = Filters { isa, block, set, inputs: channels, tile, w: &w };
    let mut out = vec![0.0; filters * height * width];
    let mut scratch = vec![0.0; tile.scratch_len(isa, block, channels, &axes)];
    let (start, activation) = (Start::default(), Activation::Relu);
    let conv = Conv { isa, block, form: Form::Blocks, axes, x: &x, w: &w, start, activation };
    let mut best = [f64::INFINITY; 3];
    for round in 0..ROUNDS {
        other.fill(u8::try_from(round).unwrap_or(0));
        black_box(&mut *other);
        let mut y: Vec<_> = out.chunks_exact_mut(height * width * block).collect();
        let at = if round < PACKS { 2 } else { round % 2 };
        let time = Instant::now();
        match at {
            2 => plain.pack(&mut packed),
            0 => conv.run(0..height * width, &mut y),
            _ => {
                let winograd = Winograd { conv, packed: &packed };
                winograd.run(0..tile.grid(&axes)[0], &mut y, &mut scratch);
            }
        }
        best[at] = best[at].min(time.elapsed().as_secs_f64());
        black_box((&mut out, &mut packed));
    }
    best
}
