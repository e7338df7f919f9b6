//! The five 8-bit float types: one byte, conversion from and to `f32`.
//!
//! Each format has an exponent width, a mantissa width, a bias and special values;
//! one routine converts all. Source: ONNX 1.20, "Float stored in 8 bits", tables of `Cast`.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::element::round_to_odd;

/// The parameters of an 8-bit float format.
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// The largest finite magnitude's code, sign bit clear.
    max_code: u8,
    /// The code of +infinity, where the format has one.
    infinity: Option<u8>,
    nan: u8,
    /// Whether code 0x80 is NaN (and so no negative zero exists).
    unsigned_zero: bool,
}

const E4M3FN: Format = Format {
    mantissa_bits: 3,
    bias: 7,
    max_code: 0x7e,
    infinity: None,
    nan: 0x7f,
    unsigned_zero: false,
};
const E4M3FNUZ: Format = Format {
    mantissa_bits: 3,
    bias: 8,
    max_code: 0x7f,
    infinity: None,
    nan: 0x80,
    unsigned_zero: true,
};
const E5M2: Format = Format {
    mantissa_bits: 2,
    bias: 15,
    max_code: 0x7b,
    infinity: Some(0x7c),
    nan: 0x7f,
    unsigned_zero: false,
};
const E5M2FNUZ: Format = Format {
    mantissa_bits: 2,
    bias: 16,
    max_code: 0x7f,
    infinity: None,
    nan: 0x80,
    unsigned_zero: true,
};

impl Format {
    fn is_nan(&self, code: u8) -> bool {
        if self.unsigned_zero {
            code == 0x80
        } else {
            code & 0x7f > self.infinity.unwrap_or(self.max_code)
        }
    }

    /// `(-1)^s · 2^(e - bias) · 1.m`, or `2^(1 - bias) · 0.m` where `e` is 0. Exact.
    fn decode(&self, code: u8) -> f32 {
        let magnitude = code & 0x7f;
        let value = if self.is_nan(code) {
            f32::NAN
        } else if Some(magnitude) == self.infinity {
            f32::INFINITY
        } else {
            let exponent = i32::from(magnitude >> self.mantissa_bits);
            let mantissa = f32::from(magnitude & ((1 << self.mantissa_bits) - 1));
            let unit = f32::from(1_u8 << self.mantissa_bits);
            match exponent {
                0 => mantissa / unit * exp2(1 - self.bias),
                e => (1.0 + mantissa / unit) * exp2(e - self.bias),
            }
        };
        if code & 0x80 != 0 && !self.is_nan(code) { -value } else { value }
    }

    /// The nearest code, ties to even. Beyond the largest finite value: that value if `saturate`,
    /// else infinity where there is one, else NaN.
    fn encode(&self, value: f32, saturate: bool) -> u8 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let beyond = if saturate { None } else { Some(self.infinity.unwrap_or(self.nan)) };
        if value.is_infinite() {
            return match beyond {
                Some(code) if code == self.nan => code,
                Some(code) => code | sign,
                None => self.max_code | sign,
            };
        }
        let code = self.nearest(value.abs());
        match code {
            0 if self.unsigned_zero => 0,
            code if code <= self.max_code => code | sign,
            _ => match beyond {
                Some(code) if code == self.nan => code,
                Some(code) => code | sign,
                None => self.max_code | sign,
            },
        }
    }

    /// The code nearest to a finite `magnitude`, as if the codes continued past `max_code`.
    fn nearest(&self, magnitude: f32) -> u8 {
        // The spacing of representable values: below the smallest normal it stays that of 2^(1-bias).
        let exponent = magnitude_exponent(magnitude).max(1 - self.bias);
        let step = exp2(exponent) / f32::from(1_u8 << self.mantissa_bits);
        let steps = (magnitude / step).round_ties_even();
        // Codes are consecutive, so a mantissa that rounds up carries into the exponent.
        let base = (exponent + self.bias - 1).max(0) << self.mantissa_bits;
        let code = base.saturating_add(float_to_code(steps));
        u8::try_from(code.min(0xff)).unwrap_or(0xff)
    }
}

