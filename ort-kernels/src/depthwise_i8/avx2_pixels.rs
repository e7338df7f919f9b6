//! Pixels with windows of any size, 32 channels at a time: taps in pairs, widened to 16 bits, so that no pair of products
//! saturates. The weights of a block of channels are widened once per line.

use super::avx2_32::{LANES, add_pair, reordered, widened};
use super::pixels::{Order, Pixels};
use super::{MAX_TAPS, QUAD};
use crate::isa::x86::{load_bytes32, load_up_to32, load8, store_ints8};
use crate::quantize::Requantize;
use crate::quantize::requantize::x86::avx2::quantized;
use std::arch::x86_64::{
    __m256i, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_or_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_slli_epi32,
};
use std::ops::Range;

/// The maximum number of pairs.
const PAIRS: usize = MAX_TAPS / 2;

/// A tap: the index of its line, and its position along the lines.
type Tap = [usize; 2];

/// Two taps that are multiplied together.
#[derive(Clone, Copy, Default)]
struct Pair {
    /// The index of the first in the order of weights; the second is two further on.
    first: usize,
    /// The index of the second if it is elsewhere, because there is a gap or nothing two further on.
    second: Option<usize>,
    taps: [Option<Tap>; 2],
}

/// The taps of a window, paired.
struct Pairs {
    pairs: [Pair; PAIRS],
    len: usize,
    /// The number of taps and gaps.
    n_taps: usize,
}

impl Pairs {
    /// Pairs the taps 0 and 2, and 1 and 3 of each quad, and what is left over.
    fn of(kernel: [usize; 3]) -> Self {
        let order = Order::of(kernel);
        let mut taps = [None; MAX_TAPS + QUAD];
        for t0 in 0..kernel[0] {
            for t1 in 0..kernel[1] {
                for t2 in 0..kernel[2] {
                    taps[order.at([t0, t1, t2])] = Some([t0 * kernel[1] + t1, t2]);
                }
            }
        }
        let (mut pairs, mut len) = ([Pair::default(); PAIRS], 0);
        let mut single: Option<usize> = None;
        for first in (0..order.len).filter(|i| i % QUAD < 2) {
            let both = [taps[first], taps[first + 2]];
            match (both, single) {
                ([None, _], _) => {}
                ([first_tap, None], Some(pair)) => {
                    pairs[pair].second = Some(first);
                    pairs[pair].taps[1] = first_tap;
                    single = None;
                }
                _ => {
                    if both[1].is_none() {
                        single = Some(len);
                    }
                    pairs[len] = Pair { first, second: None, taps: both };
                    len += 1;
                }
            }
        }
        Self { pairs, len, n_taps: order.len }
    }
}

/// Sets the offset of each tap from the start of its window, if all lines of the window are there.
fn set_offsets(
    offsets: &mut [[usize; 2]; PAIRS],
    pairs: &[Pair],
    starts: &[Option<usize>],
    step: usize,
) -> bool {
    let offset = |[row, t2]: Tap| Some(starts[row]? + t2 * step);
    for (pair, offsets) in pairs.iter().zip(offsets) {
        for (tap, to) in pair.taps.iter().zip(offsets) {
            // A missing tap has no weight, and may read anything.
            let Some(offset) = tap.or(pair.taps[0]).and_then(offset) else { return false };
            *to = offset;
        }
    }
    true
}

/// Where the pixel starts that an output reads with a tap, unless it is padding.
fn input(
    pixels: &Pixels<'_>,
    starts: &[Option<usize>],
    tap: Option<Tap>,
    output: usize,
) -> Option<usize> {
    let [row, t2] = tap?;
    Some(starts[row]? + pixels.axes[2].at(output, t2)? * pixels.padding.len())
}

features! { Avx2 enabled
    /// Loads up to 32 words, followed by zeros, in that order.
    #[inline]
    fn load_words(x: &[f32]) -> [__m256i; 4] {
        let load = |r: usize| _mm256_castps_si256(load8(x.get(r * 8..).unwrap_or_default()));
        reordered([load(0), load(1), load(2), load(3)])
    }
}

features! { Avx2 enabled
    /// The widened weights of a pair.
    #[inline]
    fn loaded(w: &[[i32; 8]; 4]) -> [__m256i; 4] {
        let [a, b, c, d] = w;
        [a, b, c, d].map(|w| load_bytes32(bytemuck::cast_ref(w)))
    }
}

