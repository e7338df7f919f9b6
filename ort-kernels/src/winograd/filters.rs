//! Transformed filters.

use super::{Tile, eight, five, six};
use crate::{Isa, Task};

/// The filters `[O/B][I/B][taps][B in][B]` of one group, to be transformed into sets.
#[derive(Clone, Copy, Debug)]
pub struct Filters<'a> {
    /// The instruction set that transforms them; the result does not depend on it.
    pub isa: Isa,
    /// 8 or 16.
    pub block: usize,
    /// The maximum number of output blocks per set.
    pub set: usize,
    /// Input channels.
    pub inputs: usize,
    /// The tile they are transformed for.
    pub tile: Tile,
    /// The filters.
    pub w: &'a [f32],
}

impl Filters<'_> {
    /// Transforms them.
    ///
    /// # Panics
    /// If the block is neither 8 nor 16, there is no whole number of output blocks, or the length of `packed`
    /// is not [`Tile::packed_len`].
    pub fn pack(&self, packed: &mut [f32]) {
        let Self { block, tile, w, .. } = self;
        assert!(matches!(block, 8 | 16), "unsupported block size {block}");
        let found = packed.len() * tile.n_taps();
        assert_eq!(found, w.len() * tile.products(), "length of transformed filters");
        if !w.is_empty() {
            self.isa.run(Packing { filters: self, packed });
        }
    }
}

/// Filters to be transformed.
struct Packing<'a> {
    filters: &'a Filters<'a>,
    packed: &'a mut [f32],
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { filters, packed } = self;
        match filters.block {
            8 => tiled!(filters.tile => sets[8](filters, packed)),
            _ => tiled!(filters.tile => sets[16](filters, packed)),
        }
    }
}

/// Transforms with `H`, `W`, `R` and `S` of a tile, in blocks of `B` channels.
#[inline(always)]
fn sets<const H: usize, const W: usize, const R: usize, const S: usize, const B: usize>(
    &Filters { set, inputs, w, .. }: &Filters<'_>,
    packed: &mut [f32],
) {
    let filter_len = inputs * R * S * B;
    let sets = w.chunks(set * filter_len).zip(packed.chunks_mut(set * inputs * H * W * B));
    for (w, packed) in sets {
        let filters = w.len() / filter_len;
        assert_eq!(w.len(), filters * filter_len, "length of filters");
        let packed = packed.as_chunks_mut::<B>().0;
        for (f, w) in w.chunks_exact(filter_len).enumerate() {
            for (block, taps) in w.as_chunks::<B>().0.chunks_exact(R * S * B).enumerate() {
                for lane in 0..B {
                    let at = (block * B + lane) * filters + f;
                    let to = packed[at..].iter_mut().step_by(inputs * filters);
                    let products = transform::<H, W, R, S, B>(taps, lane);
                    for (to, product) in to.zip(products.as_flattened()) {
                        *to = *product;
                    }
                }
            }
        }
    }
}

/// `G·w·Gᵀ` of the taps of an input channel, for every lane.
#[inline(always)]
fn transform<const H: usize, const W: usize, const R: usize, const S: usize, const B: usize>(
    taps: &[[f32; B]],
    lane: usize,
) -> [[[f32; B]; W]; H] {
    let mut half = [[[0.0; B]; S]; H];
    for column in 0..S {
        let mut w = [[0.0; B]; R];
        for row in 0..R {
            let taps = &taps[(row * S + column) * B + lane];
            for j in 0..B {
                w[row][j] = f64::from(taps[j]);
            }
        }
        let transformed = along::<R, H, B>(&w);
        for row in 0..H {
            half[row][column] = transformed[row];
        }
    }
    // Loops, not `map`: functions that an array's methods call are compiled for the baseline only.
    let mut products = [[[0.0; B]; W]; H];
    for (row, products) in half.iter().zip(&mut products) {
        let transformed = along::<S, W, B>(row);
        for (to, from) in products.as_flattened_mut().iter_mut().zip(transformed.as_flattened()) {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
            let product = *from as f32;
            *to = product;
        }
    }
    products
}

/// `G·w` for `N` points.
#[inline(always)]
fn along<const R: usize, const N: usize, const B: usize>(w: &[[f64; B]; R]) -> [[f64; B]; N] {
    match N {
        5 => at_five(w),
        6 => at_points(&six::POINTS, w),
        8 => at_points(&eight::POINTS, w),
        _ => [w[0]; N],
    }
}

/// The same as [`at_points`] for 2 taps and the points 0, ±a, b, ∞, which are not symmetric.
#[inline(always)]
fn at_five<const R: usize, const N: usize, const B: usize>(w: &[[f64; B]; R]) -> [[f64; B]; N] {
    let mut g = [[0.0; B]; N];
    let [a, b] = five::POINTS.map(f64::from);
    for j in 0..B {
        let (w0, w1) = (w[0][j], w[R - 1][j]);
        g[0][j] = w0 / (a * a * b);
        g[1][j] = (w0 + a * w1) / (2.0 * a * a * (a - b));
        g[2][j] = (w0 - a * w1) / (-2.0 * a * a * (a + b));
        g[3][j] = (w0 + b * w1) / (b * (b * b - a * a));
        g[4][j] = w1;
    }
    g
}

/// The filters as polynomials, evaluated at 0, the points and their negatives, and ∞, each divided by the polynomial with
/// zeros at the others.
#[inline(always)]
fn at_points<const P: usize, const R: usize, const N: usize, const B: usize>(
    points: &[f32; P],
    w: &[[f64; B]; R],
) -> [[f64; B]; N] {
    let mut g = [[0.0; B]; N];
    let (mut at_zero, mut squares) = (1.0, [0.0; P]);
    for (square, &a) in squares.iter_mut().zip(points) {
        *square = f64::from(a) * f64::from(a);
        at_zero *= -*square;
    }
    for j in 0..B {
        g[0][j] = w[0][j] / at_zero;
        g[N - 1][j] = w[R - 1][j];
    }
    for (i, (&a, &own)) in points.iter().zip(&squares).enumerate() {
        let (a, mut others) = (f64::from(a), 1.0);
        for (k, square) in squares.iter().enumerate() {
            if k != i {
                others *= own - square;
            }
        }
        let scale = 0.5 / (own * others);
        for j in 0..B {
            // With odd degree there is one coefficient fewer.
            let (mut even, mut odd) = (w[R - 1][j], 0.0);
            for t in (0..R - 1).rev() {
                match t % 2 {
                    0 => even = w[t][j] + a * a * even,
                    _ => odd = w[t][j] + a * a * odd,
                }
            }
            g[1 + 2 * i][j] = scale * (even + a * odd);
            g[2 + 2 * i][j] = scale * (even - a * odd);
        }
    }
    g
}
