//! Convolutions: sums of small whole numbers, which are exact.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::array::indices;
use super::draw::signed;
use super::function::{Function, ULPS};
use super::windows::{Windows, ints};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Conv", &[1, 11, 22], |draw, dtype| conv(draw, dtype, false)),
    Property::microsoft("FusedConv", |draw, dtype| conv(draw, dtype, true)),
    Property::onnx("DeformConv", &[19, 22], deformed),
];

/// The shapes of a convolution.
#[derive(Clone)]
pub(super) struct Convolution {
    pub(super) windows: Windows,
    pub(super) group: usize,
    /// `[N, C, D₁, …]`
    pub(super) x: Vec<usize>,
    /// `[M, C/group, K₁, …]`
    pub(super) w: Vec<usize>,
}

impl Convolution {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let windows = Windows::draw(draw, true, false);
        let group = draw.pick(&[1, 1, 2, 3]);
        let (c, m) = (1 + draw.below(2), group * (1 + draw.below(2)));
        let x = [&[draw.dim().min(2), group * c], &windows.input[..]].concat();
        let w = [&[m, c], &windows.kernel[..]].concat();
        Self { windows, group, x, w }
    }

    /// `[N, M, P₁, …]`
    pub(super) fn y(&self) -> Vec<usize> {
        [&[self.x[0], self.w[0]], &self.windows.output[..]].concat()
    }

    /// `Σ w[m, c, k] · seen(image, channel, window, k)`, where padding is 0.
    fn sums(
        &self,
        dtype: DType,
        w: &Array,
        seen: impl Fn(&[usize], usize, &[usize]) -> Option<Cell>,
    ) -> Array {
        let (taps, members) = (self.windows.taps(), self.w[0] / self.group);
        Array::from_fn(&self.y(), |at| {
            let first = at[1] / members * self.w[1];
            let places = (0..self.w[1]).flat_map(|c| taps.iter().map(move |tap| (c, tap)));
            let term = |(c, tap): (usize, &Vec<usize>)| {
                let weight = w.at(&[&[at[1], c], &tap[..]].concat()).clone();
                Some([weight, seen(at, first + c, tap)?])
            };
            Cell::sum_of_products(dtype, places.filter_map(term))
        })
    }

    /// The convolution of `x` with `w`.
    pub(super) fn of(&self, dtype: DType, x: &Array, w: &Array) -> Array {
        self.sums(dtype, w, |at, channel, tap| {
            let place = self.windows.element(&at[2..], tap)?;
            Some(x.at(&[&[at[0], channel], &place[..]].concat()).clone())
        })
    }

    /// A node with the attributes of this convolution.
    pub(super) fn written(&self, draw: &mut Draw, sample: Sample) -> Sample {
        let has_group = self.group > 1 || draw.one_in(2);
        let has_kernel = draw.one_in(2);
        self.windows
            .written(sample)
            .maybe("group", has_group.then(|| Attr::Int(signed(self.group))))
            .maybe("kernel_shape", has_kernel.then(|| ints(&self.windows.kernel)))
    }
}

