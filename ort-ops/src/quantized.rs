//! Quantized operands: differences to the zero point, and quantization of results.

// collects are bounded: by the rank

use std::ops::SubAssign;

use ort_graph::{Fact, Facts, OpError};
use ort_tensor::{
    DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Inputs, Number, Output, Pace, Shape, Tensor,
    TensorError, TensorView, bf16, broadcast, broadcast_strides, by_pieces, collected, f16, filled,
    go_on, n_elements, with_dtype,
};

use crate::offsets::Offsets;

/// int8, uint8 and the float types of 8 bits.
pub(crate) fn is_quantized(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    dtype.is_byte() || matches!(dtype, F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}

/// Checks that the zero point at `index`, if present, has the element type of the input at `of`.
pub(crate) fn expect_zero_point(
    inputs: &Facts<'_>,
    index: usize,
    of: usize,
) -> Result<(), OpError> {
    inputs.fact(of)?.dtype().map_or(Ok(()), |dtype| inputs.expect_dtype(index, dtype))
}

/// A type that represents quantized values exactly: `i16` for int8, uint8 and their differences, `f64` for all.
pub(crate) trait QuantizedElement: Copy + Default + SubAssign {
    /// The quantized values of the input at `index`.
    fn of(index: usize, x: TensorView<'_>) -> Result<Vec<Self>, OpError>;
}

impl QuantizedElement for i16 {
    fn of(index: usize, x: TensorView<'_>) -> Result<Vec<Self>, OpError> {
        with_dtype!(x.dtype(), [i8, u8],
            T => Ok(collected(x.as_slice::<T>()?.iter().map(|&x| i16::from(x)))?),
            else => Err(wrong_type(index, x)))
    }
}

impl QuantizedElement for f64 {
    fn of(index: usize, x: TensorView<'_>) -> Result<Vec<Self>, OpError> {
        with_dtype!(x.dtype(), [i8, u8, i32],
            T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| x.to_f64()))?),
            else => with_dtype!(x.dtype(), [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
                T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| f64::from(x.to_f32())))?),
                else => Err(wrong_type(index, x))))
    }
}

/// The scales in the input at `index`.
pub(crate) fn scales(index: usize, x: TensorView<'_>) -> Result<Vec<f32>, OpError> {
    with_dtype!(x.dtype(), [f32, f16, bf16],
        T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| f32::from_f64(x.to_f64())))?),
        else => Err(wrong_type(index, x)))
}

/// The only scale in the input at `index`.
pub(crate) fn scale(index: usize, x: TensorView<'_>) -> Result<f32, OpError> {
    only(index, &scales(index, x)?)
}

/// One value for each of `n` channels: one each, or one for all.
pub(crate) fn per_channel<T: Copy>(
    index: usize,
    values: &[T],
    n: usize,
) -> Result<Vec<T>, OpError> {
    match values {
        &[value] => Ok(filled(value, n)?),
        _ if values.len() == n => Ok(collected(values.iter().copied())?),
        _ => Err(OpError::InputValue { index, what: "one value, or one per channel is needed" }),
    }
}

fn only<T: Copy>(index: usize, values: &[T]) -> Result<T, OpError> {
    match values {
        &[value] => Ok(value),
        _ => Err(OpError::InputValue { index, what: "a single value is needed" }),
    }
}

/// Whether several values in a vector belong to rows or to columns of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    Rows,
    Columns,
}

/// For each element of `shape`, the index of its value among those of shape `given`.
pub(crate) fn spread(
    given: &[usize],
    along: Along,
    shape: &[usize],
) -> Result<Vec<usize>, OpError> {
    let own: Shape = match given {
        _ if given.iter().all(|&n| n == 1) => Shape::new(),
        &[n] if along == Along::Rows => [n, 1].into_iter().collect(),
        _ => Shape::from_slice(given),
    };
    if broadcast(&own, shape).as_deref() != Some(shape) {
        let (left, right) = (given.to_vec(), shape.to_vec());
        return Err(OpError::Shapes { what: "scale or zero point", left, right });
    }
    Ok(collected(Offsets::new(shape, &broadcast_strides(&own, shape)))?)
}

