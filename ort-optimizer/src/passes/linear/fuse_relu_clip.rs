//! FuseReluClip: `Clip(Relu(x), min, max) = Clip(x, max(min, 0), max)`.
//!
//! Source: ONNX Runtime 1.31, FuseReluClip.

use ort_graph::{Attr, Attrs};
use ort_ops::ops::clip::Clip;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{absent, constant, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "FuseReluClip",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let (x, min) = (var("x"), constant("min"));
        let relu = op("Relu", [&x]);
        let clip = |lower, upper| op("Clip", [x.clone(), lower, upper]);
        let bounds = [absent(), var("max")].into_iter().flat_map(|max| {
            let without = op("Clip", [relu.clone(), absent(), max.clone()]);
            let with = op("Clip", [relu.clone(), min.clone(), max.clone()]);
            let at_least = op("Max", [min.clone(), 0.0.into()]);
            [
                rule(without, clip(0.0.into(), max.clone())).when(has_inputs),
                rule(with, clip(at_least, max)).when(has_inputs),
            ]
        });
        let attributes = rule(op("Clip", [&relu]), op("Clip", [&x]).following(clipped_at_0));
        Rules::start(bounds.chain([attributes.when(has_attributes)]))
    },
};

fn has_inputs(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root().operator() {
        Some(Clip::Inputs) => Ok(()),
        _ => Err(Refusal("its bounds are attributes")),
    }
}

fn has_attributes(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root().operator() {
        Some(Clip::Attributes { .. }) => Ok(()),
        _ => Err(Refusal("its bounds are inputs")),
    }
}

fn clipped_at_0(found: &Match<'_>) -> (i32, Attrs) {
    let clip = found.root();
    let min = match clip.operator() {
        Some(Clip::Attributes { min, .. }) => min.max(0.0),
        _ => 0.0,
    };
    (clip.since_version, clip.attrs.clone().with("min", Attr::Float(min)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn relu_is_a_lower_bound() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n], i: int32[n], lower: float[]) -> (y, j, z) {
               r1 = Relu-14 (x)
               a = Clip-6 [min: -1.0, max: 6.0] (r1)
               r2 = Relu-14 (a)
               b = Clip-6 [max: 5.0] (r2)
               min = const float[] 0.5
               max = const float[] 4
               r3 = Relu-14 (b)
               c = Clip-13 (r3, min, max)
               r4 = Relu-14 (c)
               d = Clip-13 (r4, _, max)
               r5 = Relu-14 (d)
               y = Clip-13 (r5)
               one = const int32[] 1
               r6 = Relu-14 (i)
               j = Clip-12 (r6, one)
               r7 = Relu-14 (y)
               z = Clip-13 (r7, lower, max)
             }",
            &expect![[r#"
                graph(x: float[n], i: int32[n], lower: float[]) -> (y, j, z) {
                  min = const float[] 0.5
                  max = const float[] 4
                  one = const int32[] 1
                  value = const float[] 0
                  value_3 = const float[] 0
                  value_4 = const float[] 0
                  value_5 = const int32[] 0
                  a = Clip-6 [max: 6.0, min: 0.0] (x)
                  b = Clip-6 [max: 5.0, min: 0.0] (a)
                  value_2 = Max-13 (min, value)
                  c = Clip-13 (b, value_2, max)
                  d = Clip-13 (c, value_3, max)
                  y = Clip-13 (d, value_4)
                  r7 = Relu-14 (y)
                  z = Clip-13 (r7, lower, max)
                  value_6 = Max-13 (one, value_5)
                  j = Clip-12 (i, value_6)
                }"#]],
        );
    }
}
