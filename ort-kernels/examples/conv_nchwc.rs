//! Prints GFLOP/s of typical NCHWc convolutions on one thread, for each instruction
//! set of this machine, next to the NCHW convolution, in alternation: best of many short
//! rounds.
//!
//! `cargo run --release -p ort-kernels --example conv_nchwc [ISA]… [CHANNELS SIDE FILTERS KERNEL STRIDE]…`
#![expect(clippy::print_stdout, reason = "a command-line program")]

use ort_kernels::conv_f32::{Axis, Columns, Depthwise};
use ort_kernels::conv_nchwc::{Conv, Form, Size, Start, Tiling};
use ort_kernels::gemm::{self, Gemm, Lhs, Matrix, Strided, pack_a};
use ort_kernels::{Activation, Isa};
use std::hint::black_box;
use std::ops::{Deref, DerefMut, Range};
use std::time::Instant;

/// Floating-point operations per timing.
const WORK: f64 = 2e7;
const ROUNDS: usize = 100;
/// Bytes per cache line.
const LINE: usize = 64;
/// Channels, side of the image, filters (0: depthwise), side of the kernel, stride.
const CASES: [[usize; 5]; 12] = [
    [64, 56, 64, 3, 1],
    [256, 14, 256, 3, 1],
    [512, 7, 512, 3, 1],
    [256, 56, 128, 3, 2],
    [64, 56, 256, 1, 1],
    [256, 56, 64, 1, 1],
    [960, 7, 160, 1, 1],
    [512, 28, 1024, 1, 2],
    [3, 224, 64, 7, 2],
    [3, 320, 16, 3, 2],
    [32, 160, 0, 3, 1],
    [96, 40, 0, 5, 1],
];

/// One case, with operands for every form: only their sizes matter.
struct Case {
    channels: usize,
    filters: usize,
    axis: Axis,
    image: Aligned,
    weights: Aligned,
    out: Aligned,
    scratch: Vec<f32>,
}

/// Floats aligned to a cache line, as in a session.
struct Aligned {
    data: Vec<f32>,
    lines: Range<usize>,
}

fn main() {
    let mut isas: Vec<Isa> = std::env::args().filter_map(|name| Isa::by_name(&name)).collect();
    if isas.is_empty() {
        isas = Isa::all().collect();
    }
    print!("{:>24}", "channels side filters k s");
    for isa in &isas {
        print!("{:>10} {:>10}", isa.name(), "NCHW");
    }
    println!();
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let given = given.as_chunks::<5>().0;
    for &sizes in if given.is_empty() { &CASES[..] } else { given } {
        print!("{:>25}", sizes.map(|x| x.to_string()).join(" "));
        let mut case = Case::new(sizes);
        for &isa in &isas {
            let mut best = [0.0f64; 2];
            for _ in 0..ROUNDS {
                best[0] = best[0].max(speed(case.flops(), || case.in_blocks(isa)));
                let packed = case.packed(isa);
                best[1] = best[1].max(speed(case.flops(), || case.in_planes(isa, &packed)));
            }
            print!("{:>10.1} {:>10.1}", best[0], best[1]);
        }
        println!();
    }
}

impl Case {
    fn new([channels, side, filters, kernel, stride]: [usize; 5]) -> Self {
        let pad = kernel / 2;
        let output = (side + 2 * pad - kernel) / stride + 1;
        let axis = Axis { input: side, output, kernel, stride, dilation: 1, pad: [pad, pad] };
        let values = |n: usize| Aligned::new(n, |i| (i % 11) as f32);
        let n_outputs = if filters == 0 { channels } else { filters };
        Self {
            channels,
            filters,
            axis,
            image: values(channels * side * side),
            weights: values(filters.max(1) * channels * kernel * kernel),
            out: Aligned::new(n_outputs * output * output, |_| 0.0),
            scratch: Vec::new(),
        }
    }

    fn taps(&self) -> usize {
        self.axis.kernel * self.axis.kernel
    }