/// For each element of `shape`, its value among those of shape `given`.
pub(crate) fn stretched<T: Copy>(
    values: &[T],
    given: &[usize],
    along: Along,
    shape: &[usize],
) -> Result<Vec<T>, OpError> {
    match values {
        &[value] => Ok(filled(value, n_elements(shape).ok_or(OpError::TooLarge)?)?),
        _ => Ok(collected(spread(given, along, shape)?.into_iter().map(|own| values[own]))?),
    }
}

/// Quantized values minus their zero points; `indices` are those of the two inputs.
pub(crate) fn centered<C: QuantizedElement>(
    x: TensorView<'_>,
    zero_point: Option<TensorView<'_>>,
    along: Along,
    indices: [usize; 2],
) -> Result<Vec<C>, OpError> {
    let mut centered = C::of(indices[0], x)?;
    let Some(given) = zero_point else { return Ok(centered) };
    let zero_points = C::of(indices[1], given)?;
    if let &[zero_point] = &zero_points[..] {
        centered.iter_mut().for_each(|x| *x -= zero_point);
    } else {
        let own = stretched(&zero_points, given.shape(), along, x.shape())?;
        centered.iter_mut().zip(own).for_each(|(x, own)| *x -= own);
    }
    Ok(centered)
}

/// Scale and zero point of a whole tensor of 8-bit quantized values: `value = scale · (q − zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scheme {
    pub(crate) scale: f32,
    pub(crate) zero_point: f32,
}

impl Scheme {
    /// Checks that there is a float at `index`, followed by an optional zero point of type `dtype`.
    pub(crate) fn expect(inputs: &Facts<'_>, index: usize, dtype: DType) -> Result<(), OpError> {
        inputs.fact(index)?;
        inputs.expect_dtype(index, DType::F32)?;
        inputs.expect_dtype(index + 1, dtype)
    }

    /// The type of the quantized values at 0, which must be followed by their scheme and that of the result.
    pub(crate) fn expect_pair(inputs: &Facts<'_>) -> Result<DType, OpError> {
        let dtype = inputs.dtype(0, DType::is_byte)?;
        Self::expect(inputs, 1, dtype)?;
        Self::expect(inputs, 3, dtype)?;
        Ok(dtype)
    }

    /// The scheme of input 0 and that of the result.
    pub(crate) fn read_pair(inputs: Inputs<'_>) -> Result<[Self; 2], OpError> {
        Ok([Self::read(inputs, 1)?, Self::read(inputs, 3)?])
    }

    /// The scale at `index`, and the zero point after it, 0 if it is absent.
    pub(crate) fn read(inputs: Inputs<'_>, index: usize) -> Result<Self, OpError> {
        let scale = scale(index, inputs.tensor(index)?)?;
        let zero_point = Self::zero_point(index + 1, inputs.optional_tensor(index + 1)?)?;
        Ok(Self { scale, zero_point })
    }

    /// The only quantized value in the input at `index`; 0 if it is absent.
    pub(crate) fn zero_point(index: usize, x: Option<TensorView<'_>>) -> Result<f32, OpError> {
        x.map_or(Ok(0.0), |x| Ok(f32::from(only(index, &i16::of(index, x)?)?)))
    }

    /// The scheme in which uint8 covers the range of `values` and 0; NaN is ignored. If all are 0, or there are none,
    /// the scale is 1.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub(crate) fn of_values(values: &[f32]) -> Result<Self, TensorError> {
        let (mut min, mut max) = (0.0_f32, 0.0_f32);
        for piece in values.chunks(Pace::STEP) {
            go_on()?;
            (min, max) = piece.iter().fold((min, max), |(min, max), &x| (min.min(x), max.max(x)));
        }
        let scale = if min == max { 1.0 } else { (max - min) / 255.0 };
        Ok(Self { scale, zero_point: (-min / scale).clamp(0.0, 255.0).round_ties_even() })
    }

    /// The quantized values of values in uint8, minus the zero point.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn centered(self, values: &[f32]) -> Result<Vec<i16>, TensorError> {
        let zero_point = saturate::<i16>(self.zero_point);
        let quantize = |&value: &f32| i16::from(self.quantize::<u8>(value)) - zero_point;
        collected(values.iter().map(quantize))
    }

    /// `scale · (q − zero_point)`.
    pub(crate) fn dequantize<T: Number>(self, q: T) -> f32 {
        self.scale * (f32::from_f64(q.to_f64()) - self.zero_point)
    }

    /// `saturate(round(value / scale) + zero_point)`; NaN becomes 0.
    pub(crate) fn quantize<T: Number>(self, value: f32) -> T {
        saturate((value / self.scale).round_ties_even() + self.zero_point)
    }
}

