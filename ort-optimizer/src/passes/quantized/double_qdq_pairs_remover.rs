//! DoubleQDQPairsRemover: removes a DequantizeLinear whose result is quantized again in the same
//! way.
//!
//! ```text
//! QuantizeLinear(DequantizeLinear(q, s, z), s, z) = q
//! ```
//! ONNX Runtime's pass of this name requires another pair around these, and also merges two pairs of different scales
//! into one of a third, which changes values; its QDQFinalCleanupTransformer removes the pattern without such pairs.

use ort_graph::Patch;

use super::values::Quantized;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "DoubleQDQPairsRemover",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(DoubleQDQPairsRemover),
};

struct DoubleQDQPairsRemover;

impl Rewrite for DoubleQDQPairsRemover {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["QuantizeLinear"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let value = site.node().inputs.first().copied().flatten();
        let before = value.and_then(|value| Quantized::of(site.graph, value));
        let (Some(before), Some(after)) = (before, Quantized::by(site.graph, site.id)) else {
            return Ok(None);
        };
        if !before.is_like(&after) {
            return Err(Refusal("scale, zero point or type change"));
        }
        let mut patch = Patch::new(site.graph);
        patch.replace(after.value, before.value);
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_pair_goes_if_scale_and_zero_point_are_the_same() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n], q: uint8[2], t = float[] 0.5) -> (y, z, q2, u, v) {
               s = const float[] 0.5
               s1 = const float[1] [0.5]
               s2 = const float[] 0.25
               u0 = const uint8[] 0
               u7 = const uint8[] 7
               i7 = const int8[] 7
               a = QuantizeLinear-13 (x, s, u0)
               b = DequantizeLinear-13 (a, s1)
               c = QuantizeLinear-13 (b, s)
               d = DequantizeLinear-13 (c, s, u0)
               y = com.microsoft:QuantizeLinear-1 (d, s2, u0)
               e = DequantizeLinear-13 (a, s, u7)
               z = QuantizeLinear-13 (e, s, i7)
               f = DequantizeLinear-13 (q, s)
               q2 = QuantizeLinear-13 (f, s)
               g = DequantizeLinear-13 (q, t)
               u = QuantizeLinear-13 (g, t)
               h = DequantizeLinear-19 (q, s, u7)
               i = QuantizeLinear-21 [output_dtype: 2] (h, s, u7)
               v = DequantizeLinear-13 (i, s2)
             }",
            &expect![[r#"
                graph(x: float[n], q: uint8[2], t = float[] 0.5) -> (y, z, q2, u, v) {
                  s = const float[] 0.5
                  s2 = const float[] 0.25
                  u0 = const uint8[] 0
                  u7 = const uint8[] 7
                  i7 = const int8[] 7
                  a = QuantizeLinear-13 (x, s, u0)
                  d = DequantizeLinear-13 (a, s, u0)
                  y = com.microsoft:QuantizeLinear-1 (d, s2, u0)
                  e = DequantizeLinear-13 (a, s, u7)
                  z = QuantizeLinear-13 (e, s, i7)
                  f = DequantizeLinear-13 (q, s)
                  q2 = QuantizeLinear-13 (f, s)
                  g = DequantizeLinear-13 (q, t)
                  u = QuantizeLinear-13 (g, t)
                  v = DequantizeLinear-13 (q, s2)
                }
                2 refused: scale, zero point or type change
                1 refused: it would change the name of a graph output"#]],
        );
    }

    #[test]
    fn quantized_16_bit_values_round_trip_but_not_with_many_scales() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,2]) -> (y, z, w) {
               tiny = const float[] 1.1754944e-38
               subnormal = const float[] 1e-40
               scales = const float[2] [0.5, 0.25]
               zero = const uint16[] 40000
               a = QuantizeLinear-21 (x, tiny, zero)
               b = DequantizeLinear-21 (a, tiny, zero)
               c = QuantizeLinear-21 (b, tiny, zero)
               y = DequantizeLinear-21 (c, scales)
               d = DequantizeLinear-21 (a, subnormal, zero)
               z = QuantizeLinear-21 (d, subnormal, zero)
               e = DequantizeLinear-21 (a, scales)
               w = QuantizeLinear-21 [output_dtype: 4] (e, scales)
             }",
            &expect![[r#"
                graph(x: float[2,2]) -> (y, z, w) {
                  tiny = const float[] 1.1754944e-38
                  subnormal = const float[] 1e-40
                  scales = const float[2] [0.5, 0.25]
                  zero = const uint16[] 40000
                  a = QuantizeLinear-21 (x, tiny, zero)
                  y = DequantizeLinear-21 (a, scales)
                  d = DequantizeLinear-21 (a, subnormal, zero)
                  z = QuantizeLinear-21 (d, subnormal, zero)
                  e = DequantizeLinear-21 (a, scales)
                  w = QuantizeLinear-21 [output_dtype: 4] (e, scales)
                }
                2 refused: scale, zero point or type change"#]],
        );
    }
}
