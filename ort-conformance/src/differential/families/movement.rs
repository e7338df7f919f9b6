//! Operators that move elements, select extremes, or combine several operands.

use super::super::net::{Net, ROUNDING, Value, list};
use super::elementwise::{narrower, shape};
use super::epilogue::function;

/// Element types, most of them of one width.
const TYPES: [&str; 6] = ["float", "uint8", "int64", "int32", "float16", "double"];

pub(super) fn transpose(net: &mut Net<'_>) -> Vec<Value> {
    let shape = shape(net, 500_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &shape);
    let mut perm: Vec<usize> = (0..shape.len()).collect();
    for i in 0..perm.len() {
        let j = net.draw.between(i, shape.len() - 1);
        perm.swap(i, j);
    }
    let name = net.node(&format!("Transpose-13 [perm: [{}]]", list(&perm)), &[&x.name]);
    let shape = perm.iter().map(|&axis| shape[axis]).collect();
    let y = Value { name, shape, ..x };
    vec![if dtype == "float" && net.draw.one_in(3) { function(net, &y) } else { y }]
}

pub(super) fn concat(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 200_000);
    let dtype = net.draw.pick(&["float", "float", "float", "uint8", "int64"]);
    let axis = net.draw.between(0, full.len() - 1);
    let mut names = Vec::new();
    for _ in 0..net.draw.between(1, 5) {
        let mut shape = full.clone();
        if !net.draw.one_in(3) {
            shape[axis] = net.draw.size(1, 2 * full[axis]);
        }
        let letter = if net.draw.one_in(4) { 'w' } else { 'x' };
        names.push(net.any(letter, "", dtype, &shape).name);
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = net.node(&format!("Concat-13 [axis: {axis}]"), &inputs);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

pub(super) fn split(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 200_000);
    let dtype = net.draw.pick(&["float", "float16", "uint8", "int64"]);
    let axis = net.draw.between(0, full.len() - 1);
    let (mut left, mut lengths) = (full[axis], Vec::new());
    for _ in 0..net.draw.between(0, 3).min((left - 1) / 2) {
        let length = net.draw.between(1, left.div_ceil(3));
        left -= length;
        lengths.push(length);
    }
    lengths.push(left);
    let x = net.any('x', "", dtype, &full);
    let lengths: Vec<i64> = lengths.into_iter().filter_map(|n| i64::try_from(n).ok()).collect();
    let split = net.ints(&lengths);
    let op = format!("Split-13 [axis: {axis}]");
    let parts = net.node_of(&op, &[&x.name, &split], lengths.len());
    let part = |name| Value { name, shape: Vec::new(), size: 1.0, error: 0.0 };
    parts.into_iter().map(part).collect()
}

