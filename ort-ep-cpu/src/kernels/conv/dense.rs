//! Dense convolutions: for each image and group a product of packed
//! weights and columns, or a faster algorithm if there are few filters or positions.

use ort_ep::{Packed, Recipe, Threads};
use ort_kernels::conv_f32::{Axis, Columns, Direct, Narrow};
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Panels, Slice, Start, pack_a, variant};
use ort_tensor::go_on;

use super::{ConvKernel, Geometry, Operands, Residual, is_depthwise};
use crate::cpu::{Team, n_parts};
use crate::cut::{Along, Cut, Part};
use crate::kernels::Compiler;

/// The weights of each group, packed as left operands one after the other; `None` unless they are
/// constant and the convolution is dense.
pub(super) fn pack(compiler: &Compiler<'_>, group: usize) -> Option<Packed> {
    let isa = compiler.cpu.isa;
    let weights = compiler.constant(1)?;
    let &[filters, c, ref kernel @ ..] = weights.shape() else { return None };
    let (rows, columns) = (filters / group, c * kernel.iter().product::<usize>());
    if weights.is_empty() || rows == 0 || is_depthwise(group, c) {
        return None;
    }
    let recipe = Recipe {
        name: "gemm_f32/a",
        parameters: vec![variant(isa).mr as u64, group as u64],
        n_bytes: weights.len() * size_of::<f32>(),
    };
    compiler.pack_for_runs(1, &recipe, |data: &[f32], packed| {
        let groups = data.chunks_exact(rows * columns);
        for (w, packed) in groups.zip(packed.chunks_exact_mut(rows * columns)) {
            pack_a(isa, &Matrix::row_major(w, rows, columns), 1.0, packed);
        }
    })
}

/// The algorithms, which all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    /// A product with columns.
    Columns,
    /// Reads the image directly.
    Direct,
    /// Lanes are filters.
    Narrow,
}

/// The fastest algorithm; all but the first need packed weights.
fn algorithm(kernel: &ConvKernel, geometry: &Geometry) -> Algorithm {
    let (isa, m, [depth, height, width]) = (kernel.cpu.isa, geometry.m, geometry.axes);
    if kernel.weights.is_none() {
        Algorithm::Columns
    } else if Narrow::is_suited(isa, m, geometry.n_outputs()) {
        Algorithm::Narrow
    } else if depth == Axis::UNIT && Direct::is_suited(isa, [m, geometry.c], &[height, width]) {
        Algorithm::Direct
    } else {
        Algorithm::Columns
    }
}

/// Elements of scratch per thread.
pub(super) fn scratch_len(kernel: &ConvKernel, geometry: &Geometry) -> usize {
    let [_, height, width] = geometry.axes;
    match algorithm(kernel, geometry) {
        Algorithm::Columns => {
            let none = Matrix::row_major(&[], 0, 0);
            product(kernel, geometry, &[], none, Start::Zero).scratch_len(geometry.m)
        }
        Algorithm::Direct => Direct::scratch_len(geometry.c, &[height, width]),
        Algorithm::Narrow => Narrow::scratch_len(geometry.c * geometry.taps()),
    }
}

