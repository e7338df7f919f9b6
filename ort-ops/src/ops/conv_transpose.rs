//! ConvTranspose: `y[n, m, p·stride + k·dilation − pad] += w[c, m, k]·x[n, c, p]`, plus `b[m]`.

// collects are bounded: by the rank, or into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Room, Shape, TensorError, go_on, n_elements, with_dtype,
};

use crate::accumulate::{Accumulate, Sum, multiply_add, zeros};
use crate::infer::{AutoPad, PADDING, Window, WindowAttrs, known_or_one, known_or_zero, read_axes};
use crate::ops::conv::{expect_channels, read_group, widened};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ConvTranspose",
    versions: (1, 22),
    types: DType::is_float,
    build: ConvTranspose::build,
}];

/// ConvTranspose: the gradient of a convolution by its input. `x`: `[N, C, D₁, …]`, `w`:
/// `[C, M/group, K₁, …]`, `b`: absent or `[M]`; all of one float type. Elements in the padding are dropped.
///
/// An axis has `(n − 1)·stride + (kernel − 1)·dilation + 1 + output_padding − pads` elements, or
/// `output_shape`, or `n·stride` with SAME padding; in the latter two cases the padding follows,
/// and is never negative.
///
/// Source: ONNX operator set, ConvTranspose-22.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The placement of the windows, over the output.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
    /// Elements added at the end of each axis.
    pub output_padding: Option<Shape>,
    /// The spatial shape of the output.
    pub output_shape: Option<Shape>,
}

impl ConvTranspose {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let output_shape = read_axes(spec, "output_shape", 0)?;
        Ok(Arc::new(Self { output_shape, ..Self::with_dynamic_pads(spec)? }))
    }

    /// The same without pads, which are an input in that case, and without an output shape.
    pub(crate) fn with_dynamic_pads(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(Self {
            window: WindowAttrs::read(spec)?,
            group: read_group(spec)?,
            output_padding: read_axes(spec, "output_padding", 0)?,
            output_shape: None,
        })
    }

    /// The windows for an input of this spatial shape: [`Window::input`] is the spatial shape of
    /// the result, [`Window::output`] that of the input.
    ///
    /// # Errors
    /// If an attribute is for another number of axes, or the result would have a negative size.
    pub fn window(&self, x: &[usize], kernel: &[usize]) -> Result<Window, OpError> {
        let mut window = self.unplaced(x.len(), kernel)?;
        window.output = Shape::from_slice(x);
        for (axis, &n) in x.iter().enumerate() {
            self.place(&mut window, axis, n)?;
        }
        Ok(window)
    }

    /// A window with all that does not depend on the input.
    fn unplaced(&self, rank: usize, kernel: &[usize]) -> Result<Window, OpError> {
        let window = self.window.unplaced(kernel)?;
        for given in [&self.output_padding, &self.output_shape].into_iter().flatten() {
            if given.len() != rank {
                let what = "attributes of ConvTranspose";
                return Err(OpError::Shapes { what, left: given.to_vec(), right: vec![rank] });
            }
        }
        if kernel.len() != rank {
            let (left, right) = (kernel.to_vec(), vec![rank]);
            return Err(OpError::Shapes { what: "axes of kernel and input", left, right });
        }
        Ok(window)
    }

    /// Sets the size of the result and the padding of one axis with `n` elements.
    fn place(&self, window: &mut Window, axis: usize, n: usize) -> Result<(), OpError> {
        let added = self.output_padding.as_ref().map_or(0, |added| added[axis]);
        let stride = window.strides[axis];
        let full = n.saturating_sub(1).checked_mul(stride);
        let full = full.and_then(|full| full.checked_add(window.extent(axis).ok()?));
        let full = full.and_then(|full| full.checked_add(added)?.checked_add(1));
        let full = full.ok_or(OpError::TooLarge)?;
        let is_same = matches!(self.window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let given = match &self.output_shape {
            Some(shape) => Some(shape[axis]),
            None if is_same => Some(n.checked_mul(stride).ok_or(OpError::TooLarge)?),
            None => None,
        };
        if let Some(given) = given {
            let padding = full.saturating_sub(given);
            let (less, more) = (padding / 2, padding - padding / 2);
            let is_upper = self.window.auto_pad == AutoPad::SameUpper;
            let (begin, end) = if is_upper { (less, more) } else { (more, less) };
            window.input[axis] = given;
            (window.pads_begin[axis], window.pads_end[axis]) = (begin, end);
            return Ok(());
        }
        if self.window.auto_pad == AutoPad::Valid {
            (window.pads_begin[axis], window.pads_end[axis]) = (0, 0);
        }
        let padding = [window.pads_begin[axis], window.pads_end[axis]];
        let rest = full.checked_sub(padding[0]).and_then(|rest| rest.checked_sub(padding[1]));
        window.input[axis] = rest.ok_or(OpError::Shapes {
            what: "result and padding",
            left: vec![full],
            right: padding.to_vec(),
        })?;
        Ok(())
    }

    fn output_dims(&self, x: &[Dim], kernel: &[Dim]) -> Result<Dims, OpError> {
        let kernel = self.window.kernel_dims(kernel);
        let mut window = self.unplaced(x.len(), &known_or_one(&kernel))?;
        let mut dims = Dims::new();
        for axis in 0..x.len() {
            dims.push(match (&self.output_shape, &x[axis], &kernel[axis]) {
                (Some(shape), ..) => Dim::Known(shape[axis]),
                (None, Dim::Known(n), Dim::Known(_)) => {
                    self.place(&mut window, axis, *n)?;
                    Dim::Known(window.input[axis])
                }
                _ => Dim::Unknown,
            });
        }
        Ok(dims)
    }

    fn compute<T: Accumulate>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let geometry = Geometry::new(self, x.shape(), w.shape())?;
        let bias = inputs.optional_tensor(2)?;
        if let Some(bias) = bias.filter(|bias| bias.shape() != [geometry.shape[1]]) {
            let (left, right) = (bias.shape().to_vec(), vec![geometry.shape[1]]);
            return Err(OpError::Shapes { what: "values of channels", left, right });
        }
        let bias = bias.map(widened::<T>).transpose()?;
        let y = output.tensor(T::DTYPE, &geometry.shape)?.into_slice::<T>()?;
        let sums = geometry.scatter(&widened::<T>(x)?, &widened::<T>(w)?)?;
        let n_plane = n_elements(&geometry.window.input).unwrap_or(0).max(1);
        let planes = y.chunks_exact_mut(n_plane).zip(sums.chunks_exact(n_plane));
        for (plane, (y, sums)) in planes.enumerate() {
            let bias = bias.as_ref().map_or(T::Sum::default(), |b| b[plane % b.len()]);
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::narrow(sum.plus(bias)));
        }
        Ok(())
    }
}

