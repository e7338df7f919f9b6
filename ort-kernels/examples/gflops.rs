//! Prints GFLOP/s of the f32 product on one thread, for each instruction set this machine has,
//! beside `matrixmultiply` (through ndarray), in alternation: best of a hundred short rounds.
//!
//! `cargo run --release -p ort-kernels --example gflops [M N K]…`
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]

use ndarray::Array2;
use ort_kernels::gemm_f32::{
    Gemm, Lhs, Matrix, PackedB, Panels, Start, Strided, pack_b, packed_b_len,
};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 100;
/// Work of one timing, in floating-point operations.
const WORK: f64 = 2e7;
const GRID: [[usize; 3]; 12] = [
    [64, 64, 64],
    [128, 128, 128],
    [256, 256, 256],
    [512, 512, 512],
    [768, 768, 768],
    [1024, 1024, 1024],
    [196, 512, 512],
    [512, 196, 512],
    [49, 2048, 512],
    [16, 10_000, 27],
    [8, 4096, 1024],
    [1, 4096, 1024],
];

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<3>().0;
    let grid = if given.is_empty() { &GRID[..] } else { given };
    print!("{:>18}", "m x n x k");
    for isa in Isa::all() {
        print!("{:>10} {:>10}", isa.name(), "packed B");
    }
    println!("{:>15}", "matrixmultiply");
    for &mnk in grid {
        print!("{:>18}", mnk.map(|x| x.to_string()).join("x"));
        for speed in measure(mnk) {
            print!("{speed:>10.1} ");
        }
        println!();
    }
}

/// GFLOP/s: strided and packed B for each instruction set, then `matrixmultiply`.
fn measure([m, n, k]: [usize; 3]) -> Vec<f64> {
    let a = Array2::from_shape_fn((m, k), |(i, j)| (i * 7 + j * 3) as f32 % 5.0 - 2.0);
    let b = Array2::from_shape_fn((k, n), |(i, j)| (i * 5 + j * 2) as f32 % 7.0 - 3.0);
    let flops = 2.0 * (m * n * k) as f64;
    let mut best = vec![0.0f64; 2 * Isa::all().count() + 1];
    for _ in 0..ROUNDS {
        let mut speeds = Vec::new();
        for isa in Isa::all() {
            let rhs = Matrix::row_major(b.as_slice().expect("row-major"), k, n);
            let mut packed = vec![0.0; packed_b_len(isa, k, n)];
            pack_b(isa, &rhs, &mut packed);
            speeds.push(flops / seconds(flops, product(isa, &a, rhs, n)));
            speeds.push(flops / seconds(flops, product(isa, &a, PackedB { data: &packed, k }, n)));
        }
        speeds.push(flops / seconds(flops, || drop(black_box(a.dot(&b)))));
        best.iter_mut().zip(speeds).for_each(|(best, new)| *best = best.max(new / 1e9));
    }
    best
}

fn product<'a, B: Panels + 'a>(isa: Isa, a: &'a Array2<f32>, b: B, n: usize) -> impl FnMut() + 'a {
    let (m, k) = a.dim();
    let lhs = Matrix::row_major(a.as_slice().expect("row-major"), m, k);
    let a = Lhs::Strided { a: lhs, alpha: 1.0 };
    let gemm = Gemm { isa, m, n, k, a, b, start: Start::Zero, activation: Activation::None };
    let mut scratch = vec![0.0; gemm.scratch_len(m)];
    let mut c = vec![0.0; m * n];
    move || {
        gemm.run(&gemm.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
        black_box(&mut c);
    }
}

/// Seconds a call, over about `WORK` operations.
fn seconds(flops: f64, mut call: impl FnMut()) -> f64 {
    let count = (WORK / flops).ceil();
    let start = Instant::now();
    let mut i = 0.0;
    while i < count {
        call();
        i += 1.0;
    }
    start.elapsed().as_secs_f64() / count
}
