//! Conversions between floats, sums of integer products, and bytes. Rounding is half to even, results saturate,
//! NaN becomes 0; each element depends only on itself.

pub(crate) mod requantize;
mod scaled;

pub use requantize::{Requantize, Scales};
pub use scaled::{dequantize, normalize, quantize, scale_and_shift};

use crate::isa::fused;
use crate::vec::Lane;

/// An integer type of quantized values.
pub trait QuantizedInt: Whole + Default + Send + Sync {
    /// The least and the greatest value.
    const RANGE: (f32, f32);
    /// The quantized value with these low bits.
    fn of(bits: u32) -> Self;
}

/// An integer that converts to a float, rounded if it has more than 24 bits.
pub trait Whole: Copy {
    /// The float.
    fn float(self) -> f32;
}

macro_rules! whole {
    ($($ty:ty),*) => { $(
        impl Whole for $ty {
            #[inline(always)]
            fn float(self) -> f32 { self as f32 }
        }
    )* };
}
whole!(i8, u8, i16, u16, i32);

impl QuantizedInt for u8 {
    const RANGE: (f32, f32) = (0.0, 255.0);

    #[inline(always)]
    fn of(bits: u32) -> Self {
        bits.to_le_bytes()[0]
    }
}

impl QuantizedInt for i8 {
    const RANGE: (f32, f32) = (-128.0, 127.0);

    #[inline(always)]
    fn of(bits: u32) -> Self {
        u8::of(bits).cast_signed()
    }
}

impl QuantizedInt for u16 {
    const RANGE: (f32, f32) = (0.0, 65_535.0);

    #[inline(always)]
    fn of(bits: u32) -> Self {
        let [first, second, ..] = bits.to_le_bytes();
        Self::from_le_bytes([first, second])
    }
}

impl QuantizedInt for i16 {
    const RANGE: (f32, f32) = (-32_768.0, 32_767.0);

    #[inline(always)]
    fn of(bits: u32) -> Self {
        u16::of(bits).cast_signed()
    }
}

/// 1.5·2²³: adjacent floats are integers, and their last bits count them. Adding it rounds half to even,
/// without a conversion that checks for NaN and overflow, or a call if an instruction set cannot round.
const WHOLE: f32 = 12_582_912.0;

/// The low byte of the integer nearest to a small float.
#[inline(always)]
pub(crate) fn low_byte(value: f32) -> u8 {
    u8::of((value + WHOLE).to_bits())
}

/// `saturate(round(value) + zero_point)` for an integer zero point: the range of the type, minus the
/// zero point, has integer limits, too.
#[inline(always)]
fn quantized<T: QuantizedInt>(value: f32, zero_point: f32) -> T {
    let (least, largest) = (T::RANGE.0 - zero_point, T::RANGE.1 - zero_point);
    let value = if value.is_nan() { -zero_point } else { value };
    let value = if value > least { value } else { least };
    let value = if value < largest { value } else { largest };
    T::of((value + WHOLE).to_bits().wrapping_add((zero_point + WHOLE).to_bits()))
}

/// A function of two quantized values: `y = saturate(round(f(a, b)))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binary {
    /// `a·ratios[0] + (b·ratios[1] + fixed)`, each rounded once: the sum of two quantized values.
    Add {
        /// The scales, divided by that of the result.
        ratios: [f32; 2],
        /// The contribution of the zero points.
        fixed: f32,
    },
    /// `(a − zeros[0])·(b − zeros[1])·factor + zero`: the product of two quantized values.
    Mul {
        /// The zero points of the operands.
        zeros: [f32; 2],
        /// The product of their scales, divided by that of the result.
        factor: f32,
        /// The zero point of the result.
        zero: f32,
    },
}

