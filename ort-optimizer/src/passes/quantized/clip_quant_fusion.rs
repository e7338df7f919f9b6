//! ClipQuantFusion: `Q(clip(x, a, b)) = Q(x)` where `a` has the least quantized value and `b` the largest.

use ort_graph::Patch;
use ort_ops::ops::clip::Clip;

use super::bounds::{drop_before, quantize_of};
use super::values::Whole;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ClipQuantFusion",
    level: Level::Extended,
    exactness: Exactness::Bitwise,
    start: || Box::new(ClipQuantFusion),
};

struct ClipQuantFusion;

impl Rewrite for ClipQuantFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Clip"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(y) = quantize_of(site) else { return Ok(None) };
        let range = y.range().ok_or(Refusal("its quantized values are not integers"))?;
        let whole = y.whole().ok_or(Refusal("it is quantized with several scales"))?;
        let [low, high] = bounds(site).ok_or(Refusal("its bounds are not constant"))?;
        let quantize =
            |value: f32, Whole { scale, zero }| f64::from((value / scale).round_ties_even()) + zero;
        // A value beyond a bound has a quantized value at or beyond that of the bound.
        if quantize(low, whole) <= range.0 && quantize(high, whole) >= range.1 {
            drop_before(site, &y)
        } else {
            Err(Refusal("quantized values represent values beyond its bounds"))
        }
    }
}

/// The bounds; infinite where there is none.
fn bounds(site: &Site<'_>) -> Option<[f32; 2]> {
    let node = site.node();
    if let Clip::Attributes { min, max } = *node.operator::<Clip>()? {
        return Some([min, max]);
    }
    let bound = |index: usize, absent: f32| match node.inputs.get(index).copied().flatten() {
        None => Some(absent),
        Some(input) => match site.graph.constant(input)?.as_slice::<f32>() {
            Ok(&[bound]) => Some(bound),
            _ => None,
        },
    };
    Some([bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_clip_goes_if_all_quantized_values_lie_within_its_bounds() {
        assert_optimized(
            super::PASS,
            "graph(x: float[64], m: float[]) -> (a, b, c, d, e, f) {
               s = const float[] 0.0078125
               z = const uint8[] 128
               low = const float[] -1
               high = const float[1] [0.9922]
               less = const float[] 0.9883
               y1 = Clip-13 (x, low, high)
               a = QuantizeLinear-13 (y1, s, z)
               y2 = Clip-6 [min: -1.0, max: 6.0] (x)
               b = QuantizeLinear-13 (y2, s, z)
               y3 = Clip-13 (x, low)
               c = QuantizeLinear-13 (y3, s, z)
               y4 = Clip-13 (x, low, less)
               d = QuantizeLinear-13 (y4, s, z)
               y5 = Clip-13 (x, low, high)
               e = QuantizeLinear-13 (y5, s)
               y6 = Clip-13 (x, m)
               f = QuantizeLinear-13 (y6, s, z)
             }",
            &expect![[r#"
                graph(x: float[64], m: float[]) -> (a, b, c, d, e, f) {
                  s = const float[] 0.0078125
                  z = const uint8[] 128
                  low = const float[] -1
                  high = const float[1] [0.9922]
                  y5 = Clip-13 (x, low, high)
                  e = QuantizeLinear-13 (y5, s)
                  y6 = Clip-13 (x, m)
                  f = QuantizeLinear-13 (y6, s, z)
                  a = QuantizeLinear-13 (x, s, z)
                  b = QuantizeLinear-13 (x, s, z)
                  c = QuantizeLinear-13 (x, s, z)
                  d = QuantizeLinear-13 (x, s, z)
                }
                1 refused: quantized values represent values beyond its bounds
                1 refused: its bounds are not constant"#]],
        );
    }
}
