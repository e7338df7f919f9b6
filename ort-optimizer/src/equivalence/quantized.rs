//! A quantized network, all passes up to level Extended together. Scales are powers of two and
//! numbers small, so that floats round nowhere but where codes are made: both graphs are exact.

use expect_test::expect;

use super::{optimized, parse};
use crate::interpreter::run;
use crate::testing::inputs;
use crate::{Level, Options};

const NETWORK: &str = "graph(x: float[1,2,6,6]) -> (y, z) {
    s = const float[] 0.015625
    t = const float[] 0.0625
    u = const uint8[] 128
    zero = const uint8[] 0
    w = const float[4,2,3,3] fill -0.5
    ws = const float[4] [0.25, 0.5, 0.125, 0.25]
    wz = const int8[4] fill 0
    wb = const float[4] [0.5, 8, 1.25, -1]
    m = const int8[3,4] [1, -2, 3, 4, 5, 6, 7, -8, 9, 10, 11, 12]
    mb = const float[3] [0.5, -0.125, 2]
    shape = const int64[2] [1, -1]
    table = const int8[4,2] [1, -2, 3, 4, 5, 6, 7, -8]
    row = const int64[] 2
    xq = QuantizeLinear-13 (x, s, u)
    x1 = DequantizeLinear-13 (xq, s, u)
    wq = QuantizeLinear-13 [axis: 0] (w, ws, wz)
    w1 = DequantizeLinear-13 [axis: 0] (wq, ws, wz)
    a = Conv-11 [pads: [1, 1, 1, 1]] (x1, w1, wb)
    b = Relu-13 (a)
    bq = QuantizeLinear-13 (b, t, zero)
    b1 = DequantizeLinear-13 (bq, t, zero)
    c = MaxPool-12 [kernel_shape: [3, 3], strides: [1, 1]] (b1)
    cq = QuantizeLinear-13 (c, t, zero)
    c1 = DequantizeLinear-13 (cq, t, zero)
    c2 = DequantizeLinear-13 (cq, t, zero)
    d = Add-13 (c1, c2)
    dq = QuantizeLinear-13 (d, t, zero)
    d1 = DequantizeLinear-13 (dq, t, zero)
    e = GlobalAveragePool-1 (d1)
    f = Reshape-13 (e, shape)
    fq = QuantizeLinear-13 (f, t, zero)
    f1 = DequantizeLinear-13 (fq, t, zero)
    m1 = DequantizeLinear-13 (m, s)
    g = Gemm-13 [transB: 1] (f1, m1, mb)
    gq = QuantizeLinear-13 (g, t, u)
    y = DequantizeLinear-13 (gq, t, u)
    values = DequantizeLinear-13 (table, s)
    h = Gather-13 (values, row)
    z = Neg-13 (h)
}";

#[test]
fn a_quantized_network_computes_with_codes() {
    let before = parse(NETWORK);
    let (after, _) = optimized(NETWORK, &Options { level: Level::Extended, ..Options::default() });
    for seed in 0..3 {
        let inputs = inputs(&before, seed, &[]);
        assert_eq!(run(&before, &inputs), run(&after, &inputs), "{after}");
    }
    expect![[r#"
        graph(x: float[1,2,6,6]) -> (y, z) {
          s = const float[] 0.015625
          t = const float[] 0.0625
          u = const uint8[] 128
          zero = const uint8[] 0
          ws = const float[4] [0.25, 0.5, 0.125, 0.25]
          wz = const int8[4] fill 0
          m = const int8[3,4] [1, -2, 3, 4, 5, 6, 7, -8, 9, 10, 11, 12]
          shape = const int64[2] [1, -1]
          wq = const int8[4,2,3,3] #29fd42c37e7086d3
          zero_point = const int8[] 0
          z = const float[2] [-0.078125, -0.09375]
          bias_4 = const int32[4] [128, 1024, 640, -256]
          bias_8 = const int32[3] [512, -128, 2048]
          xq = QuantizeLinear-13 (x, s, u)
          bq = QLinearConv-10 [pads: [1, 1, 1, 1]] (xq, s, u, wq, ws, wz, t, zero, bias_4)
          cq = MaxPool-12 [kernel_shape: [3, 3], strides: [1, 1]] (bq)
          dq = com.microsoft:QLinearAdd-1 (cq, t, zero, cq, t, zero, t, zero)
          value = com.microsoft:QLinearGlobalAveragePool-1 (dq, t, zero, t, zero)
          fq = Reshape-13 (value, shape)
          gq = com.microsoft:QGemm-1 [alpha: 1.0, transA: 0, transB: 1] (fq, t, zero, m, s, zero_point, bias_8, t, u)
          y = DequantizeLinear-13 (gq, t, u)
        }"#]].assert_eq(&after.to_string());
}
