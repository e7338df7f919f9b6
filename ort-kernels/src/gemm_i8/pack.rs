//! B as panels, and what zero points add to a product.

use super::{QUAD, best};
use crate::Isa;

/// A matrix `[k, n]` of bytes, of whatever sign: element `(p, j)` is
/// `data[p·strides[0] + j·strides[1]]`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Number of rows.
    pub k: usize,
    /// Number of columns.
    pub n: usize,
    /// From one row to the next, and from one column to the next.
    pub strides: [usize; 2],
}

impl Bytes<'_> {
    fn at(&self, p: usize, j: usize) -> u8 {
        self.data[p * self.strides[0] + j * self.strides[1]]
    }

    /// Four elements of a column from row `p` on, zeros beyond the matrix, flipped.
    fn quad(&self, p: usize, j: usize, flip: u8) -> [u8; QUAD] {
        if j < self.n && p + QUAD <= self.k && self.strides[0] == 1 {
            let from = &self.data[p + j * self.strides[1]..];
            return std::array::from_fn::<_, QUAD, _>(|i| from[i] ^ flip);
        }
        std::array::from_fn(|i| match j < self.n && p + i < self.k {
            true => self.at(p + i, j) ^ flip,
            false => 0,
        })
    }
}

/// The bytes that a packed B takes.
#[must_use]
pub fn packed_b_len(isa: Isa, k: usize, n: usize) -> usize {
    let nr = best(isa).nr;
    n.div_ceil(nr) * nr * k.div_ceil(QUAD) * QUAD
}

/// Packs B into panels `[k/4][nr][4]`, one after the other, filled up with zeros. Each byte is
/// flipped with `flip` first: 0x80 makes unsigned bytes signed ones that are 128 less, 0 keeps them.
///
/// # Panics
/// If `packed` is shorter than [`packed_b_len`], or `b` than its shape.
pub fn pack_b(isa: Isa, b: &Bytes<'_>, flip: u8, packed: &mut [u8]) {
    let nr = best(isa).nr;
    let panel_len = b.k.div_ceil(QUAD) * QUAD * nr;
    for (panel, first) in (0..b.n).step_by(nr).enumerate() {
        let packed = &mut packed[panel * panel_len..][..panel_len];
        for (quad, group) in packed.as_chunks_mut::<QUAD>().0.chunks_mut(nr).enumerate() {
            for (j, bytes) in group.iter_mut().enumerate() {
                *bytes = b.quad(quad * QUAD, first + j, flip);
            }
        }
    }
}

/// The sum of each column of B, flipped alike.
///
/// # Panics
/// If `sums` has fewer than `n` elements, or `b` is shorter than its shape.
pub fn column_sums(b: &Bytes<'_>, flip: u8, sums: &mut [i32]) {
    let sums = &mut sums[..b.n];
    let signed = |byte: u8| i32::from((byte ^ flip).cast_signed());
    if b.strides[1] == 1 {
        sums.fill(0);
        for row in (0..b.k).map(|p| &b.data[p * b.strides[0]..][..b.n]) {
            sums.iter_mut().zip(row).for_each(|(sum, &byte)| *sum = sum.wrapping_add(signed(byte)));
        }
        return;
    }
    for (j, sum) in sums.iter_mut().enumerate() {
        *sum = (0..b.k).map(|p| signed(b.at(p, j))).sum();
    }
}

/// The sum of a row of A.
#[must_use]
pub fn row_sum(a: &[u8]) -> i32 {
    // Sums of 256 bytes fit 16 bits, which vectorises well.
    let sums = a.chunks(256).map(|part| part.iter().map(|&a| u16::from(a)).sum::<u16>());
    sums.map(i32::from).sum()
}

/// Zero points of a product: `Σ (a − zₐ)(b − z_b) = Σ ab − zₐ·Σb − z_b·Σa + k·zₐ·z_b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeros {
    /// That of A, after flipping.
    pub a: i32,
    /// That of a column of B, after flipping.
    pub b: i32,
}

impl Zeros {
    /// What a column begins with: all that does not depend on the row, `−zₐ·Σb + k·zₐ·z_b`.
    #[must_use]
    pub fn by_column(self, k: usize, column_sum: i32) -> i32 {
        // Wraps as the sums do: the low 32 bits of `k` are all that counts.
        let k = u32::try_from(k & 0xffff_ffff).unwrap_or_default().cast_signed();
        let both = k.wrapping_mul(self.a).wrapping_mul(self.b);
        both.wrapping_sub(self.a.wrapping_mul(column_sum))
    }

    /// What is left for an element: `−z_b·Σa`.
    #[must_use]
    pub fn by_element(self, row_sum: i32) -> i32 {
        self.b.wrapping_mul(row_sum).wrapping_neg()
    }
}