/// Expands a loop for each combination of operand forms: `$i` indexes rows; `$a` and `$b` are elements in `$value`.
macro_rules! for_lanes {
    ($lanes:expr, $y:ident, |$a:ident, $b:ident| $value:expr) => {
        let n = $y.len();
        // Indexing, because closures are not always compiled for the instruction set.
        match $lanes {
            (Lane::Row(rows_a), Lane::Row(rows_b)) => {
                let (rows_a, rows_b) = (&rows_a[..n], &rows_b[..n]);
                for i in 0..n {
                    let ($a, $b) = (rows_a[i], rows_b[i]);
                    $y[i] = $value;
                }
            }
            (Lane::Row(rows), Lane::Same($b)) => {
                let rows = &rows[..n];
                for i in 0..n {
                    let $a = rows[i];
                    $y[i] = $value;
                }
            }
            (Lane::Same($a), Lane::Row(rows)) => {
                let rows = &rows[..n];
                for i in 0..n {
                    let $b = rows[i];
                    $y[i] = $value;
                }
            }
            (Lane::Same($a), Lane::Same($b)) => $y.fill($value),
        }
    };
}

#[inline(always)]
fn binary<T: QuantizedInt>(f: Binary, a: Lane<'_, T>, b: Lane<'_, T>, y: &mut [T]) {
    match f {
        Binary::Add { ratios, fixed } => {
            for_lanes!((a, b), y, |a, b| sum(ratios, fixed, a, b));
        }
        Binary::Mul { zeros, factor, zero } => {
            for_lanes!((a, b), y, |a, b| product(zeros, [factor, zero], a, b));
        }
    }
}

/// A row of the left operand of a product of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its zero point.
    pub zero: i32,
    /// The sum of its bytes.
    pub sum: i32,
    /// Its scale.
    pub scale: f32,
}

/// The parameters of the columns of a product of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The sum of each column, minus its zero point times its length.
    pub less: &'a [i32],
    /// The zero point of each column.
    pub zeros: &'a [i32],
    /// The scale of each column.
    pub factors: &'a [f32],
}

/// [`Binary::Add`].
#[inline(always)]
fn sum<T: QuantizedInt>(ratios: [f32; 2], fixed: f32, a: T, b: T) -> T {
    quantized(fused(a.float(), ratios[0], fused(b.float(), ratios[1], fixed)), 0.0)
}

/// [`Binary::Mul`], given the factor and the zero point of the result.
#[inline(always)]
fn product<T: QuantizedInt>(zeros: [f32; 2], [factor, zero]: [f32; 2], a: T, b: T) -> T {
    quantized((a.float() - zeros[0]) * (b.float() - zeros[1]) * factor + zero, 0.0)
}

/// Scales or zero points of elements.
#[derive(Clone, Copy, Debug)]
pub enum Factors<'a> {
    /// One for all.
    One(f32),
    /// One per element.
    Each(&'a [f32]),
}

#[inline(always)]
fn requantize<T: QuantizedInt>(sums: &[i32], factors: Factors<'_>, zero_point: f32, y: &mut [T]) {
    let n = y.len();
    let sums = &sums[..n];
    match factors {
        Factors::One(factor) => {
            for i in 0..n {
                y[i] = quantized(sums[i] as f32 * factor, zero_point);
            }
        }
        Factors::Each(factors) => {
            let factors = &factors[..n];
            for i in 0..n {
                y[i] = quantized(sums[i] as f32 * factors[i], zero_point);
            }
        }
    }
}

