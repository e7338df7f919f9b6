//! Elements of tensors in JSON: numbers, booleans and strings in arrays, flat or nested, in row-major order.

use std::fmt;
use std::marker::PhantomData;

use ort_session::{Bool, DType, Element, Number, Tensor, bf16, f16};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::budget::Reservation;
use crate::failure::{Failure, in_input};

/// The tensor of `shape` with these elements.
///
/// # Errors
/// If they are not as many as the shape has, or some element does not have the type; or there is no memory for them.
pub(super) fn decode(
    name: &str,
    dtype: DType,
    shape: &[usize],
    data: &RawValue,
    reservation: &Reservation,
) -> Result<Tensor, Failure> {
    let text = data.get();
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    // Each element takes a character and what separates it from the next: a shape with more has nothing to allocate for.
    let Some(n) = n.filter(|&n| n <= text.len()) else {
        let what = format!("the shape {shape:?} has more elements than data");
        return Err(Failure::input(name, what));
    };
    let element = if dtype == DType::String { size_of::<String>() } else { dtype.bits() / 8 };
    reservation.add(n.saturating_mul(element))?;
    if dtype == DType::String {
        let strings = elements(name, text, n, Vec::with_capacity(n))?;
        return Tensor::from_strings(shape, strings).map_err(in_input(name));
    }
    let mut tensor = Tensor::zeros(dtype, shape).map_err(in_input(name))?;
    match dtype {
        DType::Bool => fill::<Bool>(name, text, &mut tensor),
        DType::U8 => fill::<u8>(name, text, &mut tensor),
        DType::U16 => fill::<u16>(name, text, &mut tensor),
        DType::U32 => fill::<u32>(name, text, &mut tensor),
        DType::U64 => fill::<u64>(name, text, &mut tensor),
        DType::I8 => fill::<i8>(name, text, &mut tensor),
        DType::I16 => fill::<i16>(name, text, &mut tensor),
        DType::I32 => fill::<i32>(name, text, &mut tensor),
        DType::I64 => fill::<i64>(name, text, &mut tensor),
        DType::F16 => fill::<f16>(name, text, &mut tensor),
        DType::Bf16 => fill::<bf16>(name, text, &mut tensor),
        DType::F32 => fill::<f32>(name, text, &mut tensor),
        DType::F64 => fill::<f64>(name, text, &mut tensor),
        _ => Err(Failure::input(name, "its type has no form in JSON")),
    }?;
    Ok(tensor)
}

fn fill<T: FromJson + Element>(name: &str, text: &str, tensor: &mut Tensor) -> Result<(), Failure> {
    let slots = tensor.view_mut().into_slice::<T>().map_err(in_input(name))?;
    elements(name, text, slots.len(), slots.iter_mut()).map(|_| ())
}

/// Passes the elements to `to`, which has room for `n`; returns it.
fn elements<T: FromJson, S: Sink<T>>(
    name: &str,
    text: &str,
    n: usize,
    mut to: S,
) -> Result<S, Failure> {
    let mut n_read = 0;
    let mut json = serde_json::Deserializer::from_str(text);
    let seed = Array { n, n_read: &mut n_read, to: &mut to, element: PhantomData };
    let read = json.deserialize_seq(seed);
    read.map_err(|error| Failure::input(name, format!("data: {error}")))?;
    if n_read < n {
        return Err(Failure::input(name, format!("data has {n_read} elements, the shape has {n}")));
    }
    Ok(to)
}

/// Where elements go.
trait Sink<T> {
    fn put(&mut self, element: T);
}

impl<T> Sink<T> for Vec<T> {
    fn put(&mut self, element: T) {
        self.push(element);
    }
}

impl<T> Sink<T> for std::slice::IterMut<'_, T> {
    fn put(&mut self, element: T) {
        if let Some(slot) = self.next() {
            *slot = element;
        }
    }
}

/// An element type in JSON.
trait FromJson: Sized {
    /// For messages.
    const EXPECTED: &'static str;

    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    fn from_unsigned(_: u64) -> Option<Self> {
        None
    }
    fn from_signed(_: i64) -> Option<Self> {
        None
    }
    fn from_float(_: f64) -> Option<Self> {
        None
    }
    fn from_text(_: &str) -> Option<Self> {
        None
    }
}

impl FromJson for Bool {
    const EXPECTED: &'static str = "true or false";

    fn from_bool(value: bool) -> Option<Self> {
        Some(value.into())
    }
    fn from_unsigned(value: u64) -> Option<Self> {
        (value <= 1).then_some((value == 1).into())
    }
}

impl FromJson for String {
    const EXPECTED: &'static str = "a string";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

macro_rules! integers {
    ($($type:ty: $expected:literal),*) => {$(
        impl FromJson for $type {
            const EXPECTED: &'static str = $expected;

            fn from_unsigned(value: u64) -> Option<Self> {
                value.try_into().ok()
            }
            fn from_signed(value: i64) -> Option<Self> {
                value.try_into().ok()
            }
        }
    )*};
}

integers!(
    u8: "a number of UINT8", u16: "a number of UINT16", u32: "a number of UINT32", u64: "a number of UINT64",
    i8: "a number of INT8", i16: "a number of INT16", i32: "a number of INT32", i64: "a number of INT64"
);

macro_rules! floats {
    ($($type:ty: $expected:literal),*) => {$(
        impl FromJson for $type {
            const EXPECTED: &'static str = $expected;

            #[expect(clippy::cast_precision_loss, reason = "rounded to the nearest number")]
            fn from_unsigned(value: u64) -> Option<Self> {
                Self::from_float(value as f64)
            }
            #[expect(clippy::cast_precision_loss, reason = "rounded to the nearest number")]
            fn from_signed(value: i64) -> Option<Self> {
                Self::from_float(value as f64)
            }
            /// JSON has no infinity: a number that becomes one is too large.
            fn from_float(value: f64) -> Option<Self> {
                let rounded = <Self as Number>::from_f64(value);
                Number::to_f64(rounded).is_finite().then_some(rounded)
            }
        }
    )*};
}

floats!(f16: "a number of FP16", bf16: "a number of BF16", f32: "a number of FP32", f64: "a number of FP64");

/// Reads an array, and the arrays in it.
struct Array<'s, T, S> {
    n: usize,
    n_read: &'s mut usize,
    to: &'s mut S,
    element: PhantomData<T>,
}

impl<T: FromJson, S: Sink<T>> Array<'_, T, S> {
    fn inner(&mut self) -> Array<'_, T, S> {
        Array { n: self.n, n_read: self.n_read, to: self.to, element: PhantomData }
    }

    fn put<E: Error>(self, element: Option<T>) -> Result<(), E> {
        let Some(element) = element else {
            let expected = T::EXPECTED;
            return Err(E::custom(format_args!("element {} is not {expected}", self.n_read)));
        };
        if *self.n_read == self.n {
            return Err(E::custom(format_args!("there are more than {} elements", self.n)));
        }
        *self.n_read += 1;
        self.to.put(element);
        Ok(())
    }
}

impl<'de, T: FromJson, S: Sink<T>> DeserializeSeed<'de> for Array<'_, T, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: FromJson, S: Sink<T>> Visitor<'de> for Array<'_, T, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} or an array", T::EXPECTED)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.inner())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(T::from_bool(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(T::from_unsigned(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(T::from_signed(value))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.put(T::from_float(value))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put(T::from_text(value))
    }
}
