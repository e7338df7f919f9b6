//! Classical machine learning: features that are selected, scaled, or concatenated.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::ml("ArrayFeatureExtractor", &[1], extractor),
    Property::ml("Binarizer", &[1], binarizer),
    Property::ml("FeatureVectorizer", &[1], vectorizer),
    Property::ml("Imputer", &[1], imputer),
    Property::ml("Normalizer", &[1], normalizer),
    Property::ml("Scaler", &[1], scaler),
];

fn extractor(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    let indices = draw.shape_of_rank(3);
    let n = shape.last_mut().unwrap();
    *n = (*n).max(1);
    let indices = draw.positions(&indices, *n, false);
    let x = draw.any(dtype, &shape);
    let taken = indices.to_tensor(DType::I64);
    Sample::new(&[&x.clone(), &taken], move || {
        let x = Array::of(&x);
        let rows = if x.shape.len() == 1 { &[1] } else { &x.shape[..x.shape.len() - 1] };
        let rows = x.reshaped(&[rows, &x.shape[x.shape.len() - 1..]].concat());
        let mut shape = rows.shape.clone();
        *shape.last_mut().unwrap() = indices.cells.len();
        let y = rows.picked(&shape, |index| {
            let (&at, row) = index.split_last().unwrap();
            [row, &[usize::try_from(indices.cells[at].int()).unwrap()]].concat()
        });
        Expected::exact(dtype, y)
    })
}

fn binarizer(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let threshold = draw.pick(&[None, Some(-1.0), Some(0.5), Some(2.0)]);
    let x = if draw.one_in(2) { draw.small(dtype, &shape) } else { draw.any(dtype, &shape) };
    let sample = Sample::mapped(&x, 0.0, move |x| {
        let is_above = x.float() > f64::from(threshold.unwrap_or(0.0));
        match x {
            Cell::Float(_) => Cell::Float(if is_above { 1.0 } else { 0.0 }),
            _ => Cell::Int(is_above.into()),
        }
    });
    sample.maybe("threshold", threshold.map(Attr::Float))
}

fn vectorizer(draw: &mut Draw, dtype: DType) -> Sample {
    let n = draw.dim();
    let features: Vec<Vec<usize>> = (0..1 + draw.below(3))
        .map(|_| {
            let rank = 1 + draw.below(3);
            draw.shape_of_rank(rank)
        })
        .collect();
    let parts: Vec<_> = features
        .iter()
        .map(|features| {
            // A single sample needs no batch dimension.
            let is_vector = n == 1 && features.len() == 1 && draw.one_in(2);
            let samples = if is_vector { &[][..] } else { &[n] };
            draw.small(dtype, &[samples, features].concat())
        })
        .collect();
    let own: Vec<usize> = features.iter().map(|features| features.iter().product()).collect();
    let is_given = draw.one_in(2);
    let lengths: Vec<_> = own.iter().map(|&n| if is_given { draw.below(7) } else { n }).collect();
    let written = lengths.iter().copied().map(signed).collect();
    let arrays: Vec<_> = parts.iter().map(Array::of).collect();
    let sample = Sample::new(&parts.iter().collect::<Vec<_>>(), move || {
        let y = Array::from_fn(&[n, lengths.iter().sum()], |index| {
            let (mut part, mut at) = (0, index[1]);
            while at >= lengths[part] {
                at -= lengths[part];
                part += 1;
            }
            let is_there = at < own[part];
            let cell = || arrays[part].cells[index[0] * own[part] + at].float();
            Cell::Float(if is_there { cell() } else { 0.0 })
        });
        Expected::exact(DType::F32, y)
    });
    sample.maybe("inputdimensions", is_given.then_some(Attr::Ints(written)))
}

