//! The element types of ONNX, with their numbers in files.

use std::fmt;
use std::str::FromStr;

macro_rules! dtypes {
    ($($variant:ident = $onnx:literal, $bits:literal, $name:literal;)*) => {
        /// An element type. The discriminant is ONNX's `TensorProto.DataType` number.
        ///
        /// Source: onnx.proto, `TensorProto.DataType` (ONNX 1.20).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = $name] $variant = $onnx,)*
        }

        impl DType {
            /// Every element type, in the order of their ONNX numbers.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The type with this ONNX number; `None` for 0 (undefined) and unknown numbers.
            pub const fn from_onnx(number: i32) -> Option<DType> {
                match number { $($onnx => Some(DType::$variant),)* _ => None }
            }

            /// The bits of an element in memory and in files; 0 for strings.
            pub const fn bits(self) -> usize {
                match self { $(DType::$variant => $bits,)* }
            }

            /// ONNX's name of the type inside `tensor(…)`: `float`, `int64`, `float8e4m3fn`, ….
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }
        }
    };
}

dtypes! {
    F32 = 1, 32, "float";
    U8 = 2, 8, "uint8";
    I8 = 3, 8, "int8";
    U16 = 4, 16, "uint16";
    I16 = 5, 16, "int16";
    I32 = 6, 32, "int32";
    I64 = 7, 64, "int64";
    String = 8, 0, "string";
    Bool = 9, 8, "bool";
    F16 = 10, 16, "float16";
    F64 = 11, 64, "double";
    U32 = 12, 32, "uint32";
    U64 = 13, 64, "uint64";
    Complex64 = 14, 64, "complex64";
    Complex128 = 15, 128, "complex128";
    Bf16 = 16, 16, "bfloat16";
    F8E4M3Fn = 17, 8, "float8e4m3fn";
    F8E4M3Fnuz = 18, 8, "float8e4m3fnuz";
    F8E5M2 = 19, 8, "float8e5m2";
    F8E5M2Fnuz = 20, 8, "float8e5m2fnuz";
    U4 = 21, 4, "uint4";
    I4 = 22, 4, "int4";
    F4E2M1 = 23, 4, "float4e2m1";
    F8E8M0 = 24, 8, "float8e8m0";
    U2 = 25, 2, "uint2";
    I2 = 26, 2, "int2";
}

impl DType {
    /// The ONNX number of this type.
    #[expect(clippy::as_conversions, reason = "the discriminant is the number")]
    pub const fn onnx(self) -> i32 {
        self as i32
    }

    /// The size of `n` elements in bytes, the last byte padded for types below 8 bits.
    /// `None` for strings and on overflow.
    pub const fn n_bytes(self, n: usize) -> Option<usize> {
        match self.bits() {
            0 => None,
            bits => match n.checked_mul(bits) {
                Some(bits) => Some(bits.div_ceil(8)),
                None => None,
            },
        }
    }

    /// The bytes of one element of a type of 8 bits or more; `None` for strings and packed types.
    pub const fn word_bytes(self) -> Option<usize> {
        if self.bits() >= 8 { Some(self.bits() / 8) } else { None }
    }

    /// Whether several elements share a byte (int4, uint4, float4e2m1, int2, uint2).
    pub const fn is_packed(self) -> bool {
        self.bits() != 0 && self.bits() < 8
    }

    /// float16, bfloat16, float and double.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }

    /// The eight integer types from int8 to uint64.
    pub const fn is_integer(self) -> bool {
        use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(self, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    /// The unsigned integer type of the same width; other types map to themselves.
    #[must_use]
    pub const fn unsigned(self) -> Self {
        match self {
            Self::I8 => Self::U8,
            Self::I16 => Self::U16,
            Self::I32 => Self::U32,
            Self::I64 => Self::U64,
            dtype => dtype,
        }
    }

    /// Floats and integers: [`DType::is_float`] or [`DType::is_integer`].
    pub const fn is_number(self) -> bool {
        self.is_float() || self.is_integer()
    }

    /// int8 and uint8, the types of quantized operators.
    pub const fn is_byte(self) -> bool {
        matches!(self, DType::I8 | DType::U8)
    }

    /// int32 and int64, the types of indices, axes and lengths.
    pub const fn is_index(self) -> bool {
        matches!(self, DType::I32 | DType::I64)
    }

    /// bool only.
    pub const fn is_bool(self) -> bool {
        matches!(self, DType::Bool)
    }

    /// string only.
    pub const fn is_string(self) -> bool {
        matches!(self, DType::String)
    }

    /// Any type.
    pub const fn is_any(self) -> bool {
        true
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`")]
pub struct ParseDTypeError(pub String);

impl FromStr for DType {
    type Err = ParseDTypeError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = DType::ALL.iter().find(|dtype| dtype.name() == name);
        found.copied().ok_or_else(|| ParseDTypeError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_onnx(dtype.onnx()), Some(dtype));
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!(DType::from_onnx(0), None);
        assert_eq!(DType::from_onnx(27), None);
    }

    #[test]
    fn packed_types_round_up_to_whole_bytes() {
        let cases = [(DType::I4, 3, Some(2)), (DType::U2, 5, Some(2)), (DType::F32, 2, Some(8))];
        for (dtype, n, bytes) in cases {
            assert_eq!(dtype.n_bytes(n), bytes, "{n} of {dtype}");
        }
        assert_eq!(DType::String.n_bytes(1), None);
        assert_eq!(DType::I64.n_bytes(usize::MAX), None);
    }
}
