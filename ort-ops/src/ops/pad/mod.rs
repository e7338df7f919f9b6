//! Pad: a tensor with a border added to, or removed from, each side.

// collects are bounded: by the rank

mod segments;
#[cfg(test)]
mod tests;

pub use segments::Segment;

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Shape, Tensor, TensorError, TensorView, TensorViewMut, collected,
    row_major_strides, with_dtype,
};

use self::segments::segments;
use crate::infer::{folded, int_values, known_dims, known_shape, normalize_axis, ranked_fact};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef { domain: "", name: "Pad", versions: (1, 25), types: DType::is_any, build: Pad::build },
    OpDef {
        domain: "com.microsoft",
        name: "Pad",
        versions: (1, 1),
        types: DType::is_any,
        build: Pad::build_microsoft,
    },
];

/// Pad: axis `i` gains `pads[i]` entries before and `pads[i + n]` after; negative pads remove entries, before
/// anything is added. The mode determines the new entries.
///
/// The pads are input 1 (an attribute before version 11), the value of the constant mode is
/// input 2 (likewise), and the axes they apply to are input 3 (all axes before version 18).
/// Reflections and repetitions continue if a border is longer than the axis.
///
/// Source: ONNX operator set, Pad-25; com.microsoft, Pad-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// The new entries.
    pub mode: Mode,
    /// The pads, if they are an attribute.
    pub pads: Option<Vec<i64>>,
    /// The value of the constant mode, if it is an attribute.
    pub value: Option<f32>,
}

/// The entries of a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One value; zero, false or the empty string if none is given.
    Constant,
    /// The entries next to the border, in reverse order, without the outermost.
    Reflect,
    /// The outermost entry.
    Edge,
    /// The entries from the other end.
    Wrap,
}

