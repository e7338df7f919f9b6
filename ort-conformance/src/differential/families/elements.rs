//! Operators of every element type: functions, binary operators, casts, reductions, selection and sampling.

use super::super::net::{Net, ROUNDING, Value, list};
use super::elementwise::{narrower, shape};

const INTEGERS: [&str; 8] =
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
const SIGNED: [&str; 5] = ["int8", "int16", "int32", "int64", "double"];
const HALVES: [&str; 2] = ["float16", "bfloat16"];
/// Types and their numbers in a file.
const CASTS: [(&str, u32); 13] = [
    ("float", 1),
    ("uint8", 2),
    ("int8", 3),
    ("uint16", 4),
    ("int16", 5),
    ("int32", 6),
    ("int64", 7),
    ("bool", 9),
    ("float16", 10),
    ("double", 11),
    ("uint32", 12),
    ("uint64", 13),
    ("bfloat16", 16),
];

/// An exact result.
const fn exact(name: String) -> Value {
    Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }
}

fn any_number(net: &mut Net<'_>) -> &'static str {
    match net.draw.between(0, 2) {
        0 => net.draw.pick(&HALVES),
        1 => net.draw.pick(&["float", "double"]),
        _ => net.draw.pick(&INTEGERS),
    }
}

pub(super) fn cast(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let (from, _) = net.draw.pick(&CASTS);
    let (_, to) = net.draw.pick(&CASTS);
    let words = if from == "bool" { "" } else { net.draw.pick(&["", "_n300"]) };
    let x = net.any('x', words, from, &full);
    vec![exact(net.node(&format!("Cast-13 [to: {to}]"), &[&x.name]))]
}

pub(super) fn function(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let (op, dtype) = match net.draw.between(0, 4) {
        0 => (net.draw.pick(&["Abs-13", "Neg-13", "Relu-14"]), net.draw.pick(&SIGNED)),
        1 => (net.draw.pick(&["BitwiseNot-18", "Abs-13"]), net.draw.pick(&INTEGERS)),
        2 => ("Sign-13", any_number(net)),
        3 => {
            let op = net.draw.pick(&["Ceil-13", "Floor-13", "Round-11", "IsNaN-20", "IsInf-20"]);
            (op, "double")
        }
        _ => ("Not-1", "bool"),
    };
    let x = net.any('x', "", dtype, &full);
    vec![exact(net.node(op, &[&x.name]))]
}

/// Functions of 16-bit floats, whose results are at most 4.
pub(super) fn half(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let (dtype, unit) = net.draw.pick(&[("float16", 2e-3), ("bfloat16", 1.6e-2)]);
    let op =
        net.draw.pick(&["Exp-13", "Tanh-13", "Sqrt-13", "Softplus-1", "Elu-6", "LeakyRelu-16"]);
    let x = net.any('x', "_p", dtype, &full);
    vec![Value { error: unit, ..exact(net.node(op, &[&x.name])) }]
}

pub(super) fn pair(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let narrow = narrower(net, &full);
    let (op, dtype) = match net.draw.between(0, 3) {
        0 => (net.draw.pick(&["Add-14", "Sub-14", "Mul-14"]), any_number(net)),
        1 => {
            let ops = ["Equal-19", "Greater-13", "GreaterOrEqual-16", "Less-13", "LessOrEqual-16"];
            (net.draw.pick(&ops), any_number(net))
        }
        2 => (net.draw.pick(&["And-7", "Or-7", "Xor-7"]), "bool"),
        _ => {
            let ops = ["BitwiseAnd-18", "BitwiseOr-18", "BitwiseXor-18", "Max-13", "Min-13"];
            (net.draw.pick(&ops), net.draw.pick(&INTEGERS))
        }
    };
    // Products of f32 may join sums.
    let dtype = if dtype == "float" && op.starts_with(['A', 'S', 'M']) { "double" } else { dtype };
    let a = net.any('x', "", dtype, &full);
    let letter = net.draw.pick(&['x', 'w']);
    let b = net.any(letter, "", dtype, &narrow);
    let names = if net.draw.one_in(2) { [&a.name, &b.name] } else { [&b.name, &a.name] };
    vec![exact(net.node(op, &names.map(String::as_str)))]
}

/// Powers with exponents of another type: of whole numbers, which are exact.
pub(super) fn power(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 200_000);
    let narrow = narrower(net, &full);
    let base = net.draw.pick(&["int32", "int64"]);
    let exponent = net.draw.pick(&["uint8", "int8", "uint64", "float"]);
    let x = net.any('x', "_n9", base, &full);
    let e = net.any('x', "_n4", exponent, &narrow);
    vec![exact(net.node("Pow-15", &[&x.name, &e.name]))]
}

/// Determinants of small matrices, by the same elimination as `eval`.
pub(super) fn det(net: &mut Net<'_>) -> Vec<Value> {
    let (n, m) = (net.draw.size(1, 3000), net.draw.between(1, 4));
    let x = net.any('x', "_n3", "double", &[n, m, m]);
    vec![exact(net.node("Det-11", &[&x.name]))]
}

/// Inverses of small matrices, by the same elimination as `eval`.
pub(super) fn inverse(net: &mut Net<'_>) -> Vec<Value> {
    let (n, m) = (net.draw.size(1, 3000), net.draw.between(1, 4));
    let x = net.input(&[n, m, m]);
    vec![exact(net.node("com.microsoft:Inverse-1", &[&x.name]))]
}

