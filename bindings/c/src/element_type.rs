//! Element types by the C API's numbers, which are those of ONNX except for the newest.

use ONNXTensorElementDataType as Number;
use ort_session::DType;
use ort_sys::ONNXTensorElementDataType;

use crate::error::Error;

macro_rules! types {
    ($($dtype:ident = $number:ident;)*) => {
        const TYPES: &[(DType, Number)] = &[$((DType::$dtype, Number::$number)),*];
    };
}

types! {
    F32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    U8 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    I8 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8;
    U16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16;
    I16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16;
    I32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    I64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    String = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    Bool = ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
    F16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    F64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    U32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32;
    U64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64;
    Complex64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64;
    Complex128 = ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128;
    Bf16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    F8E4M3Fn = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN;
    F8E4M3Fnuz = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ;
    F8E5M2 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2;
    F8E5M2Fnuz = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ;
    U4 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4;
    I4 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4;
    F4E2M1 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1;
    U2 = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2;
    I2 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2;
    F8E8M0 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0;
}

/// The C API's number of a type; undefined for `None`.
pub(crate) fn number(dtype: Option<DType>) -> Number {
    let found = TYPES.iter().find(|(known, _)| Some(*known) == dtype);
    found.map_or(Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, |(_, number)| *number)
}

/// The type with this number in the C API; `None` for undefined.
#[expect(clippy::as_conversions, reason = "the discriminant is the number")]
pub(crate) fn numbered(number: i32) -> Result<Option<DType>, Error> {
    if number == Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED as i32 {
        return Ok(None);
    }
    let found = TYPES.iter().find(|(_, known)| *known as i32 == number);
    let unknown = || Error::argument("type", format!("is {number}, which is not an element type"));
    found.map(|(dtype, _)| Some(*dtype)).ok_or_else(unknown)
}

/// The same, but undefined is an error.
pub(crate) fn defined(number: i32) -> Result<DType, Error> {
    numbered(number)?.ok_or_else(|| Error::argument("type", "is undefined"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_and_every_number_a_type() {
        for &dtype in DType::ALL {
            let there = number(Some(dtype));
            let back = numbered(i32::try_from(there as i64).unwrap_or(-1));
            assert_eq!(back.ok().flatten(), Some(dtype));
        }
        assert!(numbered(0).is_ok_and(|dtype| dtype.is_none()));
        assert!(numbered(27).is_err() && numbered(-1).is_err() && defined(0).is_err());
    }
}
