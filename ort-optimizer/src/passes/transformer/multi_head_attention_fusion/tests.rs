//! Attention in the forms that exporters write, and what is none.

mod forms;

use expect_test::expect;

use super::PASS;
use crate::testing::{assert_optimized, assert_optimized_in};

/// Attention of `q` to `k` and `v` by two heads: these lines make `y` of the scores `m`.
fn attention(inputs: &str, scores: &str, outputs: &str) -> String {
    format!(
        "graph({inputs}) -> ({outputs}) {{
           split = const int64[4] [0, 0, 2, 3]
           merge = const int64[3] [0, 0, 6]
           root = const float[] 1.5
           half = const float[1] [0.5]
           a = Reshape-14 (q, split)
           b = Transpose-13 [perm: [0, 2, 1, 3]] (a)
           c = Reshape-14 (k, split)
           d = Transpose-13 [perm: [0, 2, 3, 1]] (c)
           e = Reshape-14 (v, split)
           f = Transpose-13 [perm: [0, 2, 1, 3]] (e)
           {scores}
           o = Softmax-13 [axis: -1] (m)
           p = MatMul-13 (o, f)
           r = Transpose-13 [perm: [0, 2, 1, 3]] (p)
           y = Reshape-14 (r, merge)
         }}"
    )
}

const ROWS: &str = "q: float[n,s,6], k: float[n,t,6], v: float[n,t,6]";

#[test]
fn attention_without_a_mask_is_one_node() {
    let scores = "l = MatMul-13 (b, d)
        m = Div-14 (l, root)";
    assert_optimized(
        PASS,
        &attention(ROWS, scores, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6]) -> (y) {
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (q, k, v)
        }"#]],
    );
}

#[test]
fn queries_and_keys_may_be_scaled_and_keys_transposed_twice() {
    let scores = "g = Mul-14 (half, b)
        h = Transpose-13 [perm: [0, 2, 1, 3]] (c)
        i = Transpose-13 [perm: [0, 1, 3, 2]] (h)
        j = Div-14 (i, root)
        m = MatMul-13 (g, j)";
    assert_optimized(
        PASS,
        &attention(ROWS, scores, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6]) -> (y) {
          split = const int64[4] [0, 0, 2, 3]
          c = Reshape-14 (k, split)
          d = Transpose-13 [perm: [0, 2, 3, 1]] (c)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.33333334] (q, k, v)
        }"#]],
    );
    let fused = "h = Transpose-13 [perm: [0, 2, 1, 3]] (c)
        m = com.microsoft:FusedMatMul-1 [alpha: 0.25, transB: 1] (b, h)";
    assert_optimized(
        PASS,
        &attention(ROWS, fused, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6]) -> (y) {
          split = const int64[4] [0, 0, 2, 3]
          c = Reshape-14 (k, split)
          d = Transpose-13 [perm: [0, 2, 3, 1]] (c)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.25] (q, k, v)
        }"#]],
    );
}

#[test]
fn a_mask_for_each_score_is_used_unchanged() {
    let inputs = format!("{ROWS}, x: float[1,2,s,t]");
    let scores = "l = MatMul-13 (b, d)
        m = Add-14 (x, l)";
    assert_optimized(
        PASS,
        &attention(&inputs, scores, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6], x: float[1,2,s,t]) -> (y) {
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 1.0] (q, k, v, _, _, x)
        }"#]],
    );
}

