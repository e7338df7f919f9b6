//! Range: an arithmetic progression.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Element, Inputs, Number, Output, TensorView, bf16, by_pieces, f16, with_dtype,
};

use crate::infer::folded;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef { domain: "", name: "Range", versions: (11, 27), types: is_allowed, build: Range::build },
    OpDef {
        domain: "com.microsoft",
        name: "Range",
        versions: (1, 1),
        types: is_allowed,
        build: Range::build,
    },
];

/// Range: `y[i] = start + i·delta` for `i` below `max(0, ⌈(limit − start) / delta⌉)`; the inputs
/// are scalars. Floats are computed in `f64` and rounded once. In com.microsoft `delta` is optional, by default 1.
///
/// Source: ONNX operator set, Range-27; com.microsoft, Range-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range;

impl Range {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version >= 27
            && let Some(found) = spec.int("stash_type")?.filter(|&found| found != 1)
        {
            return Err(OpError::AttributeValue { name: "stash_type", found: found.to_string() });
        }
        Ok(Arc::new(Range))
    }
}

const fn is_allowed(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I16 | DType::I32 | DType::I64)
}

/// An element type of progressions.
trait Term: Element {
    /// How many terms there are before the limit is reached; `None` if infinitely many.
    fn count(start: Self, limit: Self, delta: Self) -> Option<usize>;
    /// `y[i] = start + (first + i)·delta`
    fn write(start: Self, delta: Self, first: usize, y: &mut [Self]);
}

macro_rules! integer_terms {
    ($($ty:ty),*) => { $(
        impl Term for $ty {
            fn count(start: Self, limit: Self, delta: Self) -> Option<usize> {
                // Neither the difference nor −(i64::MIN) overflows here.
                let (distance, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
                if delta == 0 {
                    return None;
                }
                let (distance, delta) = (distance * delta.signum(), delta.unsigned_abs());
                let count = u128::try_from(distance).map_or(0, |distance| distance.div_ceil(delta));
                usize::try_from(count).ok()
            }

            #[allow(clippy::cast_possible_truncation,
                reason = "a term lies between start and limit, so that it is exact where sums wrap")]
            fn write(start: Self, delta: Self, first: usize, y: &mut [Self]) {
                let mut term = start.wrapping_add(delta.wrapping_mul(first as Self));
                for y in y {
                    *y = term;
                    term = term.wrapping_add(delta);
                }
            }
        }
    )* };
}

macro_rules! float_terms {
    ($($ty:ty),*) => { $(
        impl Term for $ty {
            fn count(start: Self, limit: Self, delta: Self) -> Option<usize> {
                let count = ((limit.to_f64() - start.to_f64()) / delta.to_f64()).ceil();
                // From 2^53 on a count would not be exact, and no memory would hold the terms.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                    reason = "checked, and below zero there are none")]
                (count < 9_007_199_254_740_992.0).then_some(count as usize)
            }

            #[expect(clippy::cast_precision_loss, reason = "a count is below 2^53")]
            fn write(start: Self, delta: Self, first: usize, y: &mut [Self]) {
                let (start, delta) = (start.to_f64(), delta.to_f64());
                for (i, y) in (first..).zip(y) {
                    *y = Number::from_f64(start + i as f64 * delta);
                }
            }
        }
    )* };
}

integer_terms!(i16, i32, i64);
float_terms!(f16, bf16, f32, f64);

fn scalar<T: Element>(x: TensorView<'_>, index: usize) -> Result<T, OpError> {
    let wrong = OpError::InputValue { index, what: "this is not a scalar" };
    x.as_slice::<T>()?.first().copied().filter(|_| x.len() == 1).ok_or(wrong)
}

fn progression<T: Term + Number>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let start = scalar::<T>(inputs.tensor(0)?, 0)?;
    let limit = scalar::<T>(inputs.tensor(1)?, 1)?;
    let delta = match inputs.optional_tensor(2)? {
        Some(delta) => scalar::<T>(delta, 2)?,
        None => T::from_f64(1.0),
    };
    if delta.to_f64() == 0.0 {
        return Err(OpError::InputValue { index: 2, what: "the step is zero" });
    }
    let n = T::count(start, limit, delta).ok_or(OpError::TooLarge)?;
    let y = output.tensor(T::DTYPE, &[n])?.into_slice::<T>()?;
    Ok(by_pieces(y, |first, y| T::write(start, delta, first, y))?)
}

/// How many terms there are, if the inputs are constant.
fn count(inputs: &Facts<'_>, dtype: DType) -> Option<usize> {
    let constant = |i| inputs.get(i).map(|fact| fact.constant.as_ref());
    let (start, limit) = (constant(0)??, constant(1)??);
    let delta = constant(2);
    with_dtype!(dtype, [i16, i32, i64, f16, bf16, f32, f64], T => {
        let delta = match delta {
            Some(delta) => scalar::<T>(delta?.view(), 2).ok()?,
            None => <T as Number>::from_f64(1.0),
        };
        T::count(scalar(start.view(), 0).ok()?, scalar(limit.view(), 1).ok()?, delta)
    }, else => None)
}

impl Operator for Range {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_allowed)?;
        inputs.fact(1)?;
        (1..3).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        let n = count(inputs, dtype).map_or(Dim::Unknown, Dim::Known);
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, [n])]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let dtype = inputs.tensor(0)?.dtype();
        with_dtype!(dtype, [i16, i32, i64, f16, bf16, f32, f64],
            T => progression::<T>(inputs, &mut outputs[0]),
            else => Err(OpError::Unsupported { what: "a range of this element type" }))
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    fn range<T: Element>(start: T, limit: T, delta: T) -> Result<Tensor, String> {
        Case::new("Range", 27).tensor(&[start, limit, delta].map(Tensor::scalar))
    }

    #[test]
    fn terms_end_before_the_limit() {
        let cases: [(i64, i64, i64, &[i64]); 6] = [
            (3, 9, 3, &[3, 6]),
            (10, 4, -2, &[10, 8, 6]),
            (0, 5, 2, &[0, 2, 4]),
            (5, 0, 1, &[]),
            (i64::MAX - 1, i64::MAX, i64::MAX, &[i64::MAX - 1]),
            (i64::MAX, i64::MIN, i64::MIN, &[i64::MAX, -1]),
        ];
        for (start, limit, delta, expected) in cases {
            assert_eq!(range(start, limit, delta), Ok(tensor(&[expected.len()], expected)));
        }
        assert_eq!(range(0.0_f32, 1.0, 0.4), Ok(tensor(&[3], &[0_f32, 0.4, 0.8])));
        let halves = [1.0, 1.5].map(f16::from_f32);
        let (start, limit, delta) = (halves[0], f16::from_f32(2.0), f16::from_f32(0.5));
        assert_eq!(range(start, limit, delta), Ok(tensor(&[2], &halves)));
        assert_eq!(range(i16::MIN, i16::MAX, 1).unwrap().shape(), [65535]);
    }

    #[test]
    fn a_progression_without_end_is_an_error() {
        assert!(range(0, 1, 0).is_err());
        assert!(range(0.0, f32::INFINITY, 1.0).is_err());
        assert!(range(f64::NAN, 1.0, 1.0).is_err());
        assert!(range(i64::MIN, i64::MAX, 1).is_err());
    }

    #[test]
    fn the_step_is_optional_in_com_microsoft() {
        let case = Case::new("Range", 1).domain("com.microsoft");
        let y = case.tensor(&[Tensor::scalar(1_i16), Tensor::scalar(3_i16)]);
        assert_eq!(y, Ok(tensor(&[2], &[1_i16, 2])));
    }
}