impl Pad {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let version = spec.since_version;
        let mode = mode(spec, version >= 19)?;
        if version >= 11 {
            return Ok(Arc::new(Self { mode, pads: None, value: None }));
        }
        let name = if version == 1 { "paddings" } else { "pads" };
        let pads = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
        let value = spec.float("value")?.unwrap_or(0.0);
        Ok(Arc::new(Self { mode, pads: Some(pads.to_vec()), value: Some(value) }))
    }

    fn build_microsoft(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { mode: mode(spec, true)?, pads: None, value: None }))
    }

    /// The entries of an axis of `n` that remain, and how many are added before and after.
    fn padded(self: &Pad, n: usize, (front, back): (i64, i64)) -> Result<Padded, OpError> {
        let wrong = |what| OpError::InputValue { index: 1, what };
        let added = |pad: i64| usize::try_from(pad.max(0)).map_err(|_| OpError::TooLarge);
        let cut = |pad: i64| usize::try_from(pad.min(0).unsigned_abs()).unwrap_or(usize::MAX);
        let (start, cut_back) = (cut(front), cut(back));
        let end = n.checked_sub(cut_back).filter(|&end| start <= end);
        let end = end.ok_or(wrong("more is removed from an axis than it has"))?;
        let padded = Padded { start, end, front: added(front)?, back: added(back)? };
        if self.mode != Mode::Constant && start == end && padded.front + padded.back > 0 {
            return Err(wrong("an empty axis has no entries for a border"));
        }
        Ok(padded)
    }

    /// The pads of each axis of a tensor of this rank.
    fn per_axis(
        pads: &[i64],
        axes: Option<&[i64]>,
        rank: usize,
    ) -> Result<Vec<(i64, i64)>, OpError> {
        let n_axes = axes.map_or(rank, <[i64]>::len);
        let (front, back) = pads.split_at_checked(n_axes).ok_or(wrong_count())?;
        if back.len() != n_axes {
            return Err(wrong_count());
        }
        let Some(axes) = axes else {
            return Ok(front.iter().copied().zip(back.iter().copied()).collect());
        };
        // bounded: by the rank
        let mut per_axis = vec![(0, 0); rank];
        for ((&axis, &front), &back) in axes.iter().zip(front).zip(back) {
            per_axis[normalize_axis(axis, rank)?] = (front, back);
        }
        Ok(per_axis)
    }

    fn dims(&self, x: &[Dim], pads: &[(i64, i64)]) -> Result<Dims, OpError> {
        let padded = |(dim, &pads): (&Dim, &(i64, i64))| match (dim, pads) {
            (dim, (0, 0)) => Ok(dim.clone()),
            (Dim::Known(n), pads) => {
                Ok(self.padded(*n, pads)?.len().map_or(Dim::Unknown, Dim::Known))
            }
            _ => Ok(Dim::Unknown),
        };
        x.iter().zip(pads).map(padded).collect()
    }

    /// The layout of a padded tensor of shape `x`, where `pads` are for `axes`, or for all.
    ///
    /// # Errors
    /// If there are not twice as many pads as axes, or they do not fit.
    pub fn layout(
        &self,
        x: &[usize],
        pads: &[i64],
        axes: Option<&[i64]>,
    ) -> Result<Layout, OpError> {
        let pads = Self::per_axis(pads, axes, x.len())?;
        let shape = known_shape(&self.dims(&known_dims(x), &pads)?)?;
        let mut segments_of = Vec::new();
        if !shape.contains(&0) {
            for (&n, &pads) in x.iter().zip(&pads) {
                segments_of.push(segments(self.mode, self.padded(n, pads)?)?);
            }
        }
        Ok(Layout { shape, segments: segments_of })
    }

    /// The value of the constant mode, a tensor of one element.
    ///
    /// # Errors
    /// If input 2 is present without exactly one element.
    pub fn fill(&self, dtype: DType, inputs: Inputs<'_>) -> Result<Tensor, OpError> {
        if let Some(value) = inputs.optional_tensor(2)? {
            let what = "the value is not a scalar";
            let is_scalar = value.len() == 1;
            return if is_scalar {
                Ok(value.to_tensor()?)
            } else {
                Err(OpError::InputValue { index: 2, what })
            };
        }
        let value = f64::from(self.value.unwrap_or(0.0));
        Ok(
            with_dtype!(dtype, float, T => Tensor::scalar(<T as ort_tensor::Number>::from_f64(value)),
            else => Tensor::zeros(dtype, &[])?),
        )
    }
}

const fn wrong_count() -> OpError {
    OpError::InputValue { index: 1, what: "there are not twice as many pads as axes" }
}

fn mode(spec: &NodeSpec<'_>, may_wrap: bool) -> Result<Mode, OpError> {
    match spec.string("mode")? {
        None | Some("constant") => Ok(Mode::Constant),
        Some("reflect") => Ok(Mode::Reflect),
        Some("edge") => Ok(Mode::Edge),
        Some("wrap") if may_wrap => Ok(Mode::Wrap),
        Some(other) => Err(OpError::AttributeValue { name: "mode", found: other.to_owned() }),
    }
}

/// A padded tensor.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Its shape.
    pub shape: Shape,
    /// The segments of each axis; empty for a tensor without elements.
    pub segments: Vec<Vec<Segment>>,
}

/// One axis: the entries `start..end` remain, between borders of `front` and `back`.
#[derive(Clone, Copy, Debug)]
struct Padded {
    start: usize,
    end: usize,
    front: usize,
    back: usize,
}

impl Padded {
    /// The length of the padded axis; `None` on overflow.
    fn len(self) -> Option<usize> {
        (self.end - self.start).checked_add(self.front)?.checked_add(self.back)
    }
}

