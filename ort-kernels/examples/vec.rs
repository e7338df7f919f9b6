//! Prints gigabytes per second, read and written, of the row functions for each instruction set of this machine,
//! next to copying: from one row to another, of sizes that
//! fit the first-level cache, the second, and neither. Best of many short rounds, in alternation.
//!
//! `cargo run --release -p ort-kernels --example vec [ISA]… [FUNCTION]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::vec::{Fold, NormRow};
use ort_kernels::{FlushDenormals, Isa, vec};
use std::hint::black_box;
use std::time::Instant;

type Function = (&'static str, fn(Isa, &[f32], &mut [f32]));

/// `y = x`, then a function in place, piece by piece.
macro_rules! mapped {
    ($f:expr) => {
        |isa, x, y| vec::map(x, y, |_, y| $f(isa, y))
    };
}

const FUNCTIONS: [Function; 20] = [
    ("copy", |_, x, y| y.copy_from_slice(x)),
    ("clip", mapped!(|isa, y| vec::clip(isa, y, -1.0, 1.0))),
    ("add", |isa, x, y| vec::add(isa, y, x)),
    ("mul_scalar", mapped!(|isa, y| vec::mul_scalar(isa, y, 1.5))),
    ("scale_and_shift", mapped!(|isa, y| vec::scale_and_shift(isa, y, 1.5, 0.5))),
    ("hard_swish", mapped!(vec::hard_swish)),
    ("scaled_hard_swish", mapped!(|isa, y| vec::scaled_hard_swish(isa, y, 1.5, 0.5))),
    ("exp", mapped!(vec::exp)),
    ("sigmoid", mapped!(vec::sigmoid)),
    ("tanh", mapped!(vec::tanh)),
    ("erf", mapped!(vec::erf)),
    ("gelu", mapped!(vec::gelu)),
    ("gelu_tanh", mapped!(vec::gelu_tanh)),
    ("silu", mapped!(|isa, y| vec::silu(isa, y, 1.0))),
    ("softmax", |isa, x, y| {
        y.copy_from_slice(x);
        vec::softmax(isa, y);
    }),
    ("layer_norm", |isa, x, y| {
        vec::layer_norm(isa, NormRow { x: Some(x), y, scale: x, bias: Some(x), epsilon: 1e-5 });
    }),
    ("rms_norm", |isa, x, y| {
        vec::rms_norm(isa, NormRow { x: Some(x), y, scale: x, bias: None, epsilon: 1e-5 });
    }),
    ("sum", |isa, x, y| y[0] = vec::fold_row(isa, Fold::Sum, x)),
    ("sum_of_squares", |isa, x, y| y[0] = vec::fold_row(isa, Fold::SumOfSquares, x)),
    ("max", |isa, x, y| y[0] = vec::fold_row(isa, Fold::Max, x)),
];
/// Elements of each of the two rows.
const LENGTHS: [usize; 3] = [4 << 10, 48 << 10, 2 << 20];
/// Elements per timing.
const WORK: usize = 1 << 18;
const ROUNDS: usize = 60;

fn main() {
    let named = |name: &str| std::env::args().skip(1).any(|argument| argument == name);
    let isas: Vec<Isa> = Isa::all().collect();
    let some_isa = isas.iter().any(|isa| named(isa.name()));
    let some_function = FUNCTIONS.iter().any(|(name, _)| named(name));
    let _flushed = FlushDenormals::new();
    for isa in isas.into_iter().filter(|isa| !some_isa || named(isa.name())) {
        println!("{:>18}{:>10}{:>10}{:>10}", isa.name(), "first", "second", "memory");
        let chosen = FUNCTIONS.iter().filter(|(name, _)| !some_function || named(name));
        let chosen: Vec<&Function> = chosen.collect();
        let mut best = vec![[0.0_f64; 3]; chosen.len()];
        for (i, length) in LENGTHS.into_iter().enumerate() {
            let x: Vec<f32> = (0..length).map(|i| (i % 97) as f32 / 10.0 - 5.0).collect();
            let mut y = x.clone();
            for _ in 0..ROUNDS {
                for (best, (_, function)) in best.iter_mut().zip(&chosen) {
                    y[..length.min(WORK)].fill(0.0);
                    best[i] = best[i].max(speed(|| function(isa, black_box(&x), &mut y), length));
                }
            }
        }
        for (best, (name, _)) in best.iter().zip(chosen) {
            let [first, second, memory] = best;
            println!("{name:>18}{first:>10.1}{second:>10.1}{memory:>10.1}");
        }
    }
}

/// Gigabytes per second of a function that reads and writes rows of this length.
fn speed(mut function: impl FnMut(), length: usize) -> f64 {
    let n = (WORK / length).max(1);
    let start = Instant::now();
    for _ in 0..n {
        function();
    }
    let bytes = (n * length * 2 * size_of::<f32>()) as f64;
    bytes / start.elapsed().as_secs_f64() / 1e9
}
