//! Rotation of pairs of numbers, each by its own angle, as in rotary position embeddings.

use crate::Isa;
use crate::isa::mul_add;

/// Rotates the first `2·cos.len()` elements of a head `x`, for `table = [cos, sin]`, as adjacent pairs
/// if the head is interleaved, otherwise as halves; copies the elements after them.
///
/// # Panics
/// If the lengths differ, or the head is shorter than its pairs.
pub fn rotate(isa: Isa, x: &[f32], table: [&[f32]; 2], is_interleaved: bool, y: &mut [f32]) {
    let n = table[0].len();
    let (x, rest) = x.split_at(2 * n);
    let (y, y_rest) = y.split_at_mut(2 * n);
    y_rest.copy_from_slice(rest);
    if is_interleaved {
        return rotate_neighbours(isa, x, table, y);
    }
    let ((a, b), (c, d)) = (x.split_at(n), y.split_at_mut(n));
    rotate_halves(isa, [a, b], table, [c, d]);
}

per_isa! {
    /// `y[0][i] = a[i]·cos[i] − b[i]·sin[i], y[1][i] = a[i]·sin[i] + b[i]·cos[i]` for `x = [a, b]` and
    /// `table = [cos, sin]`; sums are fused if the instruction set supports it.
    ///
    /// # Panics
    /// If the lengths differ.
    fn rotate_halves<FMA>(x: [&[f32]; 2], table: [&[f32]; 2], y: [&mut [f32]; 2]) {
        let [c, d] = y;
        let n = c.len();
        let ([a, b], [cos, sin], d) = (x.map(|x| &x[..n]), table.map(|x| &x[..n]), &mut d[..n]);
        for i in 0..n {
            [c[i], d[i]] = rotated::<FMA>([a[i], b[i]], [cos[i], sin[i]]);
        }
    }

    /// The same for adjacent pairs: `x = [a[0], b[0], a[1], b[1], …]`, and likewise `y`.
    ///
    /// # Panics
    /// If the lengths differ.
    fn rotate_neighbours<FMA>(x: &[f32], table: [&[f32]; 2], y: &mut [f32]) {
        let y = y.as_chunks_mut::<2>().0;
        let n = y.len();
        let (x, [cos, sin]) = (&x.as_chunks::<2>().0[..n], table.map(|x| &x[..n]));
        for i in 0..n {
            y[i] = rotated::<FMA>(x[i], [cos[i], sin[i]]);
        }
    }
}

#[inline(always)]
fn rotated<const FMA: bool>([a, b]: [f32; 2], [cos, sin]: [f32; 2]) -> [f32; 2] {
    [mul_add::<FMA>(a, cos, -(b * sin)), mul_add::<FMA>(a, sin, b * cos)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_rotated_by_their_angles() {
        for isa in Isa::all() {
            for n in [0, 1, 5, 16, 67] {
                let angles: Vec<_> = (0..n).map(|i| i as f32 * 0.7).collect();
                let [cos, sin] =
                    [f32::cos, f32::sin].map(|f| angles.iter().map(|&x| f(x)).collect::<Vec<_>>());
                let a: Vec<_> = (0..n).map(|i| i as f32 - 3.5).collect();
                let b: Vec<_> = (0..n).map(|i| 2.0 - i as f32).collect();
                let (mut c, mut d) = (vec![0.0; n], vec![0.0; n]);
                rotate_halves(isa, [&a, &b], [&cos, &sin], [&mut c, &mut d]);
                let x: Vec<_> = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]).collect();
                let mut y = vec![0.0; 2 * n];
                rotate_neighbours(isa, &x, [&cos, &sin], &mut y);
                for i in 0..n {
                    let [a, b, cos, sin] = [a[i], b[i], cos[i], sin[i]].map(f64::from);
                    let expected = [a * cos - b * sin, a * sin + b * cos];
                    // Two roundings of numbers of at most |a| + |b|.
                    let bound = 2.0 * f64::from(f32::EPSILON) * (a.abs() + b.abs());
                    for (found, expected) in [c[i], d[i]].into_iter().zip(expected) {
                        assert!((f64::from(found) - expected).abs() <= bound, "{isa:?} {i}");
                    }
                    assert_eq!([c[i], d[i]], [y[2 * i], y[2 * i + 1]]);
                }
            }
        }
    }
}
