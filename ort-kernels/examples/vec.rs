//! Prints millions of elements a second of the functions of rows, for each instruction set this
//! machine has, on a row of 4096.
//!
//! `cargo run --release -p ort-kernels --example vec`
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]

use ort_kernels::{Isa, vec};
use std::hint::black_box;
use std::time::Instant;

type Function = (&'static str, fn(Isa, &mut [f32]));

const FUNCTIONS: [Function; 11] = [
    ("clip", |isa, x| vec::clip(isa, x, -1.0, 1.0)),
    ("exp", |isa, x| vec::exp(isa, x)),
    ("sigmoid", |isa, x| vec::sigmoid(isa, x)),
    ("tanh", |isa, x| vec::tanh(isa, x)),
    ("erf", |isa, x| vec::erf(isa, x)),
    ("gelu", |isa, x| vec::gelu(isa, x)),
    ("hard_swish", |isa, x| vec::hard_swish(isa, x)),
    ("softmax", |isa, x| vec::softmax(isa, x)),
    ("rms_norm", |isa, x| {
        vec::rms_norm(isa, x, &[1.0; LENGTH], 1e-5);
    }),
    ("sum", |isa, x| x[0] = vec::sum(isa, x)),
    ("max", |isa, x| x[0] = vec::max(isa, x)),
];
const LENGTH: usize = 4096;
const ROUNDS: u16 = 2000;

fn main() {
    print!("{:>12}", "");
    Isa::all().for_each(|isa| print!("{:>10}", isa.name()));
    println!();
    for (name, function) in FUNCTIONS {
        print!("{name:>12}");
        for isa in Isa::all() {
            let mut x: Vec<f32> = (0..LENGTH).map(|i| (i % 97) as f32 / 10.0 - 5.0).collect();
            let start = Instant::now();
            for _ in 0..ROUNDS {
                function(isa, black_box(&mut x));
            }
            let elements = f64::from(ROUNDS) * LENGTH as f64;
            print!("{:>10.0}", elements / start.elapsed().as_secs_f64() / 1e6);
        }
        println!();
    }
}