/// `2^e`; exact for the exponents of 8-bit floats, saturating beyond those of `f32`.
fn exp2(e: i32) -> f32 {
    match u32::try_from(e + 127) {
        Ok(biased) if (1..255).contains(&biased) => f32::from_bits(biased << 23),
        Ok(0) | Err(_) => f32::from_bits(1 << 22) * if e == -127 { 1.0 } else { 0.0 },
        Ok(_) => f32::INFINITY,
    }
}

/// `⌊log2 x⌋` of a normal value, −127 for zero and denormals.
fn magnitude_exponent(x: f32) -> i32 {
    i32::try_from(x.to_bits() >> 23 & 0xff).unwrap_or(0) - 127
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a count of steps, at most 16 for a normal code"
)]
fn float_to_code(steps: f32) -> i32 {
    steps as i32
}

macro_rules! float8 {
    ($($(#[$doc:meta])* $name:ident: $format:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The value with this bit pattern.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bit pattern.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The value, exactly.
            pub fn to_f32(self) -> f32 {
                $format.decode(self.0)
            }

            /// The nearest value, ties to even; out of range, the largest finite value if
            /// `saturate`, else infinity, or NaN where the format has no infinity.
            pub fn from_f32(value: f32, saturate: bool) -> Self {
                Self($format.encode(value, saturate))
            }

            /// As `from_f32`, rounding a double once.
            pub fn from_f64(value: f64, saturate: bool) -> Self {
                Self::from_f32(round_to_odd(value), saturate)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }
    )* };
}

float8! {
    /// 4 exponent bits, 3 mantissa bits, no infinity; largest value 448.
    F8E4M3Fn: E4M3FN;
    /// As `F8E4M3Fn` with bias 8 and neither infinity nor negative zero; largest value 240.
    F8E4M3Fnuz: E4M3FNUZ;
    /// 5 exponent bits, 2 mantissa bits, with infinities; largest value 57344.
    F8E5M2: E5M2;
    /// As `F8E5M2` with bias 16 and neither infinity nor negative zero; largest value 57344.
    F8E5M2Fnuz: E5M2FNUZ;
}

/// A power of two, `2^(code - 127)`: the scale type of microscaling formats; code 255 is NaN.
#[derive(Clone, Copy, Default, Pod, Zeroable, Eq)]
#[repr(transparent)]
pub struct F8E8M0(u8);

impl F8E8M0 {
    /// The value with this bit pattern.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bit pattern.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The value, exactly.
    pub fn to_f32(self) -> f32 {
        if self.0 == 255 { f32::NAN } else { exp2(i32::from(self.0) - 127) }
    }
}

impl PartialEq for F8E8M0 {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for F8E8M0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips_through_f32() {
        for format in [&E4M3FN, &E4M3FNUZ, &E5M2, &E5M2FNUZ] {
            for code in 0..=255_u8 {
                let value = format.decode(code);
                if value.is_nan() {
                    assert!(format.is_nan(format.encode(value, true)));
                } else {
                    assert_eq!(format.encode(value, false), code, "{value}");
                }
            }
        }
    }

    #[test]
    fn values_out_of_range_saturate_or_overflow() {
        assert_eq!(F8E4M3Fn::from_f32(1e9, true).to_f32(), 448.0);
        assert!(F8E4M3Fn::from_f32(1e9, false).to_f32().is_nan());
        assert_eq!(F8E5M2::from_f32(-1e9, false).to_f32(), f32::NEG_INFINITY);
        assert_eq!(F8E5M2::from_f32(f32::INFINITY, true).to_f32(), 57344.0);
        assert!(F8E5M2Fnuz::from_f32(f32::NEG_INFINITY, false).to_f32().is_nan());
        assert_eq!(F8E4M3Fnuz::from_f32(-0.0, true).to_bits(), 0);
    }

    #[test]
    fn ties_go_to_the_even_code() {
        // 17 is halfway between 16 and 18 in E4M3, 19 between 18 and 20.
        assert_eq!(F8E4M3Fn::from_f32(17.0, true).to_f32(), 16.0);
        assert_eq!(F8E4M3Fn::from_f32(19.0, true).to_f32(), 20.0);
        assert_eq!(F8E8M0::from_bits(0).to_f32(), 2.0_f32.powi(-127));
    }
}
