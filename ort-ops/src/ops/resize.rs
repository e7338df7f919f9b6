//! Resize and Upsample: each axis is resampled, one after the other.

// collects are bounded: by the rank

mod attrs;
mod axis;
mod sample;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, TensorView, collected, with_dtype};

use self::attrs::read;
use self::axis::AxisPlan;
use crate::infer::normalize_axis;

pub use self::attrs::{AspectRatio, Coordinates, NearestMode, ResizeMode};
pub use self::axis::Table;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Resize",
        versions: (10, 19),
        types: DType::is_any,
        build: Resize::build,
    },
    OpDef {
        domain: "",
        name: "Upsample",
        versions: (1, 10),
        types: DType::is_any,
        build: Resize::build_upsample,
    },
];

/// Resize: `y[…, o, …] = Σ weight(o, i) · x[…, i, …]` along each axis that changes its size.
///
/// `x`: any type for nearest, a number type otherwise. An axis gets `⌊n · scale⌋` elements
/// (computed in float32), or the number in `sizes`. The position of an output element in the input is computed in
/// float32, too, so that ties fall as in ONNX Runtime; sums are float64 and rounded once. Beyond the border the
/// border's element is used, unless `excludes_outside` drops its weight. Integers are truncated by plain linear
/// sampling (as in ONNX Runtime), and otherwise rounded half to even; both saturate.
///
/// Up to version 10, and in Upsample, coordinates are asymmetric, and nearest is the floor when
/// an axis grows and the ceiling when it shrinks.
///
/// Source: ONNX operator set, Resize-19 and Upsample-10. With aligned corners the length is the
/// fractional `n · scale`, as in the standard's own cases; ONNX Runtime uses the integer.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The interpolation.
    pub mode: ResizeMode,
    /// The mapping of output to input coordinates.
    pub coordinates: Coordinates,
    /// The axes that `roi`, `scales` and `sizes` are for; all by default.
    pub axes: Option<Vec<i64>>,
    /// Whether the filter is widened when an axis shrinks.
    pub has_antialias: bool,
    /// Whether elements beyond the border have no weight.
    pub excludes_outside: bool,
    /// The value of elements outside the region of interest.
    pub extrapolation_value: f32,
    /// The interpretation of `sizes`.
    pub aspect_ratio: AspectRatio,
    /// The source of the scales.
    scales: Scales,
}

/// The source of the scales.
#[derive(Clone, Debug, PartialEq)]
enum Scales {
    /// An attribute of Upsample.
    Attribute(Vec<f32>),
    /// Input 1.
    Second,
    /// Input 2, or sizes in input 3; input 1 is the region of interest.
    Third,
}

/// The interpolation of a result.
#[derive(Debug)]
pub struct Sampling {
    /// The shape of the result.
    pub shape: Shape,
    /// For each axis; `None` where it does not change, or the result is empty.
    pub tables: Vec<Option<Table>>,
}

/// What determines the size of the result.
#[derive(Clone, Debug)]
enum Target {
    Scales(Vec<f32>),
    Sizes(Vec<i64>),
}

