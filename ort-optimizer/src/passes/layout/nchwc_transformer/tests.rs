//! What the pass makes of small networks.

use expect_test::{Expect, expect};

use crate::options::{Level, Options};
use crate::testing::assert_optimized_with;

/// That of the pass alone, in blocks of 8.
fn assert_blocked(level: Level, before: &str, expected: &Expect) {
    let options = Options { level, layout_block: Some(8), ..Options::default() };
    assert_optimized_with(super::PASS, &options, before, expected);
}

#[test]
fn a_residual_block_stays_in_blocks() {
    assert_blocked(
        Level::Layout,
        "graph(x: float[n,3,h,w]) -> (y) {
           w1 = const float[12,3,3,3] fill 0.1
           b1 = const float[12] fill 0.5
           w2 = const float[12,12,3,3] fill 0.1
           w3 = const float[12,1,3,3] fill 0.1
           a = Conv-11 [pads: [1, 1, 1, 1], strides: [2, 2]] (x, w1, b1)
           b = Relu-14 (a)
           c = Conv-11 [pads: [1, 1, 1, 1]] (b, w2, b1)
           d = Relu-14 (c)
           e = Conv-11 [group: 12, pads: [1, 1, 1, 1]] (d, w3)
           f = Add-14 (e, b)
           g = Relu-14 (f)
           y = MaxPool-12 [kernel_shape: [2, 2], strides: [2, 2]] (g)
         }",
        &expect![[r#"
            graph(x: float[n,3,h,w]) -> (y) {
              w1_2 = const float[16,3,3,3] #f9fe7e57a5fac70d
              b1_2 = const float[16] [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0]
              w2_2 = const float[16,16,3,3] #df4f4d18c9e33685
              w3_2 = const float[16,1,3,3] #bd78d136bfe9507d
              a_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1], strides: [2, 2]] (x, w1_2, b1_2)
              c_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 1, pads: [1, 1, 1, 1]] (a_2, w2_2, b1_2)
              e_2 = com.microsoft.nchwc:Conv-1 [activation: "Relu", block_size: 8, group: 16, pads: [1, 1, 1, 1]] (c_2, w3_2, _, a_2)
              y_2 = com.microsoft.nchwc:MaxPool-1 [block_size: 8, kernel_shape: [2, 2], strides: [2, 2]] (e_2)
              y = com.microsoft.nchwc:ReorderOutput-1 [block_size: 8, channels: 12] (y_2)
            }"#]],
    );
}
