//! ReluQuantFusion: `Q(max(x, 0)) = Q(x)` where 0 has the least quantized value.

use ort_graph::Patch;

use super::bounds::{drop_before, quantize_of};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ReluQuantFusion",
    level: Level::Extended,
    exactness: Exactness::Bitwise,
    start: || Box::new(ReluQuantFusion),
};

struct ReluQuantFusion;

impl Rewrite for ReluQuantFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Relu"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(y) = quantize_of(site) else { return Ok(None) };
        let (least, _) = y.range().ok_or(Refusal("its quantized values are not integers"))?;
        let are_least = y.zeros().is_some_and(|zeros| zeros.iter().all(|&zero| zero == least));
        if are_least && y.are_scales_valid() {
            drop_before(site, &y)
        } else {
            Err(Refusal("quantized values represent values below zero"))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_relu_goes_if_no_quantized_value_is_negative() {
        assert_optimized(
            super::PASS,
            "graph(x: float[3,2], z = uint8[] 0) -> (a, b, c, d, e, f, g) {
               s = const float[] 0.015625
               s2 = const float[2] [0.015625, 0.03]
               z0 = const uint8[] 0
               z1 = const uint8[] 1
               least = const int8[] -128
               leasts = const int8[2] [-128, -128]
               more = const int8[2] [-128, -127]
               y1 = Relu-14 (x)
               a = QuantizeLinear-13 (y1, s)
               y2 = Relu-14 (x)
               b = QuantizeLinear-13 (y2, s, least)
               y3 = Relu-14 (x)
               c = QuantizeLinear-13 (y3, s2, leasts)
               y4 = Relu-14 (x)
               d = QuantizeLinear-13 (y4, s2, more)
               y5 = Relu-14 (x)
               e = QuantizeLinear-13 (y5, s, z)
               f = Relu-14 (x)
               g = QuantizeLinear-13 (f, s, z0)
             }",
            &expect![[r#"
                graph(x: float[3,2], z = uint8[] 0) -> (a, b, c, d, e, f, g) {
                  s = const float[] 0.015625
                  s2 = const float[2] [0.015625, 0.03]
                  z0 = const uint8[] 0
                  least = const int8[] -128
                  leasts = const int8[2] fill -128
                  more = const int8[2] [-128, -127]
                  y4 = Relu-14 (x)
                  d = QuantizeLinear-13 (y4, s2, more)
                  y5 = Relu-14 (x)
                  e = QuantizeLinear-13 (y5, s, z)
                  f = Relu-14 (x)
                  g = QuantizeLinear-13 (f, s, z0)
                  a = QuantizeLinear-13 (x, s)
                  b = QuantizeLinear-13 (x, s, least)
                  c = QuantizeLinear-13 (x, s2, leasts)
                }
                1 refused: quantized values represent values below zero"#]],
        );
    }
}