per_isa! {
    /// The least and the greatest of `x` and 0; NaN is ignored.
    pub fn range<FMA>(x: &[f32]) -> (f32, f32) {
        const LANES: usize = 64;
        let (mut least, mut largest) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        let mut step = |chunk: &[f32]| {
            for ((least, largest), &x) in least.iter_mut().zip(&mut largest).zip(chunk) {
                *least = if x < *least { x } else { *least };
                *largest = if x > *largest { x } else { *largest };
            }
        };
        let (chunks, rest) = x.as_chunks::<LANES>();
        chunks.iter().for_each(|chunk| step(chunk));
        step(rest);
        (least.into_iter().fold(0.0, f32::min), largest.into_iter().fold(0.0, f32::max))
    }

    /// `y = saturate(round(x / scale) + zero_point)`.
    pub fn quantize_u8<FMA>(x: &[f32], scale: f32, zero_point: f32, y: &mut [u8]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = quantized(x / scale, zero_point);
        }
    }

    /// `y = saturate(round(x / scale) + zero_point)`.
    pub fn quantize_i8<FMA>(x: &[f32], scale: f32, zero_point: f32, y: &mut [i8]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = quantized(x / scale, zero_point);
        }
    }

    /// `y = (x − zero_point) · scale`.
    pub fn dequantize_u8<FMA>(x: &[u8], scale: f32, zero_point: f32, y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = (f32::from(x) - zero_point) * scale);
    }

    /// `y = (x − zero_point) · scale`.
    pub fn dequantize_i8<FMA>(x: &[i8], scale: f32, zero_point: f32, y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = (f32::from(x) - zero_point) * scale);
    }

    /// `y = f(a, b)`.
    ///
    /// # Panics
    /// If a row is shorter than `y`.
    pub fn binary_u8<FMA>(f: Binary, a: Lane<'_, u8>, b: Lane<'_, u8>, y: &mut [u8]) {
        binary(f, a, b, y);
    }

    /// `y = f(a, b)`.
    ///
    /// # Panics
    /// If a row is shorter than `y`.
    pub fn binary_i8<FMA>(f: Binary, a: Lane<'_, i8>, b: Lane<'_, i8>, y: &mut [i8]) {
        binary(f, a, b, y);
    }

    /// `y = saturate(round(sum · factor) + zero_point)`.
    pub fn requantize_u8<FMA>(sums: &[i32], factors: Factors<'_>, zero_point: f32, y: &mut [u8]) {
        requantize(sums, factors, zero_point, y);
    }

    /// `y = saturate(round(sum · factor) + zero_point)`.
    pub fn requantize_i8<FMA>(sums: &[i32], factors: Factors<'_>, zero_point: f32, y: &mut [i8]) {
        requantize(sums, factors, zero_point, y);
    }

    /// `y = sum · factor + bias`, a factor and a bias per column; rounded twice.
    pub fn scale_sums<FMA>(sums: &[i32], factors: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        for ((y, &sum), &factor) in y.iter_mut().zip(sums).zip(factors) {
            *y = sum as f32 * factor;
        }
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
    }

    /// `y += (sum − zero·less − row.sum·zeros) · (scale · factor)`, wrapping before and rounded twice
    /// after the conversion to float: a row of sums with both zero points corrected.
    ///
    /// # Panics
    /// If an operand of `columns` is shorter than `y`.
    pub fn add_scaled_sums<FMA>(
        sums: &[i32],
        columns: Columns<'_>,
        row: Row,
        y: &mut [f32],
    ) {
        let n = y.len();
        let (sums, factors) = (&sums[..n], &columns.factors[..n]);
        let (less, zeros) = (&columns.less[..n], &columns.zeros[..n]);
        for j in 0..n {
            let sum = sums[j].wrapping_sub(row.zero.wrapping_mul(less[j]));
            let sum = sum.wrapping_sub(row.sum.wrapping_mul(zeros[j]));
            y[j] += sum as f32 * (row.scale * factors[j]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn quantized_values_round_half_to_even_saturate_and_take_nan_for_zero() {
        let x = [0.5, 1.5, -0.5, -1.5, 1e9, -1e9, f32::NAN, f32::INFINITY, 253.4];
        for isa in Isa::all() {
            let mut y = [7; 9];
            quantize_u8(isa, &x, 1.0, 2.0, &mut y);
            assert_eq!(y, [2, 4, 2, 0, 255, 0, 0, 255, 255], "{isa:?}");
            let mut y = [7; 9];
            quantize_i8(isa, &x, 1.0, 2.0, &mut y);
            assert_eq!(y, [2, 4, 2, 0, 127, -128, 0, 127, 127], "{isa:?}");
            let mut floats = [0.0; 9];
            dequantize_i8(isa, &y, 0.5, 2.0, &mut floats);
            assert_eq!(floats, [0.0, 1.0, 0.0, -1.0, 62.5, -65.0, -1.0, 62.5, 62.5]);
        }
    }

    #[test]
    fn sums_are_scaled_per_column() {
        let (sums, factors) = ([3, -3, 1000, -1000], [0.5, 0.5, 1.0, 1.0]);
        for isa in Isa::all() {
            let (mut unsigned, mut signed, mut floats) = ([0; 4], [0; 4], [0.0; 4]);
            requantize_u8(isa, &sums, Factors::Each(&factors), 10.0, &mut unsigned);
            requantize_i8(isa, &sums, Factors::Each(&factors), 10.0, &mut signed);
            let mut same = [0; 4];
            requantize_u8(isa, &sums, Factors::One(0.5), 10.0, &mut same);
            assert_eq!(same, [12, 8, 255, 0]);
            scale_sums(isa, &sums, &factors, Some(&[1.0; 4]), &mut floats);
            assert_eq!(unsigned, [12, 8, 255, 0]);
            assert_eq!(signed, [12, 8, 127, -128]);
            assert_eq!(floats, [2.5, -0.5, 1001.0, -999.0]);
        }
    }

    #[test]
    fn sums_are_corrected_for_zero_points() {
        let columns = Columns { less: &[5, -7], zeros: &[3, 0], factors: &[0.5, 2.0] };
        for isa in Isa::all() {
            let mut y = [1.0, 2.0];
            let row = Row { zero: 10, sum: 4, scale: 2.0 };
            add_scaled_sums(isa, &[100, i32::MIN], columns, row, &mut y);
            assert_eq!(y, [39.0, 2.0 - 4.0 * (2_147_483_648.0 - 70.0)], "{isa:?}");
        }
    }

    #[test]
    fn functions_of_two_quantized_values_round_and_saturate() {
        let sum = Binary::Add { ratios: [0.5, 2.0], fixed: 1.0 };
        let product = Binary::Mul { zeros: [1.0, 2.0], factor: 0.5, zero: 3.0 };
        for isa in Isa::all() {
            let (mut unsigned, mut signed) = ([0; 3], [0; 3]);
            let row = Lane::Row::<i8>;
            binary_u8(isa, sum, Lane::Row(&[1, 200, 3]), Lane::Row(&[0, 100, 0]), &mut unsigned);
            binary_i8(isa, product, row(&[2, 0, -128]), row(&[3, 3, 127]), &mut signed);
            assert_eq!((unsigned, signed), ([2, 255, 2], [4, 2, -128]));
            binary_i8(isa, product, row(&[2, 0, -128]), Lane::Same(3), &mut signed);
            assert_eq!(signed, [4, 2, -62]);
            binary_i8(isa, product, Lane::Same(2), row(&[3, 3, 127]), &mut signed);
            assert_eq!(signed, [4, 4, 66]);
            binary_i8(isa, product, Lane::Same(2), Lane::Same(3), &mut signed);
            assert_eq!(signed, [4; 3]);
        }
    }

    #[test]
    fn a_range_holds_zero_and_skips_nan() {
        let mut x = vec![0.5; 100];
        for isa in Isa::all() {
            assert_eq!(range(isa, &x), (0.0, 0.5));
            assert_eq!(range(isa, &[]), (0.0, 0.0));
        }
        (x[3], x[70], x[99]) = (f32::NAN, -2.0, 7.0);
        Isa::all().for_each(|isa| assert_eq!(range(isa, &x), (-2.0, 7.0)));
    }
}
