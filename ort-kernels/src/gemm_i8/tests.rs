//! Tests of `gemm_i8`.

use super::{
    Bytes, Columns, Gemm, Signs, Start, Variant, Zeros, column_sums, correct, pack_b, packed_b_len,
    row_masks, row_masks_len, row_sum,
};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::quantize::{self, Requantize, Scales};
use proptest::prelude::*;

/// Seeded bytes, including extreme ones.
fn bytes(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        match state >> 28 {
            0 => 255,
            1 => 128,
            2 => 127,
            _ => state.to_le_bytes()[1],
        }
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Halves two quads of three, so that their pairs fit in 16 bits: `term(at)` is the row of B or the column of A.
fn some_halved(mut bytes: Vec<u8>, term: impl Fn(usize) -> usize) -> Vec<u8> {
    for (_, byte) in
        bytes.iter_mut().enumerate().filter(|(at, _)| !(term(*at) / 4).is_multiple_of(3))
    {
        *byte = (byte.cast_signed() >> 1).cast_unsigned();
    }
    bytes
}

/// What [`row_masks`] writes for rows of `k` signed bytes.
fn masks_of(isa: Isa, a: &[u8], k: usize) -> Vec<u8> {
    let mut masks = vec![99; row_masks_len(isa, a.len().checked_div(k).unwrap_or(0), k)];
    row_masks(isa, a, k, &mut masks);
    masks
}

/// The contract, literally.
fn product(signs: Signs, a: &[u8], b: &[u8], start: Start<'_>, [m, n, k]: [usize; 3]) -> Vec<i32> {
    let signed = |byte: u8, is_signed| match is_signed {
        true => i32::from(byte.cast_signed()),
        false => i32::from(byte),
    };
    let is_signed = signs == Signs::SignedA;
    let mut c = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let start = match start {
                Start::Zero => 0,
                Start::ByColumn(start) => start[j],
                Start::ByRow(start) => start[i],
            };
            let term =
                |p: usize| signed(a[i * k + p], is_signed) * signed(b[p * n + j], !is_signed);
            c.push((0..k).fold(start, |sum, p| sum.wrapping_add(term(p))));
        }
    }
    c
}

fn packed(isa: Isa, b: &Bytes<'_>, flip: u8) -> Vec<u8> {
    let mut packed = vec![99; packed_b_len(isa, b.k, b.n)];
    pack_b(isa, b, flip, &mut packed);
    packed
}

/// Overwrites what pads the last four terms of panels: it must not matter, unless it is specified.
fn pad(packed: &mut [u8], k: usize, variant: Variant) {
    if variant.reads_steps() {
        return;
    }
    let (nr, quads_len) = (variant.nr, variant.quads_len(k));
    for panel in packed.chunks_exact_mut(variant.panel_len(k).max(1)) {
        for (p, quads) in panel[..quads_len].chunks_exact_mut(4 * nr).enumerate() {
            quads
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .for_each(|quad| quad[(k - 4 * p).min(4)..].fill(77));
        }
    }
}

/// The rows of `a`, `stride` apart.
fn apart(a: &[u8], [m, k]: [usize; 2], stride: usize) -> Vec<u8> {
    let mut rows = vec![201; (m - 1) * stride + k];
    for i in 0..m {
        rows[i * stride..][..k].copy_from_slice(&a[i * k..][..k]);
    }
    rows
}

