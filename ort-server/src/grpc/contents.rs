//! The typed form of tensors: a list for each type that protobuf has.

use bytes::Bytes;
use ort_session::{Bool, DType, Tensor, TensorError};

use super::messages::InferTensorContents as Contents;
use crate::failure::{Failure, in_input, in_output};
use crate::raw;

/// The tensor with these elements.
///
/// # Errors
/// If they are not as many as the shape has, another list than that of the type has elements, or an element does not
/// have the type. FP16 and BF16 have no list.
pub(super) fn decode(
    name: &str,
    dtype: DType,
    shape: &[usize],
    contents: Contents,
) -> Result<Tensor, Failure> {
    let expected = list_of(dtype).ok_or_else(|| {
        Failure::input(name, "its type has no list in contents: use raw_input_contents")
    })?;
    let lists = lens(&contents);
    if let Some((found, _)) = lists.iter().find(|(list, len)| *len > 0 && *list != expected) {
        return Err(Failure::input(
            name,
            format!("its elements are in {found}, expected {expected}"),
        ));
    }
    let c = &contents;
    let tensor = match dtype {
        DType::Bool => {
            let bools: Vec<Bool> = c.bools.iter().map(|&value| value.into()).collect();
            Tensor::from_slice(shape, &bools)
        }
        DType::I8 => Tensor::from_slice(shape, &narrowed::<_, i8>(name, &c.ints)?),
        DType::I16 => Tensor::from_slice(shape, &narrowed::<_, i16>(name, &c.ints)?),
        DType::I32 => Tensor::from_slice(shape, &c.ints),
        DType::I64 => Tensor::from_slice(shape, &c.int64s),
        DType::U8 => Tensor::from_slice(shape, &narrowed::<_, u8>(name, &c.uints)?),
        DType::U16 => Tensor::from_slice(shape, &narrowed::<_, u16>(name, &c.uints)?),
        DType::U32 => Tensor::from_slice(shape, &c.uints),
        DType::U64 => Tensor::from_slice(shape, &c.uint64s),
        DType::F32 => Tensor::from_slice(shape, &c.fp32s),
        DType::F64 => Tensor::from_slice(shape, &c.fp64s),
        _ => {
            let texts = { c.bytes.iter() }.enumerate().map(|(i, text)| raw::text(name, i, text));
            Tensor::from_strings(shape, texts.collect::<Result<_, _>>()?)
        }
    };
    tensor.map_err(in_input(name))
}

/// The elements of a tensor; `None` if its type has no list.
///
/// # Errors
/// If the elements cannot be read.
pub(super) fn encode(name: &str, tensor: &Tensor) -> Result<Option<Contents>, Failure> {
    filled(tensor).map_err(in_output(name))
}

fn filled(tensor: &Tensor) -> Result<Option<Contents>, TensorError> {
    let view = tensor.view();
    let mut contents = Contents::default();
    match tensor.dtype() {
        DType::Bool => {
            contents.bools = view.as_slice::<Bool>()?.iter().map(|it| it.get()).collect()
        }
        DType::I8 => contents.ints = widened(view.as_slice::<i8>()?),
        DType::I16 => contents.ints = widened(view.as_slice::<i16>()?),
        DType::I32 => contents.ints = widened(view.as_slice::<i32>()?),
        DType::I64 => contents.int64s = widened(view.as_slice::<i64>()?),
        DType::U8 => contents.uints = widened(view.as_slice::<u8>()?),
        DType::U16 => contents.uints = widened(view.as_slice::<u16>()?),
        DType::U32 => contents.uints = widened(view.as_slice::<u32>()?),
        DType::U64 => contents.uint64s = widened(view.as_slice::<u64>()?),
        DType::F32 => contents.fp32s = widened(view.as_slice::<f32>()?),
        DType::F64 => contents.fp64s = widened(view.as_slice::<f64>()?),
        DType::String => {
            let texts = view.as_strings()?.iter();
            contents.bytes = texts.map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        }
        _ => return Ok(None),
    }
    Ok(Some(contents))
}

fn widened<N: Copy, W: From<N>>(values: &[N]) -> Vec<W> {
    values.iter().map(|&value| value.into()).collect()
}

fn narrowed<W: Copy + std::fmt::Display, N: TryFrom<W>>(
    name: &str,
    values: &[W],
) -> Result<Vec<N>, Failure> {
    let narrow = |(i, &value): (usize, &W)| {
        let what = || format!("element {i} is {value}, which its type does not have");
        N::try_from(value).map_err(|_| Failure::input(name, what()))
    };
    values.iter().enumerate().map(narrow).collect()
}

/// The name of the list for a type.
fn list_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "bool_contents",
        DType::I8 | DType::I16 | DType::I32 => "int_contents",
        DType::I64 => "int64_contents",
        DType::U8 | DType::U16 | DType::U32 => "uint_contents",
        DType::U64 => "uint64_contents",
        DType::F32 => "fp32_contents",
        DType::F64 => "fp64_contents",
        DType::String => "bytes_contents",
        _ => return None,
    })
}

fn lens(contents: &Contents) -> [(&'static str, usize); 8] {
    [
        ("bool_contents", contents.bools.len()),
        ("int_contents", contents.ints.len()),
        ("int64_contents", contents.int64s.len()),
        ("uint_contents", contents.uints.len()),
        ("uint64_contents", contents.uint64s.len()),
        ("fp32_contents", contents.fp32s.len()),
        ("fp64_contents", contents.fp64s.len()),
        ("bytes_contents", contents.bytes.len()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_the_typed_form() {
        for tensor in [
            Tensor::from_slice(&[2], &[Bool::from(true), Bool::from(false)]).unwrap(),
            Tensor::from_slice(&[2], &[i8::MIN, 1]).unwrap(),
            Tensor::from_slice(&[1, 1], &[u16::MAX]).unwrap(),
            Tensor::from_slice(&[2], &[i64::MIN, 1]).unwrap(),
            Tensor::from_slice(&[2], &[f32::INFINITY, 1.5]).unwrap(),
            Tensor::from_slice::<f64>(&[0], &[]).unwrap(),
            Tensor::from_strings(&[2], vec!["é".to_owned(), String::new()]).unwrap(),
        ] {
            let contents = encode("y", &tensor).unwrap().unwrap();
            let again = decode("x", tensor.dtype(), tensor.shape(), contents).unwrap();
            assert_eq!(format!("{again:?}"), format!("{tensor:?}"));
        }
    }

    #[test]
    fn wrong_lists_and_elements_name_the_input() {
        let ints = || Contents { ints: vec![1, 300], ..Contents::default() };
        for (dtype, shape, expected) in [
            (DType::I8, &[2][..], "input `x`: element 1 is 300, which its type does not have"),
            (
                DType::F32,
                &[2],
                "input `x`: its elements are in int_contents, expected fp32_contents",
            ),
            (
                DType::F16,
                &[2],
                "input `x`: its type has no list in contents: use raw_input_contents",
            ),
        ] {
            let failure = decode("x", dtype, shape, ints()).unwrap_err();
            assert_eq!(failure.to_string(), expected);
        }
        assert!(decode("x", DType::I32, &[3], ints()).is_err());
    }
}
