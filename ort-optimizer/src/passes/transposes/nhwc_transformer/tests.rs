//! Images that become NHWC, and those that do not.

use expect_test::expect;

use crate::testing::assert_optimized;

const CONSTANTS: &str = "
    w = const int8[128,128,3,3] fill 3
    d = const int8[128,1,3,3] fill 3
    s = const float[] 0.5
    z = const uint8[] 3
    wz = const int8[] 0
";

#[test]
fn a_chain_becomes_nhwc_from_end_to_end() {
    assert_optimized(
        super::PASS,
        &format!(
            "graph(x: uint8[1,128,4,4]) -> (y) {{{CONSTANTS}
               a = QLinearConv-10 [pads: [1, 1, 1, 1]] (x, s, z, w, s, wz, s, z)
               b = QLinearConv-10 [pads: [1, 1, 1, 1]] (a, s, z, w, s, wz, s, z)
               c = com.microsoft:QLinearAdd-1 (b, s, z, a, s, z, s, z)
               p = MaxPool-12 [kernel_shape: [2, 2], storage_order: 0] (c)
               y = com.microsoft:QLinearGlobalAveragePool-1 [channels_last: 0] (p, s, z, s, z)
             }}"
        ),
        &expect![[r#"
            graph(x: uint8[1,128,4,4]) -> (y) {
              w = const int8[128,128,3,3] fill 3
              s = const float[] 0.5
              z = const uint8[] 3
              wz = const int8[] 0
              value = Transpose-13 [perm: [0, 2, 3, 1]] (x)
              a_2 = com.microsoft:QLinearConv-1 [channels_last: 1, pads: [1, 1, 1, 1]] (value, s, z, w, s, wz, s, z)
              b_2 = com.microsoft:QLinearConv-1 [channels_last: 1, pads: [1, 1, 1, 1]] (a_2, s, z, w, s, wz, s, z)
              c_2 = com.microsoft:QLinearAdd-1 (b_2, s, z, a_2, s, z, s, z)
              p_2 = com.microsoft:NhwcMaxPool-1 [kernel_shape: [2, 2]] (c_2)
              y_2 = com.microsoft:QLinearGlobalAveragePool-1 [channels_last: 1] (p_2, s, z, s, z)
              y = Transpose-13 [perm: [0, 3, 1, 2]] (y_2)
            }"#]],
    );
}

#[test]
fn nodes_that_would_be_slower_stay() {
    assert_optimized(
        super::PASS,
        &format!(
            "graph(x: uint8[1,128,4,4], m: uint8[1,4,4,4], f: float[1,1,4,4], k: int8[1,128,1,1]) -> (a, b, c, e) {{{CONSTANTS}
               small = const int8[4,4,1,1] fill 1
               a = QLinearConv-10 [group: 128] (x, s, z, d, s, wz, s, z)
               b = QLinearConv-10 (m, s, z, small, s, wz, s, z)
               c = MaxPool-12 [kernel_shape: [2, 2]] (f)
               e = QLinearConv-10 (x, s, z, k, s, wz, s, z)
             }}"
        ),
        &expect![[r#"
            graph(x: uint8[1,128,4,4], m: uint8[1,4,4,4], f: float[1,1,4,4], k: int8[1,128,1,1]) -> (a, b, c, e) {
              d = const int8[128,1,3,3] fill 3
              s = const float[] 0.5
              z = const uint8[] 3
              wz = const int8[] 0
              small = const int8[4,4,1,1] fill 1
              a = QLinearConv-10 [group: 128] (x, s, z, d, s, wz, s, z)
              b = QLinearConv-10 (m, s, z, small, s, wz, s, z)
              c = MaxPool-12 [kernel_shape: [2, 2]] (f)
              e = QLinearConv-10 (x, s, z, k, s, wz, s, z)
            }
            2 refused: the Transposes around it would cost more than it gains"#]],
    );
}

#[test]
fn normalizations_between_convolutions_become_nhwc_with_them() {
    assert_optimized(
        super::PASS,
        &format!(
            "graph(x: uint8[1,128,8,8]) -> (y) {{{CONSTANTS}
               k = const float[128] fill 2
               a = QLinearConv-10 [pads: [1, 1, 1, 1]] (x, s, z, w, s, wz, s, z)
               b = QLinearConv-10 [group: 128, pads: [1, 1, 1, 1]] (a, s, z, d, s, wz, s, z)
               c = DequantizeLinear-13 (b, s, z)
               e = BatchNormalization-15 [epsilon: 0.25] (c, k, k, k, k)
               f = QuantizeLinear-13 (e, s, z)
               y = QLinearConv-10 [pads: [1, 1, 1, 1]] (f, s, z, w, s, wz, s, z)
             }}"
        ),
        &expect![[r#"
            graph(x: uint8[1,128,8,8]) -> (y) {
              w = const int8[128,128,3,3] fill 3
              d = const int8[128,1,3,3] fill 3
              s = const float[] 0.5
              z = const uint8[] 3
              wz = const int8[] 0
              k = const float[128] fill 2
              value = Transpose-13 [perm: [0, 2, 3, 1]] (x)
              a_2 = com.microsoft:QLinearConv-1 [channels_last: 1, pads: [1, 1, 1, 1]] (value, s, z, w, s, wz, s, z)
              b_2 = com.microsoft:QLinearConv-1 [channels_last: 1, group: 128, pads: [1, 1, 1, 1]] (a_2, s, z, d, s, wz, s, z)
              c_2 = DequantizeLinear-13 (b_2, s, z)
              e_2 = com.ms.internal.nhwc:BatchNormalization-15 [epsilon: 0.25] (c_2, k, k, k, k)
              f_2 = QuantizeLinear-13 (e_2, s, z)
              y_2 = com.microsoft:QLinearConv-1 [channels_last: 1, pads: [1, 1, 1, 1]] (f_2, s, z, w, s, wz, s, z)
              y = Transpose-13 [perm: [0, 3, 1, 2]] (y_2)
            }"#]],
    );
}
