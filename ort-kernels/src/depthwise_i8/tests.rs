//! Tests of `depthwise_i8`.

use super::{
    LANES, Line, Pixels, Plane, Weights, n_parts, pack_each, pack_shared, packed_len, taps,
};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::quantize::{Requantize, Scales};

/// Seeded numbers from `least` to `least + 510`, including extreme ones.
fn numbers(count: usize, seed: u32, range: (i16, i16)) -> Vec<i16> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let width = u32::try_from(range.1 - range.0 + 1).unwrap();
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        match state >> 29 {
            0 => range.0,
            1 => range.1,
            _ => range.0 + i16::try_from(state % width).unwrap(),
        }
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The contract, literally: `x: [taps, lanes]`, `w: [lanes, taps]`.
fn expected(x: &[u8], flip: u8, w: impl Fn(usize, usize) -> i16, n_lanes: usize) -> Vec<i32> {
    let sum = |lane: usize| {
        let taps = x.chunks(n_lanes).enumerate();
        taps.map(|(t, x)| i32::from(x[lane] ^ flip) * i32::from(w(lane, t))).sum::<i32>() + 7
    };
    (0..n_lanes).map(sum).collect()
}

/// Called by the ladder for each variant: every edge size, exactly.
pub(super) fn agrees_with_generic(isa: Isa) {
    for n_lanes in [1, 3, 16, 33, 63, 64, 65, 150] {
        for n_taps in [1, 3, 4, 9, 25] {
            for (range, flip) in [((-128, 127), 0), ((-256, 254), 0x80), ((-255, 255), 0)] {
                let x = numbers(n_lanes * n_taps, 1, (0, 255));
                let x: Vec<u8> = x.into_iter().map(|x| u8::try_from(x).unwrap()).collect();
                let w = numbers(n_lanes * n_taps, 2, range);
                let taps: Vec<_> = x.chunks(n_lanes).collect();
                let parts = n_parts(&w);
                let mut sums = vec![7; n_lanes.next_multiple_of(LANES)];
                let mut packed = vec![9; sums.len() * packed_len(n_taps, parts)];
                pack_each(&w, n_taps, parts, &mut packed);
                let weights = Weights::Each(&packed);
                Line { taps: &taps, flip, weights, parts }.add(isa, &mut sums);
                let each = expected(&x, flip, |lane, t| w[lane * n_taps + t], n_lanes);
                assert_eq!(sums[..n_lanes], each, "{isa:?} {n_lanes} lanes, {n_taps} taps");
                sums.fill(7);
                pack_shared(&w[..n_taps], parts, &mut packed);
                let weights = Weights::Shared(&packed[..packed_len(n_taps, parts)]);
                Line { taps: &taps, flip, weights, parts }.add(isa, &mut sums);
                let shared = expected(&x, flip, |_, t| w[t], n_lanes);
                assert_eq!(sums[..n_lanes], shared, "{isa:?} {n_lanes} lanes, {n_taps} taps");
            }
        }
    }
}

#[test]
fn generic_is_the_sum() {
    agrees_with_generic(Isa::Generic);
}

fn quantized(count: usize) -> Vec<u8> {
    let x = numbers(count, 3, (0, 255)).into_iter();
    x.map(|x| u8::try_from(x).unwrap()).collect()
}

