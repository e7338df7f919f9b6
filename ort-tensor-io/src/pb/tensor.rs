//! `TensorProto` and tensors.

use bytes::Bytes;
use ort_onnx::schema::TensorProto;
use ort_onnx::{Elements, ExternalFiles};
use ort_tensor::{Tensor, TensorError, text_of, try_collected};

use super::error::PbError;

pub(super) fn to_tensor(proto: TensorProto) -> Result<Tensor, PbError> {
    if proto.is_external() {
        return Err(PbError::External);
    }
    let (dtype, shape) = (proto.dtype()?, proto.shape()?);
    Ok(match proto.into_elements(&ExternalFiles::new())? {
        Elements::Bytes(bytes) => Tensor::from_bytes(dtype, &shape, bytes)?,
        Elements::Strings(strings) => Tensor::from_strings(&shape, strings)?,
    })
}

/// Numbers are written to `raw_data`, as their bytes in memory, which the message shares.
pub(super) fn from_tensor(name: &str, tensor: &Tensor) -> Result<TensorProto, PbError> {
    let view = tensor.view();
    Ok(TensorProto {
        name: name.to_owned(),
        // A dimension beyond i64 occurs only in an empty tensor, as others do not fit in memory;
        // an empty one has the same meaning with any other dimension.
        dims: tensor.shape().iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect(),
        data_type: tensor.dtype().onnx(),
        raw_data: view.as_bytes().map(|_| Bytes::from_owner(Numbers(tensor.clone()))),
        string_data: view.as_strings().map_or_else(|_| Ok(Vec::new()), to_bytes)?,
        ..TensorProto::default()
    })
}

/// A tensor of numbers, as an owner of their bytes.
struct Numbers(Tensor);

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        self.0.view().as_bytes().unwrap_or_default()
    }
}

pub(super) fn to_bytes(strings: &[String]) -> Result<Vec<Bytes>, TensorError> {
    try_collected(strings.iter().map(|string| text_of(&[string]).map(Bytes::from)))
}

#[cfg(test)]
mod tests {
    use ort_onnx::ElementsError;
    use ort_tensor::DType;

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
    fn wider_types_have_their_own_fields() {
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
            let error = ElementsError::OutOfRange { dtype, index: 0, value: value.into() };
            assert_eq!(to_tensor(typed(dtype, 1, &[value])), Err(error.into()));
        }
    }

    #[test]
    fn incomplete_tensors_are_errors() {
        let good = typed(DType::I32, 2, &[1, 2]);
        let cases = [
            (TensorProto { data_type: 99, ..good.clone() }, "unknown element type 99"),
            (TensorProto { dims: vec![2, -1], ..good.clone() }, "dimension 1 is -1"),
            (TensorProto { data_location: 1, ..good.clone() }, "external data is not supported"),
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
