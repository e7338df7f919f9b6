//! Every row of the table, and what it leaves alone.

use expect_test::expect;

use super::PASS;
use crate::testing::assert_optimized;

#[test]
fn data_moves_as_codes() {
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
           g = ReduceMax-13 [axes: [1], keepdims: 0] (d1)
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
              z = ReduceMax-13 [axes: [1], keepdims: 0] (dq)
              i = ArgMax-13 [axis: 2] (dq)
            }"#]],
    );
}

#[test]
fn data_that_moves_elsewhere_or_changes_stays_float() {
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
            2 refused: its results are not all quantized as its operand is
            1 refused: it has scales of which one is not enough, or not sound
            1 refused: its results are not elements of what it resizes"#]],
    );
}

#[test]
fn functions_of_codes_round_once() {
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
fn constants_get_the_codes_they_have_in_the_result() {
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
fn what_is_not_all_codes_of_one_type_stays_float() {
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
            }
            1 refused: its operands may have different shapes
            2 refused: its codes are of types that do not go together
            1 refused: not all of its operands are quantized or constant"#]],
    );
}

#[test]
fn convolutions_sum_codes() {
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
fn convolutions_without_an_integer_kernel_stay_float() {
    assert_optimized(
        PASS,
        "graph(x: float[1,2,4,4], k: int8[2,2,1,1]) -> (y, z, v, r, q, p) {
           s = const float[] 0.015625
           t = const float[] 0.25
           u = const uint8[] 128
           i = const int8[] 0
           i1 = const int8[] 1
           w = const int8[2,2,1,1] [1, -2, 3, 4]
           wu = const uint8[2,2,1,1] [1, 2, 3, 4]
           ws = const float[2] [0.015625, 0.03125]
           bq = const int32[2] [1000, -200]
           xq = QuantizeLinear-13 (x, s, u)
           x1 = DequantizeLinear-13 (xq, s, u)
           w1 = DequantizeLinear-13 (wu, s, u)
           a = Conv-11 (x1, w1)
           y = QuantizeLinear-13 (a, t, u)
           w2 = DequantizeLinear-13 [axis: 1] (w, ws)
           b = Conv-11 (x1, w2)
           z = QuantizeLinear-13 (b, t, u)
           w3 = DequantizeLinear-13 (w, s)
           c = Conv-11 (x1, w3)
           v = QuantizeLinear-13 (c, t, i)
           b3 = DequantizeLinear-13 (bq, s)
           d = Conv-11 (x1, w3, b3)
           r = QuantizeLinear-13 (d, t, u)
           w4 = DequantizeLinear-13 (k, s)
           e = Conv-11 (x1, w4)
           q = QuantizeLinear-13 (e, t, u)
           w5 = DequantizeLinear-13 (w, s, i1)
           f = Conv-11 (x1, w5)
           p = QuantizeLinear-13 (f, t, u)
         }",
        &expect![[r#"
            graph(x: float[1,2,4,4], k: int8[2,2,1,1]) -> (y, z, v, r, q, p) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              i = const int8[] 0
              i1 = const int8[] 1
              w = const int8[2,2,1,1] [1, -2, 3, 4]
              wu = const uint8[2,2,1,1] [1, 2, 3, 4]
              ws = const float[2] [0.015625, 0.03125]
              bq = const int32[2] [1000, -200]
              xq = QuantizeLinear-13 (x, s, u)
              x1 = DequantizeLinear-13 (xq, s, u)
              w1 = DequantizeLinear-13 (wu, s, u)
              a = Conv-11 (x1, w1)
              y = QuantizeLinear-13 (a, t, u)
              w2 = DequantizeLinear-13 [axis: 1] (w, ws)
              b = Conv-11 (x1, w2)
              z = QuantizeLinear-13 (b, t, u)
              w3 = DequantizeLinear-13 (w, s)
              c = Conv-11 (x1, w3)
              v = QuantizeLinear-13 (c, t, i)
              b3 = DequantizeLinear-13 (bq, s)
              d = Conv-11 (x1, w3, b3)
              r = QuantizeLinear-13 (d, t, u)
              w4 = DequantizeLinear-13 (k, s)
              e = Conv-11 (x1, w4)
              q = QuantizeLinear-13 (e, t, u)
              w5 = DequantizeLinear-13 (w, s, i1)
              f = Conv-11 (x1, w5)
              p = QuantizeLinear-13 (f, t, u)
            }
            2 refused: its weights are not int8 about zero in one to three dimensions
            1 refused: it has scales of which one is not enough, or not sound
            1 refused: its codes are of types that do not go together
            1 refused: its bias is not one of the sums of its codes
            1 refused: its weights are not constant"#]],
    );
}

#[test]
fn products_of_matrices_sum_codes() {
    assert_optimized(
        PASS,
        "graph(x: float[n,2,3]) -> (y, z) {
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
         }",
        &expect![[r#"
            graph(x: float[n,2,3]) -> (y, z) {
              s = const float[] 0.015625
              t = const float[] 0.25
              u = const uint8[] 128
              w = const uint8[3,2] [1, 20, 30, 127, 255, 6]
              ws = const float[2] [0.015625, 0.03125]
              wz = const uint8[2] [100, 128]
              xq = QuantizeLinear-13 (x, s, u)
              y = QLinearMatMul-10 (xq, s, u, w, ws, wz, t, u)
              z = com.microsoft:MatMulIntegerToFloat-1 (xq, w, s, s, u, u)
            }"#]],
    );
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
           a = MatMul-13 (x1, x1)
           y = QuantizeLinear-13 (a, t, u)
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
              a = MatMul-13 (x1, x1)
              y = QuantizeLinear-13 (a, t, u)
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
            1 refused: its weights are not constant
            1 refused: it has scales of which one is not enough, or not sound
            1 refused: it is no product with a constant matrix
            2 refused: its bias is not one of the sums of its codes"#]],
    );
}
