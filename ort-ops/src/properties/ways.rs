//! Operators of com.microsoft on windows of an axis, and on paths through a matrix.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::tokens::tokens;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("DynamicTimeWarping", time_warping),
    Property::microsoft("UnfoldTensor", unfold),
    Property::microsoft("WordConvEmbedding", word_embedding),
];

fn unfold(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    shape[axis] = 1 + draw.below(6);
    let size = 1 + draw.below(shape[axis]);
    let step = draw.pick(&[None, Some(1), Some(2), Some(9)]);
    let x = draw.any(dtype, &shape);
    let stride = step.unwrap_or(1);
    shape[axis] = (shape[axis] - size) / stride + 1;
    shape.push(size);
    let is_last = axis + 2 == shape.len();
    let sample = Sample::moving(&x, shape, move |index| {
        let (&within, index) = index.split_last().unwrap();
        let mut index = index.to_vec();
        index[axis] = index[axis] * stride + within;
        index
    });
    let is_written = !is_last || draw.one_in(2);
    sample
        .maybe("dim", is_written.then_some(Attr::Int(written)))
        .attr("size", Attr::Int(signed(size)))
        .maybe("step", step.map(|step| Attr::Int(signed(step))))
}

fn time_warping(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(2);
    let batch = if draw.one_in(2) { vec![] } else { vec![1] };
    let x = draw.small(dtype, &[batch, shape.clone()].concat());
    Sample::new(&[&x.clone()], move || {
        let way = cheapest_way(&Array::of(&x).reshaped(&shape));
        let y = Array::from_fn(&[2, way.len()], |index| {
            Cell::Int(signed(way[index[1]][index[0]]).into())
        });
        Expected::exact(DType::I32, y)
    })
}

/// The cheapest path from the first element to the last, by rows and columns: of equal paths to an element, the one
/// with a step to the right.
fn cheapest_way(cost: &Array) -> Vec<[usize; 2]> {
    let [n_rows, n_columns] = [cost.shape[0], cost.shape[1]];
    // The cost of the cheapest path to each element, and its last step: how far down and right.
    let mut totals: Vec<Vec<(f64, [usize; 2])>> = Vec::new();
    for i in 0..n_rows {
        totals.push(Vec::new());
        for j in 0..n_columns {
            let before = |[down, right]: [usize; 2]| {
                let from = i.checked_sub(down).zip(j.checked_sub(right));
                let total = from.map_or(f64::INFINITY, |(i, j)| totals[i][j].0);
                (if [i, j] == [0, 0] && down + right == 2 { 0.0 } else { total }, [down, right])
            };
            let [both, down, right] = [[1, 1], [1, 0], [0, 1]].map(before);
            let best = if both.0 < down.0.min(right.0) {
                both
            } else if down.0 < both.0.min(right.0) {
                down
            } else {
                right
            };
            totals[i].push((best.0 + cost.at(&[i, j]).float(), best.1));
        }
    }
    let mut way = Vec::new();
    let mut at = n_rows.checked_sub(1).zip(n_columns.checked_sub(1));
    while let Some((i, j)) = at {
        way.insert(0, [i, j]);
        let [down, right] = totals[i][j].1;
        at = i.checked_sub(down).zip(j.checked_sub(right));
    }
    way
}

fn word_embedding(draw: &mut Draw, dtype: DType) -> Sample {
    let [n_words, n_filters] = [draw.dim(), draw.dim()];
    let [window, size, n_characters] = [draw.some_dim(), draw.some_dim(), 1 + draw.below(4)];
    let length = window + draw.below(4);
    let words = tokens(draw, DType::I32, &[n_words, length], n_characters);
    let small = draw.small(dtype, &[n_filters, 1, window, size]);
    let filters = match dtype.is_float() {
        // Sums near zero, where the hyperbolic tangent is not one.
        true => Array::of(&small).map(|cell| Cell::Float(cell.float() / 16.0)).to_tensor(dtype),
        false => small,
    };
    let (bias, table) = (draw.small(dtype, &[n_filters]), draw.small(dtype, &[n_characters, size]));
    let sample = Sample::new(&[&words.clone(), &filters.clone(), &bias.clone(), &table.clone()], {
        move || {
            let [words, filters, bias, table] = [&words, &filters, &bias, &table].map(Array::of);
            let y = Array::from_fn(&[n_words, n_filters], |index| {
                let [word, filter] = [index[0], index[1]];
                let character = |at: usize| words.index_at(&[word, at], n_characters);
                let sum = |start: usize| {
                    let product = |at: usize, element: usize| {
                        filters.at(&[filter, 0, at, element]).float()
                            * table.at(&[character(start + at), element]).float()
                    };
                    let elements = (0..window).flat_map(|at| (0..size).map(move |e| (at, e)));
                    elements.map(|(at, e)| product(at, e)).sum::<f64>() + bias.cells[filter].float()
                };
                let n = (0..length).filter(|&at| character(at) > 0).count().max(window);
                let values = (0..=n - window).map(|start| sum(start).tanh());
                Cell::Float(if character(0) == 0 { 0.0 } else { values.reduce(f64::max).unwrap() })
            });
            // Of the exact sum.
            Expected::rounded(dtype, y, 1.0)
        }
    });
    let mut given = |n: usize| draw.pick(&[None, Some(-1), Some(signed(n))]).map(Attr::Int);
    sample
        .maybe("embedding_size", given(n_filters))
        .maybe("conv_window_size", given(window))
        .maybe("char_embedding_size", given(size))
}
