//! Prints GFLOP/s of the f32 product on one thread, in alternation and best of many short rounds:
//! with an unpacked B, with a packed B, with a packed B from memory (rotating so many copies
//! that no cache holds them), and of `matrixmultiply` (through ndarray).
//!
//! `cargo run --release -p ort-kernels --example gflops [ISA]… [MxKxN]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ndarray::Array2;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, PackedB, Start, Strided, pack_b, packed_b_len};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The duration of a row of the table.
const PER_ROW: Duration = Duration::from_millis(400);
/// Floating-point operations per timing.
const WORK: usize = 10_000_000;
/// Elements of all copies of a B that comes from memory.
const MANY: usize = 16 << 20;
const GRID: [&str; 20] = [
    "1x1024x1024",
    "2x1024x1024",
    "4x1024x1024",
    "8x1024x1024",
    "16x1024x1024",
    "32x1024x1024",
    "64x1024x1024",
    "128x1024x1024",
    "1024x1024x1024",
    "64x64x64",
    "256x256x256",
    "37x300x515",
    "22x384x384",
    "128x384x384",
    "128x384x1536",
    "128x1536x384",
    "26x512x8210",
    "128x32x128",
    "128x128x32",
    "10000x27x16",
];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |isa: &Isa| given.iter().any(|name| name == isa.name());
    let isas: Vec<Isa> = match Isa::all().filter(is_asked).collect::<Vec<_>>() {
        none if none.is_empty() => vec![Isa::best()],
        isas => isas,
    };
    let sizes: Vec<[usize; 3]> = given.iter().filter_map(|text| parse(text)).collect();
    let grid = || GRID.iter().filter_map(|text| parse(text)).collect();
    print!("{:>16}", "m x k x n");
    for isa in &isas {
        print!("{:>11}{:>11}{:>11}", isa.name(), "packed B", "cold B");
    }
    println!("{:>15}", "matrixmultiply");
    for [m, k, n] in if sizes.is_empty() { grid() } else { sizes } {
        print!("{:>16}", format!("{m}x{k}x{n}"));
        measure(&isas, [m, k, n]).iter().for_each(|speed| print!("{speed:>11.1}"));
        println!();
    }
}

/// Parses `"1x2x3"`.
fn parse(text: &str) -> Option<[usize; 3]> {
    let sizes: Option<Vec<usize>> = text.split('x').map(|size| size.parse().ok()).collect();
    sizes?.try_into().ok()
}

/// GFLOP/s: three for each instruction set, then `matrixmultiply`.
fn measure(isas: &[Isa], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let a = Array2::from_shape_fn((m, k), |(i, j)| (i * 7 + j * 3) as f32 % 5.0 - 2.0);
    let b = Array2::from_shape_fn((k, n), |(i, j)| (i * 5 + j * 2) as f32 % 7.0 - 3.0);
    let rhs = Matrix::row_major(b.as_slice().expect("row-major"), k, n);
    let len = |isa| packed_b_len(isa, k, n);
    let copies = |isa| {
        let mut packed = vec![0.0; len(isa) * (MANY / len(isa)).max(2)];
        packed.chunks_exact_mut(len(isa)).for_each(|packed| pack_b(isa, &rhs, packed));
        packed
    };
    let packed: Vec<Vec<f32>> = isas.iter().map(|&isa| copies(isa)).collect();
    let mut calls: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for (&isa, packed) in isas.iter().zip(&packed) {
        let mut run = product(isa, &a, n);
        calls.push(Box::new(move || run(rhs)));
        let mut run = packed_product(isa, &a, n);
        calls.push(Box::new(move || run(PackedB { data: packed, k })));
        let mut run = packed_product(isa, &a, n);
        let mut turns = packed.chunks_exact(len(isa)).cycle();
        calls.push(Box::new(move || run(PackedB { data: turns.next().unwrap_or(packed), k })));
    }
    calls.push(Box::new(|| drop(black_box(a.dot(&b)))));
    let flops = 2 * m * n * k;
    let mut best = vec![f64::INFINITY; calls.len()];
    let start = Instant::now();
    while start.elapsed() < PER_ROW {
        for (best, call) in best.iter_mut().zip(&mut calls) {
            *best = best.min(seconds((WORK / flops).clamp(1, 200), call));
        }
    }
    best.iter().map(|seconds| flops as f64 / seconds / 1e9).collect()
}

macro_rules! product {
    ($name:ident, $b:ty) => {
        fn $name(isa: Isa, a: &Array2<f32>, n: usize) -> impl FnMut($b) {
            let (m, k) = a.dim();
            let lhs = Matrix::row_major(a.as_slice().expect("row-major"), m, k);
            let a = Lhs::Strided { a: lhs, alpha: 1.0 };
            let mut scratch = vec![0.0; scratch_len(isa, [m, k, n])];
            let mut c = vec![0.0; m * n];
            move |b| {
                let (start, activation) = (Start::Zero, Activation::None);
                let gemm = Gemm { isa, m, n, k, a, b, start, activation };
                gemm.run(&gemm.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
                black_box(&mut c);
            }
        }
    };
}
product!(product, Matrix<'_>);
product!(packed_product, PackedB<'_>);

/// The scratch of a product whose B is neither packed nor contiguous, which needs the most.
fn scratch_len(isa: Isa, [m, k, n]: [usize; 3]) -> usize {
    let none: Matrix<'_> = Matrix::row_major(&[], 0, 0);
    let (a, start, activation) =
        (Lhs::Strided { a: none, alpha: 1.0 }, Start::Zero, Activation::None);
    Gemm { isa, m, n, k, a, b: none, start, activation }.scratch_len(m)
}

/// Seconds per call, averaged over `count` calls.
fn seconds(count: usize, call: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    (0..count).for_each(|_| call());
    start.elapsed().as_secs_f64() / count as f64
}
