//! Operators whose result has elements of their operands: ranges, blocks of pixels, triangles, and choices.

use super::super::net::{Net, Value};
use super::elementwise::{narrower, shape};
use super::indexed::exact;

/// Element types of several widths.
const TYPES: [&str; 5] = ["float", "double", "uint8", "int64", "float16"];

pub(super) fn slice(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 400_000);
    let dtype = net.draw.pick(&TYPES);
    let x = net.any('x', "", dtype, &full);
    let [mut starts, mut ends, mut axes, mut steps] = [(); 4].map(|()| Vec::new());
    for (axis, n) in (0_i64..).zip(&full) {
        if net.draw.one_in(2) {
            continue;
        }
        let n = i64::try_from(*n).unwrap_or(1);
        let step = net.draw.pick(&[1, 1, 1, 2, 3, -1, -2]);
        let from = net.draw.pick(&[0, 0, 1, n / 3]);
        let is_back = step < 0;
        axes.push(axis);
        starts.push(if is_back { -1 - from } else { from });
        ends.push(match net.draw.pick(&[false, true]) {
            true if is_back => i64::MIN,
            true => i64::MAX,
            false if is_back => n / 4 - n - 1,
            false => n - n / 4,
        });
        steps.push(step);
    }
    if axes.is_empty() {
        return vec![exact(net.node("Identity-16", &[&x.name]))];
    }
    let parameters = [&starts, &ends, &axes, &steps].map(|values| net.ints(values));
    let [starts, ends, axes, steps] = &parameters;
    vec![exact(net.node("Slice-13", &[&x.name, starts, ends, axes, steps]))]
}

pub(super) fn blocks(net: &mut Net<'_>) -> Vec<Value> {
    let dtype = net.draw.pick(&["float", "double", "uint8", "int8"]);
    let size = net.draw.between(1, 4);
    let (n, c) = (net.draw.between(1, 2), net.draw.between(1, 12));
    let (h, w) = (net.draw.size(1, 60), net.draw.size(1, 60));
    if net.draw.one_in(2) {
        let x = net.any('x', "", dtype, &[n, c, h * size, w * size]);
        return vec![exact(net.node(&format!("SpaceToDepth-13 [blocksize: {size}]"), &[&x.name]))];
    }
    let mode = net.draw.pick(&["DCR", "CRD"]);
    let x = net.any('x', "", dtype, &[n, c * size * size, h, w]);
    let op = format!("DepthToSpace-13 [blocksize: {size}, mode: \"{mode}\"]");
    vec![exact(net.node(&op, &[&x.name]))]
}

pub(super) fn triangle(net: &mut Net<'_>) -> Vec<Value> {
    let batch = net.draw.between(1, 9);
    let (rows, columns) = (net.draw.size(1, 200), net.draw.size(1, 200));
    let dtype = net.draw.pick(&["float", "double", "int32", "int64", "float16"]);
    let x = net.any('x', "", dtype, &[batch, rows, columns]);
    let upper = net.draw.between(0, 1);
    let op = format!("Trilu-14 [upper: {upper}]");
    let k = net.draw.pick(&[0_i64, 1, -1, 7, -20, 300]);
    let k = net.literal(&format!("int64[] {k}"));
    vec![exact(net.node(&op, &[&x.name, &k]))]
}

pub(super) fn choice(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 400_000);
    let dtype = net.draw.pick(&TYPES);
    let shapes = [(); 3].map(|()| narrower(net, &full));
    let letters = net.draw.pick(&[['x', 'x'], ['x', 'w'], ['w', 'x']]);
    let condition = net.any('x', "", "bool", &shapes[0]);
    let a = net.any(letters[0], "", dtype, &shapes[1]);
    let b = net.any(letters[1], "", dtype, &shapes[2]);
    vec![exact(net.node("Where-16", &[&condition.name, &a.name, &b.name]))]
}
