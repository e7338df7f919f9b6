//! Movement and comparison of quantized values.

use expect_test::expect;

use super::super::PASS;
use crate::testing::assert_optimized;

#[test]
fn data_moves_as_quantized_values() {
    assert_optimized(
        PASS,
        "graph(x: float[2,4,6,6]) -> (y, z, i) {
           s = const float[] 0.015625
           u = const uint8[] 128
           shape = const int64[2] [2, -1]
           one = const int64[1] [1]
           at = const int64[] 1
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           a = MaxPool-12 [kernel_shape: [3, 3]] (x1)
           aq = QuantizeLinear-13 (a, s, u)
           a1 = DequantizeLinear-13 (aq, s, u)
           b = DepthToSpace-13 [blocksize: 2] (a1)
           bq = QuantizeLinear-13 (b, s, u)
           b1 = DequantizeLinear-13 (bq, s, u)
           c, d = Split-13 [axis: 2] (b1)
           cq = QuantizeLinear-13 (c, s, u)
           dq = QuantizeLinear-13 (d, s, u)
           c1 = DequantizeLinear-13 (cq, s, u)
           d1 = DequantizeLinear-13 (dq, s, u)
           e = Reshape-13 (c1, shape)
           eq = QuantizeLinear-13 (e, s, u)
           e1 = DequantizeLinear-13 (eq, s, u)
           f = Gather-13 [axis: 1] (e1, at)
           y = QuantizeLinear-13 (f, s, u)
           g = Squeeze-1 (d1)
           z = QuantizeLinear-13 (g, s, u)
           i = ArgMax-13 [axis: 2] (d1)
         }",
        &expect![[r#"
            graph(x: float[2,4,6,6]) -> (y, z, i) {
              s = const float[] 0.015625
              u = const uint8[] 128
              shape = const int64[2] [2, -1]
              at = const int64[] 1
              xq = QuantizeLinear-13 (x, s, u)
              aq = MaxPool-12 [kernel_shape: [3, 3]] (xq)
              bq = DepthToSpace-13 [blocksize: 2] (aq)
              cq, dq = Split-13 [axis: 2] (bq)
              eq = Reshape-13 (cq, shape)
              y = Gather-13 [axis: 1] (eq, at)
              z = Squeeze-1 (dq)
              i = ArgMax-13 [axis: 2] (dq)
            }"#]],
    );
}

#[test]
fn data_moved_to_other_nodes_or_changed_stays_float() {
    assert_optimized(
        PASS,
        r#"graph(x: float[2,4,6]) -> (y, z, w, v, r) {
           s = const float[] 0.015625
           t = const float[] 0.03125
           u = const uint8[] 128
           scales = const float[4] [1, 2, 3, 4]
           double = const float[3] [1, 1, 2]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           a = Transpose-13 (x1)
           y = QuantizeLinear-13 (a, t, u)
           b = Transpose-13 [perm: [0, 2, 1]] (x1)
           z = QuantizeLinear-13 (b, s, u)
           w = Relu-13 (b)
           x2 = DequantizeLinear-13 (xq, scales)
           c = Transpose-13 (x2)
           v = QuantizeLinear-13 (c, s, u)
           d = Resize-13 [mode: "linear"] (x1, _, double)
           r = QuantizeLinear-13 (d, s, u)
         }"#,
        &expect![[r#"
            graph(x: float[2,4,6]) -> (y, z, w, v, r) {
              s = const float[] 0.015625
              t = const float[] 0.03125
              u = const uint8[] 128
              scales = const float[4] [1, 2, 3, 4]
              double = const float[3] [1, 1, 2]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              a = Transpose-13 (x1)
              y = QuantizeLinear-13 (a, t, u)
              b = Transpose-13 [perm: [0, 2, 1]] (x1)
              z = QuantizeLinear-13 (b, s, u)
              w = Relu-13 (b)
              x2 = DequantizeLinear-13 (xq, scales)
              c = Transpose-13 (x2)
              v = QuantizeLinear-13 (c, s, u)
              d = Resize-13 [mode: "linear"] (x1, _, double)
              r = QuantizeLinear-13 (d, s, u)
            }
            2 refused: its results are not all quantized like its operand
            1 refused: its scales are invalid, or more than the operator supports
            1 refused: its results are not elements of its input"#]],
    );
}
