//! CropAndResize: boxes cropped from images and resized to one size.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Room, TensorView, try_collected, with_dtype,
};

use crate::elementwise::{only, unsupported};
use crate::floats::read;
use crate::infer::{expect_dims, int_values};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "CropAndResize",
    versions: (1, 1),
    types: DType::is_float,
    build: CropAndResize::build,
}];

/// CropAndResize: `x`: `[N, C, H, W]`, `rois`: `[R, 4]` (y₁, x₁, y₂, x₂; 0 and 1 being the centres of
/// the outermost elements), one float type; `batch_indices`: `[R]`, the size of a crop: `[2]`, int32;
/// `y`: `[R, C, height, width]`. The outermost elements of a crop lie on the edges of its box, a
/// single one in its middle. A place outside the image gives `extrapolation_value`; others are
/// weighted linearly, or the nearest element (half away from zero). Places are computed in float32
/// unless `x` is double, so that ties fall as in ONNX Runtime.
///
/// Source: com.microsoft, CropAndResize-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CropAndResize {
    /// Whether a value is that of the nearest element.
    pub is_nearest: bool,
    /// The value outside the image.
    pub extrapolation_value: f32,
}

/// A position between two elements of an axis, with its distance from the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    before: usize,
    after: usize,
    ratio: f64,
}

impl CropAndResize {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let is_nearest = match spec.string("mode")? {
            None | Some("bilinear") => false,
            Some("nearest") => true,
            Some(found) => {
                return Err(OpError::AttributeValue { name: "mode", found: found.to_owned() });
            }
        };
        let extrapolation_value = spec.float("extrapolation_value")?.unwrap_or(0.0);
        Ok(Arc::new(Self { is_nearest, extrapolation_value }))
    }

    /// The places of the `len` elements of a crop on an axis of `n` elements, from `start` to `end`; `None` outside of it.
    pub fn places(
        self,
        [start, end]: [f64; 2],
        n: usize,
        len: usize,
        is_double: bool,
    ) -> impl Iterator<Item = Option<Place>> {
        // A sum or product in double precision, rounded, equals that of float32.
        let round = move |x: f64| if is_double { x } else { f64::from(f32::from_f64(x)) };
        let greatest = n as f64 - 1.0;
        let step = round(round(round(end - start) * greatest) / (len as f64 - 1.0));
        let place = move |i: usize| match i {
            _ if len == 1 => round(0.5 * round(start + end) * greatest),
            0 => round(start * greatest),
            _ if i + 1 == len => round(end * greatest),
            _ => round(round(start * greatest) + round(i as f64 * step)),
        };
        (0..len).map(move |i| self.inside(place(i), greatest))
    }

    /// The elements around a place; `None` beyond the greatest.
    fn inside(self, place: f64, greatest: f64) -> Option<Place> {
        // NaN is outside.
        let is_inside = place >= 0.0 && place <= greatest;
        let index = |place: f64| usize::try_from(u64::from_f64(place)).unwrap_or(usize::MAX);
        let (before, after) = if self.is_nearest {
            (place.round(), place.round())
        } else {
            (place.floor(), place.ceil())
        };
        let ratio = if self.is_nearest { 0.0 } else { place - before };
        is_inside.then(|| Place { before: index(before), after: index(after), ratio })
    }

    /// A row of a crop, at a place between two rows of a plane and at places between its columns.
    ///
    /// # Panics
    /// If a place is outside the plane, whose rows have `width` elements.
    pub fn row<T: Number>(
        self,
        (plane, width): (&[T], usize),
        row: Option<Place>,
        columns: &[Option<Place>],
        y: &mut [T],
    ) {
        let outside = T::from_f64(f64::from(self.extrapolation_value));
        let Some(row) = row else { return y.fill(outside) };
        let rows = [row.before, row.after].map(|row| &plane[row * width..][..width]);
        for (y, column) in y.iter_mut().zip(columns) {
            *y = column.map_or(outside, |column| {
                let [before, after] = rows.map(|row| {
                    let value = |column: usize| row[column].to_f64();
                    weighted(value(column.before), value(column.after), column.ratio)
                });
                T::from_f64(weighted(before, after, row.ratio))
            });
        }
    }

    fn compute<T: Number>(
        self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (x, rois, images) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let (&[n, c, height, width], &[n_rois, 4]) = (x.shape(), rois.shape()) else {
            let (left, right) = (x.shape().to_vec(), rois.shape().to_vec());
            return Err(OpError::Shapes { what: "images and boxes", left, right });
        };
        if images.shape() != [n_rois] {
            let (left, right) = (images.shape().to_vec(), vec![n_rois]);
            return Err(OpError::Shapes { what: "boxes and indices of images", left, right });
        }
        let [crop_height, crop_width] = crop_size(&int_values(inputs.tensor(3)?)?)?;
        let y = output.tensor(T::DTYPE, &[n_rois, c, crop_height, crop_width])?;
        let y = y.into_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let (x, rois) = (x.as_slice::<T>()?, read(rois)?);
        let is_double = T::DTYPE == DType::F64;
        let boxes = rois.chunks_exact(4).zip(indices(images, n)?);
        let mut pace = Pace::new();
        for ((corners, image), y) in boxes.zip(y.chunks_exact_mut(c * crop_height * crop_width)) {
            let rows = self.places([corners[0], corners[2]], height, crop_height, is_double);
            let columns = self.places([corners[1], corners[3]], width, crop_width, is_double);
            let (rows, columns) = (Room::of(rows)?, Room::of(columns)?);
            for (channel, y) in y.chunks_exact_mut(crop_height * crop_width).enumerate() {
                let plane = &x[(image * c + channel) * height * width..][..height * width];
                for (y, row) in y.chunks_exact_mut(crop_width).zip(rows.iter()) {
                    pace.go(8 * crop_width)?;
                    self.row((plane, width), *row, &columns, y);
                }
            }
        }
        Ok(())
    }
}

