//! `sums[i] += Σ_t x_t[i]·w_t[i]` of bytes: depthwise convolution of a line of lanes, exact
//! in i32 (which wraps).
//!
//! **Operands.** Tap `t` reads a line of unsigned bytes `x_t` (signed ones are flipped while loading).
//! Channels-last: lanes are the channels of a pixel, each with its own
//! weights. NCHW: lanes are adjacent outputs, which share the weights of their
//! channel. Strides, dilations and the number of dimensions only affect which lines are passed.
//!
//! **Weights.** Numbers from −255 to 255, quantized values minus zero points, packed once as the sum of one to three signed
//! bytes: symmetric quantization needs one, and the others share a pass over `x`.
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
mod avx2_pixels;
#[cfg(target_arch = "x86_64")]
mod avx512vnni_columns;
#[cfg(target_arch = "x86_64")]
mod avx512vnni_five;
mod pixels;
mod plane;

pub use pixels::{Pixels, taps};
pub use plane::Plane;

use crate::Isa;

/// The maximum number of taps of a [`Plane`] or of [`Pixels`]: 11 by 11, or 5 by 5 by 5.
pub const MAX_TAPS: usize = 128;
/// The most signed bytes that a weight is split into.
pub const MAX_PARTS: usize = 3;
/// Lanes per block; lines of sums are whole blocks.
pub const LANES: usize = 64;
/// Taps per instruction.
const QUAD: usize = 4;

/// The name of a variant.
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

/// The operands of a line of sums.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The bytes that each tap reads. Missing lanes count as 0, after flipping.
    pub taps: &'a [&'a [u8]],
    /// XORed with every byte: 0x80 converts signed bytes to unsigned ones, 128 more; 0 keeps them.
    pub flip: u8,
    /// The weights.
    pub weights: Weights<'a>,
    /// The number of bytes that each weight was split into.
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
    /// `sums[i] += Σ_t x_t[i]·w_t[i]`; lanes beyond `x` are unchanged, unless bytes are flipped.
    ///
    /// # Panics
    /// If `sums` are not whole blocks of [`LANES`], the weights are too few, or there are more than [`MAX_TAPS`].
    pub fn add(&self, isa: Isa, sums: &mut [i32]) {
        let (blocks, rest) = sums.as_chunks_mut::<LANES>();
        assert!(rest.is_empty(), "sums are not whole blocks");
        add(isa, self, blocks);
    }

    /// The weights of a block: four taps at a time, each as its parts.
    fn block(&self, block: usize) -> &[u8] {
        match self.weights {
            Weights::Shared(weights) => weights,
            Weights::Each(weights) => {
                let len = LANES * packed_len(self.taps.len(), self.parts);
                &weights[block * len..][..len]
            }
        }
    }

    /// The bytes that tap `t` reads starting at `lane`; empty if there is no such tap or lane.
    fn tap(&self, t: usize, lane: usize) -> &[u8] {
        self.taps.get(t).and_then(|tap| tap.get(lane..)).unwrap_or_default()
    }
}

/// Bytes of packed weights per lane.
#[must_use]
pub fn packed_len(n_taps: usize, parts: usize) -> usize {
    n_taps.div_ceil(QUAD) * QUAD * parts
}

/// The number of signed bytes that represent each weight as their sum.
#[must_use]
pub fn n_parts(weights: &[i16]) -> usize {
    let fits = |weight, &parts: &usize| split(weight, parts).1 == 0;
    let parts = |&weight: &i16| (1..MAX_PARTS).find(|n| fits(weight, n)).unwrap_or(MAX_PARTS);
    weights.iter().map(parts).max().unwrap_or(1)
}

/// Part `parts − 1` of a weight, and the remainder.
fn split(weight: i16, parts: usize) -> (i8, i16) {
    let mut left = weight;
    let mut part = 0;
    for _ in 0..parts {
        part = i8::try_from(left.clamp(-128, 127)).unwrap_or_default();
        left -= i16::from(part);
    }
    (part, left)
}

/// Packs the weights that all lanes share: `[taps/4][parts][4]`.
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

/// Packs weights `[lanes, taps]`: `[blocks][taps/4][parts][LANES][4]`, padded with zeros.
///
/// # Panics
/// If `packed` is shorter than [`packed_len`] times the lanes of whole blocks.
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
