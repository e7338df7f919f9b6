//! Operations on f32 images in NCHWc, `[N][C/B][H][W][B]`, except convolution.
//!
//! A *pixel* is the `B` elements of one position in one block, a *plane* all pixels of a block.
//! Blocks of any size are supported; vectors run along pixels, so multiples of 16 are best, then of
//! 8 and of 4.
//!
//! - [`Reorder`] converts from and to NCHW or NHWC.
//! - [`Pool`], [`global_max`] and [`global_sum`] fold windows and whole planes.
//! - [`pick_pixels`], [`blend_pixels`] and [`blend_rows`] compute rows of pixels from other rows, which
//!   upsampling consists of.

/// Calls `$f::<L, …>` with the largest supported number of lanes that divides a pixel of `$block` elements.
macro_rules! by_lanes {
    ($block:expr => $f:ident::<_ $(, $generic:ty)*>($($arg:expr),* $(,)?)) => {
        match $block {
            block if block % 16 == 0 => $f::<16 $(, $generic)*>($($arg),*),
            block if block % 8 == 0 => $f::<8 $(, $generic)*>($($arg),*),
            block if block % 4 == 0 => $f::<4 $(, $generic)*>($($arg),*),
            _ => $f::<1 $(, $generic)*>($($arg),*),
        }
    };
}

mod global;
mod pool;
mod reorder;
mod sample;

pub use global::{global_max, global_sum};
pub use pool::Pool;
pub use reorder::Reorder;
pub use sample::{blend_pixels, blend_rows, pick_pixels};

/// `L` elements of `x` starting at `at`.
#[inline(always)]
fn lanes<const L: usize>(x: &[f32], at: usize) -> [f32; L] {
    let mut lanes = [0.0; L];
    lanes.copy_from_slice(&x[at..at + L]);
    lanes
}

#[cfg(test)]
mod tests;
