//! Transposes that cancel, move, shrink or stay.

use expect_test::expect;

use crate::testing::{assert_optimized, assert_rewritten};

#[test]
fn neighbours_become_one_or_none() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,3,4]) -> (y, z, v, w) {
           a = Transpose-13 [perm: [1, 2, 0]] (x)
           y = Transpose-13 [perm: [2, 0, 1]] (a)
           b = Transpose-13 [perm: [1, 0, 2]] (x)
           z = Transpose-13 [perm: [2, 1, 0]] (b)
           c = Relu-14 (x)
           v = Transpose-13 [perm: [0, 1, 2]] (c)
           d = Transpose-13 (c)
           w = Transpose-13 (d)
         }",
        &expect![[r#"
            graph(x: float[2,3,4]) -> (y, z, v, w) {
              v = Relu-14 (x)
              y = Identity-13 (x)
              z = Transpose-13 [perm: [2, 0, 1]] (x)
              w = Identity-13 (v)
            }
            1 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn a_scale_with_axes_that_move_and_a_random_mask_stop_a_transpose() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,2,5], s: float[2,5], t: float[5], is_on: bool[]) -> (y, z, w) {
           a = Transpose-13 [perm: [1, 0, 2]] (x)
           b = LayerNormalization-17 (a, s)
           y = Transpose-13 [perm: [1, 0, 2]] (b)
           c = LayerNormalization-17 (a, t)
           z = Transpose-13 [perm: [1, 0, 2]] (c)
           half = const float[] 0.5
           d = Dropout-13 [seed: 1] (a, half, is_on)
           w = Transpose-13 [perm: [1, 0, 2]] (d)
         }",
        &expect![[r#"
            graph(x: float[2,2,5], s: float[2,5], t: float[5], is_on: bool[]) -> (y, z, w) {
              half = const float[] 0.5
              a = Transpose-13 [perm: [1, 0, 2]] (x)
              b = LayerNormalization-17 (a, s)
              y = Transpose-13 [perm: [1, 0, 2]] (b)
              d = Dropout-13 [seed: 1] (a, half, is_on)
              w = Transpose-13 [perm: [1, 0, 2]] (d)
              z = LayerNormalization-17 (x, t)
            }
            3 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn pairs_cancel_across_nodes_between_them() {
    assert_optimized(
        super::PASS,
        "graph(x: float[n,3,4,5], r: float[n,4,5,3]) -> (y) {
           bias = const float[5] [1, 2, 3, 4, 5]
           scale = const float[3] [1, 2, 3]
           a = Transpose-13 [perm: [0, 2, 3, 1]] (x)
           b = Mul-14 (a, scale)
           c = Relu-14 (b)
           d = Add-14 (c, r)
           e = Softmax-13 [axis: 1] (d)
           f = Concat-13 [axis: -1] (e, d)
           y = Transpose-13 [perm: [0, 3, 1, 2]] (f)
         }",
        &expect![[r#"
            graph(x: float[n,3,4,5], r: float[n,4,5,3]) -> (y) {
              scale = const float[3] [1, 2, 3]
              value = const int64[3] [0, 2, 3]
              value_2 = Unsqueeze-13 (scale, value)
              b_2 = Mul-14 (x, value_2)
              c_2 = Relu-14 (b_2)
              value_3 = Transpose-13 [perm: [0, 3, 1, 2]] (r)
              d_2 = Add-14 (c_2, value_3)
              e_2 = Softmax-13 [axis: 2] (d_2)
              y = Concat-13 [axis: 1] (e_2, d_2)
            }
            1 refused: it would not move fewer bytes elsewhere"#]],
    );
}

/// A pair of Transposes cancels across each of these, so that only they remain, in another order.
#[test]
fn lists_and_axes_follow() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,3,4,5]) -> (a, b, c, d, e, f) {
           two = const int64[1] [2]
           max = const int64[1] [9223372036854775807]
           axes = const int64[1] [-1]
           pads = const int64[8] [0, 0, 0, 1, 0, 0, 0, 2]
           repeats = const int64[4] [1, 1, 2, 1]
           shape = const int64[4] [2, 4, 5, 3]
           sizes = const int64[4] [2, 8, 10, 3]
           t = Transpose-13 [perm: [0, 2, 3, 1]] (x)
           a1 = Slice-13 (t, two, max, axes)
           a = Transpose-13 [perm: [0, 3, 1, 2]] (a1)
           b1 = Pad-13 (t, pads)
           b = Transpose-13 [perm: [0, 3, 1, 2]] (b1)
           c1 = Tile-13 (t, repeats)
           c = Transpose-13 [perm: [0, 3, 1, 2]] (c1)
           d1 = Expand-13 (t, shape)
           d = Transpose-13 [perm: [0, 3, 1, 2]] (d1)
           e1 = Resize-13 [mode: \"linear\"] (t, _, _, sizes)
           e = Transpose-13 [perm: [0, 3, 1, 2]] (e1)
           f1 = Gather-13 [axis: 3] (t, axes)
           f = Transpose-13 [perm: [0, 3, 1, 2]] (f1)
         }",
        &expect![[r#"
            graph(x: float[2,3,4,5]) -> (a, b, c, d, e, f) {
              two = const int64[1] [2]
              max = const int64[1] [9223372036854775807]
              axes = const int64[1] [-1]
              pads = const int64[8] [0, 0, 0, 1, 0, 0, 0, 2]
              repeats = const int64[4] [1, 1, 2, 1]
              shape = const int64[4] [2, 4, 5, 3]
              sizes = const int64[4] [2, 8, 10, 3]
              value = const int64[1] [1]
              value_2 = const int64[8] [0, 3, 1, 2, 4, 7, 5, 6]
              value_4 = const int64[4] [0, 3, 1, 2]
              value_6 = const int64[4] [0, 3, 1, 2]
              value_8 = const int64[4] [0, 3, 1, 2]
              a = Slice-13 (x, two, max, value)
              value_3 = Gather-13 [axis: 0] (pads, value_2)
              b = Pad-13 (x, value_3)
              value_5 = Gather-13 [axis: 0] (repeats, value_4)
              c = Tile-13 (x, value_5)
              value_7 = Gather-13 [axis: 0] (shape, value_6)
              d = Expand-13 (x, value_7)
              value_9 = Gather-13 [axis: 0] (sizes, value_8)
              e = Resize-13 [mode: "linear"] (x, _, _, value_9)
              f = Gather-13 [axis: 1] (x, axes)
            }"#]],
    );
}

#[test]
fn axes_that_come_and_go_follow() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,3,4,5]) -> (a, b, c, d, e) {
           two = const int64[] 2
           axis = const int64[1] [1]
           axes = const int64[2] [1, -1]
           t = Transpose-13 [perm: [0, 2, 3, 1]] (x)
           a1 = ReduceSum-13 [keepdims: 0] (t, axis)
           a = Transpose-13 [perm: [0, 2, 1]] (a1)
           b1 = ArgMax-13 [axis: 3, keepdims: 0] (t)
           b = Relu-14 (b1)
           c1 = Gather-13 [axis: 1] (t, two)
           c = Transpose-13 [perm: [0, 2, 1]] (c1)
           d1 = Unsqueeze-13 (t, axes)
           d2 = ReduceMax-13 [axes: [2]] (d1)
           d3 = Squeeze-13 (d2, axes)
           d = Transpose-13 [perm: [0, 3, 1, 2]] (d3)
           shape = const int64[3] [2, 20, 3]
           e1 = Reshape-14 (t, shape)
           e = Transpose-13 [perm: [0, 2, 1]] (e1)
         }",
        &expect![[r#"
            graph(x: float[2,3,4,5]) -> (a, b, c, d, e) {
              two = const int64[] 2
              value = const int64[1] [2]
              value_2 = const int64[2] [1, 5]
              value_3 = const int64[3] [2, 3, 20]
              value_4 = const int64[2] [1, 5]
              a = ReduceSum-13 [keepdims: 0] (x, value)
              b1 = ArgMax-13 [axis: 1, keepdims: 0] (x)
              b = Relu-14 (b1)
              c = Gather-13 [axis: 2] (x, two)
              d1_2 = Unsqueeze-13 (x, value_2)
              e = Reshape-14 (x, value_3)
              d2_2 = ReduceMax-13 [axes: [3]] (d1_2)
              d = Squeeze-13 (d2_2, value_4)
            }"#]],
    );
}

