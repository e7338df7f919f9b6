//! B as panels, and the zero point corrections of a product.

use std::ops::Range;

use super::columns::interleave;
use super::{MASKED, MAX_NR, Mask, QUAD, Variant, n_masks, variant};
use crate::{Isa, Task, words};

/// A matrix `[k, n]` of signed or unsigned bytes: element `(p, j)` is
/// `data[p·strides[0] + j·strides[1]]`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Number of rows.
    pub k: usize,
    /// Number of columns.
    pub n: usize,
    /// Row and column stride.
    pub strides: [usize; 2],
}

/// Bytes read at once.
const PIECE: usize = 1 << 22;
/// Rows per mask.
const ROWS: usize = MASKED * QUAD;

impl Bytes<'_> {
    /// The matrix of these rows and columns.
    fn part(&self, rows: Range<usize>, columns: Range<usize>) -> Self {
        let start = rows.start * self.strides[0] + columns.start * self.strides[1];
        Self { data: &self.data[start..], k: rows.len(), n: columns.len(), ..*self }
    }

    fn at(&self, p: usize, j: usize) -> u8 {
        self.data[p * self.strides[0] + j * self.strides[1]]
    }
}

/// Bytes of a packed B.
#[must_use]
pub fn packed_b_len(isa: Isa, k: usize, n: usize) -> usize {
    let variant = variant(isa, k);
    n.div_ceil(variant.nr) * variant.panel_len(k)
}

/// Packs B into consecutive panels `[k/4][nr][4]`, padded with zeros, and masks if the variant has them. Each byte is
/// XORed with `flip` first: 0x80 converts unsigned bytes to signed ones that are 128 less, 0 keeps them.
///
/// # Panics
/// If `packed` is shorter than [`packed_b_len`], or `b` too short for its shape.
pub fn pack_b(isa: Isa, b: &Bytes<'_>, flip: u8, packed: &mut [u8]) {
    pack_b_while(isa, b, flip, packed, || true);
}

/// The same, unless `may_continue`, which is called every few milliseconds, returns false.
///
/// # Panics
/// As [`pack_b`].
pub fn pack_b_while(
    isa: Isa,
    b: &Bytes<'_>,
    flip: u8,
    packed: &mut [u8],
    may_continue: impl Fn() -> bool,
) {
    let variant = variant(isa, b.k);
    let (nr, panel_len) = (variant.nr, variant.panel_len(b.k).max(1));
    let packed = &mut packed[..packed_b_len(isa, b.k, b.n)];
    let n_panels = (PIECE / panel_len).max(1);
    // All rows of some panels, or some rows of one.
    let n_rows = if n_panels > 1 { b.k.max(1) } else { PIECE / nr / ROWS * ROWS };
    for (i, panels) in packed.chunks_mut(n_panels * panel_len).enumerate() {
        let columns = i * n_panels * nr..b.n.min((i + 1) * n_panels * nr);
        for first in (0..b.k).step_by(n_rows) {
            if !may_continue() {
                return;
            }
            let part = b.part(first..b.k.min(first + n_rows), columns.clone());
            isa.run(Packing { b: &part, flip, variant, first, panels, k: b.k });
        }
    }
}

/// The sum of each column of B, flipped likewise.
///
/// # Panics
/// If `sums` has fewer than `n` elements, or `b` is too short for its shape.
pub fn column_sums(isa: Isa, b: &Bytes<'_>, flip: u8, sums: &mut [i32]) {
    column_sums_while(isa, b, flip, sums, || true);
}

/// The same, unless `may_continue`, which is called every few milliseconds, returns false.
///
/// # Panics
/// As [`column_sums`].
pub fn column_sums_while(
    isa: Isa,
    b: &Bytes<'_>,
    flip: u8,
    sums: &mut [i32],
    may_continue: impl Fn() -> bool,
) {
    let sums = &mut sums[..b.n];
    sums.fill(0);
    let n_columns = (PIECE / b.k.max(1)).clamp(1, b.n.max(1));
    let n_rows = PIECE / n_columns;
    for (i, sums) in sums.chunks_mut(n_columns).enumerate() {
        let columns = i * n_columns..i * n_columns + sums.len();
        for first in (0..b.k).step_by(n_rows) {
            if !may_continue() {
                return;
            }
            let b = &b.part(first..b.k.min(first + n_rows), columns.clone());
            isa.run(Sums { b, flip, sums });
        }
    }
}

