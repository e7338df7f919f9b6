//! Operators that move runs of elements by indices, flags, lengths, pads or regions.

use super::super::net::{Net, ROUNDING, Value, list};
use super::elementwise::shape;

/// Element types of every width.
const TYPES: [&str; 6] = ["float", "uint8", "int64", "int32", "float16", "double"];

/// How updates are scattered: each reduction is in the order of the updates.
const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

/// A value that is exact.
pub(super) const fn exact(name: String) -> Value {
    Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }
}

fn sizes(net: &mut Net<'_>, sizes: &[usize]) -> String {
    let sizes: Vec<i64> = sizes.iter().map(|&n| i64::try_from(n).unwrap_or(0)).collect();
    net.ints(&sizes)
}

/// Indices of either type into an axis of `dim`, from its front.
fn indices(net: &mut Net<'_>, dim: usize, shape: &[usize]) -> String {
    let dtype = net.draw.pick(&["int64", "int32"]);
    net.any('x', &format!("_n{dim}"), dtype, shape).name
}

pub(super) fn gather(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 100_000);
    let axis = net.draw.between(0, full.len() - 1);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let run: usize = full.iter().product::<usize>() / full[axis];
    let n = net.draw.size(1, (300_000 / run).max(1));
    let of_indices = if n == 1 { vec![] } else { vec![n] };
    let indices = indices(net, full[axis], &of_indices);
    vec![exact(net.node(&format!("Gather-13 [axis: {axis}]"), &[&x.name, &indices]))]
}

pub(super) fn gather_nd(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 100_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let batch_dims = net.draw.between(0, full.len() - 1).min(2);
    let rest = &full[batch_dims..];
    let k = net.draw.between(1, rest.len());
    let run: usize = full[..batch_dims].iter().chain(&rest[k..]).product();
    let n = net.draw.size(1, (300_000 / run).max(1));
    let tuples = [&full[..batch_dims], &[n, k]].concat();
    // In range for each of the axes.
    let least = rest[..k].iter().min().copied().unwrap_or(1);
    let indices = indices(net, least, &tuples);
    let op = format!("GatherND-13 [batch_dims: {batch_dims}]");
    vec![exact(net.node(&op, &[&x.name, &indices]))]
}

pub(super) fn scatter_nd(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 100_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let k = net.draw.between(1, full.len());
    let run: usize = full[k..].iter().product();
    let n = net.draw.size(1, (200_000 / run).max(1));
    let least = full[..k].iter().min().copied().unwrap_or(1);
    let indices = indices(net, least, &[n, k]);
    let updates = net.any('x', "", dtype, &[&[n], &full[k..]].concat());
    let op = format!("ScatterND-18 [reduction: \"{}\"]", net.draw.pick(&REDUCTIONS));
    vec![exact(net.node(&op, &[&x.name, &indices, &updates.name]))]
}

pub(super) fn scatter_elements(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 100_000);
    let axis = net.draw.between(0, full.len() - 1);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let mut of_indices = full.clone();
    for dim in &mut of_indices {
        *dim = net.draw.size(1, *dim);
    }
    let indices = indices(net, full[axis], &of_indices);
    let updates = net.any('x', "", dtype, &of_indices);
    let reduction = net.draw.pick(&REDUCTIONS);
    let op = format!("ScatterElements-18 [axis: {axis}, reduction: \"{reduction}\"]");
    vec![exact(net.node(&op, &[&x.name, &indices, &updates.name]))]
}

pub(super) fn tensor_scatter(net: &mut Net<'_>) -> Vec<Value> {
    let (batch, len) = (net.draw.size(1, 8), net.draw.size(1, 200));
    let (n, size) = (net.draw.between(1, len), net.draw.size(1, 100));
    let dtype = net.draw.pick(&TYPES);
    let (axis, [past, update]) = match net.draw.one_in(2) {
        true => (1, [len, n].map(|n| vec![batch, n, size])),
        false => (-2, [len, n].map(|n| vec![batch, 2, n, size])),
    };
    let past = net.any('x', "", dtype, &past);
    let update = net.any('x', "", dtype, &update);
    let mode = net.draw.pick(&["linear", "circular"]);
    let n_starts = if mode == "linear" { len - n + 1 } else { len };
    let starts = net.any('x', &format!("_n{n_starts}"), "int64", &[batch]);
    let op = format!("TensorScatter-24 [axis: {axis}, mode: \"{mode}\"]");
    vec![exact(net.node(&op, &[&past.name, &update.name, &starts.name]))]
}

pub(super) fn compress(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 200_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let axis = net.draw.between(0, full.len());
    let (op, n) = match full.get(axis) {
        Some(&n) => (format!("Compress-9 [axis: {axis}]"), n),
        None => ("Compress-9".to_owned(), full.iter().product()),
    };
    let n = if net.draw.one_in(4) { net.draw.size(1, n) } else { n };
    let flags = net.any('x', "", "bool", &[n]);
    vec![exact(net.node(&op, &[&x.name, &flags.name]))]
}

pub(super) fn non_zero(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 200_000);
    let dtype = net.draw.pick(&TYPES);
    // Half of the numbers, or few, are zeros.
    let words = net.draw.pick(&["_n2", "_n300"]);
    let x = net.any('x', words, dtype, &full);
    vec![exact(net.node("NonZero-13", &[&x.name]))]
}

