//! Convolutions.

use expect_test::expect;

use super::super::PASS;
use crate::testing::assert_optimized;

#[test]
fn convolutions_compute_on_quantized_values() {
    assert_optimized(
        PASS,
        "graph(x: float[1,2,4,4]) -> (y, z, v) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           i = const int8[] -3
           w = const int8[2,2,1,2] [1, -2, 3, 127, -128, 6, 7, 8]
           ws = const float[2] [0.015625, 0.03125]
           wz = const int8[2] [0, 0]
           bq = const int32[2] [1000, -200]
           bs = const float[2] [0.00024414062, 0.00048828125]
           half = const float[2] [0.5, -0.5]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           w1 = DequantizeLinear-13 [axis: 0] (w, ws, wz)
           b1 = DequantizeLinear-13 [axis: 0] (bq, bs)
           a = Conv-11 [pads: [0, 1, 0, 0]] (x1, w1, b1)
           y = QuantizeLinear-13 (a, t, u)
           c = Conv-11 [pads: [0, 1, 0, 0]] (x1, w1, half)
           z = QuantizeLinear-13 (c, t, u)
           x8 = QuantizeLinear-13 (x, s, i)
           x2 = DequantizeLinear-13 (x8, s, i)
           w2 = DequantizeLinear-13 (w, s)
           d = Conv-11 [strides: [2, 2]] (x2, w2)
           v = QuantizeLinear-13 (d, t, i)
         }",
        &expect![[r#"
            graph(x: float[1,2,4,4]) -> (y, z, v) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              i = const int8[] -3
              w = const int8[2,2,1,2] [1, -2, 3, 127, -128, 6, 7, 8]
              ws = const float[2] [0.015625, 0.03125]
              wz = const int8[2] fill 0
              bq = const int32[2] [1000, -200]
              half = const float[2] [0.5, -0.5]
              zero_point = const int8[] 0
              xq = QuantizeLinear-13 (x, s, u)
              x8 = QuantizeLinear-13 (x, s, i)
              y = QLinearConv-10 [pads: [0, 1, 0, 0]] (xq, s, u, w, ws, wz, t, u, bq)
              bias = Mul-7 "bias" (s, ws)
              bias_2 = Div-7 "bias" (half, bias)
              bias_3 = Round-11 "bias" (bias_2)
              bias_4 = Cast-9 "bias" [to: 6] (bias_3)
              z = QLinearConv-10 [pads: [0, 1, 0, 0]] (xq, s, u, w, ws, wz, t, u, bias_4)
              v = QLinearConv-10 [strides: [2, 2]] (x8, s, i, w, s, zero_point, t, i)
            }"#]],
    );
}

#[test]
fn convolutions_with_other_weights_stay_float() {
    assert_optimized(
        PASS,
        "graph(x: float[1,2,4,4], k: int8[2,2,1,1]) -> (y, z, q, p) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           one = const int8[] 1
           w = const int8[2,2,1,1] [1, -2, 3, 4]
           wu = const uint8[2,2,1,1] [1, 2, 3, 4]
           ws = const float[2] [0.015625, 0.03125]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           w1 = DequantizeLinear-13 (wu, s, u)
           a = Conv-11 (x1, w1)
           y = QuantizeLinear-13 (a, t, u)
           w2 = DequantizeLinear-13 [axis: 1] (w, ws)
           b = Conv-11 (x1, w2)
           z = QuantizeLinear-13 (b, t, u)
           w4 = DequantizeLinear-13 (k, s)
           e = Conv-11 (x1, w4)
           q = QuantizeLinear-13 (e, t, u)
           w5 = DequantizeLinear-13 (w, s, one)
           f = Conv-11 (x1, w5)
           p = QuantizeLinear-13 (f, t, u)
         }",
        &expect![[r#"
            graph(x: float[1,2,4,4], k: int8[2,2,1,1]) -> (y, z, q, p) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              one = const int8[] 1
              w = const int8[2,2,1,1] [1, -2, 3, 4]
              wu = const uint8[2,2,1,1] [1, 2, 3, 4]
              ws = const float[2] [0.015625, 0.03125]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              w2 = DequantizeLinear-13 [axis: 1] (w, ws)
              b = Conv-11 (x1, w2)
              z = QuantizeLinear-13 (b, t, u)
              w4 = DequantizeLinear-13 (k, s)
              e = Conv-11 (x1, w4)
              q = QuantizeLinear-13 (e, t, u)
              y = QLinearConv-10 (xq, s, u, wu, s, u, t, u)
              p = QLinearConv-10 (xq, s, u, w, s, one, t, u)
            }
            1 refused: its scales are invalid, or more than the operator supports
            1 refused: its weights are not constant"#]],
    );
}

#[test]
fn convolutions_with_another_bias_or_result_stay_float() {
    assert_optimized(
        PASS,
        "graph(x: float[1,2,4,4], b: float[2]) -> (v, r, q) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           i = const int8[] 0
           w = const int8[2,2,1,1] [1, -2, 3, 4]
           bq = const int32[2] [1000, -200]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           w1 = DequantizeLinear-13 (w, s)
           c = Conv-11 (x1, w1)
           v = QuantizeLinear-13 (c, t, i)
           b1 = DequantizeLinear-13 (bq, s)
           d = Conv-11 (x1, w1, b1)
           r = QuantizeLinear-13 (d, t, u)
           e = Conv-11 (x1, w1, b)
           q = QuantizeLinear-13 (e, t, u)
         }",
        &expect![[r#"
            graph(x: float[1,2,4,4], b: float[2]) -> (v, r, q) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              i = const int8[] 0
              w = const int8[2,2,1,1] [1, -2, 3, 4]
              bq = const int32[2] [1000, -200]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              w1 = DequantizeLinear-13 (w, s)
              c = Conv-11 (x1, w1)
              v = QuantizeLinear-13 (c, t, i)
              b1 = DequantizeLinear-13 (bq, s)
              d = Conv-11 (x1, w1, b1)
              r = QuantizeLinear-13 (d, t, u)
              e = Conv-11 (x1, w1, b)
              q = QuantizeLinear-13 (e, t, u)
            }
            1 refused: the types of its quantized values cannot be combined
            2 refused: its bias is not quantized like its products"#]],
    );
}
