//! The protocol's names of element types.

use ort_session::DType;

const DATATYPES: &[(&str, DType)] = &[
    ("BOOL", DType::Bool),
    ("UINT8", DType::U8),
    ("UINT16", DType::U16),
    ("UINT32", DType::U32),
    ("UINT64", DType::U64),
    ("INT8", DType::I8),
    ("INT16", DType::I16),
    ("INT32", DType::I32),
    ("INT64", DType::I64),
    ("FP16", DType::F16),
    ("BF16", DType::Bf16),
    ("FP32", DType::F32),
    ("FP64", DType::F64),
    ("BYTES", DType::String),
];

/// The protocol's name of an element type; `None` for those it lacks, such as complex numbers.
pub(crate) fn name(dtype: DType) -> Option<&'static str> {
    DATATYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
}

/// The element type of this name.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    DATATYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_correspond() {
        for &(known, element) in DATATYPES {
            assert_eq!(name(element), Some(known));
            assert_eq!(dtype(known), Some(element));
        }
        assert_eq!(name(DType::Complex64), None);
        assert_eq!(dtype("fp32"), None);
    }
}
