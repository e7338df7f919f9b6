//! Prints GOP/s of the int8 product on one thread, for each instruction set of this machine:
//! best of a hundred short rounds, two operations per multiply-add.
//!
//! `cargo run --release -p ort-kernels --example gops [M N K]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::Isa;
use ort_kernels::gemm_i8::{Bytes, Gemm, Signs, Start, pack_b, packed_b_len, variant};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 100;
const GRID: [[usize; 3]; 8] = [
    [64, 64, 64],
    [256, 256, 256],
    [768, 768, 768],
    [3136, 64, 576],
    [196, 256, 2304],
    [49, 2048, 512],
    [8, 4096, 1024],
    [1, 4096, 1024],
];

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<3>().0;
    print!("{:>18}", "m x n x k");
    Isa::all().for_each(|isa| print!(" {:>16}", variant(isa, usize::MAX).name));
    println!();
    for mnk in if given.is_empty() { &GRID[..] } else { given } {
        print!("{:>18}", mnk.map(|x| x.to_string()).join("x"));
        Isa::all().for_each(|isa| print!(" {:>16.1}", measure(isa, *mnk)));
        println!();
    }
}

fn measure(isa: Isa, [m, n, k]: [usize; 3]) -> f64 {
    let (a, b, start) = (vec![3; m * k], vec![5; k * n], vec![0; n]);
    let mut packed = vec![0; packed_b_len(isa, k, n)];
    pack_b(isa, &Bytes { data: &b, k, n, strides: [n, 1] }, 0, &mut packed);
    let (signs, start) = (Signs::UnsignedA, Start::ByColumn(&start));
    let gemm = Gemm { isa, n, k, signs, a: &a, a_stride: k, a_masks: &[], b: &packed, start };
    let mut c = vec![0; m * n];
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        gemm.run(0..m, 0..n, black_box(&mut c));
        best = best.min(begin.elapsed().as_secs_f64());
    }
    2.0 * (m * n * k) as f64 / best / 1e9
}
