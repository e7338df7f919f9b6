//! Keys and values of which a head serves several heads of queries, and is repeated for each of them.
//!
//! ```text
//! Reshape(Expand(Unsqueeze(x, 2), [B, N, r, T, H]), [B, N·r, T, H])    x: [B, N, T, H]
//! ```
//! Tile or Concat may repeat instead of Expand, and Reshape may add the dimension. So does Gather along the heads,
//! if it takes each `r` times. Keys may be transposed for their product first, when there is less to move.

use super::heads::{Source, transpose};
use crate::sizes::{Size, sizes};
use ort_graph::{Attr, Dim, Graph, Node, ValueId};

/// The axes of what is repeated in the result: as they are, or the last two swapped, as for a product.
type Order = [usize; 4];
const AS_THEY_ARE: Order = [0, 1, 2, 3];
const SWAPPED: Order = [0, 1, 3, 2];

/// What is repeated by head, and how many times each head, if more than once.
pub(super) fn source(graph: &Graph, value: ValueId) -> Option<(ValueId, usize)> {
    let node = producer(graph, value)?;
    let found = match &*node.op_type {
        "Gather" => gathered(graph, node),
        "Reshape" => merged(graph, node, value, AS_THEY_ARE),
        _ => None,
    };
    found.filter(|&(_, times)| times > 1)
}

/// The same where the last two dimensions of `[B, N, T, H]` are swapped before they are repeated.
pub(super) fn source_of_swapped(graph: &Graph, value: ValueId) -> Option<(Source, usize)> {
    if let Some((swapped, times)) = source(graph, value) {
        let (source, &[a, b, c, d]) = transpose(graph, swapped)? else { return None };
        return Some((Source::permuted(source, &[a, b, d, c]), times));
    }
    let node = producer(graph, value).filter(|node| node.op_type == "Reshape")?;
    let (source, times) = merged(graph, node, value, SWAPPED).filter(|&(_, times)| times > 1)?;
    Some((Source::of(source), times))
}

/// `[B, N·r, T, H]` of `[B, N, r, T, H]`, or both with T and H swapped.
fn merged(graph: &Graph, reshape: &Node, value: ValueId, order: Order) -> Option<(ValueId, usize)> {
    let repeat = producer(graph, first(reshape)?)?;
    let mut added = first(repeat)?;
    if order == SWAPPED {
        let (swapped, perm) = transpose(graph, added)?;
        added = Some(swapped).filter(|_| perm == [0, 1, 2, 4, 3])?;
    }
    let x = first(producer(graph, added).filter(|node| adds_a_dimension(node))?)?;
    let dims = |value| graph.fact(value).dims();
    let [b, Dim::Known(n), t, size] = dims(x)? else { return None };
    let [b_1, Dim::Known(n_1), Dim::Known(1), t_1, size_1] = dims(added)? else { return None };
    let times = times(graph, repeat, x, order)?;
    let to: &[Dim; 4] = dims(value)?.try_into().ok()?;
    let [to_b, to_n, to_t, to_size] = order.map(|axis| &to[axis]);
    // If two of batch, length and size stay, all do.
    let stay = |to: [&Dim; 3]| {
        let n_equal = [b, t, size].into_iter().zip(to).filter(|(of, to)| of.equals(to)).count();
        n_equal >= 2
    };
    let is_added = n == n_1 && stay([b_1, t_1, size_1]);
    let is_merged = n.checked_mul(times) == to_n.known() && stay([to_b, to_t, to_size]);
    (is_added && is_merged).then_some((x, times))
}

/// How many times a node repeats `x: [B, N, T, H]`, as `[B, N, 1, T, H]`, along the third dimension, and along no other.
fn times(graph: &Graph, node: &Node, x: ValueId, order: Order) -> Option<usize> {
    let operand = || sizes(graph, node.inputs.get(1).copied().flatten()?);
    let times = match &*node.op_type {
        "Expand" => match &operand()?[..] {
            [b, n, Size::Known(times), t, size] => {
                let is_of =
                    |size: &Size, axis| *size == Size::Known(1) || size.is_dim(graph, x, axis);
                let mut axes = [b, n, t, size].into_iter().zip(order);
                axes.all(|(size, axis)| is_of(size, axis)).then_some(*times)
            }
            _ => None,
        },
        "Tile" => match operand()?[..] {
            [
                Size::Known(1),
                Size::Known(1),
                Size::Known(times),
                Size::Known(1),
                Size::Known(1),
            ] => Some(times),
            _ => None,
        },
        "Concat" => {
            let is_alike = node.inputs.iter().all(|input| *input == node.inputs[0]);
            let is_along = matches!(node.attrs.get("axis"), Some(Attr::Int(2 | -3)));
            (is_alike && is_along).then(|| i64::try_from(node.inputs.len()).ok())?
        }
        _ => None,
    };
    usize::try_from(times?).ok()
}

