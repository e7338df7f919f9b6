//! DeformConv: a convolution in which each tap is moved by its own offset.

// collects are bounded: by the rank, and two taps an axis

use std::ops::Range;
use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Room, Shape, TensorError, with_dtype};

use crate::accumulate::Accumulate;
use crate::infer::{Window, WindowAttrs, read_axes, unravel};
use crate::ops::conv::{ConvGeometry, conv_fact, conv_flops, expect_channels, read_group, widened};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "DeformConv",
    versions: (19, 22),
    types: DType::is_float,
    build: DeformConv::build,
}];

/// DeformConv: `y[n, m, p] = b[m] + Σ w[m, c, k] · mask[n, k, p] · x[n, c, place]`, where `place` is
/// `p·stride + k·dilation − pad + offset[n, k, p]`, linearly interpolated, 0 outside.
///
/// `x`: `[N, C, D₁, …, Dᵣ]`, `w`: `[M, C/group, K₁, …]`, `offset`: `[N, offset_group·Π K·r, P₁, …]`,
/// `b`: absent or `[M]`, `mask`: absent (1) or `[N, offset_group·Π K, P₁, …]`; all of one float type.
///
/// Source: ONNX operator set, DeformConv-22.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeformConv {
    /// The placement of the windows before they are moved.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
    /// The number of groups of channels with common offsets, at least 1.
    pub offset_group: usize,
}

