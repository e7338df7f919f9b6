//! HardSigmoidFusion: `clip(x + 3, 0, 6) / 6 = HardSigmoid(x; 1/6, 1/2)`.
//!
//! f32 only: ONNX Runtime's CPU has no other kernel for it. ONNX Runtime has no such pass.

use ort_graph::{Attr, Attrs};

use super::is_f32;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, op, var};
use crate::rule::{Rules, rule};
use ort_ops::ops::clip::Clip;

pub(crate) const PASS: Pass = Pass {
    name: "HardSigmoidFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let shifted = var("x") + 3.0;
        let hard = op("HardSigmoid", [var("x")]).since(6, |_| {
            Attrs::new().with("alpha", Attr::Float(1.0 / 6.0)).with("beta", Attr::Float(0.5))
        });
        let clips = [op("Clip", [&shifted, &0.0.into(), &6.0.into()]), op("Clip", [&shifted])];
        let sixths = |clip: &Pat| [clip / 6.0, clip * (1.0 / 6.0)];
        let formulas = clips.iter().flat_map(sixths);
        Rules::start(formulas.map(|formula| rule(formula, &hard).when(is_clipped)))
    },
};

/// The bounds, where they are attributes, are 0 and 6.
fn is_clipped(found: &Match<'_>) -> Result<(), Refusal> {
    is_f32(found)?;
    let clip = found.node("Clip");
    let has_bounds = clip.inputs.iter().flatten().count() == 3;
    match clip.operator::<Clip>() {
        Some(Clip::Inputs) if has_bounds => Ok(()),
        Some(&Clip::Attributes { min: 0.0, max: 6.0 }) => Ok(()),
        _ => Err(Refusal("it is not clipped to 0 and 6")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_clipped_line_is_a_hard_sigmoid() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3]) -> (y, z, w) {
               zero = const float[] 0
               three = const float[] 3
               six = const float[] 6
               sixth = const float[] 0.16666667
               a = Add-14 (x, three)
               b = Clip-13 (a, zero, six)
               y = Div-14 (b, six)
               c = Add-14 (three, y)
               d = Clip-6 [min: 0.0, max: 6.0] (c)
               z = Mul-14 (sixth, d)
               e = Add-14 (three, z)
               f = Clip-13 (e, zero)
               w = Div-14 (f, six)
             }",
            &expect![[r#"
                graph(x: float[n,3]) -> (y, z, w) {
                  zero = const float[] 0
                  three = const float[] 3
                  six = const float[] 6
                  y = HardSigmoid-6 [alpha: 0.16666667, beta: 0.5] (x)
                  z = HardSigmoid-6 [alpha: 0.16666667, beta: 0.5] (y)
                  e = Add-14 (three, z)
                  f = Clip-13 (e, zero)
                  w = Div-14 (f, six)
                }"#]],
        );
    }
}
