//! QDQConstantFolding: dequantizes constants that no fusion uses, once and not in every run.
//!
//! It runs after the fusions, in every round. ONNX Runtime folds them within its
//! ConstantFolding, where quantized operators are disabled.

use ort_graph::Patch;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::passes::cleanup::folded;

pub(crate) const PASS: Pass = Pass {
    name: "QDQConstantFolding",
    level: Level::Extended,
    exactness: Exactness::Bitwise,
    start: || Box::new(QDQConstantFolding),
};

struct QDQConstantFolding;

impl Rewrite for QDQConstantFolding {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["DequantizeLinear"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        folded(site, site.node())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn constant_quantized_values_are_dequantized() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2], q: int8[2], v = int8[2] [1, 2]) -> (y) {
               s = const float[] 0.5
               scales = const float[2] [0.5, 0.25]
               w = const int8[2,2] [1, -2, 3, 4]
               four = const uint16[2] [8, 7]
               w1 = DequantizeLinear-13 [axis: 0] (w, scales)
               a = MatMul-13 (x, w1)
               b1 = DequantizeLinear-21 (four, s)
               b = Add-14 (a, b1)
               c1 = DequantizeLinear-13 (q, s)
               c = Add-14 (b, c1)
               d1 = DequantizeLinear-13 (v, s)
               y = Add-14 (c, d1)
             }",
            &expect![[r#"
                graph(x: float[n,2], q: int8[2], v = int8[2] [1, 2]) -> (y) {
                  s = const float[] 0.5
                  w1 = const float[2,2] [0.5, -1, 0.75, 1]
                  b1 = const float[2] [4, 3.5]
                  a = MatMul-13 (x, w1)
                  b = Add-14 (a, b1)
                  c1 = DequantizeLinear-13 (q, s)
                  c = Add-14 (b, c1)
                  d1 = DequantizeLinear-13 (v, s)
                  y = Add-14 (c, d1)
                }"#]],
        );
    }
}
