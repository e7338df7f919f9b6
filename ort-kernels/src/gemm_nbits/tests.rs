//! Tests of `gemm_nbits`: compared with double-precision sums of weights unpacked one by one.

use super::{Bytes, Floats, Format, Variant, Weights, block_sums, byte_variant, float_variant};
use super::{MAX_BLOCK, Quantized, quantize_blocks};
use crate::gemm::{Gemm, Lhs, Matrix, Start, Strided};
use crate::{Activation, Isa};

/// Pseudo-random numbers in [−1, 1].
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// Weights as they are stored.
#[derive(Clone)]
struct Stored {
    format: Format,
    quantized: Vec<u8>,
    scales: Vec<f32>,
    zeros: Option<Vec<f32>>,
    table: Option<[f32; 16]>,
    bias: Option<Vec<f32>>,
}

/// The same, packed.
struct Packed {
    quantized: Vec<u8>,
    scales: Vec<f32>,
    zeros: Option<Vec<f32>>,
}

impl Stored {
    fn new([bits, block, k, n]: [usize; 4], nr: usize, has_zeros: bool) -> Self {
        let format = Format { bits, block, k, n, nr };
        let value = |i: usize| (i * 7919 + i / 251 * 31 + bits).to_le_bytes()[0];
        let n_blocks = n * format.n_blocks();
        let zero = |i: usize| (i % 5) as f32 - 2.0;
        Self {
            format,
            quantized: (0..n * format.padded_k() * bits / 8).map(value).collect(),
            scales: numbers(n_blocks, 3),
            zeros: has_zeros.then(|| (0..n_blocks).map(zero).collect()),
            table: None,
            bias: has_zeros.then(|| numbers(n, 4)),
        }
    }

    fn packed(&self) -> Packed {
        let by_block = |values: &Vec<f32>| {
            let mut packed = vec![f32::NAN; self.format.scales_len()];
            self.format.pack_by_block(values, &mut packed);
            packed
        };
        let mut quantized = vec![0xff; self.format.quantized_len()];
        self.format.pack_quantized(Isa::best(), &self.quantized, &mut quantized);
        Packed {
            quantized,
            scales: by_block(&self.scales),
            zeros: self.zeros.as_ref().map(by_block),
        }
    }

    fn weights<'a>(&'a self, packed: &'a Packed) -> Weights<'a> {
        Weights {
            format: self.format,
            quantized: &packed.quantized,
            scales: &packed.scales,
            zeros: packed.zeros.as_deref(),
            table: self.table.as_ref(),
            bias: self.bias.as_deref(),
        }
    }

    /// Quantized value minus middle, zero point, and scale of a weight.
    fn at(&self, k: usize, j: usize) -> [f64; 3] {
        let Format { bits, block, .. } = self.format;
        let row_bytes = self.format.padded_k() * bits / 8;
        let byte = self.quantized[j * row_bytes + k * bits / 8];
        let value = (usize::from(byte) >> (k * bits % 8)) & ((1 << bits) - 1);
        let of_block = j * self.format.n_blocks() + k / block;
        let zero = self.zeros.as_ref().map_or(0.0, |zeros| f64::from(zeros[of_block]));
        let value = match self.table {
            Some(table) => f64::from(table[value]),
            None => value as f64 - self.format.middle() as f64,
        };
        [value, zero, f64::from(self.scales[of_block])]
    }

    /// The element of the product with a row, and the sum of magnitudes that scales the error bounds.
    fn element(&self, a: &[f32], j: usize) -> (f64, f64) {
        let (mut y, mut most) = (self.bias.as_ref().map_or(0.0, |b| f64::from(b[j])), 0.0);
        for (k, a) in a.iter().enumerate().take(self.format.k) {
            let [value, zero, scale] = self.at(k, j);
            y += f64::from(*a) * (value - zero) * scale;
            most += (f64::from(*a) * scale).abs() * (value.abs() + zero.abs());
        }
        (y, most + y.abs())
    }
}

/// Bits, block, k and n: each width, whole and partial blocks, more and fewer columns than a panel.
fn sizes(nr: usize) -> Vec<[usize; 4]> {
    let mut sizes = Vec::new();
    for bits in [2, 4, 8] {
        for (block, k) in [(16, 16), (16, 40), (32, 1), (32, 320), (128, 300), (256, 512)] {
            for n in [1, nr, nr + 1] {
                sizes.push([bits, block, k, n]);
            }
        }
    }
    sizes
}

