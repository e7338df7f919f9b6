//! One tile by one output block of 8 or 16, autovectorised.

use super::strip::{Outputs, Place};
use super::{Strip, TILE, Variant, eight, five, six};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", block: 8, filters: 1 };

pub(super) fn strip(strip: &Strip<'_>, scratch: &mut [f32], y: &mut [&mut [f32]]) {
    match strip.conv.block {
        8 => tiled!(strip.tile => tiles[8](strip, scratch, y)),
        _ => tiled!(strip.tile => tiles[16](strip, scratch, y)),
    }
}

/// `H`, `W`, `R` and `S` as of a tile.
fn tiles<const H: usize, const W: usize, const R: usize, const S: usize, const B: usize>(
    strip: &Strip<'_>,
    scratch: &mut [f32],
    y: &mut [&mut [f32]],
) {
    let (v, _) = strip.split::<B>(scratch);
    let v = &mut v.as_chunks_mut::<W>().0.as_chunks_mut::<H>().0[..strip.inputs];
    for place in strip.places() {
        for (input, v) in v.iter_mut().enumerate() {
            forward(strip, input, place, v);
        }
        for (f, y) in y.iter_mut().enumerate() {
            let sums = backward(&multiplied(strip, v, f));
            let mut found = sums[..=H - R].iter().flat_map(|row| row[..=W - S].as_flattened());
            if found.all(|x| x.is_finite()) {
                finish(&sums, strip.outputs(f, place, y));
            } else {
                strip.directly(f, place, y);
            }
        }
    }
}

/// `Bᵀ·x·B` of the inputs of the tile at `place` in an input block.
fn forward<const H: usize, const W: usize, const B: usize>(
    strip: &Strip<'_>,
    input: usize,
    place: Place,
    v: &mut [[[f32; B]; W]; H],
) {
    let padded = &mut [[[0.0; B]; W]; H];
    let (x, row_len) = strip.pixels(input, place, padded);
    for (r, v) in v.iter_mut().enumerate() {
        v.copy_from_slice(&x[r * row_len..][..W]);
    }
    both_axes(v, forward_along);
}

/// The sums over the input channels, for output block `f`.
fn multiplied<const H: usize, const W: usize, const B: usize>(
    strip: &Strip<'_>,
    v: &[[[[f32; B]; W]; H]],
    f: usize,
) -> [[[f32; B]; W]; H] {
    let mut sums = [[[0.0; B]; W]; H];
    for (p, sums) in sums.as_flattened_mut().iter_mut().enumerate() {
        let u = strip.filters((f, 1), p).as_chunks::<B>().0;
        for (v, u) in v.iter().zip(u.as_chunks::<B>().0) {
            for k in 0..B {
                for j in 0..B {
                    sums[j] = mul_add::<GENERIC_FMA>(v[p / W][p % W][k], u[k][j], sums[j]);
                }
            }
        }
    }
    sums
}

/// `Aᵀ·m·A`, in the first rows and columns.
fn backward<const H: usize, const W: usize, const B: usize>(
    m: &[[[f32; B]; W]; H],
) -> [[[f32; B]; W]; H] {
    let mut sums = *m;
    both_axes(&mut sums, backward_along);
    sums
}

/// Transforms rows, then columns, of every lane.
#[inline(always)]
fn both_axes<const H: usize, const W: usize, const B: usize>(
    x: &mut [[[f32; B]; W]; H],
    along: impl Fn(&mut [f32]),
) {
    for j in 0..B {
        let mut lane = x.map(|row| row.map(|x| x[j]));
        lane.iter_mut().for_each(|row| along(row));
        for c in 0..W {
            let mut column = lane.map(|row| row[c]);
            along(&mut column);
            column.into_iter().zip(x.iter_mut()).for_each(|(found, row)| row[c][j] = found);
        }
    }
}

/// Adds the initial values of outputs, and applies the epilogue.
fn finish<const H: usize, const W: usize, const B: usize>(
    sums: &[[[f32; B]; W]; H],
    outputs: Outputs<'_>,
) {
    let bias = outputs.bias.and_then(|bias| bias.first_chunk()).unwrap_or(&[0.0; B]);
    let y = outputs.y.as_chunks_mut::<B>().0;
    for (row, y) in sums.iter().zip(y.chunks_mut(outputs.width)).take(outputs.rows) {
        for (sum, y) in row.iter().zip(y).take(outputs.columns) {
            for j in 0..B {
                let start = if outputs.is_sum { y[j] + bias[j] } else { bias[j] };
                y[j] = outputs.epilogue.of(sum[j] + start);
            }
        }
    }
}