/// Panels of `k` rows, of which those from `first` are packed.
struct Packing<'a> {
    b: &'a Bytes<'a>,
    flip: u8,
    variant: Variant,
    first: usize,
    panels: &'a mut [u8],
    k: usize,
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { b, flip, variant, first, panels, k } = self;
        let nr = variant.nr;
        let panels = panels.chunks_exact_mut(variant.panel_len(k).max(1));
        for (column, panel) in (0..b.n).step_by(nr).zip(panels) {
            let columns = column..b.n.min(column + nr);
            let (quads, masks) = panel.split_at_mut(variant.quads_len(k));
            let quads = quads[first * nr..].as_chunks_mut::<QUAD>().0;
            let (quads, rest) = quads.split_at_mut(b.k.div_ceil(QUAD) * nr);
            if first + b.k == k {
                rest.fill([0; QUAD]);
            }
            match b.strides {
                [1, stride] => {
                    let columns = columns.map(|j| &b.data[j * stride..][..b.k]);
                    let flips = u32::from_ne_bytes([flip; QUAD]);
                    words::interleave(columns, flip, |word| word ^ flips, (nr, &mut *quads));
                }
                [_, 1] => b.rows(columns, flip, nr, quads),
                _ => b.elements(columns, flip, nr, quads),
            }
            if variant.has_masks {
                let masks = masks.as_chunks_mut().0.iter_mut().skip(first / ROWS);
                for (mask, quads) in masks.zip(quads.chunks(MASKED * nr)) {
                    *mask = self::mask(quads, nr).to_le_bytes();
                }
            }
        }
    }
}

/// The most that the positive, or the negative, bytes of a pair may add up to: 128 · 255 < 2¹⁵.
const MAX_PAIR: i16 = 128;

/// Whether no products of these signed bytes with unsigned ones saturate when they are added.
#[inline(always)]
fn fits(pair: [u8; 2]) -> bool {
    let pair = i16::from_le_bytes(pair);
    let (a, b) = (pair << 8 >> 8, pair >> 8);
    a.max(0).wrapping_add(b.max(0)) <= MAX_PAIR && a.min(0).wrapping_add(b.min(0)) >= -MAX_PAIR
}

/// A bit for each `nr` quads whose pairs all fit.
#[inline(always)]
fn mask(quads: &[[u8; QUAD]], nr: usize) -> u64 {
    quads.chunks_exact(nr).enumerate().fold(0, |mask, (i, quads)| {
        let pairs = quads.as_flattened().as_chunks().0;
        let all_fit = pairs.iter().fold(true, |all_fit, &pair| all_fit & fits(pair));
        mask | u64::from(all_fit) << i
    })
}

/// Bytes that [`row_masks`] writes for `m` rows of `k` bytes.
#[must_use]
pub fn row_masks_len(isa: Isa, m: usize, k: usize) -> usize {
    let Variant { mr, has_masks, .. } = variant(isa, k);
    if has_masks { m.div_ceil(mr) * n_masks(k) * size_of::<Mask>() } else { 0 }
}

/// Writes which quads of a signed A have pairs so small that no unsigned B saturates, for each `mr` contiguous rows of `k`
/// bytes.
///
/// # Panics
/// If `masks` is not of [`row_masks_len`].
pub fn row_masks(isa: Isa, a: &[u8], k: usize, masks: &mut [u8]) {
    let Variant { mr, has_masks, .. } = variant(isa, k);
    if !has_masks || k == 0 {
        return;
    }
    assert_eq!(masks.len(), row_masks_len(isa, a.len() / k, k), "masks are of another length");
    let masks = masks.as_chunks_mut::<{ size_of::<Mask>() }>().0;
    for (rows, masks) in a.chunks(mr * k).zip(masks.chunks_exact_mut(n_masks(k))) {
        for (word, mask) in masks.iter_mut().enumerate() {
            let mut bits = u64::MAX;
            for row in rows.chunks_exact(k) {
                let quads = row[word * ROWS..].as_chunks::<QUAD>().0;
                for (i, &[a, b, c, d]) in quads.iter().take(MASKED).enumerate() {
                    bits &= !(u64::from(![[a, b], [c, d]].into_iter().all(fits)) << i);
                }
            }
            *mask = bits.to_le_bytes();
        }
    }
}

