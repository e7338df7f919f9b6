//! Operators on images that select parts of them, or scale them.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Crop", &[1], crop),
    Property::onnx("ImageScaler", &[1], image_scaler),
    Property::onnx("MaxRoiPool", &[1, 22], max_roi_pool),
];

fn crop(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(4);
    // At the left, top, right and bottom.
    let border: Vec<_> = [3, 2, 3, 2].map(|axis| draw.below(shape[axis] + 1)).to_vec();
    let (left, top) = (border[0], border[1]);
    let is_sized = draw.one_in(2);
    let size = match is_sized {
        true => [draw.below(shape[2] - top + 1), draw.below(shape[3] - left + 1)],
        // Overlapping borders leave nothing.
        false => [
            (shape[2] - top).saturating_sub(border[3]),
            (shape[3] - left).saturating_sub(border[2]),
        ],
    };
    let cropped = vec![shape[0], shape[1], size[0], size[1]];
    let x = draw.any(dtype, &shape);
    let sample = Sample::moving(&x, cropped, move |index| {
        vec![index[0], index[1], top + index[2], left + index[3]]
    });
    let ints = |values: &[usize]| Attr::Ints(values.iter().copied().map(signed).collect());
    sample.attr("border", ints(&border)).maybe("scale", is_sized.then(|| ints(&size)))
}

fn image_scaler(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(4);
    let x = draw.wild(dtype, &shape);
    let scale = draw.pick(&[None, Some(0.1), Some(-2.0)]);
    let bias: Vec<f32> = (0..shape[1]).map(|_| draw.pick(&[0.0, 0.3, -8.5])).collect();
    let sample = Sample::new(&[&x.clone()], {
        let bias = bias.clone();
        move || {
            let x = Array::of(&x);
            let scale = f64::from(scale.unwrap_or(1.0));
            let y = Array::from_fn(&shape, |index| {
                Cell::Float(scale * x.at(index).float() + f64::from(bias[index[1]]))
            });
            // The formula in the same order gives the same doubles.
            Expected::rounded(dtype, y, 0.0)
        }
    });
    sample.attr("bias", Attr::Floats(bias)).maybe("scale", scale.map(Attr::Float))
}

fn max_roi_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape_of_rank(4);
    shape[0] = shape[0].max(1);
    let (n_rois, pooled) = (draw.dim(), [draw.some_dim(), draw.some_dim()]);
    let x = draw.small(dtype, &shape);
    let rois = Array::from_fn(&[n_rois, 5], |index| {
        let image = signed(draw.below(shape[0]));
        let at = if index[1] == 0 { 2 * image } else { draw.int(-5, 12) };
        // Corners can be half way between two elements, or beyond the image.
        Cell::Float(Cell::Int(at.into()).float() / 2.0)
    });
    let regions = match dtype.is_float() {
        true => rois.to_tensor(dtype),
        false => draw.any(dtype, &[n_rois, 5]),
    };
    let scale = draw.pick(&[None, Some(0.5), Some(2.0)]);
    let sample = Sample::new(&[&x.clone(), &regions], move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&[n_rois, shape[1], pooled[0], pooled[1]], |index| {
            let roi = |i: usize| rois.at(&[index[0], i]).float();
            let corner =
                |i: usize| Cell::whole((roi(i) * f64::from(scale.unwrap_or(1.0))).round()).int();
            let side = |axis: usize, first: usize, last: usize| {
                let ends = (corner(first), corner(last));
                bin(ends, (index[axis], pooled[axis - 2]), shape[axis])
            };
            let (rows, columns) = (side(2, 2, 4), side(3, 1, 3));
            let image = usize::try_from(Cell::whole(roi(0)).int()).unwrap();
            let found =
                rows.iter().flat_map(|&row| columns.iter().map(move |&column| (row, column)));
            let found = found.map(|(row, column)| x.at(&[image, index[1], row, column]).float());
            Cell::Float(found.reduce(f64::max).unwrap_or(0.0))
        });
        Expected::exact(dtype, y)
    });
    sample
        .attr("pooled_shape", Attr::Ints(pooled.map(signed).to_vec()))
        .maybe("spatial_scale", scale.map(Attr::Float))
}

/// The positions of an image of `n` in a bin of the side from `first` to `last`: those that it covers at least
/// partly.
fn bin((first, last): (i128, i128), (bin, n_bins): (usize, usize), n: usize) -> Vec<usize> {
    let length = (last - first + 1).max(1);
    let [bin, n_bins] = [bin, n_bins].map(|n| i128::from(signed(n)));
    // The position covers from `at` to `at + 1`, the bin its share of the length.
    let is_covered = |&at: &usize| {
        let at = i128::from(signed(at)) - first;
        (at + 1) * n_bins > bin * length && at * n_bins < (bin + 1) * length
    };
    (0..n).filter(is_covered).collect()
}
