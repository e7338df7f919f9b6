//! `TensorProto`: the raw form and the typed fields, for every element type.

use bytes::Bytes;
use ort_tensor::{DType, Shape, Tensor};

use super::error::PbError;
use super::proto::TensorProto;

/// The value of `DataLocation` for data in another file.
const EXTERNAL: i32 = 1;

pub(super) fn to_tensor(proto: TensorProto) -> Result<Tensor, PbError> {
    let number = proto.data_type;
    let dtype = DType::from_onnx(number).ok_or(PbError::DType { number })?;
    if let Some(segment) = proto.segment {
        return Err(PbError::Segment { begin: segment.begin, end: segment.end });
    }
    if proto.data_location == EXTERNAL {
        return Err(PbError::External);
    }
    let shape = shape(&proto.dims)?;
    if dtype == DType::String {
        return Ok(Tensor::from_strings(&shape, strings(&proto.string_data)?)?);
    }
    let data = if proto.raw_data.is_empty() { typed_data(dtype, &proto)? } else { proto.raw_data };
    Ok(Tensor::from_bytes(dtype, &shape, data)?)
}

/// Numbers go to `raw_data`, which is their bytes in memory.
pub(super) fn from_tensor(name: &str, tensor: &Tensor) -> TensorProto {
    let view = tensor.view();
    TensorProto {
        name: name.to_owned(),
        // A dimension beyond i64 has no file: such a tensor does not fit memory unless it is
        // empty, and an empty one has the same meaning with any other dimension.
        dims: tensor.shape().iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect(),
        data_type: tensor.dtype().onnx(),
        raw_data: view.as_bytes().map(Bytes::copy_from_slice).unwrap_or_default(),
        string_data: view.as_strings().map(to_bytes).unwrap_or_default(),
        ..TensorProto::default()
    }
}

fn shape(dims: &[i64]) -> Result<Shape, PbError> {
    let dim = |(index, &dim): (usize, &i64)| {
        usize::try_from(dim).map_err(|_| PbError::Dim { index, dim })
    };
    dims.iter().enumerate().map(dim).collect()
}

pub(super) fn strings(data: &[Bytes]) -> Result<Vec<String>, PbError> {
    let string = |(index, bytes): (usize, &Bytes)| {
        String::from_utf8(bytes.to_vec()).map_err(|_| PbError::NotUtf8 { index })
    };
    data.iter().enumerate().map(string).collect()
}

pub(super) fn to_bytes(strings: &[String]) -> Vec<Bytes> {
    strings.iter().map(|string| Bytes::copy_from_slice(string.as_bytes())).collect()
}

/// The little-endian bytes of the elements in the field that belongs to their type.
///
/// Source: onnx.proto, comments of `float_data`, `int32_data`, `uint64_data`.
fn typed_data(dtype: DType, proto: &TensorProto) -> Result<Bytes, PbError> {
    let data: Vec<u8> = match dtype {
        DType::F32 | DType::Complex64 => {
            proto.float_data.iter().flat_map(|x| x.to_le_bytes()).collect()
        }
        DType::F64 | DType::Complex128 => {
            proto.double_data.iter().flat_map(|x| x.to_le_bytes()).collect()
        }
        DType::I64 => proto.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::U32 | DType::U64 => narrowed(dtype, &proto.uint64_data)?,
        _ => narrowed(dtype, &proto.int32_data)?,
    };
    Ok(Bytes::from(data))
}

/// The low bytes of each number, as many as an element takes, after a check that no more are
/// needed. A type below eight bits has a byte's worth of elements in each number; floats are there
/// as their bits.
fn narrowed<T: Copy + Into<i128>>(dtype: DType, data: &[T]) -> Result<Vec<u8>, PbError> {
    let n_bytes = dtype.word_bytes().unwrap_or(1);
    let (lowest, highest) = range(dtype);
    let mut bytes = Vec::with_capacity(data.len().saturating_mul(n_bytes));
    for (index, &number) in data.iter().enumerate() {
        let value: i128 = number.into();
        if value < lowest || value > highest {
            return Err(PbError::OutOfRange { dtype, index, value });
        }
        bytes.extend_from_slice(&value.to_le_bytes()[..n_bytes]);
    }
    Ok(bytes)
}

