//! Classical machine learning: decision trees that vote.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::features::with_some;
use super::forest::{Shape, Tree, by_id, by_index, floats};
use super::linear::{eighths, labelled, labels, n_classes, rows_of};
use super::scores::{TRANSFORMS, first_largest, of_both, transform, transformed};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::ml("TreeEnsemble", &[5], ensemble),
    Property::ml("TreeEnsembleClassifier", &[1, 3, 5], classifier),
    Property::ml("TreeEnsembleRegressor", &[1, 3, 5], regressor),
];

const AGGREGATES: [&str; 4] = ["AVERAGE", "SUM", "MIN", "MAX"];

/// Samples of small whole features, or halves, or missing ones.
fn samples(draw: &mut Draw, dtype: DType, n_features: usize) -> (Tensor, Vec<Vec<f64>>) {
    // There may be features that no tree tests.
    let width = n_features + draw.below(2);
    let shape = if draw.one_in(4) { vec![width] } else { vec![draw.dim(), width] };
    let x = draw.small(dtype, &shape);
    let x = match dtype.is_float() {
        true => {
            let halves = Array::of(&x).map(|cell| Cell::Float(cell.float() / 2.0));
            with_some(draw, &halves.to_tensor(dtype), &Cell::Float(f64::NAN))
        }
        false => x,
    };
    (x.clone(), rows_of(&x))
}

/// The aggregated votes of all trees for a target; `None` without votes.
fn aggregated(forest: &[Tree], x: &[f64], target: usize, by: &str) -> Option<f64> {
    let votes = forest.iter().flat_map(|tree| tree.votes(x)).filter(|vote| vote.0 == target);
    let votes: Vec<_> = votes.map(|vote| f64::from(vote.1)).collect();
    let first = *votes.first()?;
    let n_trees: f64 = forest.iter().map(|_| 1.0).sum();
    Some(match by {
        "MIN" => votes.iter().copied().fold(first, f64::min),
        "MAX" => votes.iter().copied().fold(first, f64::max),
        "AVERAGE" => votes.iter().sum::<f64>() / n_trees,
        _ => votes.iter().sum(),
    })
}

/// The scores of samples, from trees and base values.
fn scores(
    forest: &[Tree],
    rows: &[Vec<f64>],
    base: &[f32],
    (by, transform): (&str, &str),
) -> Array {
    let score = |row: &Vec<f64>| {
        let score = |(target, &base): (usize, &f32)| {
            aggregated(forest, row, target, by).unwrap_or(0.0) + f64::from(base)
        };
        transformed(transform, &base.iter().enumerate().map(score).collect::<Vec<_>>())
    };
    let cells: Vec<_> = rows.iter().flat_map(score).map(Cell::Float).collect();
    Array { shape: vec![rows.len(), base.len()], cells }
}

fn regressor(draw: &mut Draw, dtype: DType) -> Sample {
    let (n_features, n_targets) = (draw.some_dim(), draw.some_dim());
    let shape = Shape { n_features, n_targets, has_sets: false, is_positive: false, only: None };
    let forest = shape.forest(draw);
    let by = draw.pick(&[None, Some("AVERAGE"), Some("SUM"), Some("MIN"), Some("MAX")]);
    let has_base = draw.one_in(2);
    let base = if has_base { eighths(draw, n_targets, -32) } else { vec![0.0; n_targets] };
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let sample = Sample::new(&[&x], {
        let (forest, base) = (forest.clone(), base.clone());
        move || {
            let y = scores(&forest, &rows, &base, (by.unwrap_or("SUM"), transform));
            Expected::rounded(DType::F32, y, 1.0)
        }
    });
    let sample = sample
        .attr("n_targets", Attr::Int(signed(n_targets)))
        .maybe("aggregate_function", by.map(|by| Attr::String(by.to_owned())))
        .maybe("post_transform", written);
    let sample = if has_base { floats(draw, sample, "base_values", base) } else { sample };
    by_id(draw, sample, &forest, "target")
}

