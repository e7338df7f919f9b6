//! A whole tensor from one element type to another.

use ort_graph::OpError;
use ort_tensor::{
    Bool, DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, Pace, TensorView, TensorViewMut,
    bf16, f16, go_on, text_of, try_collected, with_dtype,
};

use super::narrow::Narrowing;
use super::wide::{Castable, Wide};
use super::{quick, text};
use crate::elementwise::unsupported;

/// `y[i] = x[i]`; the shapes are equal.
pub(super) fn convert(
    x: TensorView<'_>,
    y: TensorViewMut<'_>,
    narrowing: Narrowing,
) -> Result<(), OpError> {
    if x.dtype() == y.dtype() {
        return Ok(y.copy_from(x)?);
    }
    if quick::is_known(x.dtype(), y.dtype()) {
        return quick::convert(x, y);
    }
    one_by_one(x, y, narrowing)
}

/// The same for elements of any two types.
pub(super) fn one_by_one(
    x: TensorView<'_>,
    y: TensorViewMut<'_>,
    narrowing: Narrowing,
) -> Result<(), OpError> {
    if x.dtype() == y.dtype() {
        return Ok(y.copy_from(x)?);
    }
    let dtype = x.dtype();
    if dtype == DType::String {
        return store(&parse_all(x.as_strings()?, y.dtype())?, |&x| x, y, narrowing);
    }
    if dtype.is_packed() {
        let decode = |bits: &u8| dtype.decode_packed(*bits).map_or(0.0, f64::from);
        return store(&x.unpacked()?, |bits| Wide::Float(decode(bits)), y, narrowing);
    }
    with_dtype!(dtype, [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0],
        T => store(x.as_slice::<T>()?, |x| Wide::Float(f64::from(x.to_f32())), y, narrowing),
        else => with_dtype!(dtype,
            [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool],
            T => store(x.as_slice::<T>()?, |&x: &T| x.widen(), y, narrowing),
            else => Err(unsupported(0, dtype))))
}

/// `y[i] = widen(x[i])`.
fn store<S>(
    x: &[S],
    widen: impl Fn(&S) -> Wide,
    y: TensorViewMut<'_>,
    narrowing: Narrowing,
) -> Result<(), OpError> {
    let dtype = y.dtype();
    if dtype == DType::String {
        for (y, x) in y.into_strings()?.iter_mut().zip(x) {
            *y = text_of(&[&text::print(widen(x))])?;
        }
        return Ok(());
    }
    with_dtype!(dtype, [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool],
    T => {
        for (y, x) in y.into_slice::<T>()?.chunks_mut(Pace::STEP).zip(x.chunks(Pace::STEP)) {
            go_on()?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = T::narrow(widen(x)));
        }
        Ok(())
    },
    else => {
        let encode = |x| narrowing.encode(dtype, widen(x)).ok_or_else(|| unsupported(0, dtype));
        let encoded = try_collected(x.iter().map(encode))?;
        if dtype.is_packed() {
            y.pack(&encoded)?;
        } else {
            y.into_words::<u8>()?.copy_from_slice(&encoded);
        }
        Ok(())
    })
}

fn parse_all(texts: &[String], to: DType) -> Result<Vec<Wide>, OpError> {
    // All types except small integers are converted from a float, and have −0.
    let is_small_integer = to.is_packed() && to != DType::F4E2M1;
    let to_float = !(to.is_integer() || is_small_integer || to == DType::Bool);
    let no_number = OpError::InputValue { index: 0, what: "a string that is not a number" };
    let parse = |x: &String| text::parse(x, to_float).ok_or_else(|| no_number.clone());
    try_collected(texts.iter().map(parse))
}
