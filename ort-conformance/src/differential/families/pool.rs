//! Pools of images.

use super::super::net::{Net, ROUNDING, Value, list};

pub(super) fn pool(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 2, 1, 3]);
    let mut shape = vec![net.draw.pick(&[1, 1, 2, 3]), net.draw.size(1, 200)];
    let mut rest = (net.draw.size(10_000, 400_000) / shape[1]).max(1);
    for axis in 0..rank {
        let dim = net.draw.size(1, if axis + 1 == rank { rest } else { rest.min(300) });
        rest = (rest / dim).max(1);
        shape.push(dim);
    }
    let dtype = net.draw.pick(&["float", "float", "float", "uint8", "int8", "double"]);
    let is_float = dtype == "float";
    let x = if is_float { net.input(&shape) } else { net.any('x', "", dtype, &shape) };
    if is_float && net.draw.one_in(4) {
        let op = net.draw.pick(&["GlobalAveragePool-1", "GlobalMaxPool-1", "GlobalLpPool-2"]);
        let name = net.node(op, &[&x.name]);
        // A norm of elements up to 1.
        let norm = (shape.iter().product::<usize>() as f64).sqrt();
        let error = if op == "GlobalLpPool-2" { 4.0 * norm * ROUNDING } else { ROUNDING };
        return vec![Value { name, shape: Vec::new(), size: 1.0, error }];
    }
    let (mut kernel, mut strides, mut pads) = (Vec::new(), Vec::new(), vec![0; 2 * rank]);
    for (i, &dim) in shape[2..].iter().enumerate() {
        let size = net.draw.pick(&[1, 2, 3, 4, 5, 8]).min(dim);
        kernel.push(size);
        strides.push(net.draw.pick(&[1, 2, 3]));
        pads[i] = net.draw.between(0, size - 1);
        pads[rank + i] = net.draw.between(0, size - 1);
    }
    let attrs = format!(
        "kernel_shape: [{}], strides: [{}], pads: [{}]",
        list(&kernel),
        list(&strides),
        list(&pads)
    );
    let ceil_mode = net.draw.pick(&[0, 0, 1]);
    let (op, n) = net.draw.pick(&[
        ("MaxPool-12", 0.0),
        ("AveragePool-19 [count_include_pad: 0", 1.0),
        ("AveragePool-19 [count_include_pad: 1", 1.0),
        ("LpPool-18 [p: 2", 32.0),
    ]);
    let (op, n) = if is_float { (op, n) } else { ("MaxPool-12", 0.0) };
    let op = match op.split_once('[') {
        None => format!("{op} [{attrs}, ceil_mode: {ceil_mode}]"),
        Some((op, attr)) => format!("{op}[{attr}, {attrs}, ceil_mode: {ceil_mode}]"),
    };
    let name = net.node(&op, &[&x.name]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: n * 4.0 * ROUNDING }]
}

/// A pool of the elements before the first that is masked out.
pub(super) fn masked(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 1, 3]);
    let mut shape = vec![net.draw.pick(&[1, 2]), net.draw.size(1, 40)];
    let mut rest = (net.draw.size(5_000, 100_000) / shape[1]).max(1);
    let (mut kernel, mut strides, mut pads) = (Vec::new(), Vec::new(), vec![0; 2 * rank]);
    for i in 0..rank {
        let dim = net.draw.size(1, if i + 1 == rank { rest } else { rest.min(200) });
        rest = (rest / dim).max(1);
        shape.push(dim);
        let size = net.draw.pick(&[1, 2, 3, 5, 9]).min(dim);
        kernel.push(size);
        strides.push(net.draw.pick(&[1, 2, 3]));
        pads[i] = net.draw.between(0, size - 1);
        pads[rank + i] = net.draw.between(0, size - 1);
    }
    let mut planes = shape.clone();
    if net.draw.one_in(3) {
        planes[..2].copy_from_slice(&[1, net.draw.pick(&[1, 2, 3])]);
    }
    let x = net.input(&shape);
    let mask = net.any('x', "_n4", "int32", &planes);
    let (kernel, strides, pads) = (list(&kernel), list(&strides), list(&pads));
    let attrs = format!("kernel_shape: [{kernel}], strides: [{strides}], pads: [{pads}]");
    let op = format!("com.microsoft:MaxpoolWithMask-1 [{attrs}]");
    let name = net.node(&op, &[&x.name, &mask.name]);
    // Windows of which all is masked out have the least float.
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}
