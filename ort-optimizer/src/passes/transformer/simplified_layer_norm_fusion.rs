//! SimplifiedLayerNormFusion: `x / √(mean(x²) + ε) · scale`, over the last axes, is a
//! SimplifiedLayerNormalization, which ONNX Runtime adds to ai.onnx.
//!
//! f32 only, without the Casts that ONNX Runtime looks through. Source: ONNX Runtime 1.31,
//! SimplifiedLayerNormFusion.

use super::layer_norm::{attrs, is_row_norm, normal};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "SimplifiedLayerNormFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let (x, scale) = (var("x"), var("scale"));
        let norm = op("SimplifiedLayerNormalization", [&x, &scale]).since(1, attrs);
        Rules::start([rule(normal(&x, &x) * &scale, norm).when(is_row_norm)])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_root_mean_square_divides() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,3]) -> (y, z, w) {
               two = const float[] 2
               one = const float[] 1
               minus = const float[] -0.5
               epsilon = const float[] 1e-6
               scale = const float[3] [1, 2, 3]
               last = const int64[1] [2]
               a1 = Pow-15 (x, two)
               a2 = ReduceMean-18 (a1, last)
               a3 = Add-14 (a2, epsilon)
               a4 = Sqrt-13 (a3)
               a5 = Div-14 (one, a4)
               a6 = Mul-14 (x, a5)
               y = Mul-14 (scale, a6)
               b1 = Mul-14 (y, y)
               b2 = ReduceMean-13 [axes: [-1]] (b1)
               b3 = Add-14 (b2, epsilon)
               b4 = Pow-15 (b3, minus)
               b5 = Mul-14 (y, b4)
               z = Mul-14 (b5, scale)
               c1 = Mul-14 (y, z)
               c2 = ReduceMean-13 [axes: [-1]] (c1)
               c3 = Add-14 (c2, epsilon)
               c4 = Sqrt-13 (c3)
               c5 = Div-14 (y, c4)
               w = Mul-14 (c5, scale)
             }",
            &expect![[r#"
                graph(x: float[n,2,3]) -> (y, z, w) {
                  epsilon = const float[] 1e-6
                  scale = const float[3] [1, 2, 3]
                  y = SimplifiedLayerNormalization-1 [axis: -1, epsilon: 1e-6, stash_type: 1] (x, scale)
                  z = SimplifiedLayerNormalization-1 [axis: -1, epsilon: 1e-6, stash_type: 1] (y, scale)
                  c1 = Mul-14 (y, z)
                  c2 = ReduceMean-13 [axes: [-1]] (c1)
                  c3 = Add-14 (c2, epsilon)
                  c4 = Sqrt-13 (c3)
                  c5 = Div-14 (y, c4)
                  w = Mul-14 (c5, scale)
                }"#]],
        );
    }
}
