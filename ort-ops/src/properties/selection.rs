//! Operators that find elements: not zero, unique, or best.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::array::for_each_index;
use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "NonZero", versions: &[9, 13], draw: non_zero },
    Property { domain: "", name: "Unique", versions: &[11, 28], draw: unique },
    Property { domain: "com.microsoft", name: "Unique", versions: &[1], draw: unique_microsoft },
    Property { domain: "", name: "NonMaxSuppression", versions: &[10, 11], draw: suppression },
];

/// Rows of integers as a tensor.
fn table(rows: &[Vec<usize>], n_columns: usize) -> Expected {
    let cells = rows.iter().flatten().map(|&i| Cell::Int(signed(i).into())).collect();
    let array = Array { shape: vec![rows.len(), n_columns], cells };
    Expected::Tensor { dtype: DType::I64, array, ulps: 0.0, distance: 0.0 }
}

fn non_zero(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let zeros =
        [Cell::zero(dtype), if dtype.is_float() { Cell::Float(-0.0) } else { Cell::zero(dtype) }];
    let x = draw.any(dtype, &shape);
    let x = Array::of(&x).map(|cell| if draw.one_in(2) { draw.pick(&zeros) } else { cell.clone() });
    let x = x.to_tensor(dtype);
    Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let mut places = Vec::new();
        for_each_index(&x.shape, |index| {
            if !is_zero(x.at(index)) {
                places.push(index.to_vec());
            }
        });
        // One position per column.
        let y = Array::from_fn(&[x.shape.len(), places.len()], |index| {
            Cell::Int(signed(places[index[1]][index[0]]).into())
        });
        Expected::exact(DType::I64, y)
    })
}

fn is_zero(cell: &Cell) -> bool {
    match cell {
        Cell::Text(text) => text.is_empty(),
        Cell::Complex(re, im) => (*re, *im) == (0.0, 0.0),
        number => number.float() == 0.0,
    }
}

fn unique(draw: &mut Draw, dtype: DType) -> Sample {
    let is_flat = draw.one_in(2);
    let shape = draw.shape(usize::from(!is_flat));
    let x = repetitive(draw, dtype, &shape);
    let (is_sorted, n_outputs) = (draw.one_in(2), 1 + draw.below(4));
    let axis = if is_flat { None } else { Some(draw.axis(shape.len())) };
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let x = if is_flat { x.reshaped(&[x.cells.len()]) } else { x };
        let mut expected = unique_along(&x, axis.map_or(0, |axis| axis.0), (dtype, is_sorted));
        expected.truncate(n_outputs);
        expected
    });
    let sample = match axis {
        Some((_, written)) => sample.attr("axis", Attr::Int(written)),
        None => sample,
    };
    let is_default = is_sorted && draw.one_in(2);
    let sample = sample.outputs(n_outputs);
    if is_default { sample } else { sample.attr("sorted", Attr::Int(is_sorted.into())) }
}

/// For a vector, in the order of the first occurrences, which are not an output.
fn unique_microsoft(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(1);
    let x = repetitive(draw, dtype, &shape);
    let n_outputs = 1 + draw.below(3);
    let sample = Sample::new(&[&x.clone()], move || {
        let mut expected = unique_along(&Array::of(&x), 0, (dtype, false));
        expected.remove(1);
        expected.truncate(n_outputs);
        expected
    });
    sample.outputs(n_outputs)
}

