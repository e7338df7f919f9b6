//! Operators along an axis, which map each lane of cells to another.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::ints;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("CumProd", &[26], |draw, dtype| cumulative(draw, dtype, Cell::product)),
    Property::onnx("CumSum", &[11, 14], |draw, dtype| cumulative(draw, dtype, Cell::sum)),
    Property::onnx("Hardmax", &[1, 11, 13], |draw, dtype| softmax(draw, dtype, hardmax)),
    Property::onnx("LogSoftmax", &[1, 11, 13], |draw, dtype| {
        softmax(draw, dtype, |lane| {
            of_floats(lane, |x, lane| -lane.iter().map(|other| (other - x).exp()).sum::<f64>().ln())
        })
    }),
    Property::onnx("LpNormalization", &[1, 22], lp_normalization),
    Property::onnx("Softmax", &[1, 11, 13], |draw, dtype| {
        softmax(draw, dtype, |lane| {
            of_floats(lane, |x, lane| 1.0 / lane.iter().map(|other| (other - x).exp()).sum::<f64>())
        })
    }),
    Property::onnx("TopK", &[1, 10, 11, 24], top_k),
];

/// Each element of a lane mapped, given the lane.
fn of_floats(lane: &[&Cell], f: impl Fn(f64, &[f64]) -> f64) -> Vec<Cell> {
    let lane: Vec<_> = lane.iter().map(|x| x.float()).collect();
    lane.iter().map(|&x| Cell::Float(f(x, &lane))).collect()
}

/// Each lane along the axis mapped; before version 13 all axes from it on are flattened.
fn softmax(draw: &mut Draw, dtype: DType, f: fn(&[&Cell]) -> Vec<Cell>) -> Sample {
    let rank = 1 + draw.below(4);
    let shape = draw.shape_of_rank(rank);
    let x = draw.real(dtype, &shape, 4.0);
    let (axis, written) = draw.axis(rank);
    let (axes, default): (Vec<_>, _) = match draw.version {
        ..13 => ((axis..rank).collect(), 1),
        _ => (vec![axis], rank - 1),
    };
    let is_written = axis != default || draw.one_in(2);
    let operand = x.clone();
    Sample::new(&[&x], move || {
        // Where one element outweighs the others e⁸ times, a logarithm loses 12 bits.
        Expected::rounded(dtype, Array::of(&operand).regrouped(&axes, f), 4096.0)
    })
    .maybe("axis", is_written.then_some(Attr::Int(written)))
}

fn hardmax(lane: &[&Cell]) -> Vec<Cell> {
    let first = Cell::extreme(Ordering::Greater, lane.iter().copied()).map(|(at, _)| at);
    (0..lane.len()).map(|i| Cell::Float(if Some(i) == first { 1.0 } else { 0.0 })).collect()
}

fn lp_normalization(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let x = draw.small(dtype, &shape);
    let (axis, written) = draw.axis(shape.len());
    let is_written = axis != shape.len() - 1 || draw.one_in(2);
    let p = draw.pick(&[None, Some(1), Some(2)]);
    let power: i32 = p.unwrap_or(2);
    let operand = x.clone();
    Sample::new(&[&x], move || {
        let y = Array::of(&operand).regrouped(&[axis], |lane| {
            of_floats(lane, |x, lane| {
                let sum: f64 = lane.iter().map(|x| x.abs().powi(power)).sum();
                if sum == 0.0 { 0.0 } else { x / sum.powf(1.0 / f64::from(power)) }
            })
        });
        // The sum is exact; a root and a quotient follow.
        Expected::rounded(dtype, y, 2.0)
    })
    .maybe("axis", is_written.then_some(Attr::Int(written)))
    .maybe("p", p.map(|p| Attr::Int(p.into())))
}

/// `f` of the elements up to each, without itself if the node is exclusive; from each to
/// the last if it is reverse.
fn cumulative(draw: &mut Draw, dtype: DType, f: fn(DType, &[&Cell]) -> Cell) -> Sample {
    let shape = draw.shape(1);
    let x = draw.small(dtype, &shape);
    let (axis, written) = draw.axis(shape.len());
    let (is_exclusive, exclusive) = draw.flag(false);
    let (is_reverse, reverse) = draw.flag(false);
    let operand = x.clone();
    Sample::new(&[&x, &draw.indices(&[], &[written])], move || {
        let y = Array::of(&operand).regrouped(&[axis], |lane| {
            let part = |i| match (is_reverse, is_exclusive) {
                (false, false) => &lane[..=i],
                (false, true) => &lane[..i],
                (true, false) => &lane[i..],
                (true, true) => &lane[i + 1..],
            };
            (0..lane.len()).map(|i| f(dtype, part(i))).collect()
        });
        Expected::exact(dtype, y)
    })
    .maybe("exclusive", exclusive)
    .maybe("reverse", reverse)
}

/// The elements of each lane in order, equal ones by their index, the first `k`.
/// Numbers are small, so that many are equal.
fn top_k(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let x = draw.small(dtype, &shape);
    let (axis, written) = draw.axis(shape.len());
    let is_written = axis != shape.len() - 1 || draw.one_in(2);
    let k = draw.below(shape[axis] + 1);
    let (is_largest, largest) = draw.flag(true);
    let is_largest = is_largest || draw.version < 11;
    let operand = x.clone();
    let sample = Sample::new(&[&x], move || {
        let x = Array::of(&operand);
        let places = |lane: &[&Cell]| {
            let mut places: Vec<_> = (0..lane.len()).collect();
            places.sort_by(|&a, &b| {
                let order = lane[a].order(lane[b]).unwrap();
                if is_largest { order.reverse() } else { order }
            });
            places
        };
        let values = x.regrouped(&[axis], |lane| {
            places(lane).into_iter().map(|at| lane[at].clone()).collect()
        });
        let indices = x.regrouped(&[axis], |lane| {
            places(lane).into_iter().map(|at| Cell::Int(at.try_into().unwrap())).collect()
        });
        let first = |array: Array| array.truncated(axis, k);
        [Expected::exact(dtype, first(values)), Expected::exact(DType::I64, first(indices))]
            .into_iter()
            .flatten()
            .collect()
    });
    let sample = sample.outputs(2).maybe("axis", is_written.then_some(Attr::Int(written)));
    let k = i64::try_from(k).unwrap();
    match draw.version {
        ..10 => sample.attr("k", Attr::Int(k)),
        10 => sample.input(1, ints(&[k])),
        _ => {
            sample.input(1, ints(&[k])).maybe("largest", largest).maybe("sorted", draw.flag(true).1)
        }
    }
}
