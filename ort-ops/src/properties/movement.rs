//! Operators that move elements and look at none: exact for every type.

use ort_graph::Attr;
use ort_tensor::DType;

use super::{Array, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Concat", versions: &[4, 11, 13], draw: concat },
    Property { domain: "", name: "Transpose", versions: &[1, 13, 25], draw: transpose },
];

fn concat(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let parts: Vec<_> = (0..1 + draw.below(3))
        .map(|_| {
            let mut shape = shape.clone();
            shape[axis] = draw.dim();
            draw.any(dtype, &shape)
        })
        .collect();
    let written = if draw.version < 11 { i64::try_from(axis).unwrap() } else { written };
    let inputs: Vec<_> = parts.iter().collect();
    Sample::new(&inputs, {
        let parts = parts.clone();
        move || {
            let parts: Vec<_> = parts.iter().map(Array::of).collect();
            let mut whole = shape.clone();
            whole[axis] = parts.iter().map(|part| part.shape[axis]).sum();
            let y = Array::from_fn(&whole, |index| {
                let mut index = index.to_vec();
                let mut part = 0;
                while index[axis] >= parts[part].shape[axis] {
                    index[axis] -= parts[part].shape[axis];
                    part += 1;
                }
                parts[part].at(&index).clone()
            });
            Expected::exact(dtype, y)
        }
    })
    .attr("axis", Attr::Int(written))
}

fn transpose(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.any(dtype, &shape);
    let is_reversed = draw.one_in(4);
    let perm = match is_reversed {
        true => (0..shape.len()).rev().collect(),
        false => draw.permutation(shape.len()),
    };
    let written = perm.iter().map(|&axis| i64::try_from(axis).unwrap()).collect();
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let shape: Vec<_> = perm.iter().map(|&axis| x.shape[axis]).collect();
        let y = Array::from_fn(&shape, |index| {
            let mut from = vec![0; index.len()];
            perm.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
            x.at(&from).clone()
        });
        Expected::exact(dtype, y)
    });
    if is_reversed { sample } else { sample.attr("perm", Attr::Ints(written)) }
}
