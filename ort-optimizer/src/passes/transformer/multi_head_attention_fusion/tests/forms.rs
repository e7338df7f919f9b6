//! Scores that have a cap, or a factor of each head, and keys and queries in other forms.

use super::PASS;
use crate::testing::{assert_equivalent, parse, run};

/// The operators that a graph is optimized to, which computes the same.
fn optimized(text: &str) -> Vec<String> {
    let (graph, _) = run(&PASS, text, Some(14));
    assert_equivalent(&parse(text), &graph, PASS.exactness);
    graph.node_ids().map(|id| graph.node(id).op_type.clone()).collect()
}

/// Attention by head: these lines make `m` of `q`, `k`, `v`, `x` and `f`.
fn by_head(inputs: &str, scores: &str) -> String {
    format!(
        "graph(q: float[n,2,s,3], v: float[n,2,t,3], {inputs}) -> (p) {{
           cap = const float[] 2.0
           less = const float[] 0.25
           none = const float[] -2.0
           each = const float[2,1,1] [0.5, -3]
           alike = const float[1,1,1,1] [0.5]
           rows = const float[3,1] [1, 2, 3]
           {scores}
           o = Softmax-13 [axis: -1] (m)
           p = MatMul-13 (o, v)
         }}"
    )
}

#[test]
fn scores_may_have_a_cap() {
    let inputs = "k: float[n,2,t,3], x: float[n,1,s,t]";
    let keys = "g = Transpose-13 [perm: [0, 1, 3, 2]] (k)\n l = MatMul-13 (q, g)";
    for scores in [
        "a = Div-14 (l, cap)\n b = Tanh-13 (a)\n c = Mul-14 (b, cap)\n m = Add-14 (c, x)",
        "b = Tanh-13 (l)\n c = Mul-14 (cap, b)\n m = Add-14 (x, c)",
        "a = Mul-14 (l, less)\n b = Tanh-13 (a)\n m = Add-14 (b, x)",
    ] {
        let text = by_head(inputs, &format!("{keys}\n {scores}"));
        let (graph, _) = run(&PASS, &text, Some(14));
        assert_eq!(optimized(&text), ["Attention"], "{scores}");
        assert!(graph.to_string().contains("softcap: "), "{graph}");
    }
    for scores in [
        "a = Div-14 (l, cap)\n d = Add-14 (a, x)\n b = Tanh-13 (d)\n m = Mul-14 (b, cap)",
        "b = Tanh-13 (l)\n c = Mul-14 (b, none)\n m = Add-14 (c, x)",
        "b = Tanh-13 (l)\n c = Mul-14 (b, x)\n m = Mul-14 (c, cap)",
        "b = Tanh-13 (l)\n c = Tanh-13 (b)\n m = Add-14 (c, x)",
        "b = Tanh-13 (l)\n m = Add-14 (b, l)",
    ] {
        let found = optimized(&by_head(inputs, &format!("{keys}\n {scores}")));
        assert!(!found.iter().any(|op| op == "Attention"), "{scores}: {found:?}");
    }
}

#[test]
fn a_factor_of_each_head_scales_queries() {
    let inputs = "k: float[n,2,t,3], x: float[n,1,s,t], f: float[2,1,t]";
    let keys = "g = Transpose-13 [perm: [0, 1, 3, 2]] (k)\n l = MatMul-13 (q, g)";
    for (scores, op) in [
        ("a = Mul-14 (l, each)\n m = Add-14 (a, x)", "Mul"),
        ("a = Mul-14 (each, l)\n m = Mul-14 (a, less)", "Mul"),
        ("a = Div-14 (l, each)\n m = Add-14 (x, a)", "Div"),
        ("a = Mul-14 (l, each)\n b = Tanh-13 (a)\n m = Add-14 (b, x)", "Mul"),
    ] {
        let found = optimized(&by_head(inputs, &format!("{keys}\n {scores}")));
        assert_eq!(found, [op, "Attention"], "{scores}");
    }
    for scores in
        ["m = Mul-14 (l, f)", "m = Div-14 (each, l)", "a = Mul-14 (l, each)\n m = Mul-14 (a, each)"]
    {
        let found = optimized(&by_head(inputs, &format!("{keys}\n {scores}")));
        assert!(!found.iter().any(|op| op == "Attention"), "{scores}: {found:?}");
    }
    let several = "graph(q: float[n,1,s,3], k: float[n,1,3,s], v: float[n,1,s,3]) -> (p) {
        each = const float[2,1,1] [0.5, -3]
        l = MatMul-13 (q, k)
        m = Mul-14 (l, each)
        o = Softmax-13 [axis: -1] (m)
        p = MatMul-13 (o, v)
      }";
    assert!(!optimized(several).iter().any(|op| op == "Attention"));
}