/// What the number of one element can be. Bits may come sign-extended, so all types but the
/// unsigned integers and bool have the negative numbers of their width too.
fn range(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits().max(8);
    let all_ones = (1_i128 << bits) - 1;
    let half = 1_i128 << (bits - 1);
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => (0, all_ones),
        DType::I8 | DType::I16 | DType::I32 => (-half, half - 1),
        _ => (-half, all_ones),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(dtype: DType, n: i64, int32_data: &[i32]) -> TensorProto {
        TensorProto {
            dims: vec![n],
            data_type: dtype.onnx(),
            int32_data: int32_data.to_vec(),
            ..TensorProto::default()
        }
    }

    #[test]
    fn int32_data_holds_narrow_types() {
        let cases: [(DType, i64, &[i32], &[u8]); 9] = [
            (DType::F16, 1, &[0x3c00], &[0x00, 0x3c]),
            (DType::Bf16, 2, &[0x3f80, 0xff80], &[0x80, 0x3f, 0x80, 0xff]),
            (DType::I8, 2, &[-1, 127], &[0xff, 0x7f]),
            (DType::U8, 1, &[255], &[0xff]),
            (DType::I16, 1, &[-2], &[0xfe, 0xff]),
            (DType::Bool, 2, &[1, 0], &[1, 0]),
            (DType::F8E5M2, 1, &[0xfc], &[0xfc]),
            (DType::I4, 3, &[0x21, 0x0f], &[0x21, 0x0f]),
            (DType::U2, 5, &[0xe4, 1], &[0xe4, 1]),
        ];
        for (dtype, n, data, bytes) in cases {
            let tensor = to_tensor(typed(dtype, n, data)).unwrap();
            assert_eq!(tensor.view().as_bytes(), Some(bytes), "{dtype}");
        }
    }

    #[test]
    fn wider_types_have_fields_of_their_own() {
        let floats = TensorProto {
            dims: vec![1],
            data_type: DType::Complex64.onnx(),
            float_data: vec![1.0, 2.0],
            ..TensorProto::default()
        };
        let complex = ort_tensor::Complex::new(1.0, 2.0);
        let tensor = to_tensor(floats).unwrap();
        assert_eq!(tensor.as_slice::<ort_tensor::Complex<f32>>().unwrap(), [complex]);
        let unsigned = TensorProto {
            dims: vec![2],
            data_type: DType::U32.onnx(),
            uint64_data: vec![1, 0xffff_ffff],
            ..TensorProto::default()
        };
        assert_eq!(to_tensor(unsigned).unwrap().as_slice::<u32>().unwrap(), [1, u32::MAX]);
    }

    #[test]
    fn a_number_too_wide_for_its_type_is_an_error() {
        let cases = [(DType::I8, 128), (DType::U8, -1), (DType::F16, 0x10000), (DType::I4, 256)];
        for (dtype, value) in cases {
            let error = PbError::OutOfRange { dtype, index: 0, value: value.into() };
            assert_eq!(to_tensor(typed(dtype, 1, &[value])), Err(error));
        }
    }

    #[test]
    fn what_is_not_a_whole_tensor_is_an_error() {
        let good = typed(DType::I32, 2, &[1, 2]);
        let cases = [
            (TensorProto { data_type: 99, ..good.clone() }, "unknown element type 99"),
            (TensorProto { dims: vec![2, -1], ..good.clone() }, "dimension 1 is -1"),
            (
                TensorProto { data_location: EXTERNAL, ..good.clone() },
                "the data is in another file",
            ),
            (
                TensorProto { dims: vec![3], ..good.clone() },
                "int32[3] takes 12 bytes or strings, found 8",
            ),
            (
                TensorProto { dims: vec![i64::MAX, 4], ..good },
                "a tensor of shape [9223372036854775807, 4] is too large",
            ),
        ];
        for (proto, message) in cases {
            assert_eq!(to_tensor(proto).unwrap_err().to_string(), message);
        }
    }
}
