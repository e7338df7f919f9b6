//! RoiAlign: pools regions of images into one size, sampled between elements.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, TensorError, collected, with_dtype, with_room,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "RoiAlign",
    versions: (10, 22),
    types: DType::is_float,
    build: RoiAlign::build,
}];

/// More samples in a bin are rejected: no image is that large, and a region could contain any numbers.
const MAX_N_SAMPLES: f64 = (1 << 24) as f64;

/// RoiAlign: `x`: `[N, C, H, W]`, `rois`: `[R, 4]` (x₁, y₁, x₂, y₂), the same float type,
/// `batch_indices`: `[R]`, int64; `y`: `[R, C, height, width]`. Each region is divided into bins, and
/// a bin into samples: as many as `sampling_ratio` along each axis, or, if that is 0, one per element, rounded up. A
/// sample is weighted linearly from four elements, and 0 more than one beyond the border. A bin is the mean of its
/// samples, or the largest weighted element of all of them (as the standard's cases and ONNX Runtime have it); 0
/// without samples.
///
/// Source: ONNX operator set, RoiAlign-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiAlign {
    /// Whether a bin is the largest of its samples, and not their mean.
    pub is_max: bool,
    /// The number of rows and columns of bins.
    pub output: [usize; 2],
    /// How many samples a bin has along each axis; 0: as many as it has elements.
    pub sampling_ratio: usize,
    /// The factor from the coordinates of regions to those of elements.
    pub spatial_scale: f32,
    /// Whether element 0 covers −½ to ½; else regions have at least the size 1.
    pub is_half_pixel: bool,
}

impl RoiAlign {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let size = |name: &'static str, default: i64| {
            let n = spec.int(name)?.unwrap_or(default);
            let wrong = OpError::AttributeValue { name, found: n.to_string() };
            usize::try_from(n).map_err(|_| wrong)
        };
        let is_max = match spec.string("mode")? {
            None | Some("avg") => false,
            Some("max") => true,
            Some(found) => {
                return Err(OpError::AttributeValue { name: "mode", found: found.to_owned() });
            }
        };
        const NAME: &str = "coordinate_transformation_mode";
        let coordinates =
            if spec.since_version < 16 { Some("output_half_pixel") } else { spec.string(NAME)? };
        let is_half_pixel = match coordinates {
            None | Some("half_pixel") => true,
            Some("output_half_pixel") => false,
            Some(found) => {
                return Err(OpError::AttributeValue { name: NAME, found: found.to_owned() });
            }
        };
        Ok(Arc::new(Self {
            is_max,
            output: [size("output_height", 1)?, size("output_width", 1)?],
            sampling_ratio: size("sampling_ratio", 0)?,
            spatial_scale: spec.float("spatial_scale")?.unwrap_or(1.0),
            is_half_pixel,
        }))
    }

    /// The samples along one axis of a region between two ends.
    ///
    /// # Errors
    /// If a bin has more than any image could have.
    pub fn samples(self, axis: usize, ends: [f64; 2]) -> Result<Samples, OpError> {
        let shift = if self.is_half_pixel { 0.5 } else { 0.0 };
        let [start, end] = ends.map(|end| end * f64::from(self.spatial_scale) - shift);
        let length = if self.is_half_pixel { end - start } else { (end - start).max(1.0) };
        let bin = length / self.output[axis] as f64;
        let n = match self.sampling_ratio {
            0 => bin.ceil(),
            given => given as f64,
        };
        if n.is_nan() || n > MAX_N_SAMPLES {
            return Err(OpError::InputValue { index: 1, what: "a region is too large" });
        }
        Ok(Samples { start, bin, n })
    }

    /// The value of a bin from its samples along both axes.
    fn bin<T: Number>(
        self,
        plane: &[T],
        width: usize,
        (rows, columns): (&[Sample], &[Sample]),
        pace: &mut Pace,
    ) -> Result<f64, TensorError> {
        let (mut sum, mut largest) = (0.0, f64::NEG_INFINITY);
        for row in rows {
            pace.go(4 * columns.len())?;
            for column in columns {
                for (y, y_weight) in row.0 {
                    for (x, x_weight) in column.0 {
                        let value = y_weight * x_weight * plane[y * width + x].to_f64();
                        sum += value;
                        largest = if value > largest || value.is_nan() { value } else { largest };
                    }
                }
            }
        }
        Ok(match rows.len() * columns.len() {
            0 => 0.0,
            _ if self.is_max => largest,
            n_samples => sum / n_samples as f64,
        })
    }

    fn compute<T: Number>(
        self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (x, rois, images) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let (&[n, c, height, width], &[n_rois, 4]) = (x.shape(), rois.shape()) else {
            let (left, right) = (x.shape().to_vec(), rois.shape().to_vec());
            return Err(OpError::Shapes { what: "images and regions", left, right });
        };
        if images.shape() != [n_rois] {
            let (left, right) = (images.shape().to_vec(), vec![n_rois]);
            return Err(OpError::Shapes { what: "regions and indices of images", left, right });
        }
        let [out_height, out_width] = self.output;
        let y = output.tensor(T::DTYPE, &[n_rois, c, out_height, out_width])?.into_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        if height == 0 || width == 0 {
            return Err(OpError::InputValue { index: 0, what: "there is nothing to sample" });
        }
        let (x, rois) = (x.as_slice::<T>()?, rois.as_slice::<T>()?);
        let mut pace = Pace::new();
        let regions = rois.chunks_exact(4).zip(images.as_slice::<i64>()?);
        let bins = y.chunks_exact_mut(c * out_height * out_width);
        for ((region, &index), bins) in regions.zip(bins) {
            let image = usize::try_from(index).ok().filter(|&image| image < n);
            let image =
                image.ok_or(OpError::Index { what: "batch_indices of RoiAlign", index, len: n })?;
            let ends = |axis: usize| [region[axis].to_f64(), region[axis + 2].to_f64()];
            let rows = self.samples(0, ends(1))?.of_bins(out_height, height)?;
            let columns = self.samples(1, ends(0))?.of_bins(out_width, width)?;
            let planes = x[image * c * height * width..].chunks_exact(height * width);
            for (plane, bins) in planes.zip(bins.chunks_exact_mut(out_height * out_width)) {
                let pairs = rows.iter().flat_map(|row| columns.iter().map(move |col| (row, col)));
                for (bin, (rows, columns)) in bins.iter_mut().zip(pairs) {
                    *bin = T::from_f64(self.bin(plane, width, (rows, columns), &mut pace)?);
                }
            }
        }
        Ok(())
    }
}