/// Called by the ladder for each variant: every edge size, exactly.
pub(super) fn agrees_with_generic(isa: Isa) {
    let Variant { mr, nr, n_tiles, .. } = super::best(isa);
    let edges = [mr, 2 * mr, mr * n_tiles].into_iter().flat_map(|m| m - 1..=m + 1);
    for m in (1..=2 * mr.min(10) + 1).chain(edges) {
        for n in [1, nr - 1, nr, nr + 1, 2 * nr] {
            for k in [0, 1, 3, 4, 7, 50, 64, 86, 257] {
                let a = some_halved(bytes(m * k, 1), |at| at % k);
                let b = some_halved(bytes(k * n, 2), |at| at / n);
                let masks = masks_of(isa, &a, k);
                let mut packed = packed(isa, &Bytes { data: &b, k, n, strides: [n, 1] }, 0);
                pad(&mut packed, k, super::variant(isa, k));
                let start: Vec<_> = bytes(m.max(n), 3).into_iter().map(i32::from).collect();
                // What is between the rows must not matter, nor what follows them or whether anything does.
                for (signs, start, between, behind) in [
                    (Signs::UnsignedA, Start::ByColumn(&start), 0, 0),
                    (Signs::SignedA, Start::ByRow(&start), 0, 70),
                    (Signs::UnsignedA, Start::Zero, 9, 0),
                ] {
                    let expected = product(signs, &a, &b, start, [m, n, k]);
                    let a_stride = k + between;
                    let mut a = apart(&a, [m, k], a_stride);
                    a.extend(vec![201; behind]);
                    let (a, a_masks, b) = (&a, &masks, &packed);
                    let gemm = Gemm { isa, n, k, signs, a, a_stride, a_masks, b, start };
                    let mut c = vec![-1; m * n];
                    gemm.run(0..m, 0..n, &mut c);
                    assert_eq!(c, expected, "{isa:?} {signs:?} {m}x{n}x{k}");
                    results_are_requantized_sums(&gemm, [m, n], &expected);
                }
            }
        }
    }
}

/// Quantized values of either signedness, with a factor per column or row, equal [`quantize`] of the sums.
fn results_are_requantized_sums(gemm: &Gemm<'_>, [m, n]: [usize; 2], sums: &[i32]) {
    let one = |i: u8| f32::from(i) * 3e-4 - 0.01;
    let mut factors: Vec<_> = bytes(m.max(n), 4).into_iter().map(one).collect();
    for rare in [0.01, 1e38, f32::NAN, f32::INFINITY] {
        factors[m.max(n) / 2] = rare;
        for (is_by_row, zero_point, is_signed) in
            [(false, 0, false), (true, 200, false), (false, -7, true), (true, 127, true)]
        {
            let factor = |at: usize| factors[if is_by_row { at / n } else { at % n }];
            let scaled = sums.iter().enumerate().map(|(at, &sum)| sum as f32 * factor(at));
            let (scaled, zero) = (scaled.collect::<Vec<_>>(), f32::from(zero_point));
            let (mut expected, mut found) = (vec![1; m * n], vec![2; m * n]);
            if is_signed {
                let expected = bytemuck::cast_slice_mut(&mut expected);
                quantize::quantize_i8(Isa::Generic, &scaled, 1.0, zero, expected);
            } else {
                quantize::quantize_u8(Isa::Generic, &scaled, 1.0, zero, &mut expected);
            }
            let factors = match is_by_row {
                true => Scales::ByRow(&factors),
                false => Scales::ByColumn(&factors),
            };
            let requantize = Requantize { factors, zero_point, is_signed };
            gemm.run_quantized(0..m, 0..n, &requantize, &mut found);
            assert_eq!(found, expected, "{gemm:?} {requantize:?}");
        }
    }
}

#[test]
fn generic_is_the_product() {
    agrees_with_generic(Isa::Generic);
}

#[test]
fn panels_and_sums_support_any_strides() {
    let sizes = [0, 1, 3, 4, 31, 32, 33, 64, 67, 130];
    for (k, n) in sizes.iter().flat_map(|&k| [1, 15, 16, 32, 33, 70].map(|n| (k, n))) {
        for strides in [[1, k + 2], [n + 3, 1], [2 * n + 1, 2]] {
            for (isa, flip) in Isa::all().flat_map(|isa| [(isa, 0), (isa, 0x80)]) {
                panels_and_sums(isa, flip, [k, n], strides);
            }
        }
    }
}

#[test]
fn large_matrices_are_packed_and_summed_in_pieces() {
    for [k, n] in [[300_001, 3], [262_164, 2], [5, 600_001]] {
        for strides in [[1, k + 2], [n + 3, 1], [2 * n + 1, 2]] {
            panels_and_sums(Isa::best(), 0x80, [k, n], strides);
        }
    }
}

/// The row, column and value of each element of panels, padding included.
fn elements(variant: Variant, k: usize, packed: &[u8]) -> impl Iterator<Item = (usize, usize, u8)> {
    let (nr, quads_len) = (variant.nr, variant.quads_len(k));
    let panels = packed.chunks_exact(variant.panel_len(k).max(1)).enumerate();
    panels.flat_map(move |(panel, bytes)| {
        bytes[..quads_len]
            .iter()
            .enumerate()
            .map(move |(i, &byte)| (i / (4 * nr) * 4 + i % 4, panel * nr + i / 4 % nr, byte))
    })
}