/// A tensor that may be absent.
pub(super) fn optional(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Option<Tensor> {
    let tensor = draw.small(dtype, shape);
    Some(tensor).filter(|_| draw.one_in(2))
}

/// The number at an index, 0 where there is none.
pub(super) fn term(x: Option<&Array>, index: &[usize]) -> f64 {
    x.map_or(0.0, |x| x.at(index).float())
}

fn conv(draw: &mut Draw, dtype: DType, is_fused: bool) -> Sample {
    let convolution = Convolution::draw(draw);
    let x = draw.small(dtype, &convolution.x);
    let w = draw.small(dtype, &convolution.w);
    let b = optional(draw, dtype, &convolution.w[..1]);
    let z = optional(draw, dtype, &convolution.y()).filter(|_| is_fused);
    let function = is_fused.then(|| Function::draw(draw)).filter(|_| draw.one_in(2));
    let name = function.as_ref().map(Function::written);
    let parameters = function.as_ref().map(|function| Attr::Floats(function.parameters.clone()));
    let ulps = if function.is_some() { ULPS } else { 0.0 };
    let sample = Sample::new(&[&x.clone(), &w.clone()], {
        let (convolution, b, z) = (convolution.clone(), b.clone(), z.clone());
        move || {
            let y = convolution.of(dtype, &Array::of(&x), &Array::of(&w));
            let [b, z] = [&b, &z].map(|x| x.as_ref().map(Array::of));
            let y = Array::from_fn(&y.shape, |at| {
                let sum = y.at(at).float() + term(b.as_ref(), &at[1..2]) + term(z.as_ref(), at);
                Cell::Float(function.as_ref().map_or(sum, |function| function.apply(sum)))
            });
            Expected::near(dtype, y, ulps)
        }
    });
    let sample = if b.is_some() { sample.input(2, b) } else { sample };
    let sample = if z.is_some() { sample.input(3, z) } else { sample };
    convolution
        .written(draw, sample)
        .maybe("activation", name)
        .maybe("activation_params", parameters)
}

/// Linear interpolation between elements; 0 outside.
fn between(x: &Array, plane: &[usize], place: &[f64]) -> f64 {
    let corner = |corner: Vec<usize>| {
        let mut weight = 1.0;
        let mut index = plane.to_vec();
        for (axis, (&place, side)) in place.iter().zip(corner).enumerate() {
            let at = place.floor() + side as f64;
            weight *= 1.0 - (place - at).abs();
            let n = x.shape[plane.len() + axis];
            match (0..n).find(|&i| i as f64 == at) {
                Some(i) => index.push(i),
                None => return 0.0,
            }
        }
        weight * x.at(&index).float()
    };
    indices(&vec![2; place.len()]).into_iter().map(corner).sum()
}

/// Offsets are multiples of ½, so that weights are exact.
fn deformed(draw: &mut Draw, dtype: DType) -> Sample {
    let mut convolution = Convolution::draw(draw);
    convolution.windows.attrs.retain(|(name, _)| *name != "auto_pad");
    let pads = [&convolution.windows.begin[..], &convolution.windows.end].concat();
    convolution.windows.attrs.push(("pads", ints(&pads)));
    let n_alike = if convolution.x[1].is_multiple_of(2) { draw.pick(&[1, 2]) } else { 1 };
    let offset_group = convolution.x[1] / n_alike;
    let taps = convolution.windows.taps();
    let rank = convolution.windows.kernel.len();
    let per_tap = |n: usize| {
        let first = [convolution.x[0], offset_group * taps.len() * n];
        [&first, &convolution.windows.output[..]].concat()
    };
    let x = draw.small(dtype, &convolution.x);
    let w = draw.small(dtype, &convolution.w);
    let offset = draw.small(dtype, &per_tap(rank));
    let offset = match dtype.is_float() {
        true => Array::of(&offset).map(|cell| Cell::Float(cell.float() / 2.0)).to_tensor(dtype),
        false => offset,
    };
    let b = optional(draw, dtype, &convolution.w[..1]);
    let mask = optional(draw, dtype, &per_tap(1));
    let sample = Sample::new(&[&x.clone(), &w.clone(), &offset.clone()], {
        let (convolution, b, mask) = (convolution.clone(), b.clone(), mask.clone());
        move || {
            let [x, w, offset] = [&x, &w, &offset].map(Array::of);
            let [b, mask] = [&b, &mask].map(|x| x.as_ref().map(Array::of));
            let windows = &convolution.windows;
            let seen = |at: &[usize], channel: usize, tap: &[usize]| {
                let k = taps.iter().position(|other| other == tap).unwrap();
                let k = channel / n_alike * taps.len() + k;
                let at_tap = |k: usize| [&[at[0], k], &at[2..]].concat();
                let along = |axis: usize| {
                    let start = at[2 + axis] * windows.strides[axis];
                    let ahead = start + tap[axis] * windows.dilations[axis];
                    let moved = offset.at(&at_tap(k * rank + axis)).float();
                    ahead as f64 - windows.begin[axis] as f64 + moved
                };
                let place: Vec<_> = (0..rank).map(along).collect();
                let factor = mask.as_ref().map_or(1.0, |mask| mask.at(&at_tap(k)).float());
                Some(Cell::Float(factor * between(&x, &[at[0], channel], &place)))
            };
            let y = convolution.sums(dtype, &w, seen);
            let y = Array::from_fn(&y.shape, |at| {
                Cell::Float(y.at(at).float() + term(b.as_ref(), &at[1..2]))
            });
            Expected::exact(dtype, y)
        }
    });
    let sample = if b.is_some() { sample.input(3, b) } else { sample };
    let sample = if mask.is_some() { sample.input(4, mask) } else { sample };
    let has_offset_group = offset_group > 1 || draw.one_in(2);
    convolution
        .written(draw, sample)
        .maybe("offset_group", has_offset_group.then(|| Attr::Int(signed(offset_group))))
}
