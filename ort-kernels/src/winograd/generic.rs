//! One tile by one output block of 8 or 16, left to the vectoriser.

use super::strip::{Outputs, Place};
use super::{CUBES, POINTS, PRODUCT, PRODUCTS, SQUARES, SUM, Strip, TILE, Variant, WINDOW};
use crate::isa::{GENERIC_FMA, mul_add};
use crate::vec::clamp;

pub(super) const VARIANT: Variant = Variant { name: "generic", block: 8, filters: 1 };

pub(super) fn strip(strip: &Strip<'_>, scratch: &mut [f32], y: &mut [&mut [f32]]) {
    match strip.conv.block {
        8 => tiles::<8>(strip, scratch, y),
        _ => tiles::<16>(strip, scratch, y),
    }
}

fn tiles<const B: usize>(strip: &Strip<'_>, scratch: &mut [f32], y: &mut [&mut [f32]]) {
    let (v, _) = strip.split::<B>(scratch);
    for place in strip.places() {
        for input in 0..strip.inputs {
            let v = v[input * PRODUCTS..].first_chunk_mut();
            forward(strip, input, place, v.expect("invariant: scratch has room for a tile"));
        }
        let v = &v.as_chunks::<PRODUCTS>().0[..strip.inputs];
        for (f, y) in y.iter_mut().enumerate() {
            let sums = backward(&multiplied(strip, v, f));
            if sums.as_flattened().iter().all(|sum| sum.iter().all(|x| x.is_finite())) {
                finish(&sums, strip.outputs(f, place, y));
            } else {
                strip.directly(f, place, y);
            }
        }
    }
}

/// `Bᵀ·x·B` of what the tile at `place` reads of an input block.
fn forward<const B: usize>(
    strip: &Strip<'_>,
    input: usize,
    place: Place,
    v: &mut [[f32; B]; PRODUCTS],
) {
    let mut padded = [[0.0; B]; PRODUCTS];
    let (x, row_len) = strip.pixels(input, place, &mut padded);
    for j in 0..B {
        let rows: [_; WINDOW] =
            std::array::from_fn(|r| forward_along(std::array::from_fn(|c| x[r * row_len + c][j])));
        for c in 0..WINDOW {
            let column = forward_along(rows.map(|row| row[c]));
            column.into_iter().enumerate().for_each(|(r, x)| v[r * WINDOW + c][j] = x);
        }
    }
}

/// The 36 sums over the input channels, for output block `f`.
fn multiplied<const B: usize>(
    strip: &Strip<'_>,
    v: &[[[f32; B]; PRODUCTS]],
    f: usize,
) -> [[f32; B]; PRODUCTS] {
    let mut sums = [[0.0; B]; PRODUCTS];
    for (p, sums) in sums.iter_mut().enumerate() {
        let u = strip.filters((f, 1), p).as_chunks::<B>().0;
        for (v, u) in v.iter().zip(u.as_chunks::<B>().0) {
            for k in 0..B {
                for j in 0..B {
                    sums[j] = mul_add::<GENERIC_FMA>(v[p][k], u[k][j], sums[j]);
                }
            }
        }
    }
    sums
}

/// `Aᵀ·m·A`.
fn backward<const B: usize>(m: &[[f32; B]; PRODUCTS]) -> [[[f32; B]; TILE]; TILE] {
    let mut sums = [[[0.0; B]; TILE]; TILE];
    for j in 0..B {
        let rows: [_; WINDOW] =
            std::array::from_fn(|r| backward_along(std::array::from_fn(|c| m[r * WINDOW + c][j])));
        for c in 0..TILE {
            let column = backward_along(rows.map(|row| row[c]));
            column.into_iter().enumerate().for_each(|(r, x)| sums[r][c][j] = x);
        }
    }
    sums
}

/// Adds what the outputs start from, and clamps them.
fn finish<const B: usize>(sums: &[[[f32; B]; TILE]; TILE], outputs: Outputs<'_>) {
    let bias = outputs.bias.and_then(|bias| bias.first_chunk()).unwrap_or(&[0.0; B]);
    let y = outputs.y.as_chunks_mut::<B>().0;
    for (row, y) in sums.iter().zip(y.chunks_mut(outputs.width)).take(outputs.rows) {
        for (sum, y) in row.iter().zip(y).take(outputs.columns) {
            for j in 0..B {
                let start = if outputs.is_sum { y[j] + bias[j] } else { bias[j] };
                y[j] = clamp(sum[j] + start, outputs.clamp.0, outputs.clamp.1);
            }
        }
    }
}

/// `Bᵀ·d`.
fn forward_along(d: [f32; WINDOW]) -> [f32; WINDOW] {
    let ([a, b], [a2, b2]) = (POINTS, SQUARES);
    let (even_a, odd_a) = (fma(-b2, d[2], d[4]), fma(-b2, d[1], d[3]));
    let (even_b, odd_b) = (fma(-a2, d[2], d[4]), fma(-a2, d[1], d[3]));
    [
        fma(PRODUCT, d[0], fma(-SUM, d[2], d[4])),
        fma(a, odd_a, even_a),
        fma(-a, odd_a, even_a),
        fma(b, odd_b, even_b),
        fma(-b, odd_b, even_b),
        fma(PRODUCT, d[1], fma(-SUM, d[3], d[5])),
    ]
}

/// `Aᵀ·m`.
fn backward_along(m: [f32; WINDOW]) -> [f32; TILE] {
    let ([a, b], [a2, b2], [a3, b3]) = (POINTS, SQUARES, CUBES);
    let (even_a, odd_a) = (m[1] + m[2], m[1] - m[2]);
    let (even_b, odd_b) = (m[3] + m[4], m[3] - m[4]);
    [
        m[0] + even_a + even_b,
        fma(a, odd_a, b * odd_b),
        fma(a2, even_a, b2 * even_b),
        fma(a3, odd_a, fma(b3, odd_b, m[5])),
    ]
}

#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    mul_add::<GENERIC_FMA>(a, b, c)
}
