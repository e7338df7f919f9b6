//! MaxRoiPool: the greatest elements of regions of images.

use std::ops::Range;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::elementwise::unsupported;
use crate::floats;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "MaxRoiPool",
    versions: (1, 22),
    types: DType::is_float,
    build: MaxRoiPool::build,
}];

/// MaxRoiPool: `y[r, c, i, j] = max x[n, c, h, w]` over the bin `i, j` of region `r = [n, x₁, y₁,
/// x₂, y₂]`: corners are scaled and rounded, and belong to the region, which has at least one element per side; bins
/// overlap where they do not divide it. Elements outside the image are ignored, and an empty bin gives 0.
///
/// Inputs: `x: [N, C, H, W]`, `rois: [R, 5]`, of one float type.
///
/// Source: ONNX operator set, MaxRoiPool-22; R. Girshick, "Fast R-CNN", 2015.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxRoiPool {
    /// Height and width of the result.
    pub pooled: [usize; 2],
    /// From the corners to positions in the image.
    pub spatial_scale: f32,
}

impl MaxRoiPool {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "pooled_shape";
        let shape = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
        let wrong = || OpError::AttributeValue { name, found: format!("{shape:?}") };
        let size = |n: i64| usize::try_from(n).ok().filter(|&n| n > 0);
        let &[height, width] = shape else { return Err(wrong()) };
        let pooled = size(height).zip(size(width)).ok_or_else(wrong)?;
        let spatial_scale = spec.float("spatial_scale")?.unwrap_or(1.0);
        Ok(Arc::new(Self { pooled: pooled.into(), spatial_scale }))
    }

    /// The side of a region between two corners.
    pub fn side(self, first: f64, last: f64) -> Side {
        // Far beyond any image, and small enough for the products below.
        const LIMIT: f64 = (1_u64 << 62) as f64;
        let position = |corner: f64| {
            let position = (corner * f64::from(self.spatial_scale)).round();
            i128::from(i64::from_f64(position.clamp(-LIMIT, LIMIT)))
        };
        let (first, last) = (position(first), position(last));
        Side { first, length: (last - first + 1).max(1) }
    }

    fn pool<T: Arithmetic>(
        self,
        x: (&[T], [usize; 4]),
        rois: &[f64],
        y: &mut [T],
    ) -> Result<(), OpError> {
        let (x, [n, c, h, w]) = x;
        let [height, width] = self.pooled;
        let (size, mut pace) = (c * height * width, Pace::new());
        for (roi, y) in rois.chunks_exact(5).zip(y.chunks_exact_mut(size.max(1))) {
            let index = i64::from_f64(roi[0]);
            let image = usize::try_from(index).ok().filter(|&image| image < n);
            let image = image.ok_or(OpError::Index { what: "images", index, len: n })?;
            let (columns, rows) = (self.side(roi[1], roi[3]), self.side(roi[2], roi[4]));
            for (y, at) in y.iter_mut().zip(0..) {
                let channel = (image * c + at / (height * width)) * h * w;
                let columns = columns.bin(at % width, width, w);
                let rows = rows.bin(at / width % height, height, h);
                pace.go(columns.len().saturating_mul(rows.len()).saturating_add(16))?;
                let bin = rows.flat_map(|row| {
                    &x[channel + row * w + columns.start..channel + row * w + columns.end]
                });
                *y = bin.copied().reduce(T::larger).unwrap_or_default();
            }
        }
        Ok(())
    }
}

/// One side of a region.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    first: i128,
    length: i128,
}

impl Side {
    /// Which of the `n` positions of an image are in one of the bins.
    pub fn bin(&self, bin: usize, n_bins: usize, n: usize) -> Range<usize> {
        let (bin, n_bins) = (bin as i128, n_bins as i128);
        let (start, end) = (bin * self.length / n_bins, ((bin + 1) * self.length - 1) / n_bins + 1);
        let inside = |at: i128| usize::try_from(at.max(0)).map_or(n, |at| at.min(n));
        let end = inside(self.first + end);
        inside(self.first + start).min(end)..end
    }
}

const fn wrong_rank(index: usize, expected: &'static str, found: usize) -> OpError {
    OpError::InputRank { index, expected, found }
}