/// A window whose size only a run knows.
pub(super) fn window(net: &mut Net<'_>) -> Vec<Value> {
    let least = format!("int64[] {}", net.draw.size(1, 100_000));
    let (few, least) = (net.any('x', "_n3", "int64", &[]), net.literal(&least));
    let size = net.node("Add-14", &[&few.name, &least]);
    let op = net.draw.pick(&["HannWindow-17", "HammingWindow-17", "BlackmanWindow-17"]);
    let periodic = net.draw.between(0, 1);
    let name = net.node(&format!("{op} [periodic: {periodic}]"), &[&size]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: ROUNDING }]
}

pub(super) fn fold(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let ops = ["ReduceMax-20", "ReduceMin-20", "ReduceSum-13", "ReduceProd-18", "ReduceL1-18"];
    let op = net.draw.pick(&ops);
    let dtype = match op {
        "ReduceMax-20" | "ReduceMin-20" => net
            .draw
            .pick(&["int8", "uint8", "int32", "int64", "uint64", "bool", "float16", "double"]),
        _ => net.draw.pick(&["int32", "int64", "uint32", "uint64"]),
    };
    let x = net.any('x', "", dtype, &full);
    let axes: Vec<usize> = (0..full.len()).filter(|_| net.draw.one_in(2)).collect();
    let axes = axes.iter().map(|axis| i64::try_from(*axis).unwrap_or(0)).collect::<Vec<_>>();
    if axes.is_empty() {
        return vec![exact(net.node(op, &[&x.name]))];
    }
    let axes = net.ints(&axes);
    vec![exact(net.node(op, &[&x.name, &axes]))]
}

pub(super) fn top_k(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let axis = net.draw.between(0, full.len() - 1);
    let k = net.draw.size(1, full[axis]);
    let dtype = any_number(net);
    // Among equal elements the first win.
    let words = net.draw.pick(&["", "_n100"]);
    let x = net.any('x', words, dtype, &full);
    let k = net.ints(&[i64::try_from(k).unwrap_or(1)]);
    let is_largest = net.draw.pick(&[0, 1]);
    let op = format!("TopK-11 [axis: {axis}, largest: {is_largest}]");
    net.node_of(&op, &[&x.name, &k], 2).into_iter().map(exact).collect()
}

pub(super) fn cumulative(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let axis = net.draw.between(0, full.len() - 1);
    let dtype = net.draw.pick(&["float", "double", "int32", "int64", "uint32"]);
    let op = net.draw.pick(&["CumSum-14", "CumProd-26"]);
    let x = net.any('x', "", dtype, &full);
    let axis = net.literal(&format!("int64[] {axis}"));
    let flag = |net: &mut Net<'_>| net.draw.pick(&[0, 1]);
    let (exclusive, reverse) = (flag(net), flag(net));
    let op = format!("{op} [exclusive: {exclusive}, reverse: {reverse}]");
    vec![exact(net.node(&op, &[&x.name, &axis]))]
}

pub(super) fn grid_sample(net: &mut Net<'_>) -> Vec<Value> {
    let (n, c) = (net.draw.between(1, 3), net.draw.size(1, 40));
    let [height, width, rows, columns] = [(); 4].map(|()| net.draw.size(1, 80));
    let x = net.input(&[n, c, height, width]);
    let grid = net.input(&[n, rows, columns, 2]);
    let mode = net.draw.pick(&["linear", "nearest", "cubic"]);
    let padding = net.draw.pick(&["zeros", "border", "reflection"]);
    let corners = net.draw.pick(&[0, 1]);
    let op = format!(
        "GridSample-20 [mode: \"{mode}\", padding_mode: \"{padding}\", align_corners: {corners}]"
    );
    let name = net.node(&op, &[&x.name, &grid.name]);
    let shape = vec![n, c, rows, columns];
    vec![Value { name, shape, size: 1.0, error: 4.0 * ROUNDING }]
}

/// Rows of 16-bit floats that are normalized: results are mostly below 2.
pub(super) fn norm(net: &mut Net<'_>) -> Vec<Value> {
    let (n_rows, len) = (net.draw.size(1, 500), net.draw.size(2, 1_000));
    let (dtype, unit) = net.draw.pick(&[("float16", 2e-3), ("bfloat16", 1.6e-2)]);
    let x = net.any('x', "", dtype, &[n_rows, len]);
    let scale = net.any('w', "_p", dtype, &[len]);
    let name = match net.draw.one_in(2) {
        true => net.node("RMSNormalization-23", &[&x.name, &scale.name]),
        false => {
            let bias = net.any('w', "", dtype, &[len]);
            net.node("LayerNormalization-17", &[&x.name, &scale.name, &bias.name])
        }
    };
    vec![Value { error: unit, ..exact(name) }]
}

/// Transposes of elements of every width.
pub(super) fn transpose(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let dtype = net.draw.pick(&["int8", "uint16", "bfloat16", "uint64", "bool"]);
    let x = net.any('x', "", dtype, &full);
    let by = net.draw.between(0, full.len() - 1);
    let mut perm: Vec<usize> = (0..full.len()).collect();
    perm.rotate_left(by);
    vec![exact(net.node(&format!("Transpose-13 [perm: [{}]]", list(&perm)), &[&x.name]))]
}
