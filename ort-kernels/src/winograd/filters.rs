//! Filters, transformed.

use super::{POINTS, PRODUCTS, WINDOW};

/// The elements that filters `[o, i, 3, 3]` have when they are transformed.
#[must_use]
pub fn packed_len(o: usize, i: usize) -> usize {
    o * i * PRODUCTS
}

/// Transforms the filters `[O/B][I/B][3][3][B in][B]` of one group into sets of at most `set` output
/// blocks.
///
/// # Panics
/// If the block is neither 8 nor 16, `w` is no whole number of output blocks, or `packed` is not as
/// long as [`packed_len`] says.
pub fn pack(block: usize, set: usize, inputs: usize, w: &[f32], packed: &mut [f32]) {
    assert!(matches!(block, 8 | 16), "a block of {block} channels");
    match block {
        8 => pack_blocks::<8>(set, inputs, w, packed),
        _ => pack_blocks::<16>(set, inputs, w, packed),
    }
}

fn pack_blocks<const B: usize>(set: usize, inputs: usize, w: &[f32], packed: &mut [f32]) {
    let filter_len = inputs * 9 * B;
    assert_eq!(packed.len() * 9, w.len() * PRODUCTS, "the length of transformed filters");
    if w.is_empty() {
        return;
    }
    let sets = w.chunks(set * filter_len).zip(packed.chunks_mut(set * inputs * PRODUCTS * B));
    for (w, packed) in sets {
        let filters = w.len() / filter_len;
        assert_eq!(w.len(), filters * filter_len, "the length of filters");
        let packed = packed.as_chunks_mut::<B>().0;
        for (f, w) in w.chunks_exact(filter_len).enumerate() {
            for (block, taps) in w.as_chunks::<B>().0.chunks_exact(9 * B).enumerate() {
                for lane in 0..B {
                    let at = (block * B + lane) * filters + f;
                    let products =
                        transformed::<B>(std::array::from_fn(|tap| &taps[tap * B + lane]));
                    for (p, product) in products.iter().enumerate() {
                        packed[p * inputs * filters + at] = *product;
                    }
                }
            }
        }
    }
}

/// `G·w·Gᵀ` of the nine taps, for every lane.
fn transformed<const B: usize>(taps: [&[f32; B]; 9]) -> [[f32; B]; PRODUCTS] {
    let taps = taps.map(|tap| tap.map(f64::from));
    let mut half = [[[0.0; B]; 3]; WINDOW];
    for column in 0..3 {
        let transformed = along([&taps[column], &taps[3 + column], &taps[6 + column]]);
        for row in 0..WINDOW {
            half[row][column] = transformed[row];
        }
    }
    let mut products = [[0.0; B]; PRODUCTS];
    for (row, products) in half.iter().zip(products.as_chunks_mut::<WINDOW>().0) {
        let transformed = along([&row[0], &row[1], &row[2]]);
        for (product, transformed) in products.iter_mut().zip(transformed) {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is meant")]
            let rounded = transformed.map(|x| x as f32);
            *product = rounded;
        }
    }
    products
}

/// `G·w`.
#[inline(always)]
fn along<const B: usize>([w0, w1, w2]: [&[f64; B]; 3]) -> [[f64; B]; WINDOW] {
    let [a, b] = POINTS.map(f64::from);
    let p = 0.5 / (a * a * (a * a - b * b));
    let q = 0.5 / (b * b * (b * b - a * a));
    let mut g = [[0.0; B]; WINDOW];
    for j in 0..B {
        let (even_a, odd_a) = (w0[j] + a * a * w2[j], a * w1[j]);
        let (even_b, odd_b) = (w0[j] + b * b * w2[j], b * w1[j]);
        g[0][j] = w0[j] / (a * a * b * b);
        g[1][j] = p * (even_a + odd_a);
        g[2][j] = p * (even_a - odd_a);
        g[3][j] = q * (even_b + odd_b);
        g[4][j] = q * (even_b - odd_b);
        g[5][j] = w2[j];
    }
    g
}
