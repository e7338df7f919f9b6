//! Element-wise operations on quantized tensors.

use ort_ep::{KernelError, Threads};
use ort_kernels::Isa;
use ort_kernels::quantize::range;
use ort_tensor::{DType, Inputs, TensorView, bf16, f16};

use crate::cpu::{Team, n_parts};

/// The cost of an element, in multiply-adds.
const COST: usize = 4;

/// Scale and zero point of a whole tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheme {
    pub(crate) scale: f32,
    pub(crate) zero: f32,
}

impl Scheme {
    /// The scheme in which uint8 covers the range of `x` and 0; NaN is ignored.
    /// If all elements are 0, or there are none, the scale is 1.
    pub(crate) fn of_floats(isa: Isa, x: &[f32]) -> Self {
        let (least, largest) = range(isa, x);
        let scale = if least == largest { 1.0 } else { (largest - least) / 255.0 };
        Self { scale, zero: (-least / scale).clamp(0.0, 255.0).round_ties_even() }
    }

    /// The scale at `index`, and the zero point after it, 0 if it is absent.
    pub(crate) fn read(inputs: Inputs<'_>, index: usize) -> Result<Self, KernelError> {
        let scale = scale_at(inputs.tensor(index)?, 0)?;
        let zero = match inputs.optional_tensor(index + 1)? {
            None => Some(0.0),
            Some(zero) if zero.dtype() == DType::I8 => {
                zero.as_slice::<i8>()?.first().map(|&zero| f32::from(zero))
            }
            Some(zero) => zero.as_slice::<u8>()?.first().map(|&zero| f32::from(zero)),
        };
        Ok(Self { scale, zero: zero.ok_or(KernelError::ForeignState)? })
    }
}

/// Whether [`scale_at`] supports scales of this type.
pub(crate) fn is_scale(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// Scale `i` of a tensor of f32 or 16-bit scales.
pub(crate) fn scale_at(scales: TensorView<'_>, i: usize) -> Result<f32, KernelError> {
    let scale = match scales.dtype() {
        DType::F16 => scales.as_slice::<f16>()?.get(i).copied().map(f32::from),
        DType::Bf16 => scales.as_slice::<bf16>()?.get(i).copied().map(f32::from),
        _ => scales.as_slice::<f32>()?.get(i).copied(),
    };
    scale.ok_or(KernelError::ForeignState)
}

/// `factors[j] = factor · scale j` of a tensor of f32 or 16-bit scales: one for all, or one for each.
pub(crate) fn scaled_factors(
    scales: TensorView<'_>,
    factor: f32,
    factors: &mut [f32],
) -> Result<(), KernelError> {
    match scales.dtype() {
        DType::F16 => scaled(scales.as_slice::<f16>()?, factor, factors),
        DType::Bf16 => scaled(scales.as_slice::<bf16>()?, factor, factors),
        _ => scaled(scales.as_slice::<f32>()?, factor, factors),
    }
}

/// [`scaled_factors`] of a type.
fn scaled<T: Copy>(scales: &[T], factor: f32, factors: &mut [f32]) -> Result<(), KernelError>
where
    f32: From<T>,
{
    if let &[scale] = scales {
        factors.fill(f32::from(scale) * factor);
        return Ok(());
    }
    let scales = scales.get(..factors.len()).ok_or(KernelError::ForeignState)?;
    factors.iter_mut().zip(scales).for_each(|(to, &scale)| *to = f32::from(scale) * factor);
    Ok(())
}

/// Operands that can be split alike.
pub(crate) trait Cut: Sized {
    /// The first `n` elements of each, and the rest.
    fn cut(self, n: usize) -> (Self, Self);
}

impl<T> Cut for &[T] {
    fn cut(self, n: usize) -> (Self, Self) {
        self.split_at(n)
    }
}

impl<A: Cut, B: Cut> Cut for (A, B) {
    fn cut(self, n: usize) -> (Self, Self) {
        let ((a, rest_a), (b, rest_b)) = (self.0.cut(n), self.1.cut(n));
        ((a, b), (rest_a, rest_b))
    }
}

/// Calls `f` with pieces of the operands and of `y`, all of the same length, on any thread.
pub(crate) fn in_pieces<X: Cut + Send, Y: Send>(
    threads: &dyn Threads,
    (x, y): (X, &mut [Y]),
    f: impl Fn(X, &mut [Y]) + Sync,
) {
    let n_parts = n_parts(threads, y.len().saturating_mul(COST));
    let piece = y.len().div_ceil(n_parts).next_multiple_of(64).max(64);
    let team = Team::new(threads, y.len().div_ceil(piece));
    let mut rest = Some(x);
    let pieces = y.chunks_mut(piece).filter_map(move |y| {
        let (x, others) = rest.take()?.cut(y.len());
        rest = Some(others);
        Some((x, y))
    });
    team.run(pieces, |(x, y), _| f(x, y));
}