impl Resize {
    /// Every axis by its own scale.
    pub(crate) fn by(scales: Vec<f32>, mode: ResizeMode, coordinates: Coordinates) -> Self {
        Self {
            mode,
            coordinates,
            axes: None,
            has_antialias: false,
            excludes_outside: false,
            extrapolation_value: 0.0,
            aspect_ratio: AspectRatio::Stretch,
            scales: Scales::Attribute(scales),
        }
    }

    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let scales = if spec.since_version < 11 { Scales::Second } else { Scales::Third };
        Ok(Arc::new(read(spec, scales)?))
    }

    fn build_upsample(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let missing = |name| OpError::MissingAttribute { name };
        let scales = match spec.since_version {
            ..7 => {
                let height = spec.float("height_scale")?.ok_or(missing("height_scale"))?;
                let width = spec.float("width_scale")?.ok_or(missing("width_scale"))?;
                Scales::Attribute(vec![1.0, 1.0, height, width])
            }
            7..9 => Scales::Attribute(spec.floats("scales")?.ok_or(missing("scales"))?.to_vec()),
            _ => Scales::Second,
        };
        Ok(Arc::new(read(spec, scales)?))
    }

    /// The interpolation of the result for an `x` of this shape; the elements of input 0 do not matter.
    ///
    /// # Errors
    /// If scales, sizes or regions do not fit, or an empty axis would be enlarged.
    pub fn sampling(&self, x: &[usize], inputs: Inputs<'_>) -> Result<Sampling, OpError> {
        let roi = self.roi(inputs)?;
        let plans = self.plan(x, &self.target(inputs)?, roi.as_deref())?;
        let shape: Shape = plans.iter().map(|plan| plan.n_outputs).collect();
        if shape.contains(&0) {
            return Ok(Sampling { shape, tables: plans.iter().map(|_| None).collect() });
        }
        if x.contains(&0) {
            return Err(OpError::InputValue { index: 0, what: "an empty axis cannot be enlarged" });
        }
        let tables = plans.iter().map(|plan| plan.table(self));
        Ok(Sampling { shape, tables: tables.collect::<Result<_, _>>()? })
    }

    /// The axes that are resized, counted from the front, in the order of the scales.
    fn axes(&self, rank: usize) -> Result<Vec<usize>, OpError> {
        let Some(axes) = &self.axes else { return Ok((0..rank).collect()) };
        // bounded: by the rank
        let mut found = Vec::with_capacity(axes.len());
        for &axis in axes {
            let axis = normalize_axis(axis, rank)?;
            if found.contains(&axis) {
                return Err(OpError::Unsupported { what: "a repeated axis" });
            }
            found.push(axis);
        }
        Ok(found)
    }

    /// The sizes, scales and regions of all axes of an input of this shape.
    fn plan(
        &self,
        x: &[usize],
        target: &Target,
        roi: Option<&[f64]>,
    ) -> Result<Vec<AxisPlan>, OpError> {
        let axes = self.axes(x.len())?;
        let mut plans: Vec<AxisPlan> = x.iter().map(|&n| AxisPlan::unchanged(n)).collect();
        let n_given = target.len();
        if n_given != axes.len() || roi.is_some_and(|roi| roi.len() != 2 * axes.len()) {
            let (left, right) = (vec![n_given], vec![axes.len()]);
            return Err(OpError::Shapes { what: "scales, sizes or roi and axes", left, right });
        }
        match target {
            Target::Scales(scales) => {
                for (&axis, &scale) in axes.iter().zip(scales) {
                    plans[axis] = AxisPlan::scaled(x[axis], scale)?;
                }
            }
            Target::Sizes(sizes) => {
                let common = self.aspect_ratio.scale(axes.iter().map(|&axis| x[axis]).zip(sizes));
                for (&axis, &size) in axes.iter().zip(sizes) {
                    plans[axis] = AxisPlan::sized(x[axis], size, common)?;
                }
            }
        }
        if let Some(roi) = roi {
            for (i, &axis) in axes.iter().enumerate() {
                plans[axis].region = (roi[i], roi[i + axes.len()]);
            }
        }
        Ok(plans)
    }

    /// The dimensions where the shape of the input is not all known.
    fn partial_dims(&self, dims: &[Dim], target: &Target) -> Result<Dims, OpError> {
        let axes = self.axes(dims.len())?;
        let mut result: Dims = dims.iter().cloned().collect();
        for (i, &axis) in axes.iter().enumerate() {
            result[axis] = match target {
                Target::Scales(scales) => match (scales.get(i), &dims[axis]) {
                    (Some(1.0), dim) => dim.clone(),
                    (Some(&scale), Dim::Known(n)) => AxisPlan::scaled(*n, scale)?.n_outputs.into(),
                    _ => Dim::Unknown,
                },
                Target::Sizes(sizes) if self.aspect_ratio == AspectRatio::Stretch => {
                    let size = sizes.get(i).and_then(|&size| usize::try_from(size).ok());
                    size.map_or(Dim::Unknown, Dim::Known)
                }
                Target::Sizes(_) => Dim::Unknown,
            };
        }
        Ok(result)
    }

    fn constant_target(&self, inputs: &Facts<'_>) -> Option<Target> {
        let floats = |index: usize| {
            let constant = inputs.get(index)?.constant.as_ref()?;
            collected(constant.as_slice::<f32>().ok()?.iter().copied()).ok()
        };
        match &self.scales {
            Scales::Attribute(scales) => Some(Target::Scales(scales.clone())),
            Scales::Second => floats(1).map(Target::Scales),
            Scales::Third => {
                let scales = floats(2).filter(|scales| !scales.is_empty()).map(Target::Scales);
                let sizes = || inputs.get(3).and_then(Fact::ints).map(Target::Sizes);
                scales.or_else(sizes)
            }
        }
    }

    fn target(&self, inputs: Inputs<'_>) -> Result<Target, OpError> {
        let scales = match &self.scales {
            Scales::Attribute(scales) => return Ok(Target::Scales(scales.clone())),
            Scales::Second => Some(inputs.tensor(1)?),
            Scales::Third => inputs.optional_tensor(2)?,
        };
        if let Some(scales) = scales.filter(|scales| !scales.is_empty()) {
            return Ok(Target::Scales(collected(scales.as_slice::<f32>()?.iter().copied())?));
        }
        let missing = OpError::InputValue { index: 2, what: "neither scales nor sizes are given" };
        let sizes = inputs.optional_tensor(3)?.ok_or(missing)?;
        Ok(Target::Sizes(collected(sizes.as_slice::<i64>()?.iter().copied())?))
    }

    fn roi(&self, inputs: Inputs<'_>) -> Result<Option<Vec<f64>>, OpError> {
        if self.coordinates != Coordinates::TfCropAndResize {
            return Ok(None);
        }
        let roi: TensorView<'_> = inputs.tensor(1)?;
        with_dtype!(roi.dtype(), float, T => {
            let roi = roi.as_slice::<T>()?;
            Ok(Some(collected(roi.iter().map(|&x| ort_tensor::Number::to_f64(x)))?))
        }, else => Err(OpError::InputValue { index: 1, what: "the region is not a float" }))
    }
}

