//! HardSwishTailFusion: `HardSwish(y)`, from one node or from pieces, becomes the function at the end
//! of the Conv or Gemm that computes `y`.
//!
//! ```text
//! HardSwish(y) = y · HardSigmoid(y; 1/6, 1/2) = y · clip(y + 3, 0, 6) / 6
//! ```
//! Our own pass, of the last level: ONNX Runtime's FusedGemm lacks the function, and its FusedConv (1.31) has it
//! undocumented.

use ort_graph::{Attr, Attrs};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::clip::Clip;

use super::activations::{expect_f32, fused, with_and_without_bias};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, any, op};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "HardSwishTailFusion",
    level: Level::All,
    exactness: Exactness::Rounding,
    start: || {
        let products = [("Conv", "FusedConv"), ("Gemm", "FusedGemm")];
        Rules::start(products.into_iter().flat_map(|(plain, fused)| rules(plain, fused)))
    },
};

fn rules(plain: &'static str, name: &'static str) -> impl Iterator<Item = Rule> {
    with_and_without_bias(plain).into_iter().flat_map(move |product| {
        let after = fused(name, &product, with_hard_swish);
        forms(&product).map(move |form| rule(form, &after).when(is_hard_swish))
    })
}

/// All ways to write `HardSwish(y)`.
fn forms(y: &Pat) -> [Pat; 6] {
    let sixth = 1.0 / 6.0;
    let shifted = y + 3.0;
    let bounded = op("Clip", [&shifted, &0.0.into(), &6.0.into()]);
    let clip = &any([bounded, op("Clip", [&shifted])]);
    [
        y * clip / 6.0,
        y * clip * sixth,
        (y / 6.0) * clip,
        (y * sixth) * clip,
        op("HardSwish", [y]),
        y * &op("HardSigmoid", [y]),
    ]
}

fn with_hard_swish(found: &Match<'_>) -> Attrs {
    found.node("product").attrs.clone().with("activation", Attr::String("HardSwish".to_owned()))
}

fn is_hard_swish(found: &Match<'_>) -> Result<(), Refusal> {
    expect_f32(found)?;
    let is_gate = found.get_node("HardSigmoid").is_none_or(|gate| {
        let sixth = Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 };
        gate.operator() == Some(&sixth)
    });
    let is_clipped = found.get_node("Clip").is_none_or(|clip| match clip.operator() {
        Some(Clip::Inputs) => clip.inputs.iter().flatten().count() == 3,
        Some(&Clip::Attributes { min, max }) => [min, max] == [0.0, 6.0],
        None => false,
    });
    if is_gate && is_clipped { Ok(()) } else { Err(Refusal("its slope or offset differs")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_hard_swish_enters_the_product() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5], v: float[m,2]) -> (e, f, g) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               b = const float[2] [1, 2]
               zero = const float[] 0
               three = const float[1] [3]
               six = const float[] 6
               sixth = const float[] 0.16666667
               c1 = Conv-11 [kernel_shape: [1]] (x, w, b)
               a = HardSwish-14 (c1)
               c2 = Conv-11 (a, w)
               h2 = HardSigmoid-6 [alpha: 0.16666667] (c2)
               c = Mul-14 (h2, c2)
               c3 = Conv-11 (c, w)
               s3 = Add-7 (c3, three)
               h3 = Clip-6 [min: 0.0, max: 6.0] (s3)
               m3 = Mul-7 (c3, h3)
               d = Div-7 (m3, six)
               c4 = Conv-11 (d, w)
               s4 = Add-14 (c4, three)
               h4 = Clip-13 (s4, zero, six)
               m4 = Mul-14 (c4, sixth)
               e = Mul-14 (m4, h4)
               u = const float[2,2] [1, -2, 3, 0.5]
               g1 = Gemm-13 [transB: 1] (v, u, b)
               f = HardSwish-14 (g1)
               g2 = Gemm-13 (v, u)
               s5 = Add-14 (g2, three)
               h5 = Clip-13 (s5, zero, six)
               m5 = Mul-14 (g2, h5)
               g = Mul-14 (m5, sixth)
             }",
            &expect![[r#"
                graph(x: float[n,2,5], v: float[m,2]) -> (e, f, g) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  b = const float[2] [1, 2]
                  u = const float[2,2] [1, -2, 3, 0.5]
                  a = com.microsoft:FusedConv-1 [activation: "HardSwish", kernel_shape: [1]] (x, w, b)
                  c = com.microsoft:FusedConv-1 [activation: "HardSwish"] (a, w)
                  d = com.microsoft:FusedConv-1 [activation: "HardSwish"] (c, w)
                  e = com.microsoft:FusedConv-1 [activation: "HardSwish"] (d, w)
                  f = com.microsoft:FusedGemm-1 [activation: "HardSwish", transB: 1] (v, u, b)
                  g = com.microsoft:FusedGemm-1 [activation: "HardSwish"] (v, u)
                }"#]],
        );
    }

    #[test]
    fn other_lines_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5], l: float[]) -> (y, z, u, c4, v) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               three = const float[1] [3]
               six = const float[] 6
               c1 = Conv-11 (x, w)
               h1 = HardSigmoid-6 (c1)
               y = Mul-14 (h1, c1)
               c2 = Conv-11 (x, w)
               s2 = Add-14 (c2, three)
               h2 = Clip-13 (s2)
               m2 = Mul-14 (c2, h2)
               z = Div-14 (m2, six)
               c3 = Conv-11 (x, w)
               s3 = Add-14 (c3, three)
               h3 = Clip-13 (s3, l, six)
               m3 = Mul-14 (c3, h3)
               u = Div-14 (m3, six)
               c4 = Conv-11 (x, w)
               v = HardSwish-14 (c4)
             }",
            &expect![[r#"
                graph(x: float[n,2,5], l: float[]) -> (y, z, u, c4, v) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  three = const float[1] [3]
                  six = const float[] 6
                  c1 = Conv-11 (x, w)
                  h1 = HardSigmoid-6 (c1)
                  y = Mul-14 (h1, c1)
                  c2 = Conv-11 (x, w)
                  s2 = Add-14 (c2, three)
                  h2 = Clip-13 (s2)
                  m2 = Mul-14 (c2, h2)
                  z = Div-14 (m2, six)
                  c3 = Conv-11 (x, w)
                  s3 = Add-14 (c3, three)
                  h3 = Clip-13 (s3, l, six)
                  m3 = Mul-14 (c3, h3)
                  u = Div-14 (m3, six)
                  c4 = Conv-11 (x, w)
                  v = HardSwish-14 (c4)
                }
                2 refused: its slope or offset differs
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
