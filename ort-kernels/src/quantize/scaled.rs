//! Quantization and dequantization of every type, with one or many scales; and stepwise conversion of sums to floats.

use super::{Factors, QuantizedInt, Whole, quantized};
use crate::{Isa, Task};

struct Quantize<'a, T> {
    x: &'a [f32],
    scale: Factors<'a>,
    zero_point: Factors<'a>,
    y: &'a mut [T],
}

impl<T: QuantizedInt> Task for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, scale, zero_point, y } = self;
        let n = y.len();
        let x = &x[..n];
        match (scale, zero_point) {
            (Factors::One(scale), Factors::One(zero)) => {
                for i in 0..n {
                    y[i] = quantized(x[i] / scale, zero);
                }
            }
            (Factors::Each(scales), Factors::Each(zeros)) => {
                let (scales, zeros) = (&scales[..n], &zeros[..n]);
                for i in 0..n {
                    y[i] = quantized(x[i] / scales[i], zeros[i]);
                }
            }
            _ => unreachable!("invariant: equally many scales and zero points"),
        }
    }
}

/// `y = saturate(round(x / scale) + zero_point)`, with one scale and zero point or one per element.
///
/// # Panics
/// If one is single and the other is not.
pub fn quantize<T: QuantizedInt>(
    isa: Isa,
    x: &[f32],
    (scale, zero_point): (Factors<'_>, Factors<'_>),
    y: &mut [T],
) {
    isa.run(Quantize { x, scale, zero_point, y });
}

struct Dequantize<'a, T> {
    x: &'a [T],
    scale: Factors<'a>,
    zero_point: Factors<'a>,
    y: &'a mut [f32],
}

impl<T: Whole> Task for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, scale, zero_point, y } = self;
        let n = y.len();
        let x = &x[..n];
        match (scale, zero_point) {
            (Factors::One(scale), Factors::One(zero)) => {
                for i in 0..n {
                    y[i] = (x[i].float() - zero) * scale;
                }
            }
            (Factors::Each(scales), Factors::Each(zeros)) => {
                let (scales, zeros) = (&scales[..n], &zeros[..n]);
                for i in 0..n {
                    y[i] = (x[i].float() - zeros[i]) * scales[i];
                }
            }
            _ => unreachable!("invariant: equally many scales and zero points"),
        }
    }
}

/// `y = (x − zero_point) · scale`, likewise.
///
/// # Panics
/// If one is single and the other is not.
pub fn dequantize<T: Whole>(
    isa: Isa,
    x: &[T],
    (scale, zero_point): (Factors<'_>, Factors<'_>),
    y: &mut [f32],
) {
    isa.run(Dequantize { x, scale, zero_point, y });
}

struct Normalize<'a, X, Y> {
    x: &'a [X],
    from: (f32, f32),
    by: (Factors<'a>, Factors<'a>),
    to: (f32, f32),
    y: &'a mut [Y],
}

impl<X: Whole, Y: QuantizedInt> Task for Normalize<'_, X, Y> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, from: (scale, zero), by, to: (y_scale, y_zero), y } = self;
        let n = y.len();
        let x = &x[..n];
        match by {
            (Factors::One(factor), Factors::One(summand)) => {
                for i in 0..n {
                    let value = (x[i].float() - zero) * scale * factor + summand;
                    y[i] = quantized(value / y_scale, y_zero);
                }
            }
            (Factors::Each(factors), Factors::Each(summands)) => {
                let (factors, summands) = (&factors[..n], &summands[..n]);
                for i in 0..n {
                    let value = (x[i].float() - zero) * scale * factors[i] + summands[i];
                    y[i] = quantized(value / y_scale, y_zero);
                }
            }
            _ => unreachable!("invariant: equally many factors and summands"),
        }
    }
}

/// `y = quantize(dequantize(x)·factor + summand)`, each step rounded; `schemes` are scale and zero point of `x` and of
/// `y`, and `by` is factor and summand.
///
/// # Panics
/// If one of them is single and the other is not.
pub fn normalize<X: Whole, Y: QuantizedInt>(
    isa: Isa,
    x: &[X],
    schemes: [(f32, f32); 2],
    by: (Factors<'_>, Factors<'_>),
    y: &mut [Y],
) {
    let [from, to] = schemes;
    isa.run(Normalize { x, from, by, to, y });
}