impl Operator for ConvTranspose {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, dtype)?;
        let (x, w) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims());
        let (Some(x), Some(w)) = (x, w) else { return Ok(vec![Fact::unranked(dtype)]) };
        if x.len() < 2 || x.len() != w.len() {
            let expected = "that of the weights, 2 or more";
            return Err(OpError::InputRank { index: 0, expected, found: x.len() });
        }
        let c = x[1].unify(&w[0]);
        if c.and_then(|c| c.known()).is_some_and(|c| !c.is_multiple_of(self.group))
            || x[1].unify(&w[0]).is_none()
        {
            return Err(wrong_channels(&known_or_zero(x), &known_or_zero(w)));
        }
        let channels = w[1].map(|m| m.checked_mul(self.group));
        expect_channels(inputs, 2, Some(&channels))?;
        let mut dims: Dims = [x[0].clone(), channels].into_iter().collect();
        dims.extend(self.output_dims(&x[2..], &w[2..])?);
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(inputs, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let w = inputs.get(1).and_then(Fact::shape);
        let terms = w.and_then(|w| n_elements(w.get(1..)?));
        crate::infer::product_flops(terms, inputs.get(0))
    }
}

fn wrong_channels(x: &[usize], w: &[usize]) -> OpError {
    OpError::Shapes { what: "channels and groups", left: x.to_vec(), right: w.to_vec() }
}

/// The sizes of one transposed convolution.
struct Geometry {
    group: usize,
    /// Input channels of a group.
    c: usize,
    /// Output channels of a group.
    m: usize,
    shape: Shape,
    window: Window,
}

impl Geometry {
    fn new(op: &ConvTranspose, x: &[usize], w: &[usize]) -> Result<Self, OpError> {
        if x.len() < 2 || x.len() != w.len() {
            let expected = "that of the weights, 2 or more";
            return Err(OpError::InputRank { index: 0, expected, found: x.len() });
        }
        if x[1] != w[0] || !x[1].is_multiple_of(op.group) {
            return Err(wrong_channels(x, w));
        }
        let window = op.window(&x[2..], &w[2..])?;
        let channels = w[1].checked_mul(op.group).ok_or(OpError::TooLarge)?;
        let shape = [x[0], channels].into_iter().chain(window.input.iter().copied()).collect();
        Ok(Self { group: op.group, c: x[1] / op.group, m: w[1], shape, window })
    }