/// Rows of A padded with zeros.
fn rows(format: &Format, m: usize) -> Vec<f32> {
    let mut a = numbers(m * format.padded_k(), 7);
    for row in a.chunks_mut(format.padded_k()) {
        row[format.k..].fill(0.0);
    }
    a
}

/// Calls `check` for every number of rows that tiles may have, and more.
fn each(Variant { mr, nr, .. }: Variant, mut check: impl FnMut(&Stored, usize)) {
    for size in sizes(nr) {
        for has_zeros in [false, true] {
            let stored = Stored::new(size, nr, has_zeros);
            (1..=mr + 1).for_each(|m| check(&stored, m));
        }
    }
}

/// γ(n) of f32.
fn gamma(n: usize) -> f64 {
    let nu = n as f64 * f64::from(f32::EPSILON) / 2.0;
    nu / (1.0 - nu)
}

fn assert_close(stored: &Stored, a: &[f32], c: &[f32], bound: impl Fn(f64) -> f64) {
    let (n, stride) = (stored.format.n, stored.format.padded_k());
    for (i, c) in c.chunks(n).enumerate() {
        for (j, c) in c.iter().enumerate() {
            let (y, most) = stored.element(&a[i * stride..], j);
            let error = (f64::from(*c) - y).abs();
            assert!(error <= bound(most), "{i} {j} of {:?}: {c} not {y}", stored.format);
        }
    }
}

pub(super) mod floats {
    use super::*;

    /// Called by the ladder for each variant: checks the promised bound.
    pub(in super::super) fn agrees_with_generic(isa: Isa) {
        each(float_variant(isa), |stored, m| {
            check(isa, stored, m);
            if stored.format.bits == 4 {
                check(isa, &Stored { table: Some(TABLE), ..stored.clone() }, m);
            }
        });
    }

    /// Values in no order.
    const TABLE: [f32; 16] =
        [0.5, -3.0, 0.0, 7.0, 1.5, 2.0, -0.25, 6.0, -1.0, 1.0, 0.75, -8.0, 3.0, 0.125, 9.0, -2.0];

    fn check(isa: Isa, stored: &Stored, m: usize) {
        let (format, packed) = (stored.format, stored.packed());
        let a = rows(&format, m);
        let mut sums = vec![0.0; m * format.n_blocks()];
        block_sums(isa, &a, format.block, &mut sums);
        let mut c = vec![f32::NAN; m * format.n];
        let left = Floats { a: &a, stride: format.padded_k(), sums: &sums };
        let target = &mut Strided { data: &mut c, stride: format.n };
        stored.weights(&packed).times_floats(isa, &left, (0..m, 0..format.n), target);
        assert_close(stored, &a, &c, |most| gamma(format.k + 4) * most);
    }

    #[test]
    fn generic_is_within_the_bound() {
        agrees_with_generic(Isa::Generic);
    }

    #[test]
    fn weights_are_the_right_operand_of_any_product() {
        for isa in Isa::all() {
            let nr = float_variant(isa).nr;
            for (i, size) in
                [[4, 32, 700, nr + 5], [4, 64, 90, nr], [2, 16, 33, 3], [8, 128, 300, 2 * nr]]
                    .into_iter()
                    .enumerate()
            {
                let table = (i == 1).then_some(TABLE);
                let stored = Stored { table, ..Stored::new(size, nr, true) };
                let ([_, _, k, n], m, packed) = (size, 20, stored.packed());
                let a = rows(&stored.format, m);
                let rows =
                    Matrix { row_stride: stored.format.padded_k(), ..Matrix::row_major(&a, m, k) };
                let (b, bias) = (stored.weights(&packed), stored.bias.as_deref().unwrap());
                let (start, activation) = (Start::ByColumn(bias), Activation::None);
                let a_ = Lhs::Strided { a: rows, alpha: 1.0 };
                let gemm = Gemm { isa, m, n, k, a: a_, b, start, activation };
                let mut c = vec![f32::NAN; m * n];
                let mut scratch = vec![f32::NAN; gemm.scratch_len(m)];
                let target = &mut Strided { data: &mut c, stride: n };
                gemm.run(&gemm.whole(), target, &mut scratch);
                // A product on matrix tiles has a different bound, below twice that of a chain.
                assert_close(&stored, &a, &c, |most| 2.0 * gamma(k + 4) * most);
            }
        }
    }
}

pub(super) mod bytes {
    use super::*;

