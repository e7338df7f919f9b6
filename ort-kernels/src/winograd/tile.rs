//! The tiles of an image, and the convolutions that they support.

use super::TILE;
use crate::conv_f32::Axis;

/// A tile of outputs: four along an axis where filters have several taps, else one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    taps: [usize; 2],
}

/// Calls a function with the windows `H` and `W` of a tile, along either axis, and its taps `R` and `S`.
macro_rules! tiled {
    ($tile:expr => $call:ident $([$more:tt])? ($($arg:expr),+)) => {
        match $tile.taps() {
            [3, 3] => $call::<6, 6, 3, 3 $(, $more)?>($($arg),+),
            [3, 1] => $call::<6, 1, 3, 1 $(, $more)?>($($arg),+),
            [1, 3] => $call::<1, 6, 1, 3 $(, $more)?>($($arg),+),
            [5, 1] => $call::<8, 1, 5, 1 $(, $more)?>($($arg),+),
            [1, 5] => $call::<1, 8, 1, 5 $(, $more)?>($($arg),+),
            [2, 2] => $call::<5, 5, 2, 2 $(, $more)?>($($arg),+),
            [2, 1] => $call::<5, 1, 2, 1 $(, $more)?>($($arg),+),
            [1, 2] => $call::<1, 5, 1, 2 $(, $more)?>($($arg),+),
            [2, 3] => $call::<5, 6, 2, 3 $(, $more)?>($($arg),+),
            [3, 2] => $call::<6, 5, 3, 2 $(, $more)?>($($arg),+),
            taps => unreachable!("invariant: there is no tile for {taps:?}"),
        }
    };
}

impl Tile {
    /// The tile of filters with these taps, stride and dilation 1, if supported.
    #[must_use]
    pub fn of_taps(taps: [usize; 2]) -> Option<Self> {
        matches!(taps, [2 | 3, 2 | 3] | [2 | 3 | 5, 1] | [1, 2 | 3 | 5]).then_some(Self { taps })
    }

    /// The tile of a convolution in blocks of `block` channels, if supported.
    #[must_use]
    pub fn of(block: usize, axes: &[Axis; 2]) -> Option<Self> {
        let is_plain = |axis: &Axis| [axis.stride, axis.dilation] == [1, 1];
        let is_taken = matches!(block, 8 | 16) && axes.iter().all(is_plain);
        Self::of_taps([axes[0].kernel, axes[1].kernel]).filter(|_| is_taken)
    }

    /// Taps of a filter along each axis.
    #[must_use]
    pub const fn taps(&self) -> [usize; 2] {
        self.taps
    }

    /// Outputs along each axis.
    #[must_use]
    pub fn outputs(&self) -> [usize; 2] {
        let outputs = |taps| if taps == 1 { 1 } else { TILE };
        [outputs(self.taps[0]), outputs(self.taps[1])]
    }

    /// Tiles of an image along each axis.
    #[must_use]
    pub fn grid(&self, axes: &[Axis; 2]) -> [usize; 2] {
        let outputs = self.outputs();
        [0, 1].map(|i| axes[i].output.div_ceil(outputs[i]))
    }

    /// The number of tiles of an image, or the largest number if there are more.
    #[must_use]
    pub fn n_tiles(&self, axes: &[Axis; 2]) -> usize {
        let [down, across] = self.grid(axes);
        down.saturating_mul(across)
    }

    /// Products per channel.
    #[must_use]
    pub fn products(&self) -> usize {
        let [h, w] = self.windows();
        h * w
    }

    /// Taps per filter.
    #[must_use]
    pub fn n_taps(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    /// The number of elements of transformed filters `[o, i, …]`.
    #[must_use]
    pub fn packed_len(&self, o: usize, i: usize) -> usize {
        o * i * self.products()
    }

    /// Pixels read along each axis.
    pub(super) fn windows(&self) -> [usize; 2] {
        let ([r, s], [p, q]) = (self.taps, self.outputs());
        [p + r - 1, q + s - 1]
    }
}