/// A bit of a mask is set if no sum of two products with bytes of 255 or 0 saturates.
fn masks_are_of_pairs_that_fit(variant: Variant, k: usize, packed: &[u8]) {
    for panel in packed.chunks_exact(variant.panel_len(k).max(1)) {
        let (quads, masks) = panel.split_at(variant.quads_len(k));
        for (q, quads) in quads.chunks_exact(4 * variant.nr).enumerate() {
            let fits = quads.as_chunks::<2>().0.iter().all(|pair| {
                let [a, b] = pair.map(|byte| i32::from(byte.cast_signed()));
                let sums = [a.max(0) + b.max(0), a.min(0) + b.min(0)].map(|sum| 255 * sum);
                sums.iter().all(|&sum| i16::try_from(sum).is_ok())
            });
            assert_eq!(masks[q / 8] >> (q % 8) & 1 == 1, fits, "quad {q} of {k} rows");
        }
    }
}

fn panels_and_sums(isa: Isa, flip: u8, [k, n]: [usize; 2], strides: [usize; 2]) {
    let data = bytes(k * n * 2 + 3 * (k + n), 5);
    let b = Bytes { data: &data, k, n, strides };
    let at = |p: usize, j: usize| data[p * strides[0] + j * strides[1]] ^ flip;
    let variant = super::variant(isa, k);
    let packed = packed(isa, &b, flip);
    for (p, j, byte) in elements(variant, k, &packed) {
        let expected = if p < k && j < n { at(p, j) } else { 0 };
        assert_eq!(byte, expected, "{isa:?} {k}x{n} {strides:?}: [{p}, {j}]");
    }
    if variant.has_masks {
        masks_are_of_pairs_that_fit(variant, k, &packed);
    }
    let mut sums = vec![7; n];
    column_sums(isa, &b, flip, &mut sums);
    let signed = |p, j| i32::from(at(p, j).cast_signed());
    let expected: Vec<i32> = (0..n).map(|j| (0..k).map(|p| signed(p, j)).sum()).collect();
    assert_eq!(sums, expected, "{isa:?} {k}x{n} {strides:?}");
}

