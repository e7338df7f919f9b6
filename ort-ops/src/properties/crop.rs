//! Boxes cropped from images, at positions that binary fractions represent exactly.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::microsoft("CropAndResize", crop_and_resize)];

/// The position of an element of a crop on an axis of `n` elements.
fn place([start, end]: [f64; 2], n: usize, i: usize, len: usize) -> f64 {
    let greatest = n as f64 - 1.0;
    match len {
        1 => 0.5 * (start + end) * greatest,
        _ => greatest * (start + (end - start) * i as f64 / (len as f64 - 1.0)),
    }
}

fn crop_and_resize(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = [draw.some_dim(), draw.dim(), draw.some_dim(), draw.some_dim()];
    let n_boxes = draw.dim();
    let size = [0, 1].map(|_| draw.pick(&[1, 2, 3, 5]));
    let x = draw.small(dtype, &shape);
    let boxes = Array::from_fn(&[n_boxes, 4], |_| {
        Cell::Float(draw.pick(&[-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25]))
    });
    let stored =
        if dtype.is_float() { boxes.to_tensor(dtype) } else { draw.any(dtype, &[n_boxes, 4]) };
    let images =
        Array::from_fn(&[n_boxes], |_| Cell::Int(draw.int(0, signed(shape[0]) - 1).into()));
    let mode = draw.pick(&[None, Some("bilinear"), Some("nearest")]);
    let outside = draw.pick(&[None, Some(-1.5)]);
    let written = Tensor::from_slice(&[2], &size.map(|n| i32::try_from(n).unwrap())).unwrap();
    let operands = [x.clone(), stored, images.to_tensor(DType::I32), written];
    let sample = Sample::new(&operands.each_ref(), move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&[n_boxes, shape[1], size[0], size[1]], |at| {
            let image = usize::try_from(images.cells[at[0]].int()).unwrap();
            let along = |axis: usize| {
                let corner = |i: usize| boxes.at(&[at[0], i]).float();
                place([corner(axis), corner(axis + 2)], shape[2 + axis], at[2 + axis], size[axis])
            };
            let places = [along(0), along(1)];
            let is_inside =
                |axis: usize| (0.0..=shape[2 + axis] as f64 - 1.0).contains(&places[axis]);
            if !is_inside(0) || !is_inside(1) {
                return Cell::Float(outside.unwrap_or(0.0).into());
            }
            let weight = |place: f64, i: usize| match mode {
                Some("nearest") => f64::from(u8::from(place.round() == i as f64)),
                _ => (1.0 - (place - i as f64).abs()).max(0.0),
            };
            let mut sum = 0.0;
            for (i, j) in (0..shape[2]).flat_map(|i| (0..shape[3]).map(move |j| (i, j))) {
                let weight = weight(places[0], i) * weight(places[1], j);
                sum += weight * x.at(&[image, at[1], i, j]).float();
            }
            Cell::Float(sum)
        });
        Expected::exact(dtype, y)
    });
    sample
        .maybe("mode", mode.map(|mode| Attr::String(mode.into())))
        .maybe("extrapolation_value", outside.map(Attr::Float))
}