/// A tensor of few different elements.
fn repetitive(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Tensor {
    let few = Array::of(&draw.any(dtype, &[3])).cells;
    Array::from_fn(shape, |_| draw.pick(&few)).to_tensor(dtype)
}

/// The outputs of Unique over the slices along an axis.
fn unique_along(x: &Array, axis: usize, (dtype, is_sorted): (DType, bool)) -> Vec<Expected> {
    let slice_shape: Vec<_> =
        x.shape.iter().enumerate().map(|(i, &n)| if i == axis { 1 } else { n }).collect();
    let slice = |at: usize| {
        x.picked(&slice_shape, |index| {
            let mut index = index.to_vec();
            index[axis] = at;
            index
        })
    };
    let slices: Vec<_> = (0..x.shape[axis]).map(slice).collect();
    let order = |a: usize, b: usize| {
        let mut orders =
            slices[a].cells.iter().zip(&slices[b].cells).map(|(a, b)| a.total_order(b));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let is_first = |&at: &usize| (0..at).all(|before| order(before, at).is_ne());
    let mut firsts: Vec<usize> = (0..slices.len()).filter(is_first).collect();
    if is_sorted {
        firsts.sort_by(|&a, &b| order(a, b));
    }
    let place = |at: usize| firsts.iter().position(|&first| order(first, at).is_eq()).unwrap();
    let places: Vec<_> = (0..slices.len()).map(place).collect();
    let n_of = |group: usize| places.iter().filter(|&&place| place == group).count();
    let n_each: Vec<_> = (0..firsts.len()).map(n_of).collect();
    let mut shape = x.shape.clone();
    shape[axis] = firsts.len();
    let y = x.picked(&shape, |index| {
        let mut index = index.to_vec();
        index[axis] = firsts[index[axis]];
        index
    });
    let row = |values: &[usize]| {
        let array = Array::ints(&values.iter().copied().map(signed).collect::<Vec<_>>());
        Expected::exact(DType::I64, array)
    };
    [Expected::exact(dtype, y), row(&firsts), row(&places), row(&n_each)]
        .into_iter()
        .flatten()
        .collect()
}

fn suppression(draw: &mut Draw, dtype: DType) -> Sample {
    let [n, n_classes, n_boxes] = [draw.dim(), draw.dim(), draw.dim() * 2];
    let is_centered = draw.one_in(2);
    // Whole coordinates, so that overlaps are exact, and non-negative sizes.
    let boxes = Array::from_fn(&[n, n_boxes, 4], |index| {
        let is_size = is_centered && index[2] >= 2;
        Cell::Float(Cell::Int(draw.int(if is_size { 0 } else { -3 }, 3).into()).float())
    });
    let scores = Array::from_fn(&[n, n_classes, n_boxes], |_| {
        Cell::Float(Cell::Int(draw.int(-3, 3).into()).float() / 4.0)
    });
    let most = draw.one_in(4).then(|| draw.below(4)).or(Some(3)).filter(|_| !draw.one_in(8));
    let float = |draw: &mut Draw| draw.pick(&[None, Some(0.0), Some(0.25), Some(0.5), Some(1.0)]);
    let (overlap, least) = (float(draw), float(draw));
    let inputs = if dtype == DType::F32 {
        [boxes.to_tensor(dtype), scores.to_tensor(dtype)]
    } else {
        [draw.any(dtype, &boxes.shape), draw.any(dtype, &scores.shape)]
    };
    let limits = Limits { most: most.unwrap_or(0), overlap: overlap.unwrap_or(0.0), least };
    let sample = Sample::new(&inputs.each_ref(), move || {
        let mut rows = Vec::new();
        for (image, class) in (0..n * n_classes).map(|at| (at / n_classes, at % n_classes)) {
            let rectangles: Vec<_> = (0..n_boxes)
                .map(|i| sides(is_centered, |k| boxes.at(&[image, i, k]).float()))
                .collect();
            let scores: Vec<_> =
                (0..n_boxes).map(|i| scores.at(&[image, class, i]).float()).collect();
            let taken = limits.taken(&rectangles, &scores);
            rows.extend(taken.into_iter().map(|i| vec![image, class, i]));
        }
        vec![table(&rows, 3)]
    });
    let sample =
        sample.input(2, most.map(|most| Tensor::from_slice(&[1], &[signed(most)]).unwrap()));
    let number = |x: f32| Tensor::from_slice(&[1], &[x]).unwrap();
    let sample = sample.input(3, overlap.map(number)).input(4, least.map(number));
    let is_default = !is_centered && draw.one_in(2);
    let flag = Attr::Int(is_centered.into());
    if is_default { sample } else { sample.attr("center_point_box", flag) }
}

/// The limits of selection.
struct Limits {
    most: usize,
    overlap: f32,
    least: Option<f32>,
}

/// The ends of a box along both axes.
fn sides(is_centered: bool, value: impl Fn(usize) -> f64) -> [(f64, f64); 2] {
    [0, 1].map(|axis| {
        let (a, b) = (value(axis), value(axis + 2));
        if is_centered { (a - b / 2.0, a + b / 2.0) } else { (a.min(b), a.max(b)) }
    })
}

impl Limits {
    /// The selected boxes of a class: repeatedly the best one, the first of equal ones, that overlaps no selected
    /// one.
    fn taken(&self, boxes: &[[(f64, f64); 2]], scores: &[f64]) -> Vec<usize> {
        let is_above = |i: &usize| self.least.is_none_or(|least| scores[*i] > least.into());
        let mut rest: Vec<_> = (0..boxes.len()).filter(is_above).collect();
        let mut taken = Vec::new();
        while taken.len() < self.most && !rest.is_empty() {
            let best = rest
                .iter()
                .fold(rest[0], |best, &i| if scores[i] > scores[best] { i } else { best });
            taken.push(best);
            rest.retain(|&i| i != best && overlap(&boxes[i], &boxes[best]) <= self.overlap.into());
        }
        taken
    }
}

/// Intersection over union; 0 for disjoint boxes.
fn overlap(a: &[(f64, f64); 2], b: &[(f64, f64); 2]) -> f64 {
    let area = |sides: &[(f64, f64)]| {
        sides.iter().map(|(start, end)| (end - start).max(0.0)).product::<f64>()
    };
    let common: Vec<_> = a.iter().zip(b).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))).collect();
    let common = area(&common);
    if common == 0.0 { 0.0 } else { common / (area(a) + area(b) - common) }
}