pub(super) fn reverse_sequence(net: &mut Net<'_>) -> Vec<Value> {
    let (n_times, n_batch) = (net.draw.size(1, 300), net.draw.size(1, 100));
    let run = net.draw.size(1, (200_000 / n_times / n_batch).max(1));
    let time_axis = net.draw.pick(&[0, 1]);
    let dtype = net.draw.pick(&TYPES);
    let [first, second] = if time_axis == 0 { [n_times, n_batch] } else { [n_batch, n_times] };
    let x = net.any('x', "", dtype, &[first, second, run]);
    let lens = net.any('x', &format!("_n{}", n_times + 1), "int64", &[n_batch]);
    let batch_axis = 1 - time_axis;
    let op = format!("ReverseSequence-10 [time_axis: {time_axis}, batch_axis: {batch_axis}]");
    vec![exact(net.node(&op, &[&x.name, &lens.name]))]
}

pub(super) fn pad(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 100_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let (mut front, mut back, mut size) = (Vec::new(), Vec::new(), full.iter().product::<usize>());
    for &dim in &full {
        let most = if net.draw.one_in(2) { (300_000 * dim / size).min(3 * dim) } else { 0 };
        front.push(net.draw.between(0, most / 2));
        back.push(net.draw.between(0, most / 2));
        size = size / dim * (dim + front[front.len() - 1] + back[back.len() - 1]);
    }
    let pads = sizes(net, &[front, back].concat());
    let mode = net.draw.pick(&["constant", "reflect", "edge", "wrap"]);
    vec![exact(net.node(&format!("Pad-19 [mode: \"{mode}\"]"), &[&x.name, &pads]))]
}

pub(super) fn tile(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 50_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let mut rest = 400_000 / full.iter().product::<usize>();
    let mut repeats = Vec::new();
    for _ in &full {
        let n = if net.draw.one_in(2) { net.draw.size(1, rest.clamp(1, 50)) } else { 1 };
        rest = (rest / n).max(1);
        repeats.push(n);
    }
    let repeats = sizes(net, &repeats);
    vec![exact(net.node("Tile-13", &[&x.name, &repeats]))]
}

pub(super) fn unpool(net: &mut Net<'_>) -> Vec<Value> {
    let (h, w) = (net.draw.size(1, 150), net.draw.size(1, 150));
    let c = net.draw.size(1, (100_000 / h / w).max(1));
    let dtype = net.draw.pick(&["float", "double", "float16"]);
    let x = net.any('x', "", dtype, &[1, c, h, w]);
    let (kernel, stride) = (net.draw.between(1, 3), net.draw.between(1, 3));
    let n = c * ((h - 1) * stride + kernel) * ((w - 1) * stride + kernel);
    let indices = net.any('x', &format!("_n{n}"), "int64", &[1, c, h, w]);
    let pair = |n: usize| list(&[n, n]);
    let op =
        format!("MaxUnpool-22 [kernel_shape: [{}], strides: [{}]]", pair(kernel), pair(stride));
    vec![exact(net.node(&op, &[&x.name, &indices.name]))]
}

pub(super) fn roi(net: &mut Net<'_>) -> Vec<Value> {
    let (h, w) = (net.draw.size(1, 80), net.draw.size(1, 80));
    let c = net.draw.size(1, (60_000 / h / w).max(1));
    let dtype = net.draw.pick(&["float", "double"]);
    let x = net.any('x', "", dtype, &[1, c, h, w]);
    let n = net.draw.size(1, 20);
    let scale = h.max(w);
    let bins = [net.draw.between(1, 7), net.draw.between(1, 7)];
    if net.draw.one_in(2) {
        // The first of each region's numbers is its image, which is 0 when truncated.
        let rois = net.any('x', "", dtype, &[n, 5]);
        let op =
            format!("MaxRoiPool-1 [pooled_shape: [{}], spatial_scale: {scale}.0]", list(&bins));
        return vec![exact(net.node(&op, &[&x.name, &rois.name]))];
    }
    let rois = net.any('x', "", dtype, &[n, 4]);
    let images = net.any('x', "_n1", "int64", &[n]);
    let (mode, ratio) = (net.draw.pick(&["avg", "max"]), net.draw.between(0, 3));
    let [rows, columns] = bins;
    let op = format!(
        "RoiAlign-16 [mode: \"{mode}\", sampling_ratio: {ratio}, output_height: {rows}, \
         output_width: {columns}, spatial_scale: {scale}.0]"
    );
    let name = net.node(&op, &[&x.name, &rois.name, &images.name]);
    vec![Value { error: 4.0 * ROUNDING, ..exact(name) }]
}

pub(super) fn crop(net: &mut Net<'_>) -> Vec<Value> {
    let (h, w) = (net.draw.size(1, 80), net.draw.size(1, 80));
    let c = net.draw.size(1, (60_000 / h / w).max(1));
    let x = net.any('x', "", "float", &[1, c, h, w]);
    let n = net.draw.size(1, 20);
    let boxes = net.any('x', "", "float", &[n, 4]);
    let images = net.any('x', "_n1", "int32", &[n]);
    let [rows, columns] = [net.draw.between(1, 30), net.draw.between(1, 30)];
    let size = net.literal(&format!("int32[2] [{rows}, {columns}]"));
    let mode = net.draw.pick(&["bilinear", "nearest"]);
    let op = format!("com.microsoft:CropAndResize-1 [mode: \"{mode}\"]");
    vec![exact(net.node(&op, &[&x.name, &boxes.name, &images.name, &size]))]
}
