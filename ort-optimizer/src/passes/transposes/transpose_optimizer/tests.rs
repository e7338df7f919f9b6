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
            1 refused: nowhere else would it move less"#]],
    );
}

#[test]
fn pairs_cancel_across_what_stands_between() {
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
            1 refused: nowhere else would it move less"#]],
    );
}
