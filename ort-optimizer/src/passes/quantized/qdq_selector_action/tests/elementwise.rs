//! Element-wise functions, Concat and Where.

use expect_test::expect;

use super::super::PASS;
use crate::testing::assert_optimized;

#[test]
fn functions_of_quantized_values_round_once() {
    assert_optimized(
        PASS,
        "graph(x: float[2,3,4,4], c: bool[4]) -> (y, z, w, v, p) {
           s = const float[1] [0.015625]
           t = const float[] 0.03
           u = const uint8[] 128
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           a = Sigmoid-13 (x1)
           aq = QuantizeLinear-13 (a, t)
           a1 = DequantizeLinear-13 (aq, t)
           b = LeakyRelu-6 [alpha: 0.2] (x1)
           bq = QuantizeLinear-13 (b, t, u)
           b1 = DequantizeLinear-13 (bq, t, u)
           d = Add-13 (a1, b1)
           y = QuantizeLinear-13 (d, t, u)
           e = Mul-14 (x1, b1)
           z = QuantizeLinear-13 (e, s, u)
           f = Concat-13 [axis: 1] (x1, b1, x1)
           w = QuantizeLinear-13 (f, t, u)
           g = Concat-13 [axis: -1] (x1, x1)
           v = QuantizeLinear-13 (g, s, u)
           h = GlobalAveragePool-1 (x1)
           hq = QuantizeLinear-13 (h, t, u)
           h1 = DequantizeLinear-13 (hq, t, u)
           k = Where-9 (c, x1, h1)
           p = QuantizeLinear-13 (k, t, u)
         }",
        &expect![[r#"
            graph(x: float[2,3,4,4], c: bool[4]) -> (y, z, w, v, p) {
              s = const float[1] [0.015625]
              t = const float[] 0.03
              u = const uint8[] 128
              scalar = const float[] 0.015625
              zero_point = const uint8[] 0
              scalar_2 = const float[] 0.015625
              zero_point_2 = const uint8[] 0
              scalar_3 = const float[] 0.015625
              scalar_4 = const float[] 0.015625
              scalar_5 = const float[] 0.015625
              scalar_6 = const float[] 0.015625
              scalar_7 = const float[] 0.015625
              scalar_8 = const float[] 0.015625
              xq = QuantizeLinear-13 (x, s, u)
              aq = com.microsoft:QLinearSigmoid-1 (xq, scalar, u, t, zero_point)
              bq = com.microsoft:QLinearLeakyRelu-1 [alpha: 0.2] (xq, scalar_2, u, t, u)
              y = com.microsoft:QLinearAdd-1 (aq, t, zero_point_2, bq, t, u, t, u)
              z = com.microsoft:QLinearMul-1 (xq, scalar_3, u, bq, t, u, scalar_4, u)
              w = com.microsoft:QLinearConcat-1 [axis: 1] (t, u, xq, scalar_5, u, bq, t, u, xq, scalar_6, u)
              v = Concat-13 [axis: -1] (xq, xq)
              hq = com.microsoft:QLinearGlobalAveragePool-1 (xq, scalar_7, u, t, u)
              p = com.microsoft:QLinearWhere-1 (c, xq, scalar_8, u, hq, t, u, t, u)
            }"#]],
    );
}

#[test]
fn constants_are_quantized_like_the_result() {
    assert_optimized(
        PASS,
        "graph(x: float[2,3], c: bool[3]) -> (y, z, w) {
           s = const float[] 0.015625
           t = const float[] 0.03
           i = const int8[] -3
           low = const float[] -3e38
           more = const float[2,1] [0.5, -0.7]
           xq = QuantizeLinear-13 (x, s, i)
           x1 = DequantizeLinear-13 (xq, s, i)
           a = Where-16 (c, x1, low)
           y = QuantizeLinear-13 (a, t, i)
           b = Where-16 (c, more, x1)
           z = QuantizeLinear-13 (b, s, i)
           d = Concat-13 [axis: 1] (x1, more)
           w = QuantizeLinear-13 (d, s, i)
         }",
        &expect![[r#"
            graph(x: float[2,3], c: bool[3]) -> (y, z, w) {
              s = const float[] 0.015625
              t = const float[] 0.03
              i = const int8[] -3
              low = const float[] -3e38
              more = const float[2,1] [0.5, -0.7]
              xq = QuantizeLinear-13 (x, s, i)
              value = QuantizeLinear-13 (low, t, i)
              y = com.microsoft:QLinearWhere-1 (c, xq, s, i, value, t, i, t, i)
              value_2 = QuantizeLinear-13 (more, s, i)
              z = Where-16 (c, value_2, xq)
              value_3 = QuantizeLinear-13 (more, s, i)
              w = Concat-13 [axis: 1] (xq, value_3)
            }"#]],
    );
}

#[test]
fn operands_of_mixed_types_stay_float() {
    assert_optimized(
        PASS,
        "graph(x: float[2,3], y: float[3], c: bool[3]) -> (a, b, d, e) {
           s = const float[] 0.015625
           u = const uint8[] 128
           i = const int8[] 0
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           yq = QuantizeLinear-13 (y, s, u)
           y1 = DequantizeLinear-13 (yq, s, u)
           zq = QuantizeLinear-13 (x, s, i)
           z1 = DequantizeLinear-13 (zq, s, i)
           m = Add-13 (x1, y1)
           a = QuantizeLinear-13 (m, s, u)
           n = Mul-13 (x1, z1)
           b = QuantizeLinear-13 (n, s, u)
           o = Where-9 (c, x1, x)
           d = QuantizeLinear-13 (o, s, u)
           p = Sigmoid-13 (x1)
           e = QuantizeLinear-13 (p, s, i)
         }",
        &expect![[r#"
            graph(x: float[2,3], y: float[3], c: bool[3]) -> (a, b, d, e) {
              s = const float[] 0.015625
              u = const uint8[] 128
              i = const int8[] 0
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              yq = QuantizeLinear-13 (y, s, u)
              zq = QuantizeLinear-13 (x, s, i)
              z1 = DequantizeLinear-13 (zq, s, i)
              n = Mul-13 (x1, z1)
              b = QuantizeLinear-13 (n, s, u)
              o = Where-9 (c, x1, x)
              d = QuantizeLinear-13 (o, s, u)
              p = Sigmoid-13 (x1)
              e = QuantizeLinear-13 (p, s, i)
              a = com.microsoft:QLinearAdd-1 (xq, s, u, yq, s, u, s, u)
            }
            2 refused: the types of its quantized values cannot be combined
            1 refused: not all of its operands are quantized or constant"#]],
    );
}

#[test]
fn operands_broadcast_and_windows_have_means() {
    assert_optimized(
        PASS,
        "graph(x: float[1,3,4,4]) -> (y, z, w) {
           s = const float[] 0.03
           u = const uint8[] 128
           b = const uint8[3,1,1] [1, 2, 3]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           b1 = DequantizeLinear-13 (b, s, u)
           a = Mul-14 (b1, x1)
           y = QuantizeLinear-13 (a, s, u)
           c = AveragePool-19 [kernel_shape: [2, 2], dilations: [1, 1], pads: [1, 0, 0, 1], count_include_pad: 1] (x1)
           z = QuantizeLinear-13 (c, s, u)
           d = AveragePool-19 [kernel_shape: [2, 2], dilations: [1, 2]] (x1)
           w = QuantizeLinear-13 (d, s, u)
         }",
        &expect![[r#"
            graph(x: float[1,3,4,4]) -> (y, z, w) {
              s = const float[] 0.03
              u = const uint8[] 128
              b = const uint8[3,1,1] [1, 2, 3]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              d = AveragePool-19 [dilations: [1, 2], kernel_shape: [2, 2]] (x1)
              w = QuantizeLinear-13 (d, s, u)
              y = com.microsoft:QLinearMul-1 (b, s, u, xq, s, u, s, u)
              z = com.microsoft:QLinearAveragePool-1 [count_include_pad: 1, kernel_shape: [2, 2], pads: [1, 0, 0, 1]] (xq, s, u, s, u)
            }
            1 refused: its windows are not those of the quantized operator"#]],
    );
}
