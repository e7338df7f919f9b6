//! Tests of Pad_Fusion.

use expect_test::expect;

use super::PASS;
use crate::testing::assert_optimized;

#[test]
fn zeros_become_padding() {
    assert_optimized(
        PASS,
        "graph(x: float[n,2,4,5], i: int32[1,2,5]) -> (a, b, c, d, e) {
           w = const float[2,2,2,2] [1, 2, -1, 0, 1, 2, -1, 0, 0, 1, -2, 1, 0.5, 1, 1, 1]
           pads = const int64[8] [0, 0, 1, 0, 0, 0, 2, 1]
           zero = const float[] 0
           p = Pad-13 (x, pads, zero)
           a = Conv-11 [pads: [1, 1, 0, 0], strides: [2, 1]] (p, w)
           q = Pad-2 [pads: [0, 0, 0, 1, 0, 0, 0, 1]] (x)
           b = Conv-11 (q, w)
           sides = const int64[8] [0, 0, 1, 1, 0, 0, 1, 1]
           p3 = Pad-18 (x, sides)
           c = AveragePool-11 [kernel_shape: [3, 3]] (p3)
           r = Relu-14 (x)
           m = MaxPool-8 [kernel_shape: [2, 2]] (r)
           p4 = Pad-11 (m, sides)
           d = MaxPool-12 [kernel_shape: [2, 3], pads: [0, 1, 0, 1]] (p4)
           line = const int64[6] [0, 0, 1, 0, 0, 0]
           v = const float[1,2,2] [1, 2, 3, 4]
           p5 = Pad-13 (i, line)
           f = Cast-13 [to: 1] (p5)
           e = Conv-11 (f, v)
         }",
        &expect![[r#"
            graph(x: float[n,2,4,5], i: int32[1,2,5]) -> (a, b, c, d, e) {
              w = const float[2,2,2,2] [1, 2, -1, 0, 1, 2, -1, 0, 0, 1, -2, 1, 0.5, 1, 1, 1]
              v = const float[1,2,2] [1, 2, 3, 4]
              r = Relu-14 (x)
              m = MaxPool-8 [kernel_shape: [2, 2]] (r)
              a = Conv-11 [pads: [2, 1, 2, 1], strides: [2, 1]] (x, w)
              b = Conv-11 [pads: [0, 1, 0, 1]] (x, w)
              c = AveragePool-11 [count_include_pad: 1, kernel_shape: [3, 3], pads: [1, 1, 1, 1]] (x)
              d = MaxPool-12 [kernel_shape: [2, 3], pads: [1, 2, 1, 2]] (m)
              value = Cast-13 [to: 1] (i)
              e = Conv-11 [pads: [1, 0]] (value, v)
            }"#]],
    );
}

#[test]
fn what_is_no_padding_stays() {
    assert_optimized(
        PASS,
        "graph(x: float[1,2,5]) -> (a, b, c, d, e, f, g, h, i) {
           w = const float[2,2,2] [1, 2, -1, 0, 1, 2, -1, 0]
           pads = const int64[6] [0, 0, 1, 0, 0, 1]
           channels = const int64[6] [0, 1, 1, 0, -1, 1]
           one = const float[] 1
           p1 = Pad-13 [mode: \"edge\"] (x, pads)
           a = Conv-11 (p1, w)
           p2 = Pad-13 (x, pads, one)
           b = Conv-11 (p2, w)
           p3 = Pad-13 (x, channels)
           c = Conv-11 (p3, w)
           p4 = Pad-13 (x, pads)
           d = Conv-11 [auto_pad: \"SAME_UPPER\"] (p4, w)
           e = AveragePool-11 [kernel_shape: [2], pads: [1, 0]] (p4)
           f = MaxPool-12 [kernel_shape: [2]] (p4)
           r = Relu-14 (x)
           p5 = Pad-13 (r, pads)
           g, indices = MaxPool-12 [kernel_shape: [2]] (p5)
           h = Cast-13 [to: 1] (indices)
           i = MaxPool-12 [kernel_shape: [1]] (p5)
         }",
        &expect![[r#"
            graph(x: float[1,2,5]) -> (a, b, c, d, e, f, g, h, i) {
              w = const float[2,2,2] [1, 2, -1, 0, 1, 2, -1, 0]
              pads = const int64[6] [0, 0, 1, 0, 0, 1]
              channels = const int64[6] [0, 1, 1, 0, -1, 1]
              one = const float[] 1
              p1 = Pad-13 [mode: "edge"] (x, pads)
              a = Conv-11 (p1, w)
              p2 = Pad-13 (x, pads, one)
              b = Conv-11 (p2, w)
              p3 = Pad-13 (x, channels)
              c = Conv-11 (p3, w)
              p4 = Pad-13 (x, pads)
              d = Conv-11 [auto_pad: "SAME_UPPER"] (p4, w)
              e = AveragePool-11 [kernel_shape: [2], pads: [1, 0]] (p4)
              f = MaxPool-12 [kernel_shape: [2]] (p4)
              r = Relu-14 (x)
              p5 = Pad-13 (r, pads)
              g, indices = MaxPool-12 [kernel_shape: [2]] (p5)
              h = Cast-13 [to: 1] (indices)
              i = MaxPool-12 [kernel_shape: [1]] (p5)
            }
            2 refused: it pads with something other than zeros
            1 refused: it does not pad spatial axes only
            1 refused: its padding follows from the shape
            1 refused: its own padding is not counted
            1 refused: the zeros may be larger than what they surround
            1 refused: its indices include the border
            1 refused: a window may lie in the border, or exceed its end"#]],
    );
}
