//! Conversions between 16-bit floats, as bits, and f32, without branches or calls, so that loops vectorise,
//! and without denormal f32 intermediates, so that they are correct while those are flushed.

use crate::Isa;
use crate::vec::each;

/// `y[i] = x[i]`, from f16.
///
/// # Panics
/// If the lengths differ.
pub fn widen_f16(isa: Isa, x: &[u16], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "operands have the same length");
    #[cfg(target_arch = "x86_64")]
    let n = match (isa.avx512(), isa.avx2()) {
        (Some(token), _) => x86::widen16(token, x, y),
        (None, Some(token)) => x86::widen8(token, x, y),
        (None, None) => 0,
    };
    #[cfg(not(target_arch = "x86_64"))]
    let n = 0;
    each(isa, &x[n..], &mut y[n..], f16_to_f32);
}

/// `y[i] = x[i]`, to the nearest f16, ties to even.
///
/// # Panics
/// If the lengths differ.
pub fn narrow_f16(isa: Isa, x: &[f32], y: &mut [u16]) {
    assert_eq!(x.len(), y.len(), "operands have the same length");
    #[cfg(target_arch = "x86_64")]
    let n = match (isa.avx512(), isa.avx2()) {
        (Some(token), _) => x86::narrow16(token, x, y),
        (None, Some(token)) => x86::narrow8(token, x, y),
        (None, None) => 0,
    };
    #[cfg(not(target_arch = "x86_64"))]
    let n = 0;
    each(isa, &x[n..], &mut y[n..], f32_to_f16);
}

/// With the conversion instructions, which flushing denormals does not affect: whole registers. The functions return how
/// many elements that are.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm512_cvtph_ps,
        _mm512_cvtps_ph,
    };

    use crate::isa::x86::{load8, load16, store8, store16};

    macro_rules! conversions {
        ($isa:ident $lanes:literal: $widen:ident by $cvtph:ident $store:ident, $narrow:ident by $cvtps:ident $load:ident) => {
            kernel! {
                $isa => pub(super) fn $widen(x: &[u16], y: &mut [f32]) -> usize {
                    let (x, y) = (x.as_chunks::<$lanes>().0, y.as_chunks_mut::<$lanes>().0);
                    for i in 0..x.len().min(y.len()) {
                        $store(&mut y[i], $cvtph(bytemuck::cast(x[i])));
                    }
                    x.len() * $lanes
                }
            }

            kernel! {
                $isa => pub(super) fn $narrow(x: &[f32], y: &mut [u16]) -> usize {
                    let (x, y) = (x.as_chunks::<$lanes>().0, y.as_chunks_mut::<$lanes>().0);
                    for i in 0..x.len().min(y.len()) {
                        y[i] = bytemuck::cast($cvtps::<_MM_FROUND_TO_NEAREST_INT>($load(&x[i])));
                    }
                    x.len() * $lanes
                }
            }
        };
    }
    conversions!(Avx512 16: widen16 by _mm512_cvtph_ps store16, narrow16 by _mm512_cvtps_ph load16);
    conversions!(Avx2 8: widen8 by _mm256_cvtph_ps store8, narrow8 by _mm256_cvtps_ph load8);
}

/// The bits of the least f32 that is a normal f16, 2⁻¹⁴.
const MIN_NORMAL: u32 = 113 << 23;
/// The bits of 2¹⁶, the first value beyond f16.
const BEYOND: u32 = 143 << 23;
/// The bits of 1/2: added to a value below 2⁻¹⁴, it leaves the bits of a denormal f16 at the end.
const HALF: u32 = 126 << 23;
const INFINITY: u32 = 255 << 23;

/// The value of an f16.
#[inline(always)]
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    let normal = size + (112 << 23);
    let denormal = (f32::from_bits(size + MIN_NORMAL) - f32::from_bits(MIN_NORMAL)).to_bits();
    let size = if size >= 31 << 23 {
        size | INFINITY
    } else if size < 1 << 23 {
        denormal
    } else {
        normal
    };
    f32::from_bits(sign | size)
}