    /// Quantizes A, and returns the product, which must equal that of `generic`.
    fn product(isa: Isa, stored: &Stored, a: &[f32], m: usize) -> Vec<f32> {
        let (format, packed) = (stored.format, stored.packed());
        let (k, n_blocks) = (format.padded_k(), format.n_blocks());
        let mut q = vec![1_i8; m * k];
        let (mut scales, mut sums) = (vec![f32::NAN; m * n_blocks], vec![f32::NAN; m * n_blocks]);
        for i in 0..m {
            let of = i * n_blocks..(i + 1) * n_blocks;
            let (row, q) = (&a[i * k..][..format.k], &mut q[i * k..][..k]);
            let to = Quantized { q, scales: &mut scales[of.clone()], sums: &mut sums[of] };
            quantize_blocks(isa, row, format.block, to);
        }
        let mut c = vec![f32::NAN; m * format.n];
        let left = super::Bytes { a: &q, scales: &scales, sums: &sums };
        let target = &mut Strided { data: &mut c, stride: format.n };
        stored.weights(&packed).times_bytes(isa, &left, (0..m, 0..format.n), target);
        c
    }

    /// Called by the ladder for each variant: at most half a step of A per block from the exact product, and the same
    /// bits for all instruction sets.
    pub(in super::super) fn agrees_with_generic(isa: Isa) {
        let mut fused = Vec::new();
        each(byte_variant(isa), |stored, m| {
            let format = stored.format;
            let a = rows(&format, m);
            let c = product(isa, stored, &a, m);
            // No number of A is above 1: half a step is at most 1/254, and A is 1/256 on average.
            let n = format.n;
            for (i, c) in c.chunks(n).enumerate() {
                for (j, c) in c.iter().enumerate() {
                    let row = &a[i * format.padded_k()..];
                    let ones = vec![1.0; format.k];
                    let ((y, most), (_, all)) = (stored.element(row, j), stored.element(&ones, j));
                    let bound = all / 254.0 + gamma(format.k + 4) * most;
                    assert!((f64::from(*c) - y).abs() <= bound, "{i} {j} of {format:?}: {c} {y}");
                }
            }
            fused.extend(c.iter().map(|c| c.to_bits()));
        });
        assert!(!fused.is_empty());
    }

    #[test]
    fn generic_is_within_the_bound() {
        agrees_with_generic(Isa::Generic);
    }

    #[test]
    fn bits_do_not_depend_on_the_instruction_set() {
        let isas: Vec<_> = Isa::all().filter(|isa| isa.avx2().is_some()).collect();
        for size in [[4, 32, 320, 70], [2, 64, 100, 3], [8, MAX_BLOCK, 1000, 33]] {
            let results = isas.iter().map(|&isa| {
                let stored = Stored::new(size, byte_variant(isa).nr, true);
                let a = rows(&stored.format, 7);
                product(isa, &stored, &a, 7).into_iter().map(f32::to_bits).collect::<Vec<_>>()
            });
            let results: Vec<_> = results.collect();
            assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{size:?}");
        }
    }

    #[test]
    fn the_largest_values_and_bytes_do_not_saturate() {
        for isa in Isa::all() {
            for bits in [2, 4, 8] {
                let nr = byte_variant(isa).nr;
                let mut stored = Stored::new([bits, MAX_BLOCK, MAX_BLOCK, 1], nr, false);
                stored.quantized.fill(0xff);
                stored.scales.fill(1.0);
                for sign in [1.0, -1.0] {
                    let a = vec![sign; MAX_BLOCK];
                    let most = (stored.format.middle() - 1) as f32 * MAX_BLOCK as f32;
                    let c = product(isa, &stored, &a, 1);
                    // 127 and its reciprocal round once each.
                    assert!((c[0] - sign * most).abs() <= 2.0 * f32::EPSILON * most, "{isa:?}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_quantized_to_nearest() {
        for isa in Isa::all() {
            let mut a = numbers(100, 1);
            (a[3], a[32], a[70]) = (254.0, f32::INFINITY, f32::NAN);
            a[96..].fill(1e-37);
            let (mut q, mut scales, mut sums) = ([7_i8; 128], [0.0; 4], [0.0; 4]);
            let to = Quantized { q: &mut q, scales: &mut scales, sums: &mut sums };
            quantize_blocks(isa, &a, 32, to);
            assert_eq!((scales[0], q[3]), (2.0, 127));
            assert!(scales[1].is_nan() && scales[2].is_nan());
            assert_eq!((q[96..].iter().all(|&q| q == 0), sums[3]), (true, 0.0));
            let expected = a[..32].iter().map(|a| (a / 2.0).round_ties_even());
            assert!(q.iter().zip(expected).all(|(q, e)| f32::from(*q) == e), "{isa:?}");
            assert_eq!(sums[0], q[..32].iter().map(|&q| f32::from(q)).sum::<f32>());
        }
    }
}
