//! Matrix products: batches that broadcast, transposed operands, vectors, and what follows.

use super::super::net::{Net, Value, list};
use super::epilogue::epilogue;

/// `m`, `n` and `k` whose product is within the budget.
pub(super) fn sizes(net: &mut Net<'_>, n_products: usize) -> [usize; 3] {
    let budget = (net.draw.budget() / n_products).max(1);
    let first = net.draw.size(1, 3000.min(budget));
    let second = net.draw.size(1, 2000.min(budget / first).max(1));
    let third = net.draw.size(1, 2000.min(budget / first / second).max(1));
    let mut sizes = [first, second, third];
    sizes.rotate_left(net.draw.between(0, 2));
    sizes
}

/// An operand `[…, rows, columns]`, sometimes made by a Transpose.
fn operand(net: &mut Net<'_>, batch: &[usize], [rows, columns]: [usize; 2], n: usize) -> Value {
    let is_transposed = net.draw.one_in(4);
    let stored = if is_transposed { [columns, rows] } else { [rows, columns] };
    let shape: Vec<usize> = batch.iter().copied().chain(stored).collect();
    let x = if n == 0 { net.input(&shape) } else { net.weights(&shape, n) };
    if !is_transposed {
        return x;
    }
    let mut perm: Vec<usize> = (0..shape.len()).collect();
    perm.swap(shape.len() - 2, shape.len() - 1);
    let name = net.node(&format!("Transpose-13 [perm: [{}]]", list(&perm)), &[&x.name]);
    let shape = batch.iter().copied().chain([rows, columns]).collect();
    Value { name, shape, ..x }
}

pub(super) fn matmul(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[0, 0, 1, 2]);
    let (mut of_a, mut of_b, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rank {
        let dim = net.draw.size(1, 12);
        let [a, b] = net.draw.pick(&[[dim, dim], [dim, 1], [1, dim]]);
        of_a.push(a);
        of_b.push(b);
        batch.push(dim);
    }
    let [m, n, k] = sizes(net, batch.iter().product());
    if net.draw.one_in(3) {
        of_b.clear();
    }
    let a = operand(net, &of_a, [m, k], 0);
    let b = operand(net, &of_b, [k, n], k);
    let name = net.node("MatMul-13", &[&a.name, &b.name]);
    let result = if of_b.is_empty() { of_a } else { batch };
    let shape = result.into_iter().chain([m, n]).collect();
    let y = Value::sums(name, shape, (k, [&a, &b]), None);
    let y = if net.draw.one_in(3) { biased(net, &y) } else { y };
    vec![epilogue(net, y)]
}

/// A bias for each column.
fn biased(net: &mut Net<'_>, x: &Value) -> Value {
    let columns = x.shape.last().copied().unwrap_or(1);
    let bias = net.scaled('w', &[columns], 1);
    let name = net.node("Add-14", &[&x.name, &bias.name]);
    let (size, error) = x.after(1.0, x.size.hypot(bias.size));
    Value { name, shape: x.shape.clone(), size, error }
}

pub(super) fn gemm(net: &mut Net<'_>) -> Vec<Value> {
    let [m, n, k] = sizes(net, 1);
    let [is_a, is_b] = [net.draw.one_in(2), net.draw.one_in(2)];
    let a = net.input(&if is_a { [k, m] } else { [m, k] });
    let b = net.weights(&if is_b { [n, k] } else { [k, n] }, k);
    let shapes: [&[usize]; 6] = [&[n], &[], &[1, n], &[m, 1], &[m, n], &[1]];
    let c = net.draw.one_in(2).then(|| {
        let shape = net.draw.pick(&shapes);
        let letter = net.draw.pick(&['w', 'x']);
        net.scaled(letter, shape, 1)
    });
    let [alpha, beta] = [net.draw.pick(&["1.0", "0.5"]), net.draw.pick(&["1.0", "2.0", "0.0"])];
    let (t_a, t_b) = (u8::from(is_a), u8::from(is_b));
    let op = format!("Gemm-13 [alpha: {alpha}, beta: {beta}, transA: {t_a}, transB: {t_b}]");
    let mut inputs = vec![a.name.as_str(), b.name.as_str()];
    inputs.extend(c.iter().map(|c| c.name.as_str()));
    let name = net.node(&op, &inputs);
    let c = c.map(|c| Value { size: 2.0 * c.size, ..c });
    let y = Value::sums(name, vec![m, n], (k, [&a, &b]), c.as_ref());
    vec![epilogue(net, y)]
}

/// MoE with weights of floats.
pub(super) fn experts(net: &mut Net<'_>) -> Vec<Value> {
    let ([m, inner, hidden], n_experts) = (sizes(net, 4), net.draw.between(2, 5));
    let (a, logits) = (net.input(&[m, hidden]), net.input(&[m, n_experts]));
    let [first, second] = [[inner, hidden], [hidden, inner]]
        .map(|[n, k]| (net.weights(&[n_experts, n, k], k), net.scaled('w', &[n_experts, n], 1)));
    let inputs = [&a, &logits, &first.0, &first.1, &second.0, &second.1].map(|it| &*it.name);
    let op = "com.microsoft:MoE-1 [k: 2, activation_type: \"relu\"]";
    let name = net.node(op, &inputs);
    let (none, shape) = (String::new(), vec![m, inner]);
    let between = Value::sums(none, shape, (hidden, [&a, &first.0]), Some(&first.1));
    let operands = (inner, [&between, &second.0]);
    vec![Value::sums(name, vec![m, hidden], operands, Some(&second.1))]
}