pub(super) fn variadic(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let op = net.draw.pick(&["Sum-13", "Max-13", "Min-13", "Mean-13"]);
    let mut names = vec![net.input(&full).name];
    for _ in 0..net.draw.between(0, 4) {
        let shape = narrower(net, &full);
        names.push(net.input(&shape).name);
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = net.node(op, &inputs);
    let size = names.len() as f64;
    let error = if ["Max-13", "Min-13"].contains(&op) { 0.0 } else { 2.0 * ROUNDING * size };
    vec![Value { name, shape: full, size, error }]
}

pub(super) fn arg_max(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let axis = net.draw.between(0, full.len() - 1);
    let op = net.draw.pick(&["ArgMax-13", "ArgMin-13"]);
    let (last, kept) = (net.draw.pick(&[0, 1]), net.draw.pick(&[1, 0]));
    // Among equal numbers the first or the last wins.
    let words = net.draw.pick(&["", "_n5", "_n100"]);
    let x = net.any('x', words, "float", &full);
    let op = format!("{op} [axis: {axis}, keepdims: {kept}, select_last_index: {last}]");
    let name = net.node(&op, &[&x.name]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

pub(super) fn resize(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 1]);
    let mut shape = vec![net.draw.pick(&[1, 2]), net.draw.size(1, 64)];
    let mut scales = vec!["1".to_owned(), "1".to_owned()];
    let mut rest = net.draw.size(1_000, 200_000) / shape[1];
    for _ in 0..rank {
        let dim = net.draw.size(1, rest.clamp(1, 300));
        rest = (rest / dim).max(1);
        shape.push(dim);
        let scale = net.draw.pick(&["2", "1", "3", "1.5", "0.5", "2.7", "0.37", "4"]);
        let is_empty = scale.starts_with('0') && dim < 4;
        scales.push(if is_empty { "1" } else { scale }.to_owned());
    }
    let dtype = net.draw.pick(&["float", "float", "uint8", "int8", "int32", "double"]);
    let x = if dtype == "float" { net.input(&shape) } else { net.any('x', "", dtype, &shape) };
    let (mode, slope) = net.draw.pick(&[("nearest", 1.0), ("linear", 1.0), ("cubic", 2.0)]);
    let place = net.draw.pick(&["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]);
    let rounding = net.draw.pick(&["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"]);
    let scales = net.literal(&format!("float[{}] [{}]", scales.len(), scales.join(", ")));
    let op = format!(
        "Resize-13 [mode: \"{mode}\", coordinate_transformation_mode: \"{place}\", nearest_mode: \"{rounding}\"]"
    );
    let name = net.node(&op, &[&x.name, "_", &scales]);
    let is_exact = mode == "nearest" || dtype != "float";
    let error = if is_exact { 0.0 } else { 8.0 * slope * ROUNDING };
    vec![Value { name, shape: Vec::new(), size: 1.0, error }]
}

/// Equations of two operands; `k` is summed over.
const EQUATIONS: [&str; 10] = [
    "ik,kj->ij",
    "bik,bkj->bij",
    "bik,bjk->bij",
    "ki,kj->ij",
    "bhik,bhjk->bhij",
    "bihk,bjhk->bhij",
    "bik,kj->bij",
    "ki,kj->ji",
    "bik,bk->bi",
    "ik,jk->ij",
];

pub(super) fn einsum(net: &mut Net<'_>) -> Vec<Value> {
    let equation = net.draw.pick(&EQUATIONS);
    let budget = net.draw.budget();
    let k = net.draw.size(1, 500);
    let i = net.draw.size(1, (budget / k).clamp(1, 500));
    let j = net.draw.size(1, (budget / k / i).clamp(1, 500));
    let h = net.draw.size(1, (budget / k / i / j).clamp(1, 8));
    let b = net.draw.size(1, (budget / k / i / j / h).clamp(1, 8));
    let size = |letter: char| match letter {
        'i' => i,
        'j' => j,
        'h' => h,
        'b' => b,
        _ => k,
    };
    let (operands, _) = equation.split_once("->").unwrap_or_default();
    let shapes: Vec<Vec<usize>> =
        operands.split(',').map(|of| of.chars().map(size).collect()).collect();
    let a = net.input(&shapes[0]);
    let w = net.weights(&shapes[1], k);
    let name = net.node(&format!("Einsum-12 [equation: \"{equation}\"]"), &[&a.name, &w.name]);
    vec![Value::sums(name, Vec::new(), (k, [&a, &w]), None)]
}

pub(super) fn non_max_suppression(net: &mut Net<'_>) -> Vec<Value> {
    let (n_images, n_classes) = (net.draw.between(1, 3), net.draw.size(1, 40));
    let n_boxes = net.draw.size(1, 400);
    let boxes = net.input(&[n_images, n_boxes, 4]);
    // Among equal elements the first win.
    let words = net.draw.pick(&["", "_n100"]);
    let scores = net.any('x', words, "float", &[n_images, n_classes, n_boxes]);
    let most = net.draw.size(1, n_boxes);
    let most = net.literal(&format!("int64[] {most}"));
    let [overlap, least] =
        [["0.0", "0.3", "0.7", "1.0"], ["-1.0", "0.0", "0.25", "0.9"]].map(|of| net.draw.pick(&of));
    let [overlap, least] = [overlap, least].map(|x| net.literal(&format!("float[] {x}")));
    let op = format!("NonMaxSuppression-11 [center_point_box: {}]", net.draw.pick(&[0, 1]));
    let name = net.node(&op, &[&boxes.name, &scores.name, &most, &overlap, &least]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

pub(super) fn gather_elements(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 5_000);
    let axis = net.draw.between(0, full.len() - 1);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let mut of_indices = full.clone();
    for dim in &mut of_indices {
        *dim = net.draw.size(1, *dim);
    }
    // An ArgMax along a new axis gives indices that are in range.
    let rows: Vec<usize> = of_indices.iter().copied().chain([full[axis]]).collect();
    let scores = net.any('x', "", "int8", &rows);
    let indices = net.node("ArgMax-13 [axis: -1, keepdims: 0]", &[&scores.name]);
    let name = net.node(&format!("GatherElements-13 [axis: {axis}]"), &[&x.name, &indices]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

pub(super) fn expand(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 400_000);
    let dtype = net.draw.pick(&["float", "double", "uint8", "int64", "float16"]);
    let mut given = full.clone();
    for dim in &mut given {
        if net.draw.one_in(2) {
            *dim = 1;
        }
    }
    let left_out = if net.draw.one_in(3) { net.draw.between(0, given.len() - 1) } else { 0 };
    let x = net.any('x', "", dtype, &given[left_out..]);
    let sizes: Vec<i64> = full.into_iter().filter_map(|n| i64::try_from(n).ok()).collect();
    let sizes = net.ints(&sizes);
    let name = net.node("Expand-13", &[&x.name, &sizes]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

pub(super) fn col2im(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 1, 3]);
    let (mut image, mut block, mut strides) = (Vec::new(), Vec::new(), Vec::new());
    let (mut n_blocks, mut rest) = (1, net.draw.size(50, 5_000));
    for _ in 0..rank {
        let size = net.draw.size(1, rest.min(100));
        rest = (rest / size).max(1);
        let taps = net.draw.between(1, size.min(4));
        let stride = net.draw.pick(&[1, 1, 2, 3]);
        n_blocks *= (size - taps) / stride + 1;
        image.push(size);
        block.push(taps);
        strides.push(stride);
    }
    let n_taps: usize = block.iter().product();
    let dtype = net.draw.pick(&["float", "int32", "uint8", "double"]);
    let shape = [net.draw.pick(&[1, 2]), net.draw.size(1, 30) * n_taps, n_blocks];
    let x = if dtype == "float" { net.input(&shape) } else { net.any('x', "", dtype, &shape) };
    let ints = |net: &mut Net<'_>, sizes: &[usize]| {
        let sizes: Vec<i64> = sizes.iter().map(|&n| i64::try_from(n).unwrap_or(0)).collect();
        net.ints(&sizes)
    };
    let (image, block) = (ints(net, &image), ints(net, &block));
    let op = format!("Col2Im-18 [strides: [{}]]", list(&strides));
    let name = net.node(&op, &[&x.name, &image, &block]);
    // A sum of as many terms as a block has elements.
    let n = n_taps as f64;
    let error = if dtype == "float" { n * n.sqrt() * ROUNDING } else { 0.0 };
    vec![Value { name, shape: Vec::new(), size: n, error }]
}

pub(super) fn affine_grid(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 3]);
    let n = net.draw.pick(&[1, 2, 3]);
    let mut sizes = vec![i64::try_from(n).unwrap_or(1), 1];
    for _ in 0..rank {
        let size = net.draw.size(1, if rank == 2 { 400 } else { 60 });
        sizes.push(i64::try_from(size).unwrap_or(1));
    }
    let theta = net.input(&[n, rank, rank + 1]);
    let (size, aligned) = (net.ints(&sizes), net.draw.pick(&[0, 1]));
    let op = format!("AffineGrid-20 [align_corners: {aligned}]");
    let name = net.node(&op, &[&theta.name, &size]);
    vec![Value { name, shape: Vec::new(), size: 4.0, error: ROUNDING }]
}