#[test]
fn keys_may_come_from_rows_that_are_rotated() {
    let inputs = "k: float[n,t,2,3]";
    let scores =
        "a = Neg-13 (k)\n g = Transpose-13 [perm: [0, 2, 3, 1]] (a)\n m = MatMul-13 (q, g)";
    assert_eq!(optimized(&by_head(inputs, scores)), ["Neg", "Transpose", "Attention"]);
    let inputs = "k: float[t,n,3,2]";
    let scores = "g = Transpose-13 [perm: [1, 3, 2, 0]] (k)\n m = MatMul-13 (q, g)";
    assert_eq!(optimized(&by_head(inputs, scores)), ["Transpose", "Attention"]);
}

#[test]
fn keys_of_the_queries_may_come_swapped() {
    let scores = "m = MatMul-13 (q, k)";
    let own = by_head("k: float[n,2,3,t]", scores);
    assert_eq!(optimized(&own.replace("[n,2,s,3]", "[n,2,t,3]")), ["Transpose", "Attention"]);
    assert_eq!(optimized(&own), ["MatMul", "Softmax", "MatMul"]);
    let many = own.replace("[n,2,s,3]", "[n,2,16,3]");
    assert_eq!(optimized(&many), ["Transpose", "Attention"]);
    let both = by_head(
        "k: float[n,2,t,3]",
        "m = com.microsoft:FusedMatMul-1 [transA: 1, transB: 1] (q, k)",
    );
    let both = both.replace("q: float[n,2,s,3]", "q: float[n,2,3,s]");
    assert_eq!(optimized(&both), ["Transpose", "Attention"]);
}

#[test]
fn one_head_may_have_three_dimensions() {
    let graph = |k: &str, mask: &str, scores: &str, axis: i64| {
        format!(
            "graph(q: float[n,s,3], k: {k}, v: float[n,t,5], x: {mask}) -> (p) {{
               less = const float[] 0.25
               g = Transpose-13 [perm: [0, 2, 1]] (k)
               l = MatMul-13 (q, g)
               i = Mul-14 (l, less)
               {scores}
               o = Softmax-13 [axis: {axis}] (m)
               p = MatMul-13 (o, v)
             }}"
        )
    };
    let keys = "float[n,t,3]";
    let (sum, one) = ("m = Add-14 (i, x)", "MultiHeadAttention");
    for axis in [-1, 2] {
        assert_eq!(optimized(&graph(keys, "float[n,s,t]", sum, axis)), ["Unsqueeze", one]);
    }
    let masked = optimized(&graph(keys, "float[1,1,t]", sum, -1));
    assert_eq!(masked.last().map(String::as_str), Some(one), "{masked:?}");
    assert_eq!(optimized(&graph(keys, "float[n,s,t]", "m = Mul-14 (i, less)", 2)), [one]);
    for (k, mask, axis) in [
        (keys, "float[n,s,t]", 1),
        (keys, "float[n,1,s,t]", -1),
        ("float[1,t,3]", "float[n,s,t]", 2),
    ] {
        let found = optimized(&graph(k, mask, sum, axis));
        assert!(!found.iter().any(|op| op == one), "{k} {mask}: {found:?}");
    }
}

