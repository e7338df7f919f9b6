//! GridSample: `y[n, c, p] = Σ weight · x[n, c, neighbours of grid[n, p]]`.

// collects are bounded: by the rank, and four taps an axis

use std::sync::Arc;

use ort_graph::{Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Room, Shape, TensorError, TensorView, collected,
    move_elements, n_elements, with_dtype, with_room,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "GridSample",
        versions: (16, 22),
        types: DType::is_any,
        build: GridSample::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "GridSample",
        versions: (1, 1),
        types: DType::is_any,
        build: GridSample::build,
    },
];

/// GridSample: `x`: `[N, C, D₁, …, Dᵣ]`; `grid`: `[N, P₁, …, Pᵣ, r]`, float, positions from −1 to 1,
/// the innermost axis first; `y`: `[N, C, P₁, …, Pᵣ]`. Nearest (half to even) takes any type, linear
/// and cubic (`a = −¾`) any number type; integers round half to even. Positions are computed in
/// float32 unless the grid is double, so that ties fall as in ONNX Runtime. With border padding, positions outside
/// are first clamped to the border, except for cubic, as in ONNX Runtime.
///
/// Source: ONNX operator set, GridSample-22; com.microsoft, GridSample-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSample {
    /// The interpolation.
    pub mode: GridMode,
    /// The values outside.
    pub padding: GridPadding,
    /// Whether −1 and 1 are the centres of the outermost pixels, and not their edges.
    pub aligns_corners: bool,
}

/// The interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridMode {
    /// The nearest element.
    Nearest,
    /// From two along each axis.
    Linear,
    /// From four along each axis.
    Cubic,
}

/// The values outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The elements inside, mirrored.
    Reflection,
}

impl GridSample {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let mode = match spec.string("mode")? {
            None | Some("linear" | "bilinear") => GridMode::Linear,
            Some("cubic" | "bicubic") => GridMode::Cubic,
            Some("nearest") => GridMode::Nearest,
            Some(found) => {
                return Err(OpError::AttributeValue { name: "mode", found: found.to_owned() });
            }
        };
        let padding = match spec.string("padding_mode")? {
            None | Some("zeros") => GridPadding::Zeros,
            Some("border") => GridPadding::Border,
            Some("reflection") => GridPadding::Reflection,
            Some(found) => {
                let found = found.to_owned();
                return Err(OpError::AttributeValue { name: "padding_mode", found });
            }
        };
        let aligns_corners = spec.flag("align_corners", false)?;
        Ok(Arc::new(Self { mode, padding, aligns_corners }))
    }

    /// The unnormalized position on an axis of `n` elements.
    #[inline(always)]
    fn place(self, position: f64, n: usize, is_double: bool) -> f64 {
        let place = if is_double {
            let n = n as f64;
            if self.aligns_corners {
                (position + 1.0) / 2.0 * (n - 1.0)
            } else {
                ((position + 1.0) * n - 1.0) / 2.0
            }
        } else {
            let (position, n) = (f32::from_f64(position), n as f32);
            f64::from(if self.aligns_corners {
                (position + 1.0) / 2.0 * (n - 1.0)
            } else {
                ((position + 1.0) * n - 1.0) / 2.0
            })
        };
        let place = if self.mode == GridMode::Nearest { place.round_ties_even() } else { place };
        let (least, greatest) = self.border(n);
        match self.padding {
            _ if place >= least && place <= greatest => place,
            GridPadding::Zeros => place,
            // Each of the four elements is clamped separately.
            GridPadding::Border if self.mode == GridMode::Cubic => place,
            GridPadding::Border => place.clamp(0.0, (n - 1) as f64),
            GridPadding::Reflection => reflect(place, least, greatest),
        }
    }

    #[inline(always)]
    const fn border(self, n: usize) -> (f64, f64) {
        if self.aligns_corners { (0.0, (n - 1) as f64) } else { (-0.5, n as f64 - 0.5) }
    }

    /// The element at an integral position, which may be outside.
    #[inline(always)]
    fn element(self, place: f64, n: usize) -> Option<usize> {
        let (least, greatest) = self.border(n);
        let is_outside = place < 0.0 || place > (n - 1) as f64;
        let place = match self.padding {
            GridPadding::Zeros if is_outside => return None,
            GridPadding::Reflection if is_outside => reflect(place, least, greatest),
            _ => place,
        };
        Some(usize::try_from(u64::from_f64(place)).unwrap_or(usize::MAX).min(n - 1))
    }

    /// The elements of an axis that `place` is interpolated from, with their weights.
    fn taps(self, place: f64, n: usize) -> impl Iterator<Item = (usize, f64)> {
        let base = if self.mode == GridMode::Nearest { place } else { place.floor() };
        let ratio = place - base;
        let weights: ([f64; 4], std::ops::Range<usize>) = match self.mode {
            GridMode::Nearest => ([0.0, 1.0, 0.0, 0.0], 1..2),
            GridMode::Linear => ([0.0, 1.0 - ratio, ratio, 0.0], 1..3),
            GridMode::Cubic => ([1.0 + ratio, ratio, 1.0 - ratio, 2.0 - ratio].map(cubic), 0..4),
        };
        let (weights, steps) = weights;
        steps.filter_map(move |step| {
            Some((self.element(base + step as f64 - 1.0, n)?, weights[step]))
        })
    }

    /// The two elements of an axis of `n` that a normalized position is interpolated from linearly, with their
    /// weights; `None` outside, where zeros are.
    #[inline(always)]
    pub fn linear_taps(
        self,
        position: f64,
        n: usize,
        is_double: bool,
    ) -> [(Option<usize>, f64); 2] {
        let place = self.place(position, n, is_double);
        let base = place.floor();
        let ratio = place - base;
        [(self.element(base, n), 1.0 - ratio), (self.element(base + 1.0, n), ratio)]
    }

    /// The elements of an axis of `n` that a normalized position is interpolated from, with their weights.
    pub fn axis_taps(
        self,
        position: f64,
        n: usize,
        is_double: bool,
    ) -> impl Iterator<Item = (usize, f64)> {
        self.taps(self.place(position, n, is_double), n)
    }

    /// The elements of a plane that each point of the grid is interpolated from, for one image.
    fn point_taps(
        self,
        point: &[f64],
        shape: &[usize],
        is_double: bool,
    ) -> Result<Room<(usize, f64)>, TensorError> {
        let mut taps = Room::of([(0, 1.0)])?;
        for (&n, &position) in shape.iter().zip(point.iter().rev()) {
            let axis: Vec<_> = self.axis_taps(position, n, is_double).collect();
            let both = |&(at, weight): &(usize, f64)| {
                axis.iter().map(move |&(i, w)| (at * n + i, weight * w)).collect::<Vec<_>>()
            };
            taps = Room::of(taps.iter().flat_map(both))?;
        }
        Ok(taps)
    }
}