    /// `y[n, m, …]`, unrounded and without bias.
    fn scatter<S: Sum>(&self, x: &[S], w: &[S]) -> Result<Vec<S>, OpError> {
        let mut y = zeros(n_elements(&self.shape).ok_or(OpError::TooLarge)?)?;
        if y.is_empty() || x.is_empty() || w.is_empty() {
            return Ok(y);
        }
        let n_taps = self.window.n_taps();
        let n_plane = y.len() / (self.shape[0] * self.shape[1]);
        let n_inputs = self.window.n_outputs();
        let filters = transposed(w, self.c, self.m * n_taps)?;
        let (mut columns, mut sums) = (Room::new(), Room::new());
        for run in self.window.runs() {
            let offsets = self.window.offsets(run.clone())?;
            for image in 0..self.shape[0] * self.group {
                go_on()?;
                columns.clear();
                for channel in image * self.c..(image + 1) * self.c {
                    let start = channel * n_inputs;
                    columns.extend(x[start + run.start..start + run.end].iter().copied())?;
                }
                sums.clear();
                sums.resize(self.m * n_taps * run.len(), S::default())?;
                let len = self.c * self.m * n_taps;
                let first = image % self.group * len;
                multiply_add(&filters[first..first + len], &columns, &mut sums, run.len())?;
                let planes = y[image * self.m * n_plane..].chunks_exact_mut(n_plane);
                for (plane, sums) in planes.zip(sums.chunks_exact(offsets.len())) {
                    for (&at, &sum) in offsets.iter().zip(sums).filter(|(at, _)| **at != PADDING) {
                        plane[at] = plane[at].plus(sum);
                    }
                }
            }
        }
        Ok(y)
    }
}

/// Each group's `[rows, columns]` as `[columns, rows]`.
fn transposed<S: Sum>(w: &[S], rows: usize, columns: usize) -> Result<Vec<S>, TensorError> {
    let (mut result, mut pace) = (Room::with_room(w.len())?, Pace::new());
    for group in w.chunks_exact(rows * columns) {
        for column in 0..columns {
            pace.go(rows)?;
            result.extend(group[column..].iter().copied().step_by(columns))?;
        }
    }
    Ok(result.into_vec())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    fn case() -> Case {
        Case::new("ConvTranspose", 11)
    }

    #[test]
    fn an_axis_has_the_size_that_its_attributes_say() {
        let same = |name: &str| case().attr("auto_pad", Attr::String(name.into()));
        let cases: [(Case, &[f32]); 8] = [
            (case(), &[1.0, 3.0, 3.0, 2.0]),
            (case().attr("strides", ints(&[2])), &[1.0, 1.0, 3.0, 2.0, 2.0]),
            (case().attr("dilations", ints(&[2])), &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
            (case().attr("pads", ints(&[1, 1])), &[3.0, 3.0]),
            (
                case().attr("strides", ints(&[2])).attr("output_padding", ints(&[1])),
                &[1.0, 1.0, 3.0, 2.0, 2.0, 0.0],
            ),
            (
                case().attr("strides", ints(&[2])).attr("output_shape", ints(&[4])),
                &[1.0, 3.0, 2.0, 2.0],
            ),
            (same("SAME_UPPER").attr("strides", ints(&[2])), &[1.0, 1.0, 3.0, 2.0]),
            (same("SAME_LOWER").attr("strides", ints(&[2])), &[1.0, 3.0, 2.0, 2.0]),
        ];
        let x = tensor(&[1, 1, 2], &[1_f32, 2.0]);
        let w = tensor(&[1, 1, 3], &[1_f32; 3]);
        for (i, (case, expected)) in cases.iter().enumerate() {
            let y = case.tensor(&[x.clone(), w.clone()]).unwrap();
            if i == 2 {
                // Taps with a distance of two interleave.
                assert_eq!(y.as_slice::<f32>().unwrap(), *expected);
            } else {
                assert_eq!(y, tensor(&[1, 1, expected.len()], expected), "case {i}");
            }
        }
    }

    #[test]
    fn groups_and_bias_have_their_own_channels() {
        let x = tensor(&[1, 2, 1], &[1_f32, 10.0]);
        let w = tensor(&[2, 2, 1], &[1_f32, 2.0, 3.0, 4.0]);
        let b = tensor(&[4], &[0_f32, 0.5, 0.0, -1.0]);
        let y = case().attr("group", Attr::Int(2)).tensor(&[x.clone(), w.clone(), b]);
        assert_eq!(y, Ok(tensor(&[1, 4, 1], &[1_f32, 2.5, 30.0, 39.0])));
        let y = case().tensor(&[x, w]);
        assert_eq!(y, Ok(tensor(&[1, 2, 1], &[31_f32, 42.0])));
    }

    #[test]
    fn empty_inputs_give_empty_or_zero_results() {
        let x = Tensor::zeros(ort_tensor::DType::F16, &[1, 0, 2]).unwrap();
        let w = Tensor::zeros(ort_tensor::DType::F16, &[0, 1, 1]).unwrap();
        let b = tensor(&[1], &[f16::ONE]);
        assert_eq!(case().tensor(&[x, w, b]), Ok(tensor(&[1, 1, 2], &[f16::ONE; 2])));
    }

    #[test]
    fn padding_larger_than_the_result_is_refused() {
        let x = tensor(&[1, 1, 2], &[1_f32, 2.0]);
        let w = tensor(&[1, 1, 3], &[1_f32; 3]);
        assert!(case().attr("pads", ints(&[3, 3])).tensor(&[x, w]).is_err());
    }
}