fn imputer(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let n_features = shape.last().copied().filter(|&n| n > 0).unwrap_or(1);
    let n = if draw.one_in(2) { 1 } else { n_features };
    let float = draw.pick(&[None, Some(2.0), Some(f32::NAN)]);
    let int = draw.pick(&[None, Some(-1)]);
    let floats: Vec<f32> = (0..n).map(|_| draw.pick(&[0.1, -7.5, f32::INFINITY])).collect();
    let ints: Vec<i64> = (0..n).map(|_| draw.int(-9, 9)).collect();
    let replaced = match dtype.is_float() {
        true => Cell::Float(float.unwrap_or(0.0).into()),
        false => Cell::Int(int.unwrap_or(0).into()),
    };
    let x = draw.small(dtype, &shape);
    let x = if dtype.is_float() { with_some(draw, &x, &replaced) } else { x };
    // Attributes for the other kind of numbers have no effect.
    let (has_floats, has_ints) =
        (dtype.is_float() || draw.one_in(2), !dtype.is_float() || draw.one_in(2));
    let sample = Sample::new(&[&x.clone()], {
        let (floats, ints) = (floats.clone(), ints.clone());
        move || {
            let x = Array::of(&x);
            let y = Array::from_fn(&shape, |index| {
                let feature = index.last().copied().unwrap_or(0) % n;
                match x.at(index) {
                    found if !found.is(&replaced) => found.clone(),
                    Cell::Float(_) => Cell::Float(floats[feature].into()),
                    _ => Cell::Int(ints[feature].into()),
                }
            });
            Expected::exact(dtype, y)
        }
    });
    sample
        .maybe("imputed_value_floats", has_floats.then_some(Attr::Floats(floats)))
        .maybe("imputed_value_int64s", has_ints.then_some(Attr::Ints(ints)))
        .maybe("replaced_value_float", float.map(Attr::Float))
        .maybe("replaced_value_int64", int.map(Attr::Int))
}

/// The tensor with one in three cells replaced.
pub(super) fn with_some(draw: &mut Draw, x: &Tensor, cell: &Cell) -> Tensor {
    let replaced = |old: &Cell| if draw.one_in(3) { cell.clone() } else { old.clone() };
    Array::of(x).map(replaced).to_tensor(x.dtype())
}

fn normalizer(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 1 + draw.below(2);
    let shape = draw.shape_of_rank(rank);
    let x = if draw.one_in(2) { draw.small(dtype, &shape) } else { draw.any(dtype, &shape) };
    let norm = draw.pick(&[None, Some("MAX"), Some("L1"), Some("L2")]);
    let sample = Sample::new(&[&x.clone()], move || {
        let y = Array::of(&x).regrouped(&[rank - 1], |row| {
            let row = row.iter().map(|cell| cell.float());
            let norm = match norm {
                Some("L1") => row.clone().map(f64::abs).sum(),
                Some("L2") => row.clone().map(|x| x * x).sum::<f64>().sqrt(),
                _ => row.clone().fold(f64::NEG_INFINITY, f64::max),
            };
            row.map(|x| Cell::Float(if norm == 0.0 { x } else { x / norm })).collect()
        });
        Expected::rounded(DType::F32, y, 1.0)
    });
    sample.maybe("norm", norm.map(|norm| Attr::String(norm.to_owned())))
}

fn scaler(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let n_features = shape.last().copied().filter(|&n| n > 0).unwrap_or(1);
    let mut per_feature = || -> Option<Vec<f32>> {
        let n = draw.pick(&[None, Some(1), Some(n_features)])?;
        Some((0..n).map(|_| draw.pick(&[-2.5, 0.0, 0.1, 3.0])).collect())
    };
    let (offset, scale) = (per_feature(), per_feature());
    let x = draw.wild(dtype, &shape);
    let sample = Sample::new(&[&x.clone()], {
        let (offset, scale) = (offset.clone(), scale.clone());
        move || {
            let x = Array::of(&x);
            let y = Array::from_fn(&shape, |index| {
                let feature = index.last().copied().unwrap_or(0);
                let of_feature = |all: &Option<Vec<f32>>, default| {
                    f64::from(all.as_ref().map_or(default, |all| all[feature % all.len()]))
                };
                let centered = x.at(index).float() - of_feature(&offset, 0.0);
                Cell::Float(centered * of_feature(&scale, 1.0))
            });
            Expected::rounded(DType::F32, y, 1.0)
        }
    });
    sample.maybe("offset", offset.map(Attr::Floats)).maybe("scale", scale.map(Attr::Floats))
}
