//! Attention in the forms that exporters write, and what is none.

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
    let masked = "l = MatMul-13 (b, d)\n m = Add-14 (l, x)";
    let with = |mask: &str| format!("{ROWS}, x: float[{mask}]");
    for (inputs, scores, outputs, reason) in [
        (ROWS, product, "y, o", shared),
        (ROWS, product, "y, m", shared),
        ("q: float[n,s,6], k: float[n,t,6], v: float[n,u,6]", product, "y", sizes),
        ("q: float[n,s,6], k: float[1,t,6], v: float[n,t,6]", product, "y", sizes),
        ("q: float[n,s,6], k: float[n,t,6], v: float[n,t,?]", product, "y", ""),
        (&with("3,1,s,t"), masked, "y", mask),
        (&with("t"), masked, "y", mask),
        (&with("n,1,u,t"), masked, "y", mask),
        (ROWS, "l = MatMul-13 (b, d)\n m = Mul-14 (l, l)", "y", ""),
        (ROWS, "m = com.microsoft:FusedMatMul-1 [alpha: 0.0] (b, d)", "y", "it has no scale"),
    ] {
        assert_eq!(refusals(&attention(inputs, scores, outputs)), reason, "{inputs} {scores}");
    }
    let double = attention(ROWS, product, "y").replace("float[", "double[");
    assert_eq!(refusals(&double), "it is not f32");
}
