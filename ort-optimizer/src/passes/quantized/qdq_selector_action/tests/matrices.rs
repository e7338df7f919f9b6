//! Matrix products.

use expect_test::expect;

use super::super::PASS;
use crate::testing::assert_optimized;

#[test]
fn matrix_products_compute_on_quantized_values() {
    assert_optimized(
        PASS,
        "graph(x: float[n,2,3]) -> (y, z, pairs) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           w = const uint8[3,2] [1, 20, 30, 127, 255, 6]
           ws = const float[2] [0.015625, 0.03125]
           wz = const uint8[2] [100, 128]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           w1 = DequantizeLinear-13 [axis: -1] (w, ws, wz)
           a = MatMul-13 (x1, w1)
           y = QuantizeLinear-13 (a, t, u)
           w2 = DequantizeLinear-13 (w, s, u)
           z = MatMul-13 (x1, w2)
           x2 = Transpose-13 [perm: [0, 2, 1]] (x)
           q2 = QuantizeLinear-13 (x2, t, u)
           x3 = DequantizeLinear-13 (q2, t, u)
           b = MatMul-13 (x1, x3)
           pairs = QuantizeLinear-13 (b, t, u)
         }",
        &expect![[r#"
            graph(x: float[n,2,3]) -> (y, z, pairs) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              w = const uint8[3,2] [1, 20, 30, 127, 255, 6]
              ws = const float[2] [0.015625, 0.03125]
              wz = const uint8[2] [100, 128]
              xq = QuantizeLinear-13 (x, s, u)
              x2 = Transpose-13 [perm: [0, 2, 1]] (x)
              q2 = QuantizeLinear-13 (x2, t, u)
              y = QLinearMatMul-10 (xq, s, u, w, ws, wz, t, u)
              z = com.microsoft:MatMulIntegerToFloat-1 (xq, w, s, s, u, u)
              pairs = QLinearMatMul-10 (xq, s, u, q2, t, u, t, u)
            }"#]],
    );
}

#[test]
fn products_with_a_bias_compute_on_quantized_values() {
    assert_optimized(
        PASS,
        "graph(x: float[n,3]) -> (y, z, v) {
           s = const float[] 0.015625
           t = const float[] 0.25
           i = const int8[] 5
           w = const int8[2,3] [1, 20, -30, 127, -128, 6]
           wt = const int8[3,2] [1, 20, -30, 127, -128, 6]
           ws = const float[2] [0.015625, 0.03125]
           half = const float[2] [0.5, -0.5]
           bq = const int32[2] [1000, -200]
           bs = const float[] 0.00024414062
           xq = QuantizeLinear-13 (x, s, i)
           x1 = DequantizeLinear-13 (xq, s, i)
           w1 = DequantizeLinear-13 [axis: 0] (w, ws)
           a = Gemm-13 [transB: 1] (x1, w1, half)
           y = QuantizeLinear-13 (a, t, i)
           w2 = DequantizeLinear-13 (wt, s, i)
           b1 = DequantizeLinear-13 (bq, bs)
           z = Gemm-13 (x1, w2, b1)
           b = Gemm-13 [alpha: 2.0] (x1, w2)
           v = QuantizeLinear-13 (b, t, i)
         }",
        &expect![[r#"
            graph(x: float[n,3]) -> (y, z, v) {
              s = const float[] 0.015625
              t = const float[] 0.25
              i = const int8[] 5
              w = const int8[2,3] [1, 20, -30, 127, -128, 6]
              wt = const int8[3,2] [1, 20, -30, 127, -128, 6]
              ws = const float[2] [0.015625, 0.03125]
              half = const float[2] [0.5, -0.5]
              bq = const int32[2] [1000, -200]
              zero_point = const int8[2] fill 0
              xq = QuantizeLinear-13 (x, s, i)
              bias = Mul-7 "bias" (s, ws)
              bias_2 = Div-7 "bias" (half, bias)
              bias_3 = Round-11 "bias" (bias_2)
              bias_4 = Cast-9 "bias" [to: 6] (bias_3)
              y = com.microsoft:QGemm-1 [alpha: 1.0, transA: 0, transB: 1] (xq, s, i, w, ws, zero_point, bias_4, t, i)
              z = com.microsoft:QGemm-1 [alpha: 1.0, transA: 0, transB: 0] (xq, s, i, wt, s, i, bq)
              v = com.microsoft:QGemm-1 [alpha: 2.0, transA: 0, transB: 0] (xq, s, i, wt, s, i, _, t, i)
            }"#]],
    );
}

#[test]
fn other_products_of_matrices_stay_float() {
    assert_optimized(
        PASS,
        "graph(x: float[3,3], b: float[3]) -> (y, z, v, r, q) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           i = const int8[] 0
           w = const int8[3,3] fill 3
           ws = const float[3] [0.015625, 0.03125, 1]
           big = const float[3] [1e9, 0, 0]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           y = MatMul-13 (x1, x1)
           w1 = DequantizeLinear-13 [axis: 0] (w, ws)
           c = MatMul-13 (x1, w1)
           z = QuantizeLinear-13 (c, t, u)
           w2 = DequantizeLinear-13 (w, s)
           d = Gemm-13 [transA: 1] (x1, w2)
           v = QuantizeLinear-13 (d, t, u)
           e = Gemm-13 (x1, w2, b)
           r = QuantizeLinear-13 (e, t, u)
           f = Gemm-13 (x1, w2, big)
           q = QuantizeLinear-13 (f, t, u)
         }",
        &expect![[r#"
            graph(x: float[3,3], b: float[3]) -> (y, z, v, r, q) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              w = const int8[3,3] fill 3
              ws = const float[3] [0.015625, 0.03125, 1]
              big = const float[3] [1000000000, 0, 0]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              y = MatMul-13 (x1, x1)
              w1 = DequantizeLinear-13 [axis: 0] (w, ws)
              c = MatMul-13 (x1, w1)
              z = QuantizeLinear-13 (c, t, u)
              w2 = DequantizeLinear-13 (w, s)
              d = Gemm-13 [transA: 1] (x1, w2)
              v = QuantizeLinear-13 (d, t, u)
              e = Gemm-13 (x1, w2, b)
              r = QuantizeLinear-13 (e, t, u)
              f = Gemm-13 (x1, w2, big)
              q = QuantizeLinear-13 (f, t, u)
            }
            2 refused: it is not a product with a constant matrix
            1 refused: its scales are invalid, or more than the operator supports
            2 refused: its bias is not quantized like its products"#]],
    );
}