/// A whole number, saturated to the type; 0 for NaN.
pub(crate) fn saturate<T: Number>(value: f32) -> T {
    T::from_f64(f64::from(value))
}

/// For each quantized value, by its bits, the quantized `f(value)`: a function of one 8-bit argument is a table.
#[derive(Debug)]
pub(crate) struct Table([u8; 256]);

impl Table {
    /// The table of a function between quantized values of type `dtype`.
    pub(crate) fn new(dtype: DType, from: Scheme, to: Scheme, f: impl Fn(f32) -> f32) -> Self {
        let signed = |bits: u8| to.quantize::<i8>(f(from.dequantize(bits.cast_signed())));
        let unsigned = |bits: u8| to.quantize::<u8>(f(from.dequantize(bits)));
        let mut table = [0; 256];
        for (bits, q) in (0..=u8::MAX).zip(&mut table) {
            *q = if dtype == DType::I8 { signed(bits).cast_unsigned() } else { unsigned(bits) };
        }
        Self(table)
    }

    /// The table that requantizes.
    pub(crate) fn again(dtype: DType, from: Scheme, to: Scheme) -> Self {
        Self::new(dtype, from, to, |x| x)
    }

    /// `y[i] = table[x[i]]`, any 8-bit type.
    pub(crate) fn apply(&self, x: TensorView<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
        let y = output.tensor(x.dtype(), x.shape())?.into_words::<u8>()?;
        Ok(self.look_up(x.as_words::<u8>()?, y)?)
    }

    fn look_up(&self, x: &[u8], y: &mut [u8]) -> Result<(), TensorError> {
        by_pieces(y, |at, y| {
            y.iter_mut().zip(&x[at..]).for_each(|(y, &x)| *y = self.0[usize::from(x)]);
        })
    }

    /// The quantized values of `x`, replaced.
    pub(crate) fn applied(&self, x: TensorView<'_>) -> Result<Tensor, OpError> {
        let mut y = Tensor::zeros(x.dtype(), x.shape())?;
        self.look_up(x.as_words::<u8>()?, y.view_mut().into_words::<u8>()?)?;
        Ok(y)
    }
}

/// `y = saturate(round(value) + zero point)` for each pair of them; an 8-bit float is not rounded to
/// a whole number first.
pub(crate) fn store(
    output: &mut Output<'_>,
    dtype: DType,
    shape: &[usize],
    values: &[(f32, f64)],
) -> Result<(), OpError> {
    let y = output.tensor(dtype, shape)?;
    with_dtype!(dtype, [i8, u8], T => {
        for (y, (value, zero_point)) in y.into_slice::<T>()?.iter_mut().zip(values) {
            *y = T::from_f64(f64::from(value.round_ties_even()) + zero_point);
        }
        Ok(())
    }, else => with_dtype!(dtype, [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz], T => {
        for (y, (value, zero_point)) in y.into_slice::<T>()?.iter_mut().zip(values) {
            *y = T::from_f32(value + f32::from_f64(*zero_point), true);
        }
        Ok(())
    }, else => Err(OpError::Unsupported { what: "a quantized output of this type" })))
}

fn wrong_type(index: usize, x: TensorView<'_>) -> OpError {
    OpError::InputType { index, found: Box::new(Fact::shaped(x.dtype(), x.shape()).ty) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_belongs_to_rows_or_columns() {
        let cases: [(&[usize], Along, &[usize]); 5] = [
            (&[], Along::Rows, &[0, 0, 0, 0]),
            (&[1], Along::Columns, &[0, 0, 0, 0]),
            (&[2], Along::Rows, &[0, 0, 1, 1]),
            (&[2], Along::Columns, &[0, 1, 0, 1]),
            (&[2, 1], Along::Columns, &[0, 0, 1, 1]),
        ];
        for (given, along, expected) in cases {
            assert_eq!(spread(given, along, &[2, 2]).unwrap(), expected, "{given:?} {along:?}");
        }
        assert!(spread(&[3], Along::Columns, &[2, 2]).is_err());
        assert!(spread(&[2, 2, 2], Along::Columns, &[2, 2]).is_err());
    }
}
