//! Distances between floats, and error bounds that follow from how a value was computed.

/// The distance of `a` and `b` in units of the last place: 0 if they are equal (0 and −0
/// are), `u32::MAX` if exactly one is NaN.
pub fn ulps(a: f32, b: f32) -> u32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => ordered(a).abs_diff(ordered(b)),
        _ => u32::MAX,
    }
}

/// As [`ulps`], for doubles.
pub fn ulps_f64(a: f64, b: f64) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => ordered_f64(a).abs_diff(ordered_f64(b)),
        _ => u64::MAX,
    }
}

/// Floats as integers of the same order, 0 and −0 as 0.
fn ordered(x: f32) -> i32 {
    let bits = x.to_bits().cast_signed();
    if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
}

fn ordered_f64(x: f64) -> i64 {
    let bits = x.to_bits().cast_signed();
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// How far two f32 sums of the same `n` terms can differ, whatever their orders of summation:
/// `2·n·u·Σ|terms|` with `u = 2^-24`.
///
/// Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 4.2, to
/// first order, once for each of the two.
pub fn sum_bound(n: usize, sum_of_magnitudes: f32) -> f32 {
    let unit = f32::EPSILON / 2.0;
    let n = u16::try_from(n).map_or(f32::from(u16::MAX), f32::from);
    2.0 * n * unit * sum_of_magnitudes
}

/// Asserts that the slices have equal lengths and no two elements differ by more than
/// `bound(index)`; NaN equals NaN, and infinities equal themselves.
///
/// # Panics
/// At the first element out of bounds, with its index and both values.
#[track_caller]
pub fn assert_close(expected: &[f32], found: &[f32], bound: impl Fn(usize) -> f32) {
    assert_eq!(expected.len(), found.len(), "lengths");
    for (i, (&e, &f)) in expected.iter().zip(found).enumerate() {
        let same = e == f || (e.is_nan() && f.is_nan());
        assert!(same || (e - f).abs() <= bound(i), "element {i}: expected {e}, found {f}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_apart_on_either_side_of_zero() {
        let tiny = f32::from_bits(1);
        let cases = [
            (1.0, 1.0 + f32::EPSILON, 1),
            (0.0, -0.0, 0),
            (tiny, -tiny, 2),
            (f32::NAN, f32::NAN, 0),
            (f32::NAN, 1.0, u32::MAX),
            (f32::MAX, f32::INFINITY, 1),
        ];
        for (a, b, expected) in cases {
            assert_eq!(ulps(a, b), expected, "{a} and {b}");
            assert_eq!(ulps(b, a), expected, "{b} and {a}");
        }
        assert_eq!(ulps_f64(1.0, 1.0 + f64::EPSILON), 1);
    }

    #[test]
    fn sums_in_two_orders_stay_within_the_bound() {
        let mut rng = crate::Rng::new(1);
        let terms: Vec<f32> = (0..1000).map(|_| rng.uniform()).collect();
        let forth: f32 = terms.iter().sum();
        let back: f32 = terms.iter().rev().sum();
        let magnitudes: f32 = terms.iter().map(|x| x.abs()).sum();
        assert_close(&[forth], &[back], |_| sum_bound(terms.len(), magnitudes));
    }
}
