//! Element-wise operators: chains of functions, and two operands in every form of broadcast.

use super::super::net::{Net, ROUNDING, Value};
use super::epilogue::function;

/// A shape of rank 1 to 5 with about `most` elements.
pub(super) fn shape(net: &mut Net<'_>, most: usize) -> Vec<usize> {
    let rank = net.draw.between(1, 5);
    let mut rest = net.draw.size(1_000, most);
    let mut shape = Vec::new();
    for i in 0..rank {
        let dim = net.draw.size(1, if i + 1 == rank { rest } else { rest.min(200) });
        rest = (rest / dim).max(1);
        shape.push(dim);
    }
    // The longest axis is random.
    let by = net.draw.between(0, rank - 1);
    shape.rotate_left(by);
    shape
}

/// The shape of an operand that broadcasts to `shape`.
pub(super) fn narrower(net: &mut Net<'_>, shape: &[usize]) -> Vec<usize> {
    let first = if net.draw.one_in(3) { net.draw.between(0, shape.len()) } else { 0 };
    let is_same = !net.draw.one_in(2);
    let mut narrow = shape[first..].to_vec();
    for dim in &mut narrow {
        if !is_same && net.draw.one_in(2) {
            *dim = 1;
        }
    }
    narrow
}

pub(super) fn binary(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let (op, is_divided) =
        net.draw.pick(&[("Add-14", false), ("Mul-14", false), ("Sub-14", false), ("Div-14", true)]);
    let a_shape = if net.draw.one_in(4) { narrower(net, &full) } else { full.clone() };
    let b_shape = narrower(net, &full);
    let letters = net.draw.pick(&[['x', 'x'], ['x', 'w'], ['w', 'x']]);
    let a = net.scaled(letters[0], &a_shape, 1);
    let b = match is_divided {
        true => net.positive(letters[1], &b_shape),
        false => net.scaled(letters[1], &b_shape, 1),
    };
    let name = net.node(op, &[&a.name, &b.name]);
    let shape = stretched(&a.shape, &b.shape);
    let size = 2.0 * (a.size + b.size);
    let y = Value { name, shape, size, error: ROUNDING * size };
    let n_functions = net.draw.between(0, 2);
    vec![(0..n_functions).fold(y, |y, _| function(net, &y))]
}

/// The shape that two shapes broadcast to.
fn stretched(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[usize], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(i) => shape[i],
        None => 1,
    };
    (0..rank).map(|i| dim(a, i).max(dim(b, i))).collect()
}

pub(super) fn unary(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let x = net.input(&full);
    let n_functions = net.draw.between(1, 4);
    vec![(0..n_functions).fold(x, |x, _| function(net, &x))]
}
