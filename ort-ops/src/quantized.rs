//! Quantized operands: codes minus zero point, and back again.
//!
//! Codes are handled as `f64`, which holds every sum of products of 8-bit codes exactly.

use ort_graph::{Fact, Facts, OpError};
use ort_tensor::{
    DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Number, Output, Shape, TensorView, bf16,
    broadcast, broadcast_strides, f16, with_dtype,
};

use crate::offsets::Offsets;

/// int8, uint8 and the float types of 8 bits.
pub(crate) fn is_code(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    dtype.is_byte() || matches!(dtype, F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}

/// That the zero point at `index`, if it is there, has the element type of the input at `of`.
pub(crate) fn expect_zero_point(
    inputs: &Facts<'_>,
    index: usize,
    of: usize,
) -> Result<(), OpError> {
    inputs.fact(of)?.dtype().map_or(Ok(()), |dtype| inputs.expect_dtype(index, dtype))
}

/// The codes of the input at `index`.
pub(crate) fn codes(index: usize, x: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    with_dtype!(x.dtype(), [i8, u8, i32],
        T => Ok(x.as_slice::<T>()?.iter().map(|x| x.to_f64()).collect()),
        else => with_dtype!(x.dtype(), [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
            T => Ok(x.as_slice::<T>()?.iter().map(|x| f64::from(x.to_f32())).collect()),
            else => Err(wrong_type(index, x))))
}

/// The scales in the input at `index`.
pub(crate) fn scales(index: usize, x: TensorView<'_>) -> Result<Vec<f32>, OpError> {
    with_dtype!(x.dtype(), [f32, f16, bf16],
        T => Ok(x.as_slice::<T>()?.iter().map(|x| f32::from_f64(x.to_f64())).collect()),
        else => Err(wrong_type(index, x)))
}

/// The only scale in the input at `index`.
pub(crate) fn scale(index: usize, x: TensorView<'_>) -> Result<f32, OpError> {
    only(index, &scales(index, x)?)
}

/// The only code in the input at `index`; 0 if it is absent.
pub(crate) fn zero_point(index: usize, x: Option<TensorView<'_>>) -> Result<f64, OpError> {
    x.map_or(Ok(0.0), |x| only(index, &codes(index, x)?))
}

/// One value for each of `n` channels: they are given, or one for all of them.
pub(crate) fn per_channel<T: Copy>(
    index: usize,
    values: &[T],
    n: usize,
) -> Result<Vec<T>, OpError> {
    match values {
        &[value] => Ok(vec![value; n]),
        _ if values.len() == n => Ok(values.to_vec()),
        _ => Err(OpError::InputValue { index, what: "one value, or one a channel is needed" }),
    }
}

fn only<T: Copy>(index: usize, values: &[T]) -> Result<T, OpError> {
    match values {
        &[value] => Ok(value),
        _ => Err(OpError::InputValue { index, what: "a single value is needed" }),
    }
}

/// Whether several values in a vector stand for rows or for columns of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    Rows,
    Columns,
}

/// For each element of `shape` which of the values of shape `given` is its own.
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
    Ok(Offsets::new(shape, &broadcast_strides(&own, shape)).collect())
}

/// Codes minus their zero points; `indices` are those of the two inputs.
pub(crate) fn centered(
    x: TensorView<'_>,
    zero_point: Option<TensorView<'_>>,
    along: Along,
    indices: [usize; 2],
) -> Result<Vec<f64>, OpError> {
    let mut centered = codes(indices[0], x)?;
    if let Some(zero_point) = zero_point {
        let own = spread(zero_point.shape(), along, x.shape())?;
        let zero_point = codes(indices[1], zero_point)?;
        centered.iter_mut().zip(own).for_each(|(x, own)| *x -= zero_point[own]);
    }
    Ok(centered)
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