impl Target {
    fn len(&self) -> usize {
        match self {
            Target::Scales(scales) => scales.len(),
            Target::Sizes(sizes) => sizes.len(),
        }
    }
}

impl Operator for Resize {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let is_nearest = matches!(self.mode, ResizeMode::Nearest(_));
        let dtype = inputs.dtype(0, if is_nearest { DType::is_any } else { DType::is_number })?;
        match self.scales {
            Scales::Attribute(_) => {}
            Scales::Second => inputs.expect_dtype(1, DType::F32)?,
            Scales::Third => {
                inputs.expect_dtype(2, DType::F32)?;
                inputs.expect_dtype(3, DType::I64)?;
            }
        }
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let fact = match (self.constant_target(inputs), inputs.fact(0)?.shape()) {
            (Some(target), Some(shape)) => {
                let plans = self.plan(&shape, &target, None)?;
                let shape: Shape = plans.iter().map(|plan| plan.n_outputs).collect();
                Fact::shaped(dtype, &shape)
            }
            (Some(target), None) => Fact::tensor(dtype, self.partial_dims(dims, &target)?),
            (None, _) => {
                let mut unknown: Dims = dims.iter().cloned().collect();
                for axis in self.axes(dims.len())? {
                    unknown[axis] = Dim::Unknown;
                }
                Fact::tensor(dtype, unknown)
            }
        };
        Ok(vec![fact])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let Sampling { shape, tables } = self.sampling(x.shape(), inputs)?;
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        if shape.contains(&0) {
            return Ok(());
        }
        if matches!(self.mode, ResizeMode::Nearest(_)) {
            return sample::pick(x, y, &tables, self.extrapolation_value);
        }
        let cuts = self.mode == ResizeMode::Linear && !self.has_antialias;
        with_dtype!(x.dtype(), number, T => {
            let sums = sample::blend(x, &tables, self.extrapolation_value)?;
            for (y, sum) in y.into_slice::<T>()?.iter_mut().zip(sums) {
                let is_integer = <T as ort_tensor::Element>::DTYPE.is_integer();
                let whole = if cuts { sum.trunc() } else { sum.round_ties_even() };
                *y = ort_tensor::Number::from_f64(if is_integer { whole } else { sum });
            }
            Ok(())
        }, else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }
}
