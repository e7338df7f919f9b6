//! Elements of tensors as JSON: one flat array.
//!
//! As in Triton, numbers that JSON lacks are `NaN`, `Infinity` and `-Infinity`, which Python reads.

use std::fmt::Display;
use std::io::Write as _;

use ort_session::{Bool, DType, Element, Number, TensorError, TensorView, bf16, f16};

/// Appends the elements.
///
/// # Errors
/// If they cannot be read.
pub(super) fn write(view: &TensorView<'_>, to: &mut Vec<u8>) -> Result<(), TensorError> {
    to.push(b'[');
    match view.dtype() {
        DType::Bool => each(view, to, |value: &Bool, to| plain(value.get(), to)),
        DType::U8 => each(view, to, |value: &u8, to| plain(value, to)),
        DType::U16 => each(view, to, |value: &u16, to| plain(value, to)),
        DType::U32 => each(view, to, |value: &u32, to| plain(value, to)),
        DType::U64 => each(view, to, |value: &u64, to| plain(value, to)),
        DType::I8 => each(view, to, |value: &i8, to| plain(value, to)),
        DType::I16 => each(view, to, |value: &i16, to| plain(value, to)),
        DType::I32 => each(view, to, |value: &i32, to| plain(value, to)),
        DType::I64 => each(view, to, |value: &i64, to| plain(value, to)),
        DType::F16 => each(view, to, |value: &f16, to| float(f32::from(*value), to)),
        DType::Bf16 => each(view, to, |value: &bf16, to| float(f32::from(*value), to)),
        DType::F32 => each(view, to, |value: &f32, to| float(*value, to)),
        DType::F64 => each(view, to, |value: &f64, to| float(*value, to)),
        _ => view.as_strings().map(|strings| list(strings, to, string)),
    }?;
    to.push(b']');
    Ok(())
}

fn each<T: Element>(
    view: &TensorView<'_>,
    to: &mut Vec<u8>,
    put: impl Fn(&T, &mut Vec<u8>),
) -> Result<(), TensorError> {
    view.as_slice::<T>().map(|elements| list(elements, to, put))
}

fn list<T>(elements: &[T], to: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    for (i, element) in elements.iter().enumerate() {
        if i > 0 {
            to.push(b',');
        }
        put(element, to);
    }
}

// Writing to a vector does not fail.

fn plain(value: impl Display, to: &mut Vec<u8>) {
    let _ = write!(to, "{value}");
}

fn string(text: &String, to: &mut Vec<u8>) {
    let _ = serde_json::to_writer(to, text);
}

/// The shortest text that reads as the same number.
fn float<T: Number + serde::Serialize>(value: T, to: &mut Vec<u8>) {
    let wide = value.to_f64();
    if wide.is_finite() {
        let _ = serde_json::to_writer(to, &value);
    } else if wide.is_nan() {
        to.extend_from_slice(b"NaN");
    } else {
        to.extend_from_slice(if wide > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
}