#[test]
fn a_mask_of_keys_is_expanded_once() {
    let graph = "graph(q: float[n,s,6], x: float[n,1,1,s]) -> (z) {
        split = const int64[4] [0, 0, 2, 3]
        merge = const int64[3] [0, 0, 6]
        root = const float[] 1.5
        a = Reshape-14 (q, split)
        b = Transpose-13 [perm: [0, 2, 1, 3]] (a)
        c = Reshape-14 (q, split)
        d = Transpose-13 [perm: [0, 2, 3, 1]] (c)
        l = MatMul-13 (b, d)
        i = Div-14 (l, root)
        m = Add-14 (i, x)
        o = Softmax-13 [axis: -1] (m)
        p = MatMul-13 (o, b)
        r = Transpose-13 [perm: [0, 2, 1, 3]] (p)
        y = Reshape-14 (r, merge)
        a2 = Reshape-14 (y, split)
        b2 = Transpose-13 [perm: [0, 2, 1, 3]] (a2)
        d2 = Transpose-13 [perm: [0, 2, 3, 1]] (a2)
        l2 = MatMul-13 (b2, d2)
        i2 = Div-14 (l2, root)
        m2 = Add-14 (i2, x)
        o2 = Softmax-13 [axis: 3] (m2)
        p2 = MatMul-13 (o2, b2)
        r2 = Transpose-13 [perm: [0, 2, 1, 3]] (p2)
        z = Reshape-14 (r2, merge)
      }";
    assert_optimized_in(
        Some(14),
        PASS,
        graph,
        &expect![[r#"
        graph(q: float[n,s,6], x: float[n,1,1,s]) -> (z) {
          value = const int64[1] [1]
          value_2 = const int64[1] [1]
          rows_shape = Shape-13 (q)
          n_rows = Gather-13 [axis: 0] (rows_shape, value_2)
          mask_shape = Concat-13 [axis: 0] (value, value, n_rows, n_rows)
          mask = Expand-13 (x, mask_shape)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (q, q, q, _, _, mask)
          z = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (y, y, y, _, _, mask)
        }"#]],
    );
    assert_optimized(
        PASS,
        &graph.replace("n,s,6", "2,3,6").replace("n,1,1,s", "2,1,1,3"),
        &expect![[r#"
        graph(q: float[2,3,6], x: float[2,1,1,3]) -> (z) {
          value = const int64[1] [1]
          value_2 = const int64[1] [3]
          mask_shape = Concat-4 [axis: 0] (value, value, value_2, value_2)
          mask = Expand-8 (x, mask_shape)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (q, q, q, _, _, mask)
          z = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (y, y, y, _, _, mask)
        }"#]],
    );
}

#[test]
fn operands_may_come_by_head_behind_a_past_and_a_rotation() {
    let graph = "graph(q: float[n,s,6], k: float[n,3,6], v: float[n,3,6], pk: float[n,2,?,3], pv: float[n,2,?,3], x: float[n,1,s,5]) -> (y, f, j) {
           split = const int64[4] [0, 0, 2, 3]
           merge = const int64[3] [0, 0, 6]
           root = const float[] 1.5
           a = Reshape-14 (q, split)
           b = Transpose-13 [perm: [0, 2, 1, 3]] (a)
           c = Neg-13 (b)
           d = Reshape-14 (k, split)
           e = Transpose-13 [perm: [0, 2, 1, 3]] (d)
           f = Concat-13 [axis: 2] (pk, e)
           g = Transpose-13 [perm: [0, 1, 3, 2]] (f)
           h = Reshape-14 (v, split)
           i = Transpose-13 [perm: [0, 2, 1, 3]] (h)
           j = Concat-13 [axis: 2] (pv, i)
           l = MatMul-13 (c, g)
           m = Div-14 (l, root)
           w = Add-14 (m, x)
           o = Softmax-13 [axis: -1] (w)
           u = MatMul-13 (o, j)
           r = Transpose-13 [perm: [0, 2, 1, 3]] (u)
           y = Reshape-14 (r, merge)
         }";
    assert_optimized_in(
        Some(14),
        PASS,
        graph,
        &expect![[r#"
            graph(q: float[n,s,6], k: float[n,3,6], v: float[n,3,6], pk: float[n,2,?,3], pv: float[n,2,?,3], x: float[n,1,s,5]) -> (y, f, j) {
              split = const int64[4] [0, 0, 2, 3]
              value = const int64[3] [0, 0, 6]
              a = Reshape-14 (q, split)
              b = Transpose-13 [perm: [0, 2, 1, 3]] (a)
              c = Neg-13 (b)
              d = Reshape-14 (k, split)
              e = Transpose-13 [perm: [0, 2, 1, 3]] (d)
              f = Concat-13 [axis: 2] (pk, e)
              h = Reshape-14 (v, split)
              i = Transpose-13 [perm: [0, 2, 1, 3]] (h)
              j = Concat-13 [axis: 2] (pv, i)
              by_head = Transpose-13 [perm: [0, 2, 1, 3]] (c)
              query_rows = Reshape-14 (by_head, value)
              y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (query_rows, f, j, _, _, x)
            }"#]],
    );
}

/// The lowest f32, which exporters put where keys are hidden.
const LOWEST: &str = "lowest = const float[] -340282350000000000000000000000000000000";

#[test]
fn a_number_in_place_of_scores_is_a_mask() {
    let inputs = format!("{ROWS}, h: bool[1,1,s,t], x: float[n,1,1,t]");
    let scores = format!(
        "{LOWEST}
        l = MatMul-13 (b, d)
        i = Div-14 (l, root)
        w = Where-16 (h, i, lowest)
        m = Add-14 (w, x)"
    );
    assert_optimized_in(
        Some(16),
        PASS,
        &attention(&inputs, &scores, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6], h: bool[1,1,s,t], x: float[n,1,1,t]) -> (y) {
          lowest = const float[] -3.4028235e38
          value = const float[] 0
          mask_sum = Where-16 (h, value, lowest)
          mask_sum_2 = Add-14 (mask_sum, x)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.6666667] (q, k, v, _, _, mask_sum_2)
        }"#]],
    );
    let inputs = format!("{ROWS}, h: bool[s,t]");
    let scores = format!(
        "{LOWEST}
        l = MatMul-13 (b, d)
        m = Where-16 (h, lowest, l)"
    );
    assert_optimized_in(
        Some(16),
        PASS,
        &attention(&inputs, &scores, "y"),
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6], h: bool[s,t]) -> (y) {
          lowest = const float[] -3.4028235e38
          value = const float[] 0
          value_2 = const int64[1] [1]
          value_3 = const int64[1] [1]
          value_4 = const int64[1] [1]
          mask_sum = Where-16 (h, lowest, value)
          rows_shape = Shape-13 (q)
          n_rows = Gather-13 [axis: 0] (rows_shape, value_3)
          rows_shape_2 = Shape-13 (k)
          n_rows_2 = Gather-13 [axis: 0] (rows_shape_2, value_4)
          mask_shape = Concat-13 [axis: 0] (value_2, value_2, n_rows, n_rows_2)
          mask = Expand-13 (mask_sum, mask_shape)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 1.0] (q, k, v, _, _, mask)
        }"#]],
    );
}