/// `x[:, [0, 0, 1, 1, …]]`
fn gathered(graph: &Graph, node: &Node) -> Option<(ValueId, usize)> {
    let x = first(node)?;
    let &[_, Dim::Known(n), _, _] = graph.fact(x).dims()? else { return None };
    let heads = graph.fact(node.inputs.get(1).copied().flatten()?).ints()?;
    let times = heads.len().checked_div(n)?;
    let is_along = matches!(node.attrs.get("axis"), Some(Attr::Int(1 | -3)));
    let are_in_order = heads.iter().zip(0..).all(|(&head, i)| {
        usize::try_from(head).is_ok_and(|head| Some(head) == usize::checked_div(i, times))
    });
    (is_along && are_in_order && times.checked_mul(n) == Some(heads.len())).then_some((x, times))
}

fn adds_a_dimension(node: &Node) -> bool {
    matches!(&*node.op_type, "Unsqueeze" | "Reshape")
}

/// The node of ai.onnx that computes a value as its first output.
fn producer(graph: &Graph, value: ValueId) -> Option<&Node> {
    let (id, 0) = graph.producer(value)? else { return None };
    Some(graph.node(id)).filter(|node| node.domain.is_empty())
}

fn first(node: &Node) -> Option<ValueId> {
    node.inputs.first().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::PASS;
    use crate::testing::{assert_equivalent, parse, run};

    /// Attention of four heads to two, of which `repeat` makes four, `{y}`, of `{x}`.
    fn attention(repeat: &str) -> String {
        let of = |x: &str, y: &str| repeat.replace("{x}", x).replace("{y}", y);
        format!(
            "graph(q: float[n,4,s,3], k: float[n,2,t,3], v: float[n,2,t,3], x: float[n,1,s,t]) -> (y) {{
               two = const int64[1] [2]
               ones = const int64[5] [1, 1, 1, 1, 1]
               times = const int64[5] [1, 1, 2, 1, 1]
               each = const int64[4] [0, 0, 1, 1]
               swapped = const int64[4] [0, 1, 0, 1]
               four = const int64[4] [0, 4, -1, 3]
               merge = const int64[3] [0, 0, 12]
               root = const float[] 1.5
               {}
               {}
               g = Transpose-13 [perm: [0, 1, 3, 2]] (keys)
               l = MatMul-13 (q, g)
               m = Div-14 (l, root)
               w = Add-14 (m, x)
               o = Softmax-13 [axis: -1] (w)
               u = MatMul-13 (o, values)
               r = Transpose-13 [perm: [0, 2, 1, 3]] (u)
               y = Reshape-14 (r, merge)
             }}",
            of("k", "keys"),
            of("v", "values")
        )
    }

    /// The operators that stay, with the attention's attributes left out.
    fn optimized(repeat: &str) -> Vec<String> {
        let text = attention(repeat);
        let (graph, _) = run(&PASS, &text, Some(14));
        assert_equivalent(&parse(&text), &graph, PASS.exactness);
        graph.node_ids().map(|id| graph.node(id).op_type.clone()).collect()
    }

    #[test]
    fn heads_that_are_repeated_are_shared() {
        for repeat in [
            "{x}_5 = Unsqueeze-13 ({x}, two)
             {x}_r = Expand-13 ({x}_5, times)
             {y} = Reshape-14 ({x}_r, four)",
            "{x}_5 = Unsqueeze-13 ({x}, two)
             {x}_l = Shape-15 ({x}_5)
             {x}_t = Mul-14 ({x}_l, times)
             {x}_r = Expand-13 ({x}_5, {x}_t)
             {y} = Reshape-14 ({x}_r, four)",
            "{x}_5 = Unsqueeze-13 ({x}, two)
             {x}_r = Tile-13 ({x}_5, times)
             {y} = Reshape-14 ({x}_r, four)",
            "{x}_5 = Unsqueeze-13 ({x}, two)
             {x}_r = Concat-13 [axis: 2] ({x}_5, {x}_5)
             {y} = Reshape-14 ({x}_r, four)",
            "{y} = Gather-13 [axis: 1] ({x}, each)",
        ] {
            assert_eq!(optimized(repeat), ["Attention", "Transpose", "Reshape"], "{repeat}");
        }
    }

    #[test]
    fn other_repetitions_stay() {
        for repeat in [
            "{y} = Gather-13 [axis: 1] ({x}, swapped)",
            "{x}_5 = Unsqueeze-13 ({x}, two)
             {x}_r = Concat-13 [axis: 1] ({x}_5, {x}_5)
             {y} = Reshape-14 ({x}_r, four)",
        ] {
            let found = optimized(repeat);
            let is = |name: &str| found.iter().any(|op| op == name);
            assert!(is("MultiHeadAttention") && !is("Attention"), "{found:?}");
        }
    }
}