fn ensemble(draw: &mut Draw, dtype: DType) -> Sample {
    let (n_features, n_targets) = (draw.some_dim(), draw.some_dim());
    let shape = Shape { n_features, n_targets, has_sets: true, is_positive: false, only: None };
    let forest = shape.forest(draw);
    let by = draw.one_in(2).then(|| draw.below(AGGREGATES.len()));
    let transform = draw.one_in(2).then(|| draw.below(TRANSFORMS.len()));
    let (x, rows) = samples(draw, dtype, n_features);
    let number = |number: usize| Attr::Int(signed(number));
    let sample = Sample::new(&[&x], {
        let forest = forest.clone();
        let names = (AGGREGATES[by.unwrap_or(1)], TRANSFORMS[transform.unwrap_or(0)]);
        move || {
            let y = scores(&forest, &rows, &vec![0.0; n_targets], names);
            // Scores are multiples of 1/32. The probit of one close to a half is a difference of numbers with 10
            // equal bits, which magnifies their errors.
            Expected::rounded(dtype, y, 2048.0)
        }
    });
    let float = if dtype.is_float() { dtype } else { DType::F32 };
    let sample = sample
        .attr("n_targets", number(n_targets))
        .maybe("aggregate_function", by.map(number))
        .maybe("post_transform", transform.map(number));
    by_index(sample, float, &forest)
}

fn classifier(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, n_features) = (n_classes(draw), draw.some_dim());
    let shape = Shape {
        n_features,
        n_targets: n,
        has_sets: false,
        is_positive: draw.one_in(2),
        only: draw.one_in(2).then(|| draw.below(n)),
    };
    let forest = shape.forest(draw);
    let n_base = if n == 2 { draw.pick(&[0, 1, 2]) } else { draw.pick(&[0, n]) };
    let base = eighths(draw, n_base, -32);
    let (labels, label_type, (name, attr)) =
        labels(draw, n, ["classlabels_int64s", "classlabels_strings"]);
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let sample = Sample::new(&[&x], {
        let (forest, base) = (forest.clone(), base.clone());
        move || {
            let classify = |row: &Vec<f64>| {
                let votes: Vec<_> = (0..n).map(|i| aggregated(&forest, row, i, "SUM")).collect();
                match n {
                    2 => of_two(&forest, [votes[0], votes[1]], &base, transform),
                    _ => of_many(&votes, &base, transform),
                }
            };
            labelled(rows.iter().map(classify).collect(), (&labels, label_type), n)
        }
    });
    let sample = sample.outputs(2).attr(name, attr).maybe("post_transform", written);
    let sample = if n_base > 0 { floats(draw, sample, "base_values", base) } else { sample };
    by_id(draw, sample, &forest, "class")
}

/// The first class with the most votes, of those that have any, and the scores.
fn of_many(votes: &[Option<f64>], base: &[f32], transform: &str) -> (usize, Vec<f64>) {
    let based = |(i, votes): (usize, &Option<f64>)| {
        votes.unwrap_or(0.0) + base.get(i).map_or(0.0, |&base| f64::from(base))
    };
    let scores: Vec<_> = votes.iter().enumerate().map(based).collect();
    let is_in = |i: usize| votes[i].is_some() || !base.is_empty();
    let ranked: Vec<_> =
        (0..scores.len()).map(|i| if is_in(i) { scores[i] } else { f64::NEG_INFINITY }).collect();
    (first_largest(&ranked), transformed(transform, &scores))
}

/// Of two classes: the score of the second, or that of the first where the second has no votes,
/// is compared with 0, or with a half if all votes form a probability.
fn of_two(
    forest: &[Tree],
    votes: [Option<f64>; 2],
    base: &[f32],
    transform: &str,
) -> (usize, Vec<f64>) {
    let all: Vec<_> = forest.iter().flat_map(Tree::all_votes).collect();
    let is_of_one = all.first().is_some_and(|first| all.iter().all(|vote| vote.0 == first.0));
    let is_probability = is_of_one && all.iter().all(|vote| vote.1 >= 0.0);
    let mut scores = votes.map(|votes| votes.unwrap_or(0.0));
    match *base {
        [first, second] => {
            scores[0] += f64::from(first);
            scores[1] += f64::from(second);
        }
        // A single base value belongs to the first class, if that has votes.
        [first] if votes[0].is_some() => scores[0] += f64::from(first),
        _ => {}
    }
    let score = if votes[1].is_some() { scores[1] } else { scores[0] };
    let is_lone = votes[1].is_none() && base.len() < 2 && (is_of_one || base.is_empty());
    let columns = match is_lone {
        true => of_both(transform, score, is_probability),
        false => transformed(transform, &scores),
    };
    (usize::from(score > if is_probability { 0.5 } else { 0.0 }), columns)
}