/// Computes `y`: `[images, group, m, positions]`.
pub(super) fn run(
    kernel: &ConvKernel,
    geometry: &Geometry,
    operands: &Operands<'_>,
    y: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let Geometry { c, m, group, .. } = *geometry;
    let (k, n) = (c * geometry.taps(), geometry.n_outputs());
    let n_products = y.len() / (m * n);
    let n_parts = n_parts(threads, y.len().saturating_mul(k)).div_ceil(n_products);
    let cut = Cut::new(kernel.cpu.isa, [m, n], n_parts, Along::Columns);
    let team = Team::new(threads, n_products * cut.n_parts());
    let team = team.with_scratch(scratch, scratch_len(kernel, geometry));
    let algorithm = algorithm(kernel, geometry);
    let products = y.chunks_exact_mut(m * n).enumerate();
    let parts = products.flat_map(|(i, y)| cut.parts(y).map(move |part| (i, part)));
    team.run(parts, |(i, mut part), scratch| {
        let image = c * geometry.n_inputs();
        let x = &operands.x[i * image..][..image];
        let bias = operands.bias_from(i % group * m);
        let start = match (operands.z, bias) {
            (Residual::None, None) => Start::Zero,
            (Residual::None, Some(bias)) => Start::ByRow(bias),
            (z, bias) => {
                add_residual(z, (i * m * n, n), bias, &mut part);
                Start::C
            }
        };
        let w = &operands.w[i % group * m * k..][..m * k];
        let columns = || Columns::new(x, c, geometry.axes);
        let epilogue = kernel.epilogue;
        match algorithm {
            Algorithm::Columns => {
                let columns = UntilCancelled(columns());
                part.compute(&product(kernel, geometry, w, columns, start), epilogue, scratch);
            }
            Algorithm::Direct => {
                part.compute(&direct(kernel, geometry, (x, w), start), epilogue, scratch);
            }
            Algorithm::Narrow => {
                part.compute(&narrow(kernel, geometry, (columns(), w), start), epilogue, scratch);
            }
        }
    });
}

/// Columns that are no longer written once the run is cancelled: the product is then unused.
struct UntilCancelled<'a>(Columns<'a>);

impl Panels for UntilCancelled<'_> {
    fn write(&self, slice: &Slice, panels: &mut [f32]) {
        // Fewer elements take as long as the check.
        if panels.len() < CHECKED || go_on().is_ok() {
            self.0.write(slice, panels);
        }
    }
}

/// Elements whose packing takes much longer than a check for cancellation.
const CHECKED: usize = 1 << 12;

fn product<'a, B: Panels>(
    kernel: &ConvKernel,
    geometry: &Geometry,
    w: &'a [f32],
    b: B,
    start: Start<'a>,
) -> Gemm<'a, B> {
    let (m, k) = (geometry.m, geometry.c * geometry.taps());
    let a = match kernel.weights {
        Some(_) => Lhs::Packed(w),
        None => Lhs::Strided { a: Matrix::row_major(w, m, k), alpha: 1.0 },
    };
    let activation = kernel.epilogue.fused();
    Gemm { isa: kernel.cpu.isa, m, n: geometry.n_outputs(), k, a, b, start, activation }
}

fn direct<'a>(
    kernel: &ConvKernel,
    geometry: &Geometry,
    (x, w): (&'a [f32], &'a [f32]),
    start: Start<'a>,
) -> Direct<'a> {
    let [_, height, width] = geometry.axes;
    let (bias, is_sum) = start_of_sums(start);
    Direct {
        isa: kernel.cpu.isa,
        filters: geometry.m,
        channels: geometry.c,
        axes: [height, width],
        x,
        w,
        bias,
        is_sum,
        activation: kernel.epilogue.fused(),
    }
}

fn narrow<'a>(
    kernel: &ConvKernel,
    geometry: &Geometry,
    (columns, w): (Columns<'a>, &'a [f32]),
    start: Start<'a>,
) -> Narrow<'a> {
    let (bias, is_sum) = start_of_sums(start);
    let (isa, filters, activation) = (kernel.cpu.isa, geometry.m, kernel.epilogue.fused());
    Narrow { isa, filters, w, columns, bias, is_sum, activation }
}

/// The initial value of sums: the bias, and whether to add to the contents of y.
const fn start_of_sums(start: Start<'_>) -> (Option<&[f32]>, bool) {
    match start {
        Start::ByRow(bias) => (Some(bias), false),
        start => (None, matches!(start, Start::C)),
    }
}

/// Writes residual plus bias to a part of the matrix that starts at `first` and has `n` columns.
fn add_residual(
    z: Residual<'_>,
    (first, n): (usize, usize),
    bias: Option<&[f32]>,
    part: &mut Part<'_>,
) {
    let column = part.columns.start;
    part.for_each_row(|row, y| {
        if let Residual::Given(z) = z {
            y.copy_from_slice(&z[first + row * n + column..][..y.len()]);
        }
        if let Some(bias) = bias {
            y.iter_mut().for_each(|y| *y += bias[row]);
        }
    });
}
