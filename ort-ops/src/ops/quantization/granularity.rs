//! Which scale and zero point belong to which element.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{
    F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, Number, Shape, TensorError, TensorView,
    collected, n_elements, with_dtype,
};

use crate::broadcast::{Operand, zip};
use crate::elementwise::unsupported;
use crate::infer::normalize_axis;

/// The range of one scale: all of the tensor (one scale), a slice along `axis` (as many scales
/// as that has), or `block_size` elements along it (scales of the tensor's rank).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    /// The axis, negative from the back.
    pub axis: i64,
    /// The elements of a block; 0 without blocks.
    pub block_size: usize,
}

/// A scale and its zero point.
pub(super) type Parameter = (f32, f32);

/// A part of a tensor whose parameters broadcast to it.
struct Piece {
    start: usize,
    shape: Shape,
    parameters_start: usize,
    parameters_shape: Shape,
}

impl Granularity {
    pub(super) fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let block_size = spec.int("block_size")?.unwrap_or(0);
        let wrong =
            |_| OpError::AttributeValue { name: "block_size", found: block_size.to_string() };
        Ok(Self {
            axis: spec.int("axis")?.unwrap_or(1),
            block_size: usize::try_from(block_size).map_err(wrong)?,
        })
    }

    /// `y[i] = f(x[i], parameter of i)`; `scale` and `parameters` have equally many elements.
    ///
    /// # Errors
    /// If the shape of `scale` does not fit that of `x`.
    pub(super) fn apply<X, Y>(
        self,
        x: Operand<'_, X>,
        parameters: Operand<'_, Parameter>,
        y: &mut [Y],
        f: impl Fn(&X, &Parameter) -> Y,
    ) -> Result<(), OpError> {
        for piece in self.pieces(x.shape, parameters.shape)? {
            let n = n_elements(&piece.shape).ok_or(OpError::TooLarge)?;
            let m = n_elements(&piece.parameters_shape).ok_or(OpError::TooLarge)?;
            let part = piece.start..piece.start + n;
            let x = Operand { shape: &piece.shape, data: &x.data[part.clone()] };
            let data = &parameters.data[piece.parameters_start..piece.parameters_start + m];
            let parameters = Operand { shape: &piece.parameters_shape, data };
            zip((&piece.shape, &mut y[part]), x, parameters, &f)?;
        }
        Ok(())
    }

    fn pieces(self, x: &[usize], scale: &[usize]) -> Result<Vec<Piece>, OpError> {
        if n_elements(scale) == Some(1) {
            let n = n_elements(x).ok_or(OpError::TooLarge)?;
            return Ok(vec![Piece {
                start: 0,
                shape: Shape::from_slice(&[n]),
                parameters_start: 0,
                parameters_shape: Shape::new(),
            }]);
        }
        let axis = normalize_axis(self.axis, x.len())?;
        let (outer, inner) = (product(&x[..axis])?, product(&x[axis + 1..])?);
        let what = "scales along the axis";
        let wrong = || OpError::Shapes { what, left: x.to_vec(), right: scale.to_vec() };
        if scale.len() == 1 && self.block_size == 0 {
            if scale[0] != x[axis] {
                return Err(wrong());
            }
            return Ok(vec![Piece {
                start: 0,
                shape: Shape::from_slice(&[outer, x[axis], inner]),
                parameters_start: 0,
                parameters_shape: Shape::from_slice(&[x[axis], 1]),
            }]);
        }
        let n_blocks = x[axis].div_ceil(self.block_size.max(1));
        let expected = x.iter().enumerate().map(|(i, &dim)| if i == axis { n_blocks } else { dim });
        if self.block_size == 0 || !expected.eq(scale.iter().copied()) {
            return Err(wrong());
        }
        Ok(self.blocks(outer, x[axis], inner)?)
    }

    /// Whole blocks, and for each index before the axis a shorter last block if needed.
    fn blocks(self, outer: usize, dim: usize, inner: usize) -> Result<Vec<Piece>, TensorError> {
        let size = self.block_size;
        let piece = |index: usize, first: usize, n_blocks: usize, size: usize| Piece {
            start: (index * dim + first * self.block_size) * inner,
            shape: Shape::from_slice(&[n_blocks, size, inner]),
            parameters_start: (index * dim.div_ceil(self.block_size) + first) * inner,
            parameters_shape: Shape::from_slice(&[n_blocks, 1, inner]),
        };
        match (dim / size, dim % size) {
            (n_blocks, 0) => Ok(vec![piece(0, 0, outer * n_blocks, size)]),
            (n_blocks, rest) => collected((0..outer).flat_map(|index| {
                [piece(index, 0, n_blocks, size), piece(index, n_blocks, 1, rest)]
            })),
        }
    }
}

/// Scales with their zero points, 0 where there are none.
///
/// # Errors
/// If their numbers differ.
pub(super) fn parameters(
    scale: TensorView<'_>,
    zero_point: Option<TensorView<'_>>,
) -> Result<Vec<Parameter>, OpError> {
    let scales = floats(1, scale)?;
    let Some(zero_point) = zero_point else {
        return Ok(collected(scales.into_iter().map(|scale| (scale, 0.0)))?);
    };
    if zero_point.len() != scale.len() {
        return Err(OpError::Shapes {
            what: "scale and zero point",
            left: scale.shape().to_vec(),
            right: zero_point.shape().to_vec(),
        });
    }
    Ok(collected(scales.into_iter().zip(floats(2, zero_point)?))?)
}

/// The values of any type of number, each rounded to the nearest `f32`; exact up to 16 bits.
///
/// # Errors
/// If the elements of `x`, which is input `index`, are not numbers.
pub(super) fn floats(index: usize, x: TensorView<'_>) -> Result<Vec<f32>, OpError> {
    let dtype = x.dtype();
    if dtype.is_packed() {
        let quantized = x.unpacked()?;
        return Ok(collected(quantized.iter().map(|&c| dtype.decode_packed(c).unwrap_or(0.0)))?);
    }
    with_dtype!(dtype, [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0],
        T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| x.to_f32()))?),
        else => with_dtype!(dtype, number,
            T => Ok(collected(x.as_slice::<T>()?.iter().map(|&x| to_f32(x)))?),
            else => Err(unsupported(index, dtype))))
}

/// The nearest `f32`.
pub(super) fn to_f32(x: impl Number) -> f32 {
    <f32 as Number>::from_f64(x.to_f64())
}

fn product(dims: &[usize]) -> Result<usize, OpError> {
    n_elements(dims).ok_or(OpError::TooLarge)
}