    fn positions(&self) -> usize {
        self.axis.output * self.axis.output
    }

    fn flops(&self) -> f64 {
        let terms = self.taps() * if self.filters == 0 { 1 } else { self.channels };
        2.0 * (self.out.len() * terms) as f64
    }

    fn in_blocks(&mut self, isa: Isa) {
        let block = if isa.avx512().is_some() { 16 } else { 8 };
        let form = match (self.filters, self.channels < block) {
            (0, _) => Form::Depthwise,
            (_, true) => Form::Planes,
            (_, false) => Form::Blocks,
        };
        let n_inputs = if form == Form::Depthwise { 1 } else { self.channels };
        let w = &self.weights[..self.out.len() / self.positions() * n_inputs * self.taps()];
        let positions = self.positions();
        let mut pieces: Vec<_> = self.out.chunks_exact_mut(positions * block).collect();
        let (axes, x) = ([self.axis, self.axis], &self.image[..]);
        let (start, activation) = (Start::default(), Activation::Relu);
        let conv = Conv { isa, block, form, axes, x, w, start, activation };
        let size = Size { axes, inputs: self.channels / block, filters: pieces.len() };
        match Tiling::new(isa, &size).filter(|_| form == Form::Blocks) {
            Some(tiling) => {
                self.scratch.resize(tiling.scratch_len(), 0.0);
                conv.run_on_tiles(&tiling, &(0..positions), &mut pieces, &mut self.scratch);
            }
            None => conv.run(0..positions, &mut pieces),
        }
        black_box(&mut self.out);
    }

    fn packed(&self, isa: Isa) -> Vec<f32> {
        let (m, k) = (self.filters, self.channels * self.taps());
        let mut packed = vec![0.0; m * k];
        pack_a(isa, &Matrix::row_major(&self.weights[..m * k], m, k), 1.0, &mut packed);
        packed
    }

    fn in_planes(&mut self, isa: Isa, packed: &[f32]) {
        let (side, taps, positions) = (self.axis.input, self.taps(), self.positions());
        let activation = Activation::Relu;
        if self.filters == 0 {
            let axes = [Axis::UNIT, self.axis, self.axis];
            let mut scratch = vec![0.0; Depthwise::scratch_len(&axes)];
            for (c, out) in self.out.chunks_exact_mut(positions).enumerate() {
                let plane = &self.image[c * side * side..][..side * side];
                let weights = &self.weights[c * taps..][..taps];
                let depthwise = Depthwise { isa, axes, weights, bias: 0.5, activation };
                depthwise.run(plane, 0..self.axis.output, out, &mut scratch);
            }
        } else {
            let columns =
                Columns::new(&self.image, self.channels, [Axis::UNIT, self.axis, self.axis]);
            let (m, n, k) = (self.filters, columns.n(), columns.k());
            let (a, start) = (Lhs::Packed(packed), gemm::Start::Zero);
            let gemm = Gemm { isa, m, n, k, a, b: columns, start, activation };
            let mut scratch = vec![0.0; gemm.scratch_len(m)];
            gemm.run(&gemm.whole(), &mut Strided { data: &mut self.out, stride: n }, &mut scratch);
        }
        black_box(&mut self.out);
    }
}

impl Aligned {
    fn new(len: usize, value: impl Fn(usize) -> f32) -> Self {
        let mut data = vec![0.0; len + LINE / size_of::<f32>()];
        let start = data.as_ptr().align_offset(LINE);
        let lines = start..start + len;
        data[lines.clone()].iter_mut().enumerate().for_each(|(i, x)| *x = value(i));
        Self { data, lines }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[self.lines.clone()]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.lines.clone()]
    }
}

/// GFLOP/s over about `WORK` operations.
fn speed(flops: f64, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut done = 0.0;
    while done < WORK {
        call();
        done += flops;
    }
    done / start.elapsed().as_secs_f64() / 1e9
}