impl Bytes<'_> {
    /// Packs a panel of adjacent columns: four rows at a time.
    #[inline(always)]
    fn rows(&self, columns: Range<usize>, flip: u8, nr: usize, quads: &mut [[u8; QUAD]]) {
        // Flips to zeros.
        let below = [flip; MAX_NR];
        for (quad, group) in quads.chunks_exact_mut(nr).enumerate() {
            let (group, rest) = group.split_at_mut(columns.len());
            let row = |i| match quad * QUAD + i {
                p if p < self.k => &self.data[p * self.strides[0]..][columns.clone()],
                _ => &below[..columns.len()],
            };
            interleave([row(0), row(1), row(2), row(3)], flip, group);
            rest.fill([0; QUAD]);
        }
    }

    /// Packs a panel with any strides.
    fn elements(&self, columns: Range<usize>, flip: u8, nr: usize, quads: &mut [[u8; QUAD]]) {
        for (quad, group) in quads.chunks_exact_mut(nr).enumerate() {
            for (j, bytes) in group.iter_mut().enumerate() {
                *bytes = std::array::from_fn(|i| match (columns.start + j, quad * QUAD + i) {
                    (j, p) if j < columns.end && p < self.k => self.at(p, j) ^ flip,
                    _ => 0,
                });
            }
        }
    }
}

/// Columns whose sums are added to `sums`.
struct Sums<'a> {
    b: &'a Bytes<'a>,
    flip: u8,
    sums: &'a mut [i32],
}

impl Task for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { b, flip, sums } = self;
        let signed = |byte: u8| i32::from((byte ^ flip).cast_signed());
        let [row, column] = b.strides;
        match b.strides {
            [1, _] => {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let bytes = &b.data[j * column..][..b.k];
                    *sum = sum.wrapping_add(bytes.iter().map(|&byte| signed(byte)).sum());
                }
            }
            [_, 1] => {
                for p in 0..b.k {
                    let bytes = &b.data[p * row..][..b.n];
                    sums.iter_mut().zip(bytes).for_each(|(sum, &byte)| {
                        *sum = sum.wrapping_add(signed(byte));
                    });
                }
            }
            _ => {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.wrapping_add((0..b.k).map(|p| signed(b.at(p, j))).sum());
                }
            }
        }
    }
}

/// The sum of a row of A.
#[must_use]
pub fn row_sum(a: &[u8]) -> i32 {
    // Sums of 256 bytes fit in 16 bits, which vectorises well.
    let sums = a.chunks(256).map(|part| part.iter().map(|&a| u16::from(a)).sum::<u16>());
    sums.map(i32::from).sum()
}

/// Zero points of a product: `Σ (a − zₐ)(b − z_b) = Σ ab − zₐ·Σb − z_b·Σa + k·zₐ·z_b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeros {
    /// The zero point of A, after flipping.
    pub a: i32,
    /// The zero point of a column of B, after flipping.
    pub b: i32,
}

impl Zeros {
    /// The initial value of a column: the terms that do not depend on the row, `−zₐ·Σb + k·zₐ·z_b`.
    #[must_use]
    pub fn by_column(self, k: usize, column_sum: i32) -> i32 {
        // Wraps like the sums: only the low 32 bits of `k` matter.
        let k = u32::try_from(k & 0xffff_ffff).unwrap_or_default().cast_signed();
        let both = k.wrapping_mul(self.a).wrapping_mul(self.b);
        both.wrapping_sub(self.a.wrapping_mul(column_sum))
    }
}

/// `sums[j] −= factor·factors[j]`: the remaining correction for zero points, `z_b·Σa`. One is that of a row, the others are
/// those of its columns.
pub fn correct(isa: Isa, sums: &mut [i32], factor: i32, factors: &[i32]) {
    isa.run(Correct { sums, factor, factors });
}

struct Correct<'a> {
    sums: &'a mut [i32],
    factor: i32,
    factors: &'a [i32],
}

impl Task for Correct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (sum, &other) in self.sums.iter_mut().zip(self.factors) {
            *sum = sum.wrapping_sub(self.factor.wrapping_mul(other));
        }
    }
}