impl Operator for Pad {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.expect_dtype(1, DType::I64)?;
        inputs.expect_dtype(2, dtype)?;
        if inputs.get(3).is_some() {
            inputs.dtype(3, DType::is_index)?;
        }
        let x = inputs.fact(0)?;
        let pads = match &self.pads {
            Some(pads) => Some(pads.clone()),
            None => inputs.fact(1)?.ints(),
        };
        // With unknown axes, only the rank is known.
        let axes = inputs.get(3).map_or(Some(None), |axes| axes.ints().map(Some));
        let (Some(x), Some(pads), Some(axes)) = (x.dims(), pads, axes) else {
            return Ok(vec![ranked_fact(dtype, x.rank())]);
        };
        let dims = self.dims(x, &Self::per_axis(&pads, axes.as_deref(), x.len())?)?;
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let pads = match &self.pads {
            Some(pads) => pads.clone(),
            None => int_values(inputs.tensor(1)?)?,
        };
        let axes = inputs.optional_tensor(3)?.map(int_values).transpose()?;
        let Layout { shape, segments: mut segments_of } =
            self.layout(x.shape(), &pads, axes.as_deref())?;
        let mut y = outputs[0].tensor(x.dtype(), &shape)?;
        if shape.contains(&0) {
            return Ok(());
        }
        cut(&mut segments_of, &shape)?;
        let value = match self.mode {
            Mode::Constant => self.fill(x.dtype(), inputs)?,
            _ => Tensor::zeros(x.dtype(), &[])?,
        };
        let pieces = Pieces {
            x,
            strides: row_major_strides(x.shape()),
            value: value.view(),
            segments: &segments_of,
        };
        let mut piece = Piece {
            shape: Shape::new(),
            from: Strided::new(0, &[]),
            to: Strided::row_major(&shape),
            is_value: false,
        };
        Ok(pieces.copy(&mut piece, &mut y)?)
    }
}

/// The elements of the output that are written for several segments of inner axes: few enough to stay in the cache.
const N_BLOCK: usize = 1 << 14;

/// Cuts segments around axes of several segments into parts, each finished before the next.
fn cut(segments: &mut [Vec<Segment>], shape: &[usize]) -> Result<(), TensorError> {
    let mut inner: usize = 1;
    let mut has_several = false;
    for (on_axis, &n) in segments.iter_mut().zip(shape).rev() {
        let most = (N_BLOCK / inner).max(1);
        if has_several {
            *on_axis = collected(on_axis.iter().flat_map(|segment| segment.parts(most)))?;
        }
        has_several |= on_axis.len() > 1;
        inner = inner.saturating_mul(n).max(1);
    }
    Ok(())
}

/// A box of the output copied from a box of the input, or filled with the value: the axes so far.
struct Piece {
    shape: Shape,
    from: Strided,
    to: Strided,
    is_value: bool,
}

/// The sources of the output.
struct Pieces<'a> {
    x: TensorView<'a>,
    strides: Shape,
    value: TensorView<'a>,
    segments: &'a [Vec<Segment>],
}

impl Pieces<'_> {
    /// Copies every combination of segments of the axes that `piece` lacks.
    fn copy(&self, piece: &mut Piece, y: &mut TensorViewMut<'_>) -> Result<(), TensorError> {
        let axis = piece.shape.len();
        let Some(segments) = self.segments.get(axis) else {
            let Piece { shape, from, to, is_value } = piece;
            if *is_value {
                // bounded: by the rank
                let everywhere = Strided::new(0, &Shape::from_elem(0, shape.len()));
                return strided::copy(shape, self.value, &everywhere, y.reborrow(), to);
            }
            return strided::copy(shape, self.x, from, y.reborrow(), to);
        };
        let (from_stride, to_stride) = (self.strides[axis], piece.to.strides[axis].unsigned_abs());
        let (from, to, is_value) = (piece.from.offset, piece.to.offset, piece.is_value);
        for segment in segments {
            piece.shape.push(segment.n);
            piece.from.strides.push(segment.step * from_stride.cast_signed());
            piece.from.offset = from + segment.from * from_stride;
            piece.to.offset = to + segment.to * to_stride;
            piece.is_value = is_value || segment.is_value;
            self.copy(piece, y)?;
            piece.shape.pop();
            piece.from.strides.pop();
        }
        (piece.from.offset, piece.to.offset, piece.is_value) = (from, to, is_value);
        Ok(())
    }
}