#[test]
fn quantized_tensors_are_moved_as_bytes() {
    assert_optimized(
        super::PASS,
        "graph(x: uint8[2,3,4,5], y: float[2,5,4]) -> (a, b, c) {
           s = const float[] 0.5
           z = const uint8[] 3
           scales = const float[3] [1, 2, 3]
           zeros = const uint8[3] [1, 2, 3]
           a1 = DequantizeLinear-13 (x, s, z)
           a = Transpose-13 [perm: [0, 2, 3, 1]] (a1)
           b1 = DequantizeLinear-13 [axis: 1] (x, scales, zeros)
           b = Transpose-13 [perm: [0, 2, 3, 1]] (b1)
           c1 = Transpose-13 [perm: [0, 2, 1]] (y)
           c = QuantizeLinear-13 (c1, s, z)
         }",
        &expect![[r#"
            graph(x: uint8[2,3,4,5], y: float[2,5,4]) -> (a, b, c) {
              s = const float[] 0.5
              z = const uint8[] 3
              scales = const float[3] [1, 2, 3]
              zeros = const uint8[3] [1, 2, 3]
              value = Transpose-13 [perm: [0, 2, 3, 1]] (x)
              a = DequantizeLinear-13 (value, s, z)
              b = DequantizeLinear-13 [axis: 3] (value, scales, zeros)
              c_2 = QuantizeLinear-13 (y, s, z)
              c = Transpose-13 [perm: [0, 2, 1]] (c_2)
            }
            2 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn transposes_move_before_growing_and_after_shrinking_nodes() {
    assert_optimized(
        super::PASS,
        "graph(x: float[4,1,3], y: float[n,8,6]) -> (a, b) {
           shape = const int64[3] [4, 7, 3]
           a1 = Expand-13 (x, shape)
           a = Transpose-13 [perm: [2, 1, 0]] (a1)
           b1 = Transpose-13 [perm: [1, 2, 0]] (y)
           b = ReduceMax-13 [axes: [0], keepdims: 0] (b1)
         }",
        &expect![[r#"
            graph(x: float[4,1,3], y: float[n,8,6]) -> (a, b) {
              shape = const int64[3] [4, 7, 3]
              value_2 = const int64[3] [2, 1, 0]
              value = Transpose-13 [perm: [2, 1, 0]] (x)
              value_3 = Gather-13 [axis: 0] (shape, value_2)
              a = Expand-13 (value, value_3)
              b_2 = ReduceMax-13 [axes: [1], keepdims: 0] (y)
              b = Transpose-13 [perm: [1, 0]] (b_2)
            }
            2 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn constants_are_transposed_at_no_cost() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,3], w = float[3,2] [1, 2, 3, 4, 5, 6]) -> (y, z) {
           k = const float[3,2] [1, 2, 3, 4, 5, 6]
           a = Transpose-13 (x)
           b = Add-14 (a, k)
           y = Transpose-13 (b)
           c = Transpose-13 (x)
           z = Add-14 (c, w)
         }",
        &expect![[r#"
            graph(x: float[2,3], w = float[3,2] [1, 2, 3, 4, 5, 6]) -> (y, z) {
              k = const float[3,2] [1, 2, 3, 4, 5, 6]
              c = Transpose-13 (x)
              z = Add-14 (c, w)
              value = Transpose-13 [perm: [1, 0]] (k)
              y = Add-14 (x, value)
            }
            1 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn single_dimensions_move_as_a_reshape() {
    assert_optimized(
        super::PASS,
        "graph(x: float[n,1,28,28], y: float[n,m,1,28], z: float[n,m,1]) -> (a, b, c) {
           a = Transpose-13 [perm: [0, 2, 3, 1]] (x)
           b = Transpose-1 [perm: [0, 2, 1, 3]] (y)
           c = Transpose-21 [perm: [2, 0, 1]] (z)
         }",
        &expect![[r#"
            graph(x: float[n,1,28,28], y: float[n,m,1,28], z: float[n,m,1]) -> (a, b, c) {
              value = const int64[4] [0, 28, 28, 1]
              value_2 = const int64[4] [0, 1, -1, 28]
              c = Transpose-21 [perm: [2, 0, 1]] (z)
              a = Reshape-13 (x, value)
              b = Reshape-5 (y, value_2)
            }
            1 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn a_shape_is_that_of_what_is_stored() {
    assert_optimized(
        super::PASS,
        "graph(x: float[n,3,m]) -> (y, s) {
           a = Transpose-13 [perm: [0, 2, 1]] (x)
           s = Shape-15 [start: 1] (a)
           b = Relu-14 (a)
           y = Transpose-13 [perm: [0, 2, 1]] (b)
         }",
        &expect![[r#"
            graph(x: float[n,3,m]) -> (y, s) {
              value = const int64[2] [2, 1]
              s_2 = Shape-15 (x)
              s = Gather-13 [axis: 0] (s_2, value)
              y = Relu-14 (x)
            }"#]],
    );
}

#[test]
fn other_readers_get_the_original_value() {
    assert_optimized(
        super::PASS,
        "graph(x: float[2,3], c: bool[]) -> (u, y, z) {
           u = Transpose-13 (x)
           a = Relu-14 (u)
           y = Transpose-13 (a)
           d = Transpose-13 (y)
           z = If-16 [
             then_branch: graph() -> (p) { p = Neg-13 (d) },
             else_branch: graph() -> (q) { q = Neg-13 (u) }
           ] (c)
         }",
        &expect![[r#"
            graph(x: float[2,3], c: bool[]) -> (u, y, z) {
              u = Transpose-13 (x)
              y = Relu-14 (x)
              d = Transpose-13 (y)
              z = If-16 [else_branch: graph() -> (q) {
                q = Neg-13 (u)
              }, then_branch: graph() -> (p) {
                p = Neg-13 (d)
              }] (c)
            }
            2 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn unsupported_or_slower_nodes_stay() {
    assert_rewritten(
        super::PASS,
        "graph(x: float[2,3,4], u: float[...], t: float[4,4]) -> (a, b, c, d, e) {
           shape = const int64[2] [8, 3]
           a1 = Transpose-13 [perm: [0, 2, 1]] (x)
           a2 = Softmax-11 [axis: 1] (a1)
           a = Transpose-13 [perm: [0, 2, 1]] (a2)
           b1 = Transpose-13 [perm: [0, 2, 1]] (u)
           b2 = Add-14 (b1, u)
           b = Transpose-13 [perm: [0, 2, 1]] (b2)
           c1 = Transpose-13 [perm: [0, 2, 1]] (x)
           c2 = Reshape-14 (c1, shape)
           c = Transpose-13 (c2)
           d1 = Transpose-13 (t)
           d2 = MatMul-13 (t, d1)
           d = Relu-14 (d2)
           e1 = Transpose-13 (x)
           e = ReduceMean-18 (e1)
         }",
        &expect![[r#"
            graph(x: float[2,3,4], u: float[...], t: float[4,4]) -> (a, b, c, d, e) {
              shape = const int64[2] [8, 3]
              b1 = Transpose-13 [perm: [0, 2, 1]] (u)
              b2 = Add-14 (b1, u)
              b = Transpose-13 [perm: [0, 2, 1]] (b2)
              d1 = Transpose-13 (t)
              d2 = MatMul-13 (t, d1)
              d = Relu-14 (d2)
              e1 = Transpose-13 (x)
              e = ReduceMean-18 (e1)
              c1 = Transpose-13 [perm: [0, 2, 1]] (x)
              a2 = Softmax-11 [axis: 1] (c1)
              a = Transpose-13 [perm: [0, 2, 1]] (a2)
              c2 = Reshape-14 (c1, shape)
              c = Transpose-13 (c2)
            }
            7 refused: it would not move fewer bytes elsewhere"#]],
    );
}

#[test]
fn a_transpose_with_an_extra_operand_stays() {
    assert_rewritten(
        super::PASS,
        "graph(x: float[2,3,4], y: float[2,3,4]) -> (a) {
           a1 = Transpose-13 [perm: [0, 2, 1]] (x)
           a2 = Relu-14 (a1)
           a = Transpose-13 [perm: [0, 2, 1]] (y, a2)
         }",
        &expect![[r#"
            graph(x: float[2,3,4], y: float[2,3,4]) -> (a) {
              a1 = Transpose-13 [perm: [0, 2, 1]] (x)
              a2 = Relu-14 (a1)
              a = Transpose-13 [perm: [0, 2, 1]] (y, a2)
            }
            1 refused: it would not move fewer bytes elsewhere"#]],
    );
}
