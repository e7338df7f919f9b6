//! A packed B of 16-bit floats: products in f32 read half of the memory, and widen what they read, which is
//! exact, in registers.

#[cfg(target_arch = "x86_64")]
mod registers;
pub mod row;

use super::pack::each_panel;
use super::{Matrix, Panels, Slice, Stored, Target, Tile, Variant, packed_b_len, variant};
use crate::Isa;
use crate::vec::{bf16_to_f32, each, f32_to_bf16, narrow_f16, widen_f16};
use std::ops::Range;

/// A 16-bit floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
}

ladder! {
    fn tile(half: Half, tile: &Tile<'_, f32, u16>, c: &mut Target<'_>);
    Avx512 => avx512_14x32, Avx2 => avx2_6x16; generic
}

/// As [`super::tile`], with panels of 16-bit floats.
pub(super) fn tile_of_halves(isa: Isa, half: Half, of: &Tile<'_, f32, u16>, c: &mut Target<'_>) {
    tile(isa, half, of, c);
}

impl Half {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::F16, Self::Bf16];

    /// Whether the format represents all of `x`; NaN only if its payload fits.
    #[must_use]
    pub fn represents(self, isa: Isa, x: &[f32]) -> bool {
        const PIECE: usize = 1024;
        let (mut narrow, mut wide) = ([0; PIECE], [0.0; PIECE]);
        x.chunks(PIECE).all(|x| {
            let (narrow, wide) = (&mut narrow[..x.len()], &mut wide[..x.len()]);
            self.narrow(isa, x, narrow);
            self.widen(isa, narrow, wide);
            x.iter().zip(wide).all(|(x, wide)| x.to_bits() == wide.to_bits())
        })
    }

    pub(super) fn widen(self, isa: Isa, x: &[u16], y: &mut [f32]) {
        match self {
            Self::F16 => widen_f16(isa, x, y),
            Self::Bf16 => each(isa, x, y, bf16_to_f32),
        }
    }

    fn narrow(self, isa: Isa, x: &[f32], y: &mut [u16]) {
        match self {
            Self::F16 => narrow_f16(isa, x, y),
            Self::Bf16 => each(isa, x, y, f32_to_bf16),
        }
    }
}

/// The output of [`pack_halves_while`]: the panels of a [`PackedB`](super::PackedB), in a 16-bit format.
#[derive(Clone, Copy, Debug)]
pub struct PackedHalves<'a> {
    /// The panels.
    pub data: &'a [u16],
    /// Their format.
    pub half: Half,
    /// Rows of B.
    pub k: usize,
}

impl PackedHalves<'_> {
    fn panel(&self, Slice { k, column, nr, .. }: &Slice) -> &[u16] {
        assert_eq!(column % nr, 0, "a packed panel is read from its first column");
        &self.data[column * self.k + k.start * nr..column * self.k + k.end * nr]
    }

    /// The first panel of `slice`, if the instruction set has a tile for it; other panels are multiplied as they are
    /// written.
    pub fn stored<T>(&self, slice: &Slice) -> Option<Stored<'_, T>> {
        has_tile(slice.isa).then(|| Stored::Halves(self.panel(slice), self.half))
    }

    /// The panels of `columns`, with all rows, on the same condition.
    pub fn stored_whole<T>(&self, isa: Isa, columns: &Range<usize>) -> Option<Stored<'_, T>> {
        let n = columns.len().next_multiple_of(variant(isa).nr);
        let panels = || &self.data[columns.start * self.k..][..n * self.k];
        has_tile(isa).then(|| Stored::Halves(panels(), self.half))
    }
}

fn has_tile(isa: Isa) -> bool {
    best(isa) == variant(isa)
}

impl Panels for PackedHalves<'_> {
    fn is_stored(&self) -> bool {
        true
    }

    fn stored(&self, slice: &Slice) -> Option<Stored<'_, f32>> {
        self.stored(slice)
    }

    fn stored_whole(&self, isa: Isa, columns: &Range<usize>) -> Option<Stored<'_, f32>> {
        self.stored_whole(isa, columns)
    }

    fn write(&self, slice: &Slice, panels: &mut [f32]) {
        each_panel(slice, panels, |slice, panel| {
            self.half.widen(slice.isa, self.panel(slice), panel);
        });
    }
}

/// Packs B: [k, n], whose elements are numbers of a 16-bit format, into [`packed_b_len`] elements, unless
/// `may_continue`, which is called every few milliseconds, returns false. `piece` is scratch for [`piece_len`] elements.
///
/// # Panics
/// If `packed` or `piece` has another length.
pub fn pack_halves_while(
    (isa, half): (Isa, Half),
    b: &Matrix<'_>,
    (packed, piece): (&mut [u16], &mut [f32]),
    may_continue: impl Fn() -> bool,
) {
    assert_eq!(packed.len(), packed_b_len(isa, b.rows, b.columns), "length of packed B");
    assert_eq!(piece.len(), piece_len(isa, b.rows), "length of a piece");
    let nr = variant(isa).nr;
    for (i, packed) in packed.chunks_exact_mut((b.rows * nr).max(1)).enumerate() {
        for (j, packed) in packed.chunks_mut(piece.len().max(1)).enumerate() {
            if !may_continue() {
                return;
            }
            let (first, piece) = (j * PIECE_ROWS, &mut piece[..packed.len()]);
            let k = first..first + packed.len() / nr;
            b.write(&Slice { isa, k, column: i * nr, nr }, piece);
            half.narrow(isa, piece, packed);
        }
    }
}

/// Rows of a panel that are packed at once.
const PIECE_ROWS: usize = 8192;

/// The elements of a piece of a panel of `k` rows.
#[must_use]
pub fn piece_len(isa: Isa, k: usize) -> usize {
    k.min(PIECE_ROWS) * variant(isa).nr
}

#[cfg(test)]
mod tests;
