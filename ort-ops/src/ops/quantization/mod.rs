//! QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

use ort_graph::{NodeSpec, OpDef, OpError};
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
        build: DequantizeLinear::build,
    },
    OpDef {
        domain: "",
        name: "DynamicQuantizeLinear",
        versions: (11, 11),
        build: DynamicQuantizeLinear::build,
    },
    OpDef { domain: "", name: "QuantizeLinear", versions: (10, 28), build: QuantizeLinear::build },
    OpDef {
        domain: MICROSOFT,
        name: "DequantizeLinear",
        versions: (1, 1),
        build: DequantizeLinear::build,
    },
    OpDef {
        domain: MICROSOFT,
        name: "QuantizeLinear",
        versions: (1, 1),
        build: QuantizeLinear::build,
    },
];

/// The element type in the attribute `name`; absent or 0 is none.
fn optional_dtype(spec: &NodeSpec<'_>, name: &'static str) -> Result<Option<DType>, OpError> {
    let Some(number) = spec.int(name)?.filter(|&number| number != 0) else { return Ok(None) };
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    let wrong = || OpError::AttributeValue { name, found: number.to_string() };
    Ok(Some(dtype.ok_or_else(wrong)?))
}

/// What a tensor is quantized to: integers of 2 to 16 bits and small floats with a sign.
fn is_quantized(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I8, I16, U8, U16};
    dtype.is_packed()
        || matches!(dtype, I8 | U8 | I16 | U16 | F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}