/// The samples of a region along one axis: `n` in each bin.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    start: f64,
    bin: f64,
    n: f64,
}

impl Samples {
    /// How many each bin has.
    pub fn count(self) -> u32 {
        u32::from_f64(self.n)
    }

    /// Sample `i` of a bin, on an axis of `len` elements.
    pub fn sample(self, bin: usize, i: u32, len: usize) -> Sample {
        let place = self.start + (bin as f64 + (f64::from(i) + 0.5) / self.n) * self.bin;
        Sample::new(place, len)
    }

    fn of_bins(self, n_bins: usize, len: usize) -> Result<Vec<Vec<Sample>>, TensorError> {
        let mut bins = with_room(n_bins)?;
        for bin in 0..n_bins {
            bins.push(collected((0..self.count()).map(|i| self.sample(bin, i, len)))?);
        }
        Ok(bins)
    }
}

/// Two elements of an axis with their weights.
#[derive(Clone, Copy, Debug)]
pub struct Sample(pub [(usize, f64); 2]);

impl Sample {
    fn new(place: f64, n: usize) -> Self {
        // Far outside both weights are 0.
        if !(-1.0..=n as f64).contains(&place) {
            return Self([(0, 0.0); 2]);
        }
        let place = place.clamp(0.0, (n - 1) as f64);
        let low = usize::try_from(u64::from_f64(place)).unwrap_or(0).min(n - 1);
        let ratio = place - low as f64;
        Self([(low, 1.0 - ratio), ((low + 1).min(n - 1), ratio)])
    }
}

impl Operator for RoiAlign {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, DType::I64)?;
        let part = |index: usize, axis: usize, rank: usize, expected: &'static str| match inputs
            .fact(index)?
            .dims()
        {
            None => Ok(Dim::Unknown),
            Some(dims) if dims.len() == rank => Ok(dims[axis].clone()),
            Some(dims) => Err(OpError::InputRank { index, expected, found: dims.len() }),
        };
        let c = part(0, 1, 4, "4")?;
        let (n, n_indices) = (part(1, 0, 2, "2")?, part(2, 0, 1, "1")?);
        let n = n.unify(&n_indices).ok_or_else(|| OpError::Shapes {
            what: "regions and indices of images",
            left: n.known().into_iter().collect(),
            right: n_indices.known().into_iter().collect(),
        })?;
        let [height, width] = self.output.map(Dim::Known);
        Ok(vec![Fact::tensor(dtype, [n, c, height, width])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(inputs, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    fn align(version: i32, mode: &str, region: [f32; 4]) -> Result<f32, String> {
        let case = Case::new("RoiAlign", version)
            .attr("mode", Attr::String(mode.into()))
            .attr("sampling_ratio", Attr::Int(1));
        let x = tensor(&[1, 1, 2, 2], &[1_f32, 2.0, 3.0, 5.0]);
        let y = case.tensor(&[x, tensor(&[1, 4], &region), tensor(&[1], &[0_i64])])?;
        Ok(y.as_slice::<f32>().unwrap()[0])
    }

    #[test]
    fn a_bin_is_the_mean_or_the_largest_weighted_element() {
        let unit = [0.0, 0.0, 1.0, 1.0];
        let cases = [
            (10, "avg", unit, 2.75),
            (10, "max", unit, 1.25),
            (22, "avg", unit, 1.0),
            (16, "avg", [0.5, 0.5, 1.5, 1.5], 2.75),
            (16, "avg", [9.0, 9.0, 9.0, 9.0], 0.0),
        ];
        for (version, mode, region, expected) in cases {
            assert_eq!(align(version, mode, region), Ok(expected), "{version} {mode} {region:?}");
        }
        assert!(align(16, "sum", unit).is_err());
    }

    #[test]
    fn regions_of_any_size_and_images_that_are_not_there_do_no_harm() {
        let x = || tensor(&[1, 1, 1, 1], &[1_f32]);
        for (end, index) in [(f32::MAX, 0_i64), (f32::NAN, 0), (1.0, 1), (1.0, -1)] {
            let rois = tensor(&[1, 4], &[0.0, 0.0, end, end]);
            let y = Case::new("RoiAlign", 16).tensor(&[x(), rois, tensor(&[1], &[index])]);
            assert!(y.is_err(), "{end} {index}");
        }
    }
}
