//! Common pairs of element types, in loops that vectorise.

use half::slice::HalfFloatSliceExt;
use ort_graph::OpError;
use ort_tensor::{
    Bool, DType, Element, TensorView, TensorViewMut, bf16, by_pieces, f16, with_dtype,
};

use super::wide::Small;
use crate::elementwise::unsupported;

/// Elements converted through f32 at a time: 4 KiB, which stay in the L1 cache.
const CHUNK: usize = 1024;

/// Whether [`convert`] supports the pair.
pub(super) fn is_known(from: DType, to: DType) -> bool {
    use DType::{Bf16, Bool, F16, F32, I8, I16, I32, I64, U8, U16, U32};
    let is_integer = |dtype| matches!(dtype, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32);
    match (from, to) {
        (F16 | Bf16, F32) | (F32, F16 | Bf16) => true,
        (F32 | F16, _) => is_integer(to),
        (_, F16) => is_integer(from),
        _ => false,
    }
}

/// `y[i] = x[i]`, equal to widening and narrowing each element.
pub(super) fn convert(x: TensorView<'_>, y: TensorViewMut<'_>) -> Result<(), OpError> {
    let (from, to) = (x.dtype(), y.dtype());
    match (from, to) {
        (DType::F16, DType::F32) => each(x, y, |x: &[f16], y| x.convert_to_f32_slice(y)),
        (DType::Bf16, DType::F32) => each(x, y, |x: &[bf16], y| x.convert_to_f32_slice(y)),
        (DType::F32, DType::F16) => each(x, y, |x, y: &mut [f16]| y.convert_from_f32_slice(x)),
        (DType::F32, DType::Bf16) => each(x, y, |x, y: &mut [bf16]| y.convert_from_f32_slice(x)),
        (_, DType::F16) => with_dtype!(from, [Bool, i8, i16, i32, i64, u8, u16, u32],
            T => each(x, y, to_half::<T>), else => Err(unsupported(0, from))),
        (DType::F16, _) => with_dtype!(to, [Bool, i8, i16, i32, i64, u8, u16, u32],
            T => each(x, y, from_half::<T>), else => Err(unsupported(0, to))),
        _ => with_dtype!(to, [Bool, i8, i16, i32, i64, u8, u16, u32],
            T => each(x, y, from_f32::<T>), else => Err(unsupported(0, to))),
    }
}

/// Converts one piece after the other.
fn each<X: Element, Y: Element>(
    x: TensorView<'_>,
    y: TensorViewMut<'_>,
    f: impl Fn(&[X], &mut [Y]),
) -> Result<(), OpError> {
    let x = x.as_slice::<X>()?;
    Ok(by_pieces(y.into_slice::<Y>()?, |start, y| f(&x[start..][..y.len()], y))?)
}

fn from_f32<T: Small>(x: &[f32], y: &mut [T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = T::of_f32(*x);
    }
}

fn from_half<T: Small>(x: &[f16], y: &mut [T]) {
    let mut wide = [0.0_f32; CHUNK];
    for (x, y) in x.chunks(CHUNK).zip(y.chunks_mut(CHUNK)) {
        x.convert_to_f32_slice(&mut wide[..x.len()]);
        from_f32(&wide[..x.len()], y);
    }
}

/// f16 is exact up to 2¹¹ and infinite beyond 2¹⁶, f32 exact up to 2²⁴: nothing is rounded twice.
fn to_half<T: Small>(x: &[T], y: &mut [f16]) {
    let mut wide = [0.0_f32; CHUNK];
    for (x, y) in x.chunks(CHUNK).zip(y.chunks_mut(CHUNK)) {
        for (wide, x) in wide.iter_mut().zip(x) {
            *wide = x.to_f32();
        }
        y.convert_from_f32_slice(&wide[..x.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::convert::{convert, one_by_one};
    use super::super::narrow::{Narrowing, RoundMode};
    use super::is_known;
    use ort_tensor::{DType, Tensor, f16};

    /// Every f16, more than once: whole chunks and a partial one.
    fn halves() -> Tensor {
        let all: Vec<f16> = (0..=u16::MAX).chain(0..77).map(f16::from_bits).collect();
        Tensor::from_slice(&[all.len()], &all).unwrap()
    }

    /// Floats of all signs and exponents, and those around the limits of integer types.
    fn floats() -> Tensor {
        let sweep = (0..=u32::MAX).step_by(100_003).map(f32::from_bits);
        let ends = [7, 8, 15, 16, 31, 32, 63, 64].map(|n| 2_f32.powi(n));
        let around = ends.iter().flat_map(|&end| [-1.0, -0.5, 0.0, 0.5, 1.0].map(|by| end + by));
        let all: Vec<f32> = sweep.chain(around.flat_map(|x| [x, -x])).collect();
        Tensor::from_slice(&[all.len()], &all).unwrap()
    }

    #[test]
    fn pairs_give_what_their_elements_give_one_by_one() {
        let cast = |x: &Tensor, to: DType, is_quick: bool| {
            let mut y = Tensor::zeros(to, x.shape()).unwrap();
            let narrowing = Narrowing { saturate: true, round_mode: RoundMode::Up };
            match is_quick {
                true => convert(x.view(), y.view_mut(), narrowing).unwrap(),
                false => one_by_one(x.view(), y.view_mut(), narrowing).unwrap(),
            }
            y
        };
        let mut known = 0;
        for &from in DType::ALL {
            for &to in DType::ALL.iter().filter(|&&to| is_known(from, to)) {
                known += 1;
                let start = if from == DType::F16 { halves() } else { floats() };
                let x = cast(&start, from, false);
                let (found, expected) = (cast(&x, to, true), cast(&x, to, false));
                if to.is_float() {
                    let plain = |x: &Tensor| cast(x, DType::F64, false);
                    let (found, expected) = (plain(&found), plain(&expected));
                    let pairs = found
                        .as_slice::<f64>()
                        .unwrap()
                        .iter()
                        .zip(expected.as_slice::<f64>().unwrap());
                    for (found, expected) in pairs {
                        let is_same = found.to_bits() == expected.to_bits();
                        assert!(
                            is_same || found.is_nan() && expected.is_nan(),
                            "{from} to {to}: {found} for {expected}"
                        );
                    }
                } else {
                    assert_eq!(found, expected, "{from} to {to}");
                }
            }
        }
        assert_eq!(known, 4 + 2 * 8 + 8);
    }
}
