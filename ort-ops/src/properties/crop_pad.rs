//! CenterCropPad.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::onnx("CenterCropPad", &[18], center)];

/// Each axis separately: half of the difference in length is added or removed on each side; the odd one at the end.
fn center(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let rank = shape.len();
    let axes = draw.one_in(2).then(|| draw.axes(rank));
    let named = axes.clone().unwrap_or_else(|| (0..rank).collect());
    let mut target = shape.clone();
    named.iter().for_each(|&axis| target[axis] = draw.dim() + draw.below(3));
    let lengths: Vec<_> = named.iter().map(|&axis| signed(target[axis])).collect();
    let lengths = draw.indices(&[named.len()], &lengths);
    let written = axes.map(|axes| axes.iter().map(|&axis| draw.written(axis, rank)).collect());
    let x = draw.any(dtype, &shape);
    Sample::new(&[&x.clone(), &lengths], move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&target, |at| {
            let old = at.iter().zip(&target).zip(&shape).map(|((&i, &new), &old)| {
                let i = if old > new { i + (old - new) / 2 } else { i };
                i.checked_sub(new.saturating_sub(old) / 2).filter(|&i| i < old)
            });
            let old: Option<Vec<_>> = old.collect();
            old.map_or_else(|| Cell::zero(dtype), |at| x.at(&at).clone())
        });
        Expected::exact(dtype, y)
    })
    .maybe("axes", written.map(Attr::Ints))
}
