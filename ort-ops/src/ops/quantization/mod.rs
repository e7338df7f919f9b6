//! QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

use ort_graph::OpDef;
use ort_tensor::DType;

mod dequantize;
mod dynamic;
mod granularity;
mod quantize;

#[cfg(test)]
mod tests;

pub use dequantize::DequantizeLinear;
pub use dynamic::DynamicQuantizeLinear;
pub use granularity::Granularity;
pub use quantize::QuantizeLinear;

const MICROSOFT: &str = "com.microsoft";

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "DequantizeLinear",
        versions: (10, 28),
        types: dequantize::is_source,
        build: DequantizeLinear::build,
    },
    OpDef {
        domain: "",
        name: "DynamicQuantizeLinear",
        versions: (11, 11),
        types: dynamic::is_source,
        build: DynamicQuantizeLinear::build,
    },
    OpDef {
        domain: "",
        name: "QuantizeLinear",
        versions: (10, 28),
        types: quantize::is_source,
        build: QuantizeLinear::build,
    },
    OpDef {
        domain: MICROSOFT,
        name: "DequantizeLinear",
        versions: (1, 1),
        types: dequantize::is_source,
        build: DequantizeLinear::build,
    },
    OpDef {
        domain: MICROSOFT,
        name: "QuantizeLinear",
        versions: (1, 1),
        types: quantize::is_source,
        build: QuantizeLinear::build,
    },
];

/// What a tensor is quantized to: integers of 2 to 16 bits and small floats with a sign.
fn is_quantized(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I8, I16, U8, U16};
    dtype.is_packed()
        || matches!(dtype, I8 | U8 | I16 | U16 | F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}
