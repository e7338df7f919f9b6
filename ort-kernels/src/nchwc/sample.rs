//! Rows of pixels computed from rows of pixels. Rows are as long as their operands; weights are
//! multiplied, and each sum is rounded once more.

use super::lanes;

per_isa! {
    /// `y[i] = a[i]·weights[0] + b[i]·weights[1]`.
    ///
    /// # Panics
    /// If an operand is shorter than `y`.
    pub fn blend_rows<FMA>(a: &[f32], b: &[f32], weights: [f32; 2], y: &mut [f32]) {
        let n = y.len();
        for ((y, a), b) in y.iter_mut().zip(&a[..n]).zip(&b[..n]) {
            *y = a * weights[0] + b * weights[1];
        }
    }

    /// `y[p] = x[pixels[p]]`, of pixels of `block` elements.
    ///
    /// # Panics
    /// If a pixel does not exist, or `block` is 0.
    pub fn pick_pixels<FMA>(block: usize, x: &[f32], pixels: &[usize], y: &mut [f32]) {
        by_lanes!(block => pick::<_>(block, x, pixels, y));
    }

    /// `y[p] = Σ w·x[i]` over the two `(i, w)` of `pixels[p]`, of pixels of `block` elements.
    ///
    /// # Panics
    /// As [`pick_pixels`].
    pub fn blend_pixels<FMA>(
        block: usize,
        x: &[f32],
        pixels: &[[(usize, f32); 2]],
        y: &mut [f32],
    ) {
        by_lanes!(block => blend::<_>(block, x, pixels, y));
    }
}

#[inline(always)]
fn pick<const L: usize>(block: usize, x: &[f32], pixels: &[usize], y: &mut [f32]) {
    for (y, &pixel) in y.chunks_exact_mut(block).zip(pixels) {
        for lane in (0..block).step_by(L) {
            y[lane..lane + L].copy_from_slice(&lanes::<L>(x, pixel * block + lane));
        }
    }
}

#[inline(always)]
fn blend<const L: usize>(block: usize, x: &[f32], pixels: &[[(usize, f32); 2]], y: &mut [f32]) {
    for (y, &[(a, a_weight), (b, b_weight)]) in y.chunks_exact_mut(block).zip(pixels) {
        for lane in (0..block).step_by(L) {
            let (a, b) = (lanes::<L>(x, a * block + lane), lanes::<L>(x, b * block + lane));
            let y = &mut y[lane..lane + L];
            for i in 0..L {
                y[i] = a[i] * a_weight + b[i] * b_weight;
            }
        }
    }
}
