//! The elements of a `TensorProto`: raw, in the field for their type, or external.

use bytes::Bytes;
use ort_tensor::{DType, Pace, Shape, text_of, try_collected, with_room};

use crate::error::ElementsError;
use crate::external::ExternalFiles;
use crate::schema::TensorProto;

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Numbers and booleans, row-major and little-endian.
    Bytes(Bytes),
    /// Strings.
    Strings(Vec<String>),
}

impl TensorProto {
    /// The element type.
    ///
    /// # Errors
    /// If it is unknown or undefined.
    pub fn dtype(&self) -> Result<DType, ElementsError> {
        let number = self.data_type;
        DType::from_onnx(number).ok_or(ElementsError::DType { number })
    }

    /// The dimensions.
    ///
    /// # Errors
    /// If one is negative.
    pub fn shape(&self) -> Result<Shape, ElementsError> {
        shape(&self.dims)
    }

    /// The elements, which share memory with the file unless they have to be narrowed. Their
    /// number is not compared with the shape.
    ///
    /// # Errors
    /// If elements are missing or incomplete, or do not fit the type.
    pub fn into_elements(self, files: &ExternalFiles) -> Result<Elements, ElementsError> {
        let dtype = self.dtype()?;
        if let Some(segment) = self.segment {
            return Err(ElementsError::Segment { begin: segment.begin, end: segment.end });
        }
        if self.is_external() {
            let n_bytes = ort_tensor::n_elements(&self.shape()?).and_then(|n| dtype.n_bytes(n));
            return match dtype {
                DType::String => Err(ElementsError::ExternalStrings),
                _ => Ok(Elements::Bytes(self.external_bytes(files, n_bytes)?)),
            };
        }
        if dtype == DType::String {
            return Ok(Elements::Strings(strings(&self.string_data)?));
        }
        Ok(Elements::Bytes(match self.raw_data {
            Some(raw) if !raw.is_empty() => raw,
            _ => typed_data(dtype, self)?,
        }))
    }
}

/// Dimensions as `usize`.
///
/// # Errors
/// If one is negative.
pub fn shape(dims: &[i64]) -> Result<Shape, ElementsError> {
    let dim = |(index, &dim): (usize, &i64)| {
        usize::try_from(dim).map_err(|_| ElementsError::Dim { index, dim })
    };
    dims.iter().enumerate().map(dim).collect()
}

/// Copies of strings that must be UTF-8. They count against the allowance of the thread.
///
/// # Errors
/// If one is not, or there is no memory for them.
pub fn strings(data: &[Bytes]) -> Result<Vec<String>, ElementsError> {
    let string = |(index, bytes): (usize, &Bytes)| {
        let text = std::str::from_utf8(bytes).map_err(|_| ElementsError::NotUtf8 { index })?;
        Ok(text_of(&[text])?)
    };
    try_collected(data.iter().enumerate().map(string))
}

/// The little-endian bytes of the elements in the field that belongs to their type.
///
/// Source: onnx.proto, comments of `float_data`, `int32_data`, `uint64_data`.
fn typed_data(dtype: DType, proto: TensorProto) -> Result<Bytes, ElementsError> {
    Ok(match dtype {
        DType::F32 | DType::Complex64 => owned(proto.float_data),
        DType::F64 | DType::Complex128 => owned(proto.double_data),
        DType::I64 => owned(proto.int64_data),
        DType::U64 => owned(proto.uint64_data),
        DType::U32 => narrowed(dtype, &proto.uint64_data)?,
        DType::I32 => owned(proto.int32_data),
        _ => narrowed(dtype, &proto.int32_data)?,
    })
}

/// The bytes of numbers, not copied: all supported machines are little-endian (see ort-tensor).
fn owned<T: bytemuck::NoUninit + Send + Sync + 'static>(numbers: Vec<T>) -> Bytes {
    struct Numbers<T>(Vec<T>);
    impl<T: bytemuck::NoUninit> AsRef<[u8]> for Numbers<T> {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    Bytes::from_owner(Numbers(numbers))
}

/// The low bytes of each number, as many as an element has, after a check that they are
/// sufficient. For a type below eight bits, each number holds a byte of elements; floats are stored
/// as their bits.
fn narrowed<T: Copy + Into<i128>>(dtype: DType, data: &[T]) -> Result<Bytes, ElementsError> {
    let n_bytes = dtype.word_bytes().unwrap_or(1);
    let (lowest, highest) = range(dtype);
    let mut bytes = with_room(data.len().saturating_mul(n_bytes))?;
    let mut pace = Pace::new();
    for (index, &number) in data.iter().enumerate() {
        pace.go(1)?;
        let value: i128 = number.into();
        if value < lowest || value > highest {
            return Err(ElementsError::OutOfRange { dtype, index, value });
        }
        bytes.extend_from_slice(&value.to_le_bytes()[..n_bytes]);
    }
    Ok(Bytes::from(bytes))
}

/// The allowed numbers of an element. Bits may be sign-extended, so all types but
/// unsigned integers and bool also allow negative numbers of their width.
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
