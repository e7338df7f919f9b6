//! What a variant computes at a time, and the layout of its panels.

use super::{MASKED, QUAD};

/// Bytes per line of a cache.
const LINE: usize = 64;

/// A register tile: its name, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The maximum number of rows per tile.
    pub mr: usize,
    /// The maximum number of tiles, one below the other, that are computed together.
    pub n_tiles: usize,
    /// Columns per panel of B.
    pub nr: usize,
    /// Terms that are multiplied at once; see [`Variant::reads_steps`].
    pub k_step: usize,
    /// Whether panels end with masks of the quads whose products can be added in 16 bits.
    pub has_masks: bool,
    /// Whether one call computes all tiles of a block, panel by panel.
    pub is_blocked: bool,
}

impl Variant {
    /// A tile by itself, of panels without masks and as long as their terms.
    pub(super) const fn new(name: &'static str, mr: usize, nr: usize) -> Self {
        Self { name, mr, n_tiles: 1, nr, k_step: QUAD, has_masks: false, is_blocked: false }
    }

    /// Whether whole steps are read of rows of A. Then panels are padded with zeros, so that what follows a row does not matter.
    #[must_use]
    pub const fn reads_steps(&self) -> bool {
        self.k_step > QUAD
    }

    /// Terms of panels, of which `k` are those of a product.
    #[must_use]
    pub const fn padded_k(&self, k: usize) -> usize {
        k.next_multiple_of(self.k_step)
    }

    /// The layout of panels, as a number: variants with equal ones share packed matrices.
    #[must_use]
    pub fn layout(&self) -> u64 {
        let k_step = (self.k_step / QUAD) as u64;
        self.nr as u64 | u64::from(self.has_masks) << u32::BITS | (k_step - 1) << (u32::BITS + 1)
    }

    /// Bytes of the quads of a panel.
    pub(super) fn quads_len(&self, k: usize) -> usize {
        self.padded_k(k) * self.nr
    }

    /// Bytes of a panel: quads, and masks in whole lines of a cache.
    pub(super) fn panel_len(&self, k: usize) -> usize {
        let n_masks = if self.has_masks { n_masks(k) } else { 0 };
        self.quads_len(k) + (n_masks * size_of::<Mask>()).next_multiple_of(LINE)
    }
}

/// A bit per quad, the lowest first, little-endian.
pub(super) type Mask = [u8; 8];

/// The number of masks of `k` terms.
pub(super) fn n_masks(k: usize) -> usize {
    k.div_ceil(QUAD * MASKED)
}