/// `d ← Bᵀ·d`.
#[inline(always)]
fn forward_along(d: &mut [f32]) {
    match *d {
        [d0, d1, d2, d3, d4] => {
            let ([a, b], [a2, _]) = (five::POINTS, five::SQUARES);
            let (t0, t1) = (fma(-b, d0, d1), fma(-b, d1, d2));
            let (t2, t3) = (fma(-b, d2, d3), fma(-b, d3, d4));
            d.copy_from_slice(&[
                fma(-a2, t0, t2),
                fma(a, t1, t2),
                fma(-a, t1, t2),
                fma(-a2, d1, d3),
                fma(-a2, t1, t3),
            ]);
        }
        [d0, d1, d2, d3, d4, d5] => {
            let ([a, b], [a2, b2]) = (six::POINTS, six::SQUARES);
            let (even_a, odd_a) = (fma(-b2, d2, d4), fma(-b2, d1, d3));
            let (even_b, odd_b) = (fma(-a2, d2, d4), fma(-a2, d1, d3));
            d.copy_from_slice(&[
                fma(six::PRODUCT, d0, fma(-six::SUM, d2, d4)),
                fma(a, odd_a, even_a),
                fma(-a, odd_a, even_a),
                fma(b, odd_b, even_b),
                fma(-b, odd_b, even_b),
                fma(six::PRODUCT, d1, fma(-six::SUM, d3, d5)),
            ]);
        }
        [d0, d1, d2, d3, d4, d5, d6, d7] => {
            let [[a, even_a, odd_a], [b, even_b, odd_b], [c, even_c, odd_c]] =
                eight::PAIRS.map(|[point, sum, product]| {
                    let even = fma(product, d2, fma(-sum, d4, d6));
                    [point, even, fma(product, d1, fma(-sum, d3, d5))]
                });
            d.copy_from_slice(&[
                fma(eight::SUM, d2 - d4, d6 - d0),
                fma(a, odd_a, even_a),
                fma(-a, odd_a, even_a),
                fma(b, odd_b, even_b),
                fma(-b, odd_b, even_b),
                fma(c, odd_c, even_c),
                fma(-c, odd_c, even_c),
                fma(eight::SUM, d3 - d5, d7 - d1),
            ]);
        }
        _ => {}
    }
}

/// `m ← Aᵀ·m`, whose elements are the first.
#[inline(always)]
fn backward_along(m: &mut [f32]) {
    match *m {
        [m0, m1, m2, m3, m4] => {
            let ([a, b], [a2, b2], [a3, b3]) = (five::POINTS, five::SQUARES, five::CUBES);
            let (even, odd) = (m1 + m2, m1 - m2);
            m[..TILE].copy_from_slice(&[
                m0 + even + m3,
                fma(a, odd, b * m3),
                fma(a2, even, b2 * m3),
                fma(a3, odd, fma(b3, m3, m4)),
            ]);
        }
        [m0, m1, m2, m3, m4, m5] => {
            let ([a, b], [a2, b2], [a3, b3]) = (six::POINTS, six::SQUARES, six::CUBES);
            let (even_a, odd_a) = (m1 + m2, m1 - m2);
            let (even_b, odd_b) = (m3 + m4, m3 - m4);
            m[..TILE].copy_from_slice(&[
                m0 + even_a + even_b,
                fma(a, odd_a, b * odd_b),
                fma(a2, even_a, b2 * even_b),
                fma(a3, odd_a, fma(b3, odd_b, m5)),
            ]);
        }
        [m0, m1, m2, m3, m4, m5, m6, m7] => {
            let ([a, _, c], [a2, _, c2], [a3, _, c3]) =
                (eight::POINTS, eight::SQUARES, eight::CUBES);
            let (even_a, odd_a) = (m1 + m2, m1 - m2);
            let (even_b, odd_b) = (m3 + m4, m3 - m4);
            let (even_c, odd_c) = (m5 + m6, m5 - m6);
            m[..TILE].copy_from_slice(&[
                (m0 + even_a) + (even_b + even_c),
                fma(a, odd_a, fma(c, odd_c, odd_b)),
                fma(a2, even_a, fma(c2, even_c, even_b)),
                fma(a3, odd_a, fma(c3, odd_c, odd_b + m7)),
            ]);
        }
        _ => {}
    }
}

#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    mul_add::<GENERIC_FMA>(a, b, c)
}