/// Attention to windows of an image, as in a shifted Swin block.
fn windows(batch: &str, masks: &str, scores: &str) -> String {
    format!(
        "graph(q: float[{batch},2,3,4], k: float[{batch},2,3,4], v: float[{batch},2,3,5], {masks}) -> (p) {{
           by_window = const int64[5] [-1, 3, 2, 3, 3]
           turned = const int64[5] [-1, 2, 3, 3, 3]
           alone = const int64[4] [-1, 2, 3, 3]
           bias = const float[1,2,3,3] fill 0.5
           g = Transpose-13 [perm: [0, 1, 3, 2]] (k)
           l = MatMul-13 (q, g)
           i = Add-14 (l, bias)
           {scores}
           m = Reshape-14 (w, alone)
           o = Softmax-13 [axis: -1] (m)
           p = MatMul-13 (o, v)
         }}"
    )
}

#[test]
fn windows_may_have_masks_of_their_own() {
    let one = "a = Reshape-14 (i, by_window)\n w = Add-14 (a, x)";
    let two = "a = Reshape-14 (i, by_window)\n b = Add-14 (y, a)\n w = Add-14 (b, x)";
    let is_fused = |text: &str| optimized(text).iter().any(|op| op == "Attention");
    let masks = "x: float[1,3,1,3,3], y: float[1,3,2,3,3]";
    for (batch, scores) in [("3", one), ("6", one), ("3", two), ("6", two)] {
        assert!(is_fused(&windows(batch, masks, scores)), "{batch} {scores}");
    }
    // The number of images is known when the model runs.
    let text = windows("n", masks, two);
    let (graph, _) = run(&PASS, &text, Some(14));
    let known = [graph.to_string(), text].map(|text| text.replace("[n,", "[6,"));
    assert!(known[0].contains("Attention") && known[0].contains("Div"), "{}", known[0]);
    assert_equivalent(&parse(&known[1]), &parse(&known[0]), PASS.exactness);
    for (masks, scores) in [
        ("x: float[2,3,1,3,3]", one),
        ("x: float[1,3,2,3,1]", one),
        ("x: float[1,1,1,3,3]", one),
        ("x: float[1,2,1,3,3]", "a = Reshape-14 (i, turned)\n w = Add-14 (a, x)"),
        (
            "x: float[1,3,1,3,3]",
            "a = Reshape-14 (i, by_window)\n b = Add-14 (a, x)\n w = Add-14 (b, a)",
        ),
    ] {
        assert!(!is_fused(&windows("6", masks, scores)), "{masks} {scores}");
    }
}

#[test]
fn heads_may_have_two_dimensions() {
    let graph = |k: &str, mask: &str| {
        format!(
            "graph(q: float[n,2,3,s,4], k: float{k}, v: float[n,2,3,t,5], x: float{mask}) -> (p) {{
               g = Transpose-13 [perm: [0, 1, 2, 4, 3]] (k)
               l = MatMul-13 (q, g)
               m = Add-14 (l, x)
               o = Softmax-13 [axis: -1] (m)
               p = MatMul-13 (o, v)
             }}"
        )
    };
    let is_fused = |text: &str| optimized(text).iter().any(|op| op == "Attention");
    for mask in ["[s,t]", "[1,1,s,t]", "[1,t]"] {
        let text = graph("[n,2,3,t,4]", mask);
        assert!(is_fused(&text.replace("[n,", "[2,")), "{mask}");
        assert!(
            is_fused(&text.replace("s,", "3,").replace("t,", "3,").replace("t]", "3]")),
            "{mask}"
        );
        assert!(!is_fused(&text), "{mask}");
    }
    for (k, mask) in [
        ("[n,2,3,t,4]", "[3,s,t]"),
        ("[n,2,3,t,4]", "[2,3,s,t]"),
        ("[n,2,3,t,4]", "[n,2,3,s,t]"),
        ("[n,2,1,t,4]", "[s,t]"),
        ("[1,2,3,t,4]", "[s,t]"),
    ] {
        assert!(!is_fused(&graph(k, mask).replace("[n,", "[4,")), "{k} {mask}");
    }
}
