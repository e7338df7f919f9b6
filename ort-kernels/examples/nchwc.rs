//! Prints the speed of NCHWc pooling, upsampling and reordering, for each instruction set
//! of this machine, relative to copying as many bytes: best of many short
//! rounds, in alternation.
//!
//! `cargo run --release -p ort-kernels --example nchwc [ISA]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::Isa;
use ort_kernels::conv_f32::{Axis, PoolKind};
use ort_kernels::nchwc::{
    Pool, Reorder, blend_pixels, blend_rows, global_max, global_sum, pick_pixels,
};
use std::hint::black_box;
use std::time::Instant;

/// The side of a plane, whose input is 0.2 or 1.6 MiB in blocks of 16.
const SIDES: [usize; 2] = [56, 160];
const ROUNDS: usize = 60;

/// An input and an output image.
struct Planes {
    isa: Isa,
    side: usize,
    block: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    scratch: Vec<f32>,
}

type Function = (&'static str, fn(&mut Planes) -> usize);

const FUNCTIONS: [Function; 11] = [
    ("max 2x2 / 2", |p| p.pool(2, 2, PoolKind::Max)),
    ("max 3x3 / 2", |p| p.pool(3, 2, PoolKind::Max)),
    ("max 3x3", |p| p.pool(3, 1, PoolKind::Max)),
    ("max 5x5", |p| p.pool(5, 1, PoolKind::Max)),
    ("mean 3x3", |p| p.pool(3, 1, PoolKind::Average { count_padding: false })),
    ("global mean", |p| {
        global_sum(p.isa, &p.x, &mut p.y[..p.block]);
        p.x.len()
    }),
    ("global max", |p| {
        global_max(p.isa, &p.x, &mut p.y[..p.block]);
        p.x.len()
    }),
    ("nearest x2", |p| p.enlarge(false)),
    ("linear x2", |p| p.enlarge(true)),
    ("to NCHW", |p| {
        p.reorder().blocks_to_planes(&p.x, 0, &mut p.y);
        2 * p.x.len()
    }),
    ("from NCHW", |p| {
        p.reorder().planes_to_blocks(&p.x, 0, &mut p.y);
        2 * p.x.len()
    }),
];

fn main() {
    let named = |name: &str| std::env::args().skip(1).any(|argument| argument == name);
    let is_any_named = Isa::all().any(|isa| named(isa.name()));
    for isa in Isa::all().filter(|isa| !is_any_named || named(isa.name())) {
        println!("{:>14}{:>10}{:>10}", isa.name(), SIDES[0], SIDES[1]);
        for (name, function) in FUNCTIONS {
            print!("{name:>14}");
            for side in SIDES {
                let [mut best, mut copy] = [f64::INFINITY; 2];
                let mut planes = Planes::new(isa, side);
                let n = function(&mut planes);
                let from = vec![1.0_f32; n / 2];
                let mut to = vec![0.0_f32; n / 2];
                for _ in 0..ROUNDS {
                    best = best.min(seconds(|| {
                        function(black_box(&mut planes));
                    }));
                    copy = copy.min(seconds(|| to.copy_from_slice(black_box(&from))));
                }
                print!("{:>10.2}", copy / best);
            }
            println!();
        }
    }
}

fn seconds(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}

impl Planes {
    fn new(isa: Isa, side: usize) -> Self {
        let block = if isa.avx512().is_some() { 16 } else { 8 };
        let len = side * side * block;
        let x = (0..len).map(|i| (i % 11) as f32).collect();
        let scratch = vec![0.0; (side + 8) * block];
        Self { isa, side, block, x, y: vec![0.0; len], scratch }
    }

    fn output(&mut self, len: usize) {
        self.y.resize(len, 0.0);
    }

    /// Returns the number of elements read and written.
    fn pool(&mut self, kernel: usize, stride: usize, kind: PoolKind) -> usize {
        let pad = (kernel - 1) / 2;
        let output = (self.side + 2 * pad - kernel) / stride + 1;
        let axis = Axis { input: self.side, output, kernel, stride, dilation: 1, pad: [pad, pad] };
        self.output(output * output * self.block);
        let pool = Pool { isa: self.isa, block: self.block, axes: [axis, axis], kind };
        pool.run(&self.x, 0..output, &mut self.y, &mut self.scratch);
        self.x.len() + self.y.len()
    }

    fn enlarge(&mut self, is_linear: bool) -> usize {
        let (isa, block, side) = (self.isa, self.block, self.side);
        self.output(4 * self.x.len());
        let pairs: Vec<_> = (0..2 * side)
            .map(|i| {
                let weight = (i % 2) as f32 / 2.0;
                [(i / 2, 1.0 - weight), ((i / 2 + 1).min(side - 1), weight)]
            })
            .collect();
        let picked: Vec<usize> = (0..2 * side).map(|i| i / 2).collect();
        let len = side * block;
        for (row, y) in self.y.chunks_exact_mut(4 * len).enumerate() {
            let x = &self.x[row * len..][..len];
            let (first, second) = y.split_at_mut(2 * len);
            if is_linear {
                let next = &self.x[(row + 1).min(side - 1) * len..][..len];
                for (weights, y) in [([1.0, 0.0], first), ([0.5, 0.5], second)] {
                    let blend = &mut self.scratch[..len];
                    blend_rows(isa, x, next, weights, blend);
                    blend_pixels(isa, block, blend, &pairs, y);
                }
            } else {
                pick_pixels(isa, block, x, &picked, first);
                second.copy_from_slice(first);
            }
        }
        self.x.len() + self.y.len()
    }

    fn reorder(&mut self) -> Reorder {
        self.output(self.x.len());
        let (isa, block) = (self.isa, self.block);
        let n_pixels = self.side * self.side;
        Reorder { isa, block, n_blocks: 1, n_channels: block, n_pixels }
    }
}