features! { Avx2 enabled
    /// Widens the weights of all pairs.
    #[inline]
    fn widen(weights: &[u8], parts: usize, pairs: &[Pair], w: &mut [[[i32; 8]; 4]; PAIRS]) {
        for (pair, w) in pairs.iter().zip(w) {
            let firsts = widened(weights, pair.first, parts);
            let seconds = match pair.second {
                Some(second) => widened(weights, second, parts),
                None => [_mm256_setzero_si256(); 4],
            };
            for r in 0..4 {
                let both = _mm256_or_si256(firsts[r], _mm256_slli_epi32::<16>(seconds[r]));
                store_ints8(&mut w[r], both);
            }
        }
    }
}

features! { Avx2 enabled
    /// Stores up to 32 bytes.
    #[inline]
    fn store(y: &mut [u8], bytes: __m256i) {
        let mut words = [0; 8];
        store_ints8(&mut words, bytes);
        let bytes: [u8; LANES] = bytemuck::cast(words);
        if let Some(y) = y.as_mut_array::<LANES>() {
            *y = bytes;
        } else if let Some(y) = y.as_mut_array::<{ LANES / 2 }>() {
            y.copy_from_slice(&bytes[..LANES / 2]);
        } else {
            y.copy_from_slice(&bytes[..y.len()]);
        }
    }
}

kernel! {
    /// Computes the quantized values of `own` pixels, with a finite factor for each channel.
    Avx2 => pub(super) fn run(
        pixels: &Pixels<'_>,
        own: Range<usize>,
        requantization: (&Requantize<'_>, &[f32]),
        y: &mut [u8],
    ) {
        let (requantize, factors) = requantization;
        let ([axis0, axis1, axis2], n) = (&pixels.axes, pixels.padding.len());
        let Pairs { pairs, len, n_taps } = Pairs::of(pixels.axes.map(|axis| axis.kernel));
        let (pairs, parts) = (&pairs[..len], pixels.parts);
        let block_len = super::LANES * super::packed_len(n_taps, parts);
        let flip = _mm256_set1_epi8(pixels.flip.cast_signed());
        let padding = [pixels.padding.first().copied().unwrap_or_default(); LANES];
        let mut w = [[[0; 8]; 4]; PAIRS];
        // Where the lines of the taps start, and the offset of each tap from the start of its window.
        let (mut starts, mut offsets) = ([None; MAX_TAPS], [[0; 2]; PAIRS]);
        let (mut at, mut rest) = (own.start, y);
        while at < own.end {
            let (line, first) = (at / axis2.output, at % axis2.output);
            let outputs = first..axis2.output.min(first + own.end - at);
            let (now, others) = rest.split_at_mut(outputs.len() * n);
            (at, rest) = (at + outputs.len(), others);
            let starts = &mut starts[..axis0.kernel * axis1.kernel];
            for (row, start) in starts.iter_mut().enumerate() {
                let inputs = axis0.at(line / axis1.output, row / axis1.kernel);
                let inputs = inputs.zip(axis1.at(line % axis1.output, row % axis1.kernel));
                *start = inputs.map(|(i0, i1)| (i0 * axis1.input + i1) * axis2.input * n);
            }
            let is_inside = set_offsets(&mut offsets, pairs, starts, axis2.dilation * n);
            for lane in (0..n).step_by(LANES) {
                let weights = &pixels.weights[lane / super::LANES * block_len..];
                widen(&weights[lane % super::LANES * QUAD..], parts, pairs, &mut w);
                let own = lane..n.min(lane + LANES);
                let start = load_words(bytemuck::cast_slice(&pixels.start[own.clone()]));
                let factors = load_words(&factors[own.clone()]).map(|f| _mm256_castsi256_ps(f));
                for (output, y) in outputs.clone().zip(now.chunks_exact_mut(n)) {
                    let ends = axis2.at(output, 0).zip(axis2.at(output, axis2.kernel - 1));
                    let mut sums = start;
                    if let (true, Some((first, _))) = (is_inside, ends) {
                        let x = &pixels.x[first * n + lane..];
                        for (offsets, w) in offsets[..len].iter().zip(&w) {
                            let x = offsets.map(|offset| load_up_to32(&x[offset..]));
                            sums = add_pair(sums, x, flip, loaded(w));
                        }
                    } else {
                        for (pair, w) in pairs.iter().zip(&w) {
                            let x = pair.taps.map(|tap| {
                                load_up_to32(match input(pixels, starts, tap, output) {
                                    Some(at) => &pixels.x[at + lane..],
                                    None => &padding,
                                })
                            });
                            sums = add_pair(sums, x, flip, loaded(w));
                        }
                    }
                    store(&mut y[own.clone()], quantized(sums, factors, requantize));
                }
            }
        }
    }
}