per_isa! {
    /// `y = sum · scale · factor + summand`, each step rounded; `next` is factor and summand.
    ///
    /// # Panics
    /// If one of them is single and another is not.
    pub fn scale_and_shift<FMA>(
        sums: &[i32],
        scale: Factors<'_>,
        next: (Factors<'_>, Factors<'_>),
        y: &mut [f32],
    ) {
        let (factor, summand) = next;
        let n = y.len();
        let sums = &sums[..n];
        match (scale, factor, summand) {
            (Factors::One(scale), Factors::One(factor), Factors::One(summand)) => {
                for i in 0..n {
                    y[i] = sums[i] as f32 * scale * factor + summand;
                }
            }
            (Factors::Each(scale), Factors::Each(factor), Factors::Each(summand)) => {
                let (scale, factor, summand) = (&scale[..n], &factor[..n], &summand[..n]);
                for i in 0..n {
                    y[i] = sums[i] as f32 * scale[i] * factor[i] + summand[i];
                }
            }
            _ => unreachable!("invariant: equally many of each"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scale_equals_many_equal_scales() {
        let x: Vec<f32> = (0_u8..200).map(|i| f32::from(i) * 0.37 - 30.0).collect();
        let (scales, zeros) = ([0.25; 200], [3.0; 200]);
        let one = (Factors::One(0.25), Factors::One(3.0));
        let each = (Factors::Each(&scales), Factors::Each(&zeros));
        for isa in Isa::all() {
            let (mut a, mut b) = ([0_i16; 200], [1_i16; 200]);
            quantize(isa, &x, one, &mut a);
            quantize(isa, &x, each, &mut b);
            assert_eq!(a, b);
            assert_eq!(a[..3], [-117, -116, -114], "{isa:?}");
            let (mut from_a, mut from_b) = ([0.0; 200], [1.0; 200]);
            dequantize(isa, &a, one, &mut from_a);
            dequantize(isa, &a, each, &mut from_b);
            assert_eq!(from_a, from_b);
            assert_eq!(from_a[..3], [-30.0, -29.75, -29.25]);
            let mut wide = [0_u16; 4];
            quantize(
                isa,
                &[-1.0, 1e9, f32::NAN, 100.0],
                (Factors::One(0.5), Factors::One(60_000.0)),
                &mut wide,
            );
            assert_eq!(wide, [59_998, 65_535, 0, 60_200]);
            let sums = [3, -3, 100];
            let (mut y, mut z) = ([0.0; 3], [1.0; 3]);
            let next = (Factors::One(2.0), Factors::One(-1.0));
            scale_and_shift(isa, &sums, Factors::One(0.5), next, &mut y);
            let next = (Factors::Each(&[2.0; 3]), Factors::Each(&[-1.0; 3]));
            scale_and_shift(isa, &sums, Factors::Each(&[0.5; 3]), next, &mut z);
            assert_eq!((y, y), ([2.0, -4.0, 99.0], z));
        }
    }

    #[test]
    fn normalized_bytes_are_those_of_the_steps() {
        let x: Vec<i8> = (-128..=127).collect();
        let (factors, summands): (Vec<f32>, Vec<f32>) =
            x.iter().map(|&i| (f32::from(i) * 0.037, f32::from(i) * -0.011)).unzip();
        let schemes @ [(scale, zero), (y_scale, y_zero)] = [(0.03, 7.0), (0.011, 120.0)];
        let bys = [
            (Factors::One(0.7), Factors::One(-0.4)),
            (Factors::Each(&factors), Factors::Each(&summands)),
        ];
        for (isa, by) in Isa::all().flat_map(|isa| bys.map(|by| (isa, by))) {
            let (mut floats, mut expected, mut found) = ([0.0; 256], [0_u8; 256], [1_u8; 256]);
            dequantize(isa, &x, (Factors::One(scale), Factors::One(zero)), &mut floats);
            for (i, value) in floats.iter_mut().enumerate() {
                let at = |numbers: Factors<'_>| match numbers {
                    Factors::One(number) => number,
                    Factors::Each(numbers) => numbers[i],
                };
                *value = *value * at(by.0) + at(by.1);
            }
            quantize(isa, &floats, (Factors::One(y_scale), Factors::One(y_zero)), &mut expected);
            normalize(isa, &x, schemes, by, &mut found);
            assert_eq!(found, expected, "{isa:?} {by:?}");
        }
    }

    /// The definition: rounded half to even, then shifted by the zero point, then saturated; NaN is 0.
    #[test]
    fn quantized_values_are_those_of_the_definition() {
        let halves = (-1200_i16..1200).map(|i| f32::from(i) / 4.0);
        let others = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 8_388_609.0, -0.0];
        let x: Vec<f32> = halves.chain(others).collect();
        for zero in [-128.0, -3.0, 0.0, 7.0, 127.0] {
            let expected = |x: f32| -> i8 {
                let value = x.round_ties_even() + zero;
                let value = if value.is_nan() { 0.0 } else { value.clamp(-128.0, 127.0) };
                (-128..=127).find(|&i| f32::from(i) == value).unwrap()
            };
            let expected: Vec<i8> = x.iter().map(|&x| expected(x)).collect();
            for isa in Isa::all() {
                let mut y = vec![99; x.len()];
                quantize(isa, &x, (Factors::One(1.0), Factors::One(zero)), &mut y);
                assert_eq!(y, expected, "{isa:?}, zero point {zero}");
            }
        }
    }
}
