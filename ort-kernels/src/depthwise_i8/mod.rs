//! `sums[i] += Σ_t x_t[i]·w_t[i]` of bytes: what a depthwise convolution does to a line of lanes, exact
//! in i32 (which wraps).
//!
//! **Operands.** Tap `t` reads a line of unsigned bytes `x_t` (signed ones are flipped on the way).
//! Where channels are the last dimension, lanes are the channels of a pixel, each with weights of
//! its own; where they are planes, lanes are neighbouring outputs, which share the weights of their
//! channel. Either way any stride, dilation and number of dimensions is but a choice of lines.
//!
//! **Weights.** Numbers of −255 to 255, quantized values minus zero points, packed once as one to three signed
//! bytes whose sum they are: quantized values about zero take one, and others cost no pass over `x`.
//!
//! **Loops.** Blocks of [`LANES`] lanes ▸ four taps at a time, interleaved so that one instruction adds
//! four products.
//!
//! ```
//! use ort_kernels::Isa;
//! use ort_kernels::depthwise_i8::{LANES, Line, Weights, n_parts, pack_shared, packed_len};
//!
//! let weights = [1, -200];
//! let parts = n_parts(&weights);
//! let mut packed = vec![0; packed_len(weights.len(), parts)];
//! pack_shared(&weights, parts, &mut packed);
//! let line = Line {
//!     taps: &[&[10, 20], &[1, 2]],
//!     flip: 0,
//!     weights: Weights::Shared(&packed),
//!     parts,
//! };
//! let mut sums = [5; LANES];
//! line.add(Isa::best(), &mut sums);
//! assert_eq!(sums[..3], [-185, -375, 5]);
//! ```

#[cfg(target_arch = "x86_64")]
mod avx512vnni_columns;
mod pixels;
mod plane;

pub use pixels::{Pixels, taps};
pub use plane::Plane;

use crate::Isa;

/// The most taps of a [`Plane`] or of [`Pixels`]: 11 by 11, or 5 by 5 by 5.
pub const MAX_TAPS: usize = 128;
/// The lanes of a block; lines of sums are as many blocks.
pub const LANES: usize = 64;
/// Taps that one instruction takes together.
const QUAD: usize = 4;

/// How a variant is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `depthwise_i8/<isa>_<lanes>`: the names of its folder and its file.
    pub name: &'static str,
}

/// Packed weights.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Each lane has its own: `[blocks][taps/4][parts][LANES][4]`, packed by [`pack_each`].
    Each(&'a [u8]),
    /// All lanes have the same: `[taps/4][parts][4]`, packed by [`pack_shared`].
    Shared(&'a [u8]),
}

/// What a line of sums is made of.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What each tap reads. Lanes that it does not reach count as 0, after flipping.
    pub taps: &'a [&'a [u8]],
    /// Flips every byte: 0x80 makes unsigned bytes of signed ones, 128 more; 0 keeps them.
    pub flip: u8,
    /// The weights.
    pub weights: Weights<'a>,
    /// How many bytes each weight was split into.
    pub parts: usize,
}

ladder! {
    // `sums[i] += Σ_t x_t[i]·w_t[i]` for blocks of lanes.
    fn add(line: &Line<'_>, sums: &mut [[i32; LANES]]);
    Avx512Vnni => avx512vnni_64, Avx2 => avx2_32; generic
}

/// Describes the variant that serves `isa`.
#[must_use]
pub fn variant(isa: Isa) -> Variant {
    best(isa)
}

impl Line<'_> {
    /// `sums[i] += Σ_t x_t[i]·w_t[i]`; beyond the lanes of `x`, sums stay, unless bytes are flipped.
    ///
    /// # Panics
    /// If `sums` are not whole blocks of [`LANES`], or the weights are too few.
    pub fn add(&self, isa: Isa, sums: &mut [i32]) {
        let (blocks, rest) = sums.as_chunks_mut::<LANES>();
        assert!(rest.is_empty(), "sums are not whole blocks");
        add(isa, self, blocks);
    }

    /// The weights of a block: those of four taps after those of others, each as its parts.
    fn block(&self, block: usize) -> &[u8] {
        match self.weights {
            Weights::Shared(weights) => weights,
            Weights::Each(weights) => {
                let len = LANES * packed_len(self.taps.len(), self.parts);
                &weights[block * len..][..len]
            }
        }
    }

    /// What tap `t` reads from `lane` on, nothing if there is no such tap or lane.
    fn tap(&self, t: usize, lane: usize) -> &[u8] {
        self.taps.get(t).and_then(|tap| tap.get(lane..)).unwrap_or_default()
    }
}

/// The bytes that the weights of a lane take.
#[must_use]
pub fn packed_len(n_taps: usize, parts: usize) -> usize {
    n_taps.div_ceil(QUAD) * QUAD * parts
}

/// How many signed bytes each of these weights is the sum of.
#[must_use]
pub fn n_parts(weights: &[i16]) -> usize {
    let parts = |&weight: &i16| (1..3).find(|&parts| split(weight, parts).1 == 0).unwrap_or(3);
    weights.iter().map(parts).max().unwrap_or(1)
}

/// Part `parts − 1` of a weight, and what is left for the next.
fn split(weight: i16, parts: usize) -> (i8, i16) {
    let mut left = weight;
    let mut part = 0;
    for _ in 0..parts {
        part = i8::try_from(left.clamp(-128, 127)).unwrap_or_default();
        left -= i16::from(part);
    }
    (part, left)
}

/// Packs the weights of one lane, which is all that share them: `[taps/4][parts][4]`.
///
/// # Panics
/// If `packed` is shorter than [`packed_len`].
pub fn pack_shared(weights: &[i16], parts: usize, packed: &mut [u8]) {
    for (i, quad) in weights.chunks(QUAD).enumerate() {
        for part in 0..parts {
            let packed = &mut packed[(i * parts + part) * QUAD..][..QUAD];
            packed.fill(0);
            for (packed, &weight) in packed.iter_mut().zip(quad) {
                *packed = split(weight, part + 1).0.cast_unsigned();
            }
        }
    }
}

/// Packs weights `[lanes, taps]`: `[blocks][taps/4][parts][LANES][4]`, filled up with zeros.
///
/// # Panics
/// If `packed` is shorter than [`packed_len`] for each lane of whole blocks.
pub fn pack_each(weights: &[i16], n_taps: usize, parts: usize, packed: &mut [u8]) {
    packed.fill(0);
    let len = packed_len(n_taps, parts);
    for (lane, weights) in weights.chunks(n_taps.max(1)).enumerate() {
        let packed = &mut packed[lane / LANES * LANES * len..];
        for (i, quad) in weights.chunks(QUAD).enumerate() {
            for part in 0..parts {
                let at = ((i * parts + part) * LANES + lane % LANES) * QUAD;
                for (packed, &weight) in packed[at..].iter_mut().zip(quad) {
                    *packed = split(weight, part + 1).0.cast_unsigned();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
