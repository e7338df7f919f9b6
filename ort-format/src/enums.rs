//! The enums of the format. Unknown numbers are preserved, so that newer files stay readable.

macro_rules! enums {
    ($(
        $enum_doc:literal
        $Enum:ident: $int:ident { $default:ident $(, $value:literal $Variant:ident $doc:literal)* $(,)? }
    )*) => {$(
        #[doc = $enum_doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $Enum {
            #[doc = "Number 0: unspecified, or the default."]
            #[default]
            $default,
            $(#[doc = $doc] $Variant,)*
            /// A number without a name in this version of the format.
            Other($int),
        }

        impl From<$int> for $Enum {
            fn from(number: $int) -> Self {
                match number {
                    0 => Self::$default,
                    $($value => Self::$Variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl From<$Enum> for $int {
            fn from(value: $Enum) -> Self {
                match value {
                    $Enum::$default => 0,
                    $($Enum::$Variant => $value,)*
                    $Enum::Other(other) => other,
                }
            }
        }
    )*};
}

enums! {
    "The element type of a tensor, with ONNX's numbers (`TensorProto.DataType`, IR version 13)."
    DataType: i32 {
        Undefined,
        1 Float "IEEE binary32.",
        2 Uint8 "Unsigned 8-bit.",
        3 Int8 "Signed 8-bit.",
        4 Uint16 "Unsigned 16-bit.",
        5 Int16 "Signed 16-bit.",
        6 Int32 "Signed 32-bit.",
        7 Int64 "Signed 64-bit.",
        8 String "A string, in `string_data`.",
        9 Bool "One byte, 0 or 1.",
        10 Float16 "IEEE binary16.",
        11 Double "IEEE binary64.",
        12 Uint32 "Unsigned 32-bit.",
        13 Uint64 "Unsigned 64-bit.",
        14 Complex64 "Two binary32.",
        15 Complex128 "Two binary64.",
        16 Bfloat16 "The upper half of a binary32.",
        17 Float8E4M3FN "8 bits: 4 exponent, 3 mantissa; finite and NaN.",
        18 Float8E4M3FNUZ "As Float8E4M3FN, without negative zero.",
        19 Float8E5M2 "8 bits: 5 exponent, 2 mantissa.",
        20 Float8E5M2FNUZ "As Float8E5M2, finite, without negative zero.",
        21 Uint4 "Unsigned 4-bit, two in a byte.",
        22 Int4 "Signed 4-bit, two in a byte.",
        23 Float4E2M1 "4 bits: 2 exponent, 1 mantissa; two in a byte.",
        24 Float8E8M0 "8 bits of exponent: a scale.",
        25 Uint2 "Unsigned 2-bit, four in a byte.",
        26 Int2 "Signed 2-bit, four in a byte.",
    }
    "Which of an attribute's fields holds its value."
    AttributeType: i32 {
        Undefined,
        1 Float "`f`.", 2 Int "`i`.", 3 String "`s`.", 4 Tensor "`t`.", 5 Graph "`g`.",
        6 Floats "`floats`.", 7 Ints "`ints`.", 8 Strings "`strings`.", 9 Tensors "`tensors`.", 10 Graphs "`graphs`.",
        11 SparseTensor "Defined, but the format has no field for it.",
        12 SparseTensors "Defined, but the format has no field for it.",
    }
    "Whether a node is primitive or fused. Every node of a file is primitive."
    NodeType: i32 { Primitive, 1 Fused "Compiled by an execution provider; cannot be saved." }
    "Which form a dimension has."
    DimensionValueType: i8 { Unknown, 1 Value "A number: `dim_value`.", 2 Param "A symbol: `dim_param`." }
    "Whether a type constraint binds an input or an output."
    ArgType: i8 { Input, 1 Output "An output." }
}

impl DataType {
    /// The bits of one element; `None` for strings and unknown types.
    pub fn bits(self) -> Option<u64> {
        Some(match self {
            Self::Uint2 | Self::Int2 => 2,
            Self::Uint4 | Self::Int4 | Self::Float4E2M1 => 4,
            Self::Uint8 | Self::Int8 | Self::Bool => 8,
            Self::Float8E4M3FN | Self::Float8E4M3FNUZ => 8,
            Self::Float8E5M2 | Self::Float8E5M2FNUZ | Self::Float8E8M0 => 8,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 16,
            Self::Float | Self::Int32 | Self::Uint32 => 32,
            Self::Int64 | Self::Uint64 | Self::Double | Self::Complex64 => 64,
            Self::Complex128 => 128,
            Self::Undefined | Self::String | Self::Other(_) => return None,
        })
    }
}