/// The nearest f16, ties to even; ±∞ beyond the range.
#[inline(always)]
#[must_use]
pub fn f32_to_f16(x: f32) -> u16 {
    let (sign, size) = ((x.to_bits() >> 16) & 0x8000, x.to_bits() & 0x7fff_ffff);
    let denormal = (f32::from_bits(size) + f32::from_bits(HALF)).to_bits().wrapping_sub(HALF);
    let odd = (size >> 13) & 1;
    let normal = size.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let special = if size > INFINITY { 0x7e00 } else { 0x7c00 };
    let size = if size >= BEYOND {
        special
    } else if size < MIN_NORMAL {
        denormal
    } else {
        normal
    };
    low(sign | size)
}

/// The value of a bfloat16.
#[inline(always)]
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bfloat16, ties to even.
#[inline(always)]
#[must_use]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let is_nan = bits & 0x7fff_ffff > INFINITY;
    low(if is_nan { (bits >> 16) | 0x40 } else { rounded >> 16 })
}

/// The f32 next to `x` toward zero, its last bit set if that is inexact: rounding it to a type at least
/// two bits narrower equals rounding `x` itself.
///
/// Source: S. Boldo, G. Melquiond, "When double rounding is odd", 2005.
#[inline(always)]
#[must_use]
pub fn round_to_odd(x: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the loss is handled below")]
    let nearest = x as f32;
    let back = f64::from(nearest);
    let toward_zero = nearest.to_bits() - u32::from(back.abs() > x.abs());
    f32::from_bits(toward_zero | u32::from(back != x))
}

#[inline(always)]
fn low(bits: u32) -> u16 {
    (bits & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlushDenormals, Isa, vec::each};

    /// The value of an f16, computed from its fields.
    fn value(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let size = match exponent {
            0 => fraction * 2_f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
        };
        if bits & 0x8000 == 0 { size } else { -size }
    }

    #[test]
    fn every_f16_round_trips() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for isa in Isa::all() {
            let _flushed = FlushDenormals::new();
            let mut wide = vec![0.0_f32; all.len()];
            each(isa, &all, &mut wide, f16_to_f32);
            let mut back = vec![0; all.len()];
            each(isa, &wide, &mut back, f32_to_f16);
            let (mut rows, mut halves) = (vec![0.0_f32; all.len() - 3], vec![0; all.len() - 3]);
            widen_f16(isa, &all[3..], &mut rows);
            narrow_f16(isa, &rows, &mut halves);
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(rows.iter().zip(&wide[3..]).all(same));
            let is_same = |(a, b): (&u16, &u16)| a == b || value(*a).is_nan() && value(*b).is_nan();
            assert!(halves.iter().zip(&back[3..]).all(is_same));
            for ((&bits, wide), back) in all.iter().zip(wide).zip(back) {
                let expected = value(bits);
                assert!(f64::from(wide) == expected || wide.is_nan() && expected.is_nan());
                assert!(back == bits || wide.is_nan() && value(back).is_nan(), "{bits:x} {back:x}");
            }
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        let f16s: Vec<u16> = (0..0x7c00).collect();
        for pair in f16s.windows(2) {
            let (low, high) = (value(pair[0]), value(pair[1]));
            let middle = f64::midpoint(low, high);
            let even = if pair[0] % 2 == 0 { pair[0] } else { pair[1] };
            let at = |x: f64| f32_to_f16(round_to_odd(x));
            assert_eq!(at(middle), even);
            assert_eq!((at(middle * (1.0 - 1e-9)), at(middle * (1.0 + 1e-9))), (pair[0], pair[1]));
        }
        assert_eq!((f32_to_f16(65519.9), f32_to_f16(65520.0)), (0x7bff, 0x7c00));
        assert_eq!((f32_to_f16(-1e30), f32_to_f16(1e-30)), (0xfc00, 0));
        assert_eq!((f32_to_bf16(1.003_906_3), f32_to_bf16(1.011_718_8)), (0x3f80, 0x3f82));
        assert!(bf16_to_f32(f32_to_bf16(f32::NAN)).is_nan());
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }
}