/// `place`, mirrored at both ends until it is between them.
fn reflect(place: f64, least: f64, greatest: f64) -> f64 {
    let range = greatest - least;
    if range <= 0.0 {
        return 0.0;
    }
    let beyond = (place - least).rem_euclid(2.0 * range);
    least + if beyond > range { 2.0 * range - beyond } else { beyond }
}

fn cubic(t: f64) -> f64 {
    const A: f64 = -0.75;
    if t <= 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else {
        ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A
    }
}

/// The dimensions of the result.
fn sampled_shape(x: &[usize], grid: &[usize]) -> Result<Shape, OpError> {
    let fits = x.len() > 2
        && grid.len() == x.len()
        && grid[0] == x[0]
        && grid.last() == Some(&(x.len() - 2));
    if !fits {
        let (left, right) = (x.to_vec(), grid.to_vec());
        return Err(OpError::Shapes { what: "input and grid", left, right });
    }
    Ok(x[..2].iter().chain(&grid[1..grid.len() - 1]).copied().collect())
}

impl Operator for GridSample {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let allowed = if self.mode == GridMode::Nearest { DType::is_any } else { DType::is_number };
        let dtype = inputs.dtype(0, allowed)?;
        inputs.dtype(1, DType::is_float)?;
        let (x, grid) = (inputs.fact(0)?, inputs.fact(1)?);
        if let (Some(x), Some(grid)) = (x.shape(), grid.shape()) {
            return Ok(vec![Fact::shaped(dtype, &sampled_shape(&x, &grid)?)]);
        }
        match (x.dims(), grid.dims()) {
            (Some(x), Some(grid)) if x.len() == grid.len() && x.len() > 2 => {
                let points = &grid[1..grid.len() - 1];
                let dims: Dims = x[..2].iter().chain(points).cloned().collect();
                Ok(vec![Fact::tensor(dtype, dims)])
            }
            _ => Ok(vec![Fact::unranked(dtype)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, grid) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let shape = sampled_shape(x.shape(), grid.shape())?;
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        if shape.contains(&0) {
            return Ok(());
        }
        let spatial = &x.shape()[2..];
        let n_plane = n_elements(spatial).ok_or(OpError::TooLarge)?;
        if n_plane == 0 {
            return Err(OpError::InputValue { index: 0, what: "there is nothing to sample" });
        }
        let points = positions(grid)?;
        let is_double = grid.dtype() == DType::F64;
        let mut taps = with_room(points.len() / spatial.len())?;
        let mut pace = Pace::new();
        for point in points.chunks_exact(spatial.len()) {
            let of_point = self.point_taps(point, spatial, is_double)?;
            pace.go(of_point.len())?;
            taps.push(of_point);
        }
        let (n_points, n_channels) = (taps.len() / shape[0], shape[1]);
        // The taps and the plane of an element of the output.
        let source =
            |i: usize| (i / n_points, &taps[i / n_points / n_channels * n_points + i % n_points]);
        if self.mode == GridMode::Nearest {
            move_elements!(x => y, |src, dst| {
                for (i, to) in dst.iter_mut().enumerate() {
                    pace.go(1)?;
                    let (plane, taps) = source(i);
                    match taps.first() {
                        Some((at, _)) => to.clone_from(&src[plane * n_plane + at]),
                        None => *to = Default::default(),
                    }
                }
                Ok(())
            })?;
            return Ok(());
        }
        with_dtype!(x.dtype(), number, T => {
            let x = x.as_slice::<T>()?;
            for (i, y) in y.into_slice::<T>()?.iter_mut().enumerate() {
                let (plane, taps) = source(i);
                pace.go(taps.len() + 1)?;
                let plane = &x[plane * n_plane..(plane + 1) * n_plane];
                let sum = taps.iter().fold(0.0, |sum, &(at, w)| sum + w * plane[at].to_f64());
                let is_integer = <T as ort_tensor::Element>::DTYPE.is_integer();
                *y = T::from_f64(if is_integer { sum.round_ties_even() } else { sum });
            }
            Ok(())
        }, else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }
}

fn positions(grid: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    with_dtype!(grid.dtype(), float,
    T => Ok(collected(grid.as_slice::<T>()?.iter().map(|x| x.to_f64()))?),
    else => {
        let found = Box::new(Fact::shaped(grid.dtype(), grid.shape()).ty);
        Err(OpError::InputType { index: 1, found })
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    fn sample(mode: &str, padding: &str, corners: i64, at: f32) -> f32 {
        let case = Case::new("GridSample", 22)
            .attr("mode", Attr::String(mode.into()))
            .attr("padding_mode", Attr::String(padding.into()))
            .attr("align_corners", Attr::Int(corners));
        let x = tensor(&[1, 1, 4], &[1_f32, 2.0, 3.0, 4.0]);
        let y = case.tensor(&[x, tensor(&[1, 1, 1], &[at])]).unwrap();
        assert_eq!(y.shape(), [1, 1, 1]);
        y.as_slice::<f32>().unwrap()[0]
    }

    #[test]
    fn positions_are_between_centres_or_edges_and_outside_is_padding() {
        let cases = [
            ("linear", "zeros", 0, -1.0, 0.5),
            ("linear", "zeros", 1, -1.0, 1.0),
            ("linear", "zeros", 0, 0.0, 2.5),
            ("linear", "border", 0, 9.0, 4.0),
            ("nearest", "zeros", 0, 0.0, 3.0),
            ("nearest", "zeros", 0, -9.0, 0.0),
            ("nearest", "reflection", 1, 5.0 / 3.0, 3.0),
            ("linear", "reflection", 0, -1.5, 1.5),
            ("cubic", "zeros", 1, 1.0, 4.0),
        ];
        for (mode, padding, corners, at, expected) in cases {
            let y = sample(mode, padding, corners, at);
            assert_eq!(y, expected, "{mode} {padding} {corners} at {at}");
        }
    }

    #[test]
    fn hostile_positions_do_no_harm() {
        for at in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            for mode in ["nearest", "linear", "cubic"] {
                for padding in ["zeros", "border", "reflection"] {
                    sample(mode, padding, 0, at);
                }
            }
        }
    }

    #[test]
    fn every_type_can_be_picked_from_by_nearest() {
        for &dtype in DType::ALL {
            let x = Tensor::zeros(dtype, &[1, 1, 2, 2]).unwrap();
            let grid = tensor(&[1, 1, 1, 2], &[0_f32, 9.0]);
            let case = Case::new("GridSample", 16).attr("mode", Attr::String("nearest".into()));
            assert_eq!(case.tensor(&[x, grid]), Ok(Tensor::zeros(dtype, &[1, 1, 1, 1]).unwrap()));
        }
    }

    #[test]
    fn com_microsoft_has_the_older_names_of_modes() {
        let x = tensor(&[1, 1, 1, 2], &[1_f32, 3.0]);
        let grid = tensor(&[1, 1, 1, 2], &[0_f32, 0.0]);
        for (mode, expected) in [("bilinear", 2_f32), ("bicubic", 2.0), ("nearest", 1.0)] {
            let case = Case::new("GridSample", 1).domain("com.microsoft");
            let case = case.attr("padding_mode", Attr::String("border".into()));
            let y = case.attr("mode", Attr::String(mode.into())).tensor(&[x.clone(), grid.clone()]);
            assert_eq!(y, Ok(tensor(&[1, 1, 1, 1], &[expected])), "{mode}");
        }
    }
}