#[test]
fn a_mask_may_be_cut_from_a_table() {
    for (range, is_cut) in [
        ("end = Add-14 (at, new)\n cut = Slice-13 (table, at, end, axis)", true),
        ("end = Add-14 (new, at)\n cut = Slice-13 (table, at, end, axis, one)", true),
        ("start = Sub-14 (at, new)\n cut = Slice-13 (table, start, at, axis)", true),
        ("end = Add-14 (at, at)\n cut = Slice-13 (table, at, end, axis)", false),
        ("end = Add-14 (at, new)\n cut = Slice-13 (table, one, end, axis)", false),
        ("start = Sub-14 (new, at)\n cut = Slice-13 (table, start, at, axis)", false),
    ] {
        let scores = format!(
            "new = Shape-15 [start: 1, end: 2] (q)
             axis = const int64[1] [-2]
             one = const int64[1] [1]
             few = const float[] -10000.0
             {range}
             w = Mul-14 (cut, few)
             l = MatMul-13 (b, d)
             m = Add-14 (l, w)"
        );
        let inputs = format!("{ROWS}, table: float[9,t], at: int64[1]");
        let text = attention(&inputs, &scores, "y");
        let (graph, _) = crate::testing::run(&PASS, &text, Some(15));
        let is_found = |id| graph.node(id).op_type == "MultiHeadAttention";
        assert_eq!(graph.node_ids().any(is_found), is_cut, "{range}");
    }
}

#[test]
fn weights_of_queries_that_see_no_key_may_be_replaced() {
    let scores = "none = const float[] -inf
        zero = const float[] 0.0
        w = Where-16 (h, zero, none)
        l = MatMul-13 (b, d)
        m = Add-14 (l, w)";
    let inputs = format!("{ROWS}, h: bool[n,1,s,t]");
    let graph = attention(&inputs, scores, "y").replace(
        "p = MatMul-13 (o, f)",
        "g = IsNaN-13 (o)
        j = Where-16 (g, zero, o)
        p = MatMul-13 (j, f)",
    );
    assert_optimized_in(
        Some(16),
        PASS,
        &graph,
        &expect![[r#"
        graph(q: float[n,s,6], k: float[n,t,6], v: float[n,t,6], h: bool[n,1,s,t]) -> (y) {
          none = const float[] -inf
          zero = const float[] 0
          w = Where-16 (h, zero, none)
          y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 1.0] (q, k, v, _, _, w)
        }"#]],
    );
}

#[test]
fn what_is_no_attention_stays() {
    let product = "m = MatMul-13 (b, d)";
    let refusals = |text: &str| {
        let (graph, report) = crate::testing::run(&PASS, text, None);
        assert!(
            graph.node_ids().all(|id| graph.node(id).op_type != "MultiHeadAttention"),
            "{text}"
        );
        let refused = report.passes.iter().flat_map(|pass| &pass.refused);
        refused.map(|(reason, _)| *reason).collect::<Vec<_>>().join(", ")
    };
    let sizes = "its heads may not have the same sizes";
    let mask = "what is added to its scores is no mask of known form";
    let shared = "a value within it is used elsewhere";
    let no_product = "its scores are no product of queries and keys, along which it is a softmax";
    let reached = "scores may reach the number that hides keys";
    let few = "few = const float[] -10000.0\n l = MatMul-13 (b, d)\n m = Where-16 (x, l, few)";
    let masked = "l = MatMul-13 (b, d)\n m = Add-14 (l, x)";
    let with = |mask: &str| format!("{ROWS}, x: float[{mask}]");
    for (inputs, scores, outputs, reason) in [
        (ROWS, product, "y, o", shared),
        (ROWS, product, "y, m", shared),
        ("q: float[n,s,6], k: float[1,t,6], v: float[n,t,6]", product, "y", sizes),
        (&with("3,1,s,t"), masked, "y", mask),
        (&with("n,1,4,t"), masked, "y", mask),
        (&with("n,1,u,t"), masked, "y", mask),
        (ROWS, "l = MatMul-13 (b, d)\n m = Mul-14 (l, l)", "y", no_product),
        (&with("n,1,s,t").replace("x: float", "x: bool"), few, "y", reached),
        (ROWS, "m = com.microsoft:FusedMatMul-1 [alpha: 0.0] (b, d)", "y", "it has no scale"),
    ] {
        assert_eq!(refusals(&attention(inputs, scores, outputs)), reason, "{inputs} {scores}");
    }
    let double = attention(ROWS, product, "y").replace("float[", "double[");
    assert_eq!(refusals(&double), "it is not f32");
}