#[test]
fn extreme_bytes_do_not_saturate() {
    for isa in Isa::all() {
        for (a, b) in [(255, 0x80), (255, 127), (128, 0x80)] {
            for signs in [Signs::UnsignedA, Signs::SignedA] {
                let (a, b, k) = (vec![a; 4096], vec![b; 4096], 4096);
                let start = Start::ByRow(&[0]);
                let expected = product(signs, &a, &b, start, [1, 1, k]);
                let b = packed(isa, &Bytes { data: &b, k, n: 1, strides: [1, 1] }, 0);
                let gemm =
                    Gemm { isa, n: 1, k, signs, a: &a, a_stride: k, a_masks: &[], b: &b, start };
                let mut c = [0];
                gemm.run(0..1, 0..1, &mut c);
                assert_eq!(c[..], expected, "{isa:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn regions_and_zero_points_give_the_centered_product(
        (m, n, k) in (1usize..40, 1usize..100, 0usize..300),
        (a_zero, b_zero) in any::<(u8, u8)>(),
        (row_cut, panel_cut) in (0usize..16, 0usize..4),
    ) {
        // B is unsigned and transposed: flipped when packed, like its zero point.
        let (a, b) = (bytes(m * k, 1), bytes(k * n, 2));
        let view = Bytes { data: &b, k, n, strides: [1, k] };
        let zeros = Zeros { a: i32::from(a_zero), b: i32::from(b_zero) - 128 };
        let mut sums = vec![0; n];
        column_sums(Isa::best(), &view, 0x80, &mut sums);
        let start: Vec<_> = sums.iter().map(|&sum| zeros.by_column(k, sum)).collect();
        for isa in Isa::all() {
            let packed = packed(isa, &view, 0x80);
            let (signs, start) = (Signs::UnsignedA, Start::ByColumn(&start));
            let gemm = Gemm { isa, n, k, signs, a: &a, a_stride: k, a_masks: &[], b: &packed, start };
            let column = (panel_cut * super::best(isa).nr).min(n / super::best(isa).nr * super::best(isa).nr);
            for rows in [0..row_cut.min(m), row_cut.min(m)..m] {
                for columns in [0..column, column..n] {
                    let mut c = vec![0; rows.len() * columns.len()];
                    gemm.run(rows.clone(), columns.clone(), &mut c);
                    for (i, sums) in rows.clone().zip(c.chunks_exact_mut(columns.len().max(1))) {
                        correct(isa, sums, row_sum(&a[i * k..][..k]), &vec![zeros.b; columns.len()]);
                    }
                    for (at, &found) in c.iter().enumerate() {
                        let i = rows.start + at / columns.len();
                        let j = columns.start + at % columns.len();
                        let term = |p: usize| {
                            let a = i32::from(a[i * k + p]) - i32::from(a_zero);
                            a * (i32::from(b[j * k + p]) - i32::from(b_zero))
                        };
                        prop_assert_eq!(found, (0..k).map(term).sum::<i32>());
                    }
                }
            }
        }
    }
}

#[test]
fn columns_are_the_inputs_of_outputs() {
    let axis = |input, kernel, stride, dilation, pad: [usize; 2]| {
        let output = (input + pad[0] + pad[1] - (kernel - 1) * dilation - 1) / stride + 1;
        Axis { input, output, kernel, stride, dilation, pad }
    };
    for axes in [
        [Axis::UNIT, axis(5, 3, 1, 1, [1, 1]), axis(40, 3, 1, 1, [1, 1])],
        [Axis::UNIT, axis(9, 3, 2, 1, [1, 0]), axis(7, 2, 2, 2, [0, 3])],
        [axis(3, 2, 1, 1, [0, 1]), axis(4, 1, 1, 1, [0, 0]), axis(4, 4, 3, 1, [4, 4])],
        [axis(4, 3, 2, 1, [1, 1]), axis(6, 1, 2, 1, [0, 0]), axis(50, 1, 2, 1, [0, 0])],
        [Axis::UNIT, axis(3, 1, 3, 1, [0, 0]), axis(70, 5, 2, 1, [2, 2])],
        [Axis::UNIT, axis(6, 1, 2, 1, [0, 0]), axis(50, 1, 2, 1, [0, 0])],
        [Axis::UNIT, Axis::UNIT, axis(90, 1, 1, 1, [0, 0])],
        [Axis::UNIT, axis(4, 3, 1, 30, [30, 30]), axis(5, 2, 3, 50, [40, 41])],
    ] {
        let [a, b, c] = axes;
        let (channels, padding, flip) = (3, 9, 0x80);
        let plane = a.input * b.input * c.input;
        let image = bytes(channels * plane, 5);
        let columns = Columns { image: &image, channels, axes, padding, flip };
        let n_outputs = a.output * b.output * c.output;
        // Taps and their channels, the last quad of which repeats the last one.
        let mut expected = Vec::new();
        for (t0, t1, t2) in taps([a.kernel, b.kernel, c.kernel]) {
            for channel in (0..4).map(|channel: usize| channel.min(channels - 1)) {
                for (o0, o1, o2) in taps([a.output, b.output, c.output]) {
                    let read = a.at(o0, t0).zip(b.at(o1, t1)).zip(c.at(o2, t2));
                    let at = read.map(|((i, j), k)| (i * b.input + j) * c.input + k);
                    expected.push(at.map_or(padding, |at| image[channel * plane + at]));
                }
            }
        }
        let k = columns.k();
        for (isa, max) in Isa::all().flat_map(|isa| [(isa, 12), (isa, 100)]) {
            let mut rest = 2..n_outputs;
            while !rest.is_empty() {
                let outputs = columns.first(&rest, max);
                let mut scratch = vec![0; Columns::scratch_len(&axes, channels, max)];
                let mut found = vec![99; columns.packed_len(isa, outputs.len())];
                columns.pack(isa, outputs.clone(), &mut scratch, &mut found);
                let variant = super::variant(isa, k);
                for (p, j, found) in elements(variant, k, &found).filter(|e| e.1 < outputs.len()) {
                    if p < k {
                        let expected = expected[p * n_outputs + outputs.start + j] ^ flip;
                        assert_eq!(found, expected, "{isa:?} {p} {j}");
                    } else if variant.reads_steps() {
                        assert_eq!(found, 0, "{isa:?} {p} {j}");
                    }
                }
                rest.start = outputs.end;
            }
        }
    }
}

/// Every index of three loops, the last being the innermost.
fn taps([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}