impl DeformConv {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let window = WindowAttrs {
            kernel: read_axes(spec, "kernel_shape", 1)?,
            strides: read_axes(spec, "strides", 1)?,
            dilations: read_axes(spec, "dilations", 1)?,
            pads: read_axes(spec, "pads", 0)?,
            ..WindowAttrs::default()
        };
        let offset_group = spec.int("offset_group")?.unwrap_or(1);
        let wrong =
            || OpError::AttributeValue { name: "offset_group", found: offset_group.to_string() };
        let offset_group = usize::try_from(offset_group).ok().filter(|&n| n > 0);
        let offset_group = offset_group.ok_or_else(wrong)?;
        Ok(Arc::new(Self { window, group: read_group(spec)?, offset_group }))
    }

    fn compute<T: Accumulate<Sum = f64>>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (x, w, offset) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let geometry = ConvGeometry::new(&self.window, self.group, x.shape(), w.shape())?;
        let rank = geometry.window.input.len();
        let mask = inputs.optional_tensor(4)?;
        for (given, per_tap) in [(Some(offset), rank), (mask, 1)] {
            let expected = self.parameter_shape(&geometry, per_tap);
            if let Some(given) = given.filter(|given| given.shape() != expected.as_slice()) {
                let (left, right) = (given.shape().to_vec(), expected.to_vec());
                return Err(OpError::Shapes { what: "offset or mask", left, right });
            }
        }
        let n_channels = geometry.c * geometry.group;
        if !n_channels.is_multiple_of(self.offset_group) {
            let (left, right) = (vec![n_channels], vec![self.offset_group]);
            return Err(OpError::Shapes { what: "channels and offset groups", left, right });
        }
        let bias = geometry.channel_values::<T>(inputs.optional_tensor(3)?)?;
        let (x, w, offset) = (widened::<T>(x)?, widened::<T>(w)?, widened::<T>(offset)?);
        let mask = mask.map(widened::<T>).transpose()?;
        let shape = geometry.output_shape();
        let y = output.tensor(T::DTYPE, &shape)?.into_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let moved = Moved { window: &geometry.window, offset: &offset, mask: mask.as_deref() };
        let n_plane: usize = geometry.window.input.iter().product();
        let n_alike = n_channels / self.offset_group;
        for run in geometry.window.runs() {
            for n in 0..geometry.n {
                let mut patches = Room::new();
                for part in n * self.offset_group..(n + 1) * self.offset_group {
                    let taps = moved.taps(part, run.clone())?;
                    for channel in part * n_alike..(part + 1) * n_alike {
                        let plane = &x[channel * n_plane..(channel + 1) * n_plane];
                        let value = |taps: &Room<(usize, f64)>| {
                            taps.iter().fold(0.0, |sum, &(at, weight)| sum + weight * plane[at])
                        };
                        patches.extend(taps.iter().map(value))?;
                    }
                }
                let n_rows = geometry.c * geometry.window.n_taps();
                for group in 0..self.group {
                    let rows = group * n_rows * run.len()..(group + 1) * n_rows * run.len();
                    let place = (n * self.group + group, run.clone());
                    geometry.multiply(&w, &patches[rows], place, &mut |start, channel, sums| {
                        for (y, sum) in y[start..].iter_mut().zip(sums) {
                            *y = T::narrow(sum + bias[channel]);
                        }
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The shape of a parameter with `per_tap` values per tap.
    fn parameter_shape(&self, geometry: &ConvGeometry, per_tap: usize) -> Shape {
        let window = &geometry.window;
        let n = self.offset_group.saturating_mul(window.n_taps()).saturating_mul(per_tap);
        [geometry.n, n].into_iter().chain(window.output.iter().copied()).collect()
    }
}

/// The taps of moved windows.
struct Moved<'a> {
    window: &'a Window,
    offset: &'a [f64],
    mask: Option<&'a [f64]>,
}

impl Moved<'_> {
    /// For each tap, for each window of `run`: elements of a plane and their weights. `part` counts
    /// the offset groups of all images.
    fn taps(
        &self,
        part: usize,
        run: Range<usize>,
    ) -> Result<Room<Room<(usize, f64)>>, TensorError> {
        let (n_taps, n_windows) = (self.window.n_taps(), self.window.n_outputs());
        let (mut found, mut pace) =
            (Room::with_room(n_taps.saturating_mul(run.len()))?, Pace::new());
        for tap in 0..n_taps {
            let steps = unravel(tap, &self.window.kernel);
            for window in run.clone() {
                pace.go(1)?;
                let position = unravel(window, &self.window.output);
                let row = part * n_taps + tap;
                let factor = self.mask.map_or(1.0, |mask| mask[row * n_windows + window]);
                let mut taps = Room::of([(0, factor)])?;
                for axis in 0..steps.len() {
                    let regular = position[axis] * self.window.strides[axis]
                        + steps[axis] * self.window.dilations[axis];
                    let offset = self.offset[(row * steps.len() + axis) * n_windows + window];
                    let place = regular as f64 - self.window.pads_begin[axis] as f64 + offset;
                    taps = along(&taps, place, self.window.input[axis])?;
                }
                found.push(taps)?;
            }
        }
        Ok(found)
    }
}

/// `taps` times the two neighbours of `place` on an axis of `n` elements, without those outside.
fn along(taps: &[(usize, f64)], place: f64, n: usize) -> Result<Room<(usize, f64)>, TensorError> {
    let ratio = place - place.floor();
    let neighbours = [(place.floor(), 1.0 - ratio), (place.floor() + 1.0, ratio)];
    let inside = |&(at, weight): &(f64, f64)| {
        let is_inside = at >= 0.0 && at < n as f64;
        Some((usize::try_from(u64::from_f64(at)).ok().filter(|_| is_inside)?, weight))
    };
    let inside: Vec<(usize, f64)> = neighbours.iter().filter_map(inside).collect();
    let both = |&(at, weight): &(usize, f64)| {
        inside.iter().map(move |&(i, part)| (at * n + i, weight * part))
    };
    Room::of(taps.iter().flat_map(both))
}

impl Operator for DeformConv {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(2)?;
        for index in 1..5 {
            inputs.expect_dtype(index, dtype)?;
        }
        let y = conv_fact(&self.window, self.group, [inputs.fact(0)?, inputs.fact(1)?], dtype)?;
        expect_channels(inputs, 3, y.dims().and_then(|dims| dims.get(1)))?;
        Ok(vec![y])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(inputs, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        conv_flops(inputs.get(1), outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn run(offset: &[f32], mask: Option<Tensor>) -> Result<Tensor, String> {
        let case = Case::new("DeformConv", 19).attr("offset_group", Attr::Int(2));
        let x = tensor(&[1, 2, 3], &[1_f32, 2.0, 3.0, 10.0, 20.0, 30.0]);
        let w = tensor(&[1, 2, 1], &[1_f32, 1.0]);
        let offset = tensor(&[1, 2, 3], offset);
        let bias = tensor(&[1], &[100_f32]);
        let inputs = [Some(x), Some(w), Some(offset), Some(bias), mask];
        Ok(case.run_optional(&inputs)?[0].as_tensor().unwrap().clone())
    }

    #[test]
    fn each_offset_group_moves_its_channels_and_outside_is_zero() {
        let still = run(&[0.0; 6], None);
        assert_eq!(still, Ok(tensor(&[1, 1, 3], &[111_f32, 122.0, 133.0])));
        let moved = run(&[0.5, 1.0, 0.5, -1.0, 0.0, -0.5], None);
        assert_eq!(moved, Ok(tensor(&[1, 1, 3], &[101.5_f32, 123.0, 126.5])));
        let far = run(&[f32::INFINITY, -9.0, 9.0, 0.0, 0.0, 0.0], None);
        assert_eq!(far, Ok(tensor(&[1, 1, 3], &[110_f32, 120.0, 130.0])));
    }

    #[test]
    fn the_mask_weighs_each_tap() {
        let mask = tensor(&[1, 2, 3], &[0_f32, 1.0, 2.0, 0.5, 0.0, 1.0]);
        let y = run(&[0.0; 6], Some(mask));
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[105_f32, 102.0, 136.0])));
        assert!(run(&[0.0; 6], Some(tensor(&[1, 1, 3], &[1_f32; 3]))).is_err());
    }
}
