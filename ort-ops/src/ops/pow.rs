//! Pow: `y = x^e`, with an exponent of any number type.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Element, Inputs, Number, Output, TensorView, bf16, collected, f16, with_dtype,
};

use crate::arithmetic::Arithmetic;
use crate::broadcast::{Operand, common_shape, update, zip};
use crate::elementwise::{dtype_of, only, unsupported};
use crate::infer::broadcast_facts;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Pow",
    versions: (7, 15),
    types: is_base,
    build: |_| Ok(Arc::new(Pow)),
}];

/// Pow: `y = x^e`, broadcast, in the type of `x` (a float, int32 or int64). Can run in place of
/// `x`.
///
/// Integers to non-negative integer powers are exact and wrap; all else is computed in double precision
/// and rounded once, for integer results toward zero and saturating.
///
/// Source: ONNX operator set, Pow-15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pow;

impl Operator for Pow {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_base)?;
        inputs.dtype(1, DType::is_number)?;
        Ok(vec![broadcast_facts(inputs, dtype)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let (dtype, exponent) = (dtype_of(0, inputs, output)?, inputs.tensor(1)?);
        let shape = exponent.shape();
        if dtype.is_integer() && exponent.dtype().is_integer() {
            let exponent = Operand { shape, data: &integers(exponent)? };
            return with_dtype!(dtype, [i32, i64],
                T => raise(inputs, output, exponent, |&x: &T, &e| power_of_integers(x, e)),
                else => Err(unsupported(0, dtype)));
        }
        let exponent = Operand { shape, data: &floats(exponent)? };
        with_dtype!(dtype, [f32, f64, f16, bf16, i32, i64],
            T => raise(inputs, output, exponent, |&x: &T, &e| {
                <T as Number>::from_f64(power(Number::to_f64(x), e))
            }),
            else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

/// `y = f(x, e)`, in place of `x` where the output shares its memory.
fn raise<T: Element, E>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    exponent: Operand<'_, E>,
    f: impl Fn(&T, &E) -> T,
) -> Result<(), OpError> {
    if let Some((0, view)) = output.in_place_tensor() {
        return update((view.shape(), view.into_slice()?), exponent, &f);
    }
    let x = Operand::new(inputs.tensor(0)?)?;
    let shape = common_shape([x.shape, exponent.shape])?;
    zip((&shape, output.tensor(T::DTYPE, &shape)?.into_slice()?), x, exponent, &f)
}

/// `x^e`.
#[inline]
#[must_use]
pub fn power(x: f64, e: f64) -> f64 {
    // Most models only use squares.
    if e == 2.0 { x * x } else { x.powf(e) }
}

/// `x^e` by repeated squaring, wrapping; computed in double precision for a negative `e`.
#[inline]
pub fn power_of_integers<T: Arithmetic>(x: T, e: i128) -> T {
    let Ok(mut e) = u128::try_from(e) else { return T::from_f64(x.to_f64().powf(e as f64)) };
    let (mut square, mut y) = (x, T::from_f64(1.0));
    while e > 0 {
        if e % 2 == 1 {
            y = y.mul(square);
        }
        square = square.mul(square);
        e /= 2;
    }
    y
}

fn integers(exponent: TensorView<'_>) -> Result<Vec<i128>, OpError> {
    let dtype = exponent.dtype();
    with_dtype!(dtype, integer,
        T => Ok(collected(exponent.as_slice::<T>()?.iter().map(|&e| i128::from(e)))?),
        else => Err(unsupported(1, dtype)))
}

fn floats(exponent: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    let dtype = exponent.dtype();
    with_dtype!(dtype, number,
        T => Ok(collected(exponent.as_slice::<T>()?.iter().map(|&e| Number::to_f64(e)))?),
        else => Err(unsupported(1, dtype)))
}

const fn is_base(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I32 | DType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_tensor::Tensor;

    #[test]
    fn the_result_has_the_type_of_the_base() {
        let base = [2.0_f32, 3.0, -2.0];
        let cases = [
            (
                tensor(&[3], &base),
                tensor(&[3], &[2_i64, -1, 3]),
                tensor(&[3], &[4.0, 1.0 / 3.0_f32, -8.0]),
            ),
            (tensor(&[3], &base), Tensor::scalar(2.0_f64), tensor(&[3], &[4.0_f32, 9.0, 4.0])),
            (
                tensor(&[2], &[5_i32, -3]),
                tensor(&[2], &[3_u8, 21]),
                tensor(&[2], &[125, -3_i32.wrapping_pow(21)]),
            ),
            (tensor(&[2], &[2_i64, 9]), Tensor::scalar(0.5_f32), tensor(&[2], &[1_i64, 3])),
            (tensor(&[2], &[2_i64, 1]), Tensor::scalar(-1_i8), tensor(&[2], &[0_i64, 1])),
            (Tensor::scalar(-1_i32), Tensor::scalar(u64::MAX), Tensor::scalar(-1_i32)),
            (
                Tensor::scalar(f16::from_f32(3.0)),
                Tensor::scalar(bf16::from_f32(2.0)),
                Tensor::scalar(f16::from_f32(9.0)),
            ),
        ];
        for (x, e, y) in cases {
            assert_eq!(
                Case::new("Pow", 15).tensor(&[x.clone(), e.clone()]),
                Ok(y),
                "{x:?} to {e:?}"
            );
        }
    }

    #[test]
    fn base_and_exponent_broadcast() {
        let (x, e) = (tensor(&[2, 1], &[2_i32, 3]), tensor(&[3], &[0_i32, 1, 2]));
        let y = tensor(&[2, 3], &[1, 2, 4, 1, 3, 9]);
        assert_eq!(Case::new("Pow", 13).tensor(&[x, e]), Ok(y));
        assert!(
            Case::new("Pow", 13).tensor(&[Tensor::scalar(1_u8), Tensor::scalar(1_u8)]).is_err()
        );
    }
}