impl Operator for MaxRoiPool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        expect_dims(inputs, 1, &[Dim::Unknown, Dim::Known(5)])?;
        let n = inputs.fact(1)?.dims().map_or(Dim::Unknown, |dims| dims[0].clone());
        let c = match inputs.fact(0)?.dims() {
            None => Dim::Unknown,
            Some([_, c, _, _]) => c.clone(),
            Some(dims) => return Err(wrong_rank(0, "4", dims.len())),
        };
        Ok(vec![Fact::tensor(dtype, [n, c].into_iter().chain(self.pooled.map(Dim::Known)))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, rois) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let &[n, c, h, w] = x.shape() else { return Err(wrong_rank(0, "4", x.shape().len())) };
        let &[n_rois, 5] = rois.shape() else {
            return Err(wrong_rank(1, "2, with 5 columns", rois.shape().len()));
        };
        let [height, width] = self.pooled;
        let y = outputs[0].tensor(x.dtype(), &[n_rois, c, height, width])?;
        if n_rois == 0 || c == 0 {
            return Ok(());
        }
        let rois = floats::read(rois)?;
        with_dtype!(x.dtype(), float,
            T => self.pool::<T>((x.as_slice()?, [n, c, h, w]), &rois, y.into_slice()?),
            else => Err(unsupported(0, x.dtype())))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn pool(pooled: &[i64], scale: f32, rois: &[f32]) -> Option<Tensor> {
        let case = Case::new("MaxRoiPool", 1)
            .attr("pooled_shape", Attr::Ints(pooled.to_vec()))
            .attr("spatial_scale", Attr::Float(scale));
        let x: Vec<f32> = (0_u8..36).map(f32::from).collect();
        case.tensor(&[tensor(&[1, 1, 6, 6], &x), tensor(&[rois.len() / 5, 5], rois)]).ok()
    }

    #[test]
    fn each_bin_has_its_greatest_element() {
        let cases: [([f32; 5], [i64; 2], &[f32]); 8] = [
            ([0., 0., 0., 5., 5.], [2, 2], &[14., 17., 32., 35.]),
            ([0., 1., 1., 3., 3.], [2, 2], &[14., 15., 20., 21.]),
            ([0., 4., 4., 2., 2.], [2, 2], &[28., 28., 28., 28.]),
            ([0., 4., 4., 9., 9.], [2, 2], &[35., 0., 0., 0.]),
            ([0.6, 0., 0., 1., 1.], [1, 1], &[7.]),
            ([0., -3., -3., 1.5, 2.5], [2, 2], &[0., 2., 0., 20.]),
            ([0., 0.5, 1.5, 2.5, 3.5], [1, 2], &[26., 27.]),
            ([0., f32::NAN, -1e30, 1e30, 1e30], [1, 1], &[35.]),
        ];
        for (roi, pooled, y) in cases {
            let shape = pooled.map(|n| usize::try_from(n).unwrap());
            let y = tensor(&[1, 1, shape[0], shape[1]], y);
            assert_eq!(pool(&pooled, 1.0, &roi), Some(y), "{roi:?}");
        }
        let rois = [0., 1., 1., 3., 3., 0., 0., 0., 0., 0.];
        let y = [7_f32, 8., 8., 13., 14., 14., 0., 0., 0., 0., 0., 0.];
        assert_eq!(pool(&[2, 3], 0.5, &rois), Some(tensor(&[2, 1, 2, 3], &y)));
        assert_eq!(pool(&[2, 3], 1.0, &[]), Some(tensor(&[0, 1, 2, 3], &[0_f32; 0])));
    }

    #[test]
    fn invalid_regions_are_rejected() {
        for (pooled, roi) in [
            (&[1, 1][..], [1_f32, 0., 0., 1., 1.]),
            (&[1, 1], [-1., 0., 0., 1., 1.]),
            (&[0, 1], [0., 0., 0., 1., 1.]),
            (&[1], [0., 0., 0., 1., 1.]),
        ] {
            assert_eq!(pool(pooled, 1.0, &roi), None, "{pooled:?} of {roi:?}");
        }
    }
}