fn axis(input: usize, kernel: usize, stride: usize, dilation: usize, pad: usize) -> Axis {
    let output = (input + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
    Axis { input, output, kernel, stride, dilation, pad: [pad, pad] }
}

/// The convolution of one channel: `x` and `w` by their coordinates.
fn convolved(axes: &[Axis; 3], padding: u8, x: impl Fn(usize) -> u8, w: &[i16]) -> Vec<i32> {
    let [a, b, c] = axes;
    let mut y = Vec::new();
    for output in 0..a.output * b.output * c.output {
        let at = [output / c.output / b.output, output / c.output % b.output, output % c.output];
        let mut sum = 7;
        for (t, &w) in w.iter().enumerate() {
            let taps = [t / c.kernel / b.kernel, t / c.kernel % b.kernel, t % c.kernel];
            let inputs = [0, 1, 2].map(|i: usize| axes[i].at(at[i], taps[i]));
            let value = match inputs {
                [Some(i), Some(j), Some(k)] => x((i * b.input + j) * c.input + k),
                _ => padding,
            };
            sum += i32::from(value) * i32::from(w);
        }
        y.push(sum);
    }
    y
}

#[test]
fn images_of_any_geometry_are_convolved() {
    for axes in [
        [Axis::UNIT, axis(9, 3, 1, 1, 1), axis(70, 3, 1, 1, 1)],
        [Axis::UNIT, axis(12, 5, 2, 1, 2), axis(15, 5, 2, 1, 2)],
        [axis(4, 2, 1, 2, 1), axis(5, 3, 3, 1, 1), axis(11, 3, 3, 2, 4)],
        [Axis::UNIT, Axis::UNIT, axis(131, 7, 2, 3, 0)],
        [axis(3, 3, 1, 1, 1), axis(40, 3, 2, 2, 2), axis(37, 2, 1, 1, 1)],
        [Axis::UNIT, axis(40, 2, 5, 1, 0), axis(60, 2, 7, 3, 1)],
    ] {
        let inputs: usize = axes.iter().map(|axis| axis.input).product();
        let n_taps: usize = axes.iter().map(|axis| axis.kernel).product();
        let n_lines = axes[0].output * axes[1].output;
        let (channels, parts) = (5, 2);
        let (x, w) = (quantized(inputs * channels), numbers(n_taps * channels, 4, (-200, 200)));
        for isa in Isa::all() {
            let mut packed = vec![0; packed_len(n_taps, parts)];
            pack_shared(&w[..n_taps], parts, &mut packed);
            let (weights, start) = (&*packed, 7);
            let plane = Plane { axes, x: &x[..inputs], padding: 9, flip: 0, weights, parts, start };
            let mut scratch = vec![3; Plane::scratch_len(&axes)];
            let mut sums = vec![0; Plane::sums_len(&axes)];
            let expected = convolved(&axes, 9, |i| x[i], &w[..n_taps]);
            // Single lines, some, and all lines together.
            let ranges = (0..n_lines).map(|line| line..line + 1);
            for lines in ranges.chain([n_lines / 3..n_lines * 2 / 3, 0..n_lines]) {
                let mut n_left = lines.len() * axes[2].output;
                scratch.fill(3);
                plane.run(isa, lines, (&mut scratch, &mut sums), |line, sums| {
                    let at = line * axes[2].output;
                    assert_eq!(sums, &expected[at..][..sums.len()], "{isa:?} {axes:?}");
                    n_left -= sums.len();
                });
                assert_eq!(n_left, 0, "{isa:?} {axes:?}");
            }
            let packed = by_pixels(&w, &axes, parts);
            let (padding, start, weights) = (&[9; 5], &[7; 5], &*packed);
            let pixels = Pixels { axes, x: &x, padding, flip: 0, weights, parts, start };
            let channel = |i: usize| {
                convolved(&axes, 9, |at| x[at * channels + i], &w[i * n_taps..][..n_taps])
            };
            let expected: Vec<_> = (0..channels).map(channel).collect();
            let mut sums = vec![0; Pixels::sums_len(channels)];
            pixels.run(isa, 1..expected[0].len(), &mut sums, |pixel, sums| {
                let own: Vec<_> = expected.iter().map(|channel| channel[pixel]).collect();
                assert_eq!(sums, own, "{isa:?} {axes:?} pixel {pixel}");
            });
        }
    }
}

#[test]
fn scratch_does_not_grow_with_strides() {
    let long = axis(9, 3, 1 << 40, 1, 1);
    assert_eq!(long.output, 1);
    assert!(Plane::scratch_len(&[Axis::UNIT, long, long]) < 1000);
}

/// Packs weights `[channels, taps]` in the order in which pixels read them.
fn by_pixels(w: &[i16], axes: &[Axis; 3], parts: usize) -> Vec<u8> {
    let kernel = axes.map(|axis| axis.kernel);
    let n_taps: usize = kernel.iter().product();
    let order: Vec<_> = taps(kernel).collect();
    let filters = w.chunks(n_taps);
    let n_lanes = filters.len().next_multiple_of(LANES);
    let ordered: Vec<_> =
        filters.flat_map(|w| order.iter().map(|tap| tap.map_or(0, |tap| w[tap]))).collect();
    let mut packed = vec![0; n_lanes * packed_len(order.len(), parts)];
    pack_each(&ordered, order.len(), parts, &mut packed);
    packed
}

#[test]
fn pixels_are_requantized_sums() {
    for axes in [
        [Axis::UNIT, axis(9, 3, 1, 1, 1), axis(11, 3, 1, 1, 1)],
        [Axis::UNIT, axis(8, 3, 2, 1, 1), axis(12, 3, 2, 1, 1)],
        [Axis::UNIT, axis(8, 4, 1, 2, 3), axis(12, 3, 1, 2, 2)],
        [axis(3, 1, 1, 1, 1), axis(8, 3, 3, 1, 0), axis(12, 3, 3, 1, 0)],
        [axis(6, 3, 1, 1, 1), axis(2, 1, 1, 1, 0), axis(9, 3, 1, 1, 1)],
        [Axis::UNIT, axis(7, 5, 1, 1, 2), axis(9, 5, 1, 1, 2)],
        [Axis::UNIT, axis(12, 5, 2, 1, 2), axis(13, 5, 2, 1, 2)],
        [Axis::UNIT, axis(12, 5, 1, 2, 4), axis(13, 5, 3, 1, 0)],
        [Axis::UNIT, axis(9, 5, 1, 1, 2), axis(11, 3, 1, 1, 1)],
        [axis(9, 5, 1, 1, 2), Axis::UNIT, axis(11, 5, 1, 1, 2)],
        [Axis::UNIT, Axis::UNIT, axis(9, 3, 1, 1, 1)],
    ] {
        let [inputs, outputs, n_taps] = [
            axes.map(|axis| axis.input),
            axes.map(|axis| axis.output),
            axes.map(|axis| axis.kernel),
        ]
        .map(|sizes| sizes.iter().product::<usize>());
        for channels in [3, 64, 100, 144] {
            for parts in [1, 2] {
                let limit = if parts == 1 { 127 } else { 200 };
                let w = numbers(channels * n_taps, 4, (-limit, limit));
                let (x, flip) = (quantized(inputs * channels), if parts == 1 { 0x80 } else { 0 });
                let start: Vec<_> = (0..channels).map(|i| i32::try_from(i).unwrap() * 37).collect();
                let (padding, packed) = (vec![9; channels], by_pixels(&w, &axes, parts));
                for isa in Isa::all() {
                    let (weights, start) = (&*packed, &*start);
                    let pixels =
                        Pixels { axes, x: &x, padding: &padding, flip, weights, parts, start };
                    let mut sums = vec![0; Pixels::sums_len(channels)];
                    let factor = |i: usize| start[i] as f32 * 1e-6 + 3e-4;
                    let mut factors: Vec<_> = (0..channels).map(factor).collect();
                    for (rare, zero_point, is_signed) in
                        [(1.0, 3, false), (1e35, -5, true), (f32::NAN, 0, false)]
                    {
                        factors[channels / 2] = rare;
                        let factors = Scales::ByColumn(&factors);
                        let requantize = Requantize { factors, zero_point, is_signed };
                        let own = 2..outputs;
                        let mut expected = vec![1; own.len() * channels];
                        pixels.run(isa, own.clone(), &mut sums, |pixel, sums| {
                            let y = &mut expected[(pixel - 2) * channels..][..channels];
                            requantize.row(Isa::Generic, 0, sums, y);
                        });
                        let mut found = vec![2; expected.len()];
                        pixels.run_quantized(isa, own, &requantize, (&mut sums, &mut found));
                        assert_eq!(found, expected, "{isa:?} {axes:?} {channels} channels");
                    }
                }
            }
        }
    }
}

#[test]
fn weights_are_sums_of_as_few_bytes_as_possible() {
    for (weight, parts) in [(0, 1), (127, 1), (-128, 1), (128, 2), (254, 2), (-255, 2), (255, 3)] {
        assert_eq!(n_parts(&[0, weight]), parts, "{weight}");
        let sum: i16 = (1..=parts).map(|part| i16::from(super::split(weight, part).0)).sum();
        assert_eq!(sum, weight);
    }
}