/// The value between `a` and `b`; at `a` it does not depend on `b`.
fn weighted(a: f64, b: f64, ratio: f64) -> f64 {
    if ratio == 0.0 { a } else { a + (b - a) * ratio }
}

fn crop_size(size: &[i64]) -> Result<[usize; 2], OpError> {
    let positive = |n: i64| usize::try_from(n).ok().filter(|&n| n > 0);
    let size = match *size {
        [height, width] => positive(height).zip(positive(width)),
        _ => None,
    };
    let wrong = OpError::InputValue { index: 3, what: "takes a positive height and width" };
    size.map(|(height, width)| [height, width]).ok_or(wrong)
}

/// The image of each of the `n` boxes.
fn indices(images: TensorView<'_>, n: usize) -> Result<Vec<usize>, OpError> {
    let inside = |index: i64| {
        let image = usize::try_from(index).ok().filter(|&image| image < n);
        image.ok_or(OpError::Index { what: "batch_indices of CropAndResize", index, len: n })
    };
    try_collected(int_values(images)?.into_iter().map(inside))
}

impl Operator for CropAndResize {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        (1..4).try_for_each(|index| inputs.fact(index).map(drop))?;
        inputs.expect_dtype(1, dtype)?;
        (2..4).try_for_each(|index| inputs.expect_dtype(index, DType::I32))?;
        let any = || Dim::Unknown;
        expect_dims(inputs, 0, &[any(), any(), any(), any()])?;
        expect_dims(inputs, 1, &[any(), Dim::Known(4)])?;
        let dim = |index: usize, axis: usize| {
            inputs.get(index).and_then(Fact::dims).map_or(Dim::Unknown, |dims| dims[axis].clone())
        };
        expect_dims(inputs, 2, &[dim(1, 0)])?;
        let n_rois = dim(2, 0).unify(&dim(1, 0)).unwrap_or(Dim::Unknown);
        let size = inputs.fact(3)?.ints().map(|size| crop_size(&size)).transpose()?;
        let size = size.map_or([any(), any()], |size| size.map(Dim::Known));
        Ok(vec![Fact::tensor(dtype, [n_rois, dim(0, 1)].into_iter().chain(size))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let dtype = inputs.tensor(0)?.dtype();
        with_dtype!(dtype, float, T => self.compute::<T>(inputs, only(outputs)?),
            else => Err(unsupported(0, dtype)))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn case(mode: &str) -> Case {
        let case = Case::new("CropAndResize", 1).domain("com.microsoft");
        case.attr("mode", Attr::String(mode.into())).attr("extrapolation_value", Attr::Float(-1.0))
    }

    fn run(mode: &str, corners: [f32; 4], size: [i32; 2]) -> Result<Vec<f32>, String> {
        let x: Vec<f32> = (0_u8..18).map(f32::from).collect();
        let y = case(mode).tensor(&[
            tensor(&[2, 1, 3, 3], &x),
            tensor(&[1, 4], &corners),
            tensor(&[1], &[1_i32]),
            tensor(&[2], &size),
        ])?;
        Ok(y.as_slice::<f32>().unwrap().to_vec())
    }

    #[test]
    fn the_corners_of_a_crop_are_those_of_its_box() {
        let whole = [0.0, 0.0, 1.0, 1.0];
        assert_eq!(run("bilinear", whole, [2, 2]), Ok(vec![9.0, 11.0, 15.0, 17.0]));
        assert_eq!(run("bilinear", whole, [1, 1]), Ok(vec![13.0]));
        let rows = vec![9.0, 9.5, 10.0, 10.5, 11.0];
        assert_eq!(run("bilinear", [0.0, 0.0, 0.0, 1.0], [1, 5]), Ok(rows));
        assert_eq!(
            run("nearest", [0.0, 0.0, 0.0, 1.0], [1, 5]),
            Ok(vec![9.0, 10.0, 10.0, 11.0, 11.0])
        );
        let flipped = vec![17.0, 14.0, 11.0];
        assert_eq!(run("nearest", [1.0, 1.0, 0.0, 1.0], [3, 1]), Ok(flipped));
    }

    #[test]
    fn outside_the_image_is_the_extrapolation_value() {
        let y = run("bilinear", [0.5, -0.5, 0.5, 1.5], [1, 5]);
        assert_eq!(y, Ok(vec![-1.0, 12.0, 13.0, 14.0, -1.0]));
        let nowhere = run("nearest", [f32::NAN, f32::INFINITY, 0.0, f32::MAX], [1, 1]);
        assert_eq!(nowhere, Ok(vec![-1.0]));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        assert!(run("bilinear", [0.0; 4], [0, 1]).is_err());
        assert!(run("cubic", [0.0; 4], [1, 1]).is_err());
        let inputs = |index: i32| {
            [
                tensor(&[1, 1, 1, 1], &[f16::ONE]),
                tensor(&[1, 4], &[f16::ZERO; 4]),
                tensor(&[1], &[index]),
                tensor(&[2], &[1_i32, 2]),
            ]
        };
        let y = case("bilinear").tensor(&inputs(0));
        assert_eq!(y, Ok(tensor(&[1, 1, 1, 2], &[f16::ONE; 2])));
        assert!(case("bilinear").tensor(&inputs(1)).is_err());
        assert!(case("bilinear").tensor(&inputs(-1)).is_err());
        let mut empty = inputs(0);
        empty[1] = tensor::<f16>(&[0, 4], &[]);
        empty[2] = tensor::<i32>(&[0], &[]);
        let none = Tensor::zeros(ort_tensor::DType::F16, &[0, 1, 1, 2]).unwrap();
        assert_eq!(case("bilinear").tensor(&empty), Ok(none));
    }
}
