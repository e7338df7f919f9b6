//! HardSwishFusion: `x · HardSigmoid(x; 1/6, 1/2) = x · clip(x + 3, 0, 6) / 6 = HardSwish(x)`, from
//! opset 14 on.
//!
//! ONNX Runtime has no such pass, and no kernel either: it expands HardSwish when it loads a `.onnx` file, but not a
//! `.ort` file. So the pass belongs to the last level.

use ort_graph::Attrs;
use ort_ops::ops::activation::Activation;
use ort_tensor::DType;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "HardSwishFusion",
    level: Level::All,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let swish = op("HardSwish", [&x]).since(14, |_| Attrs::new());
        let clip = op("Clip", [&x + 3.0, 0.0.into(), 6.0.into()]);
        let products = [
            &x * &clip / 6.0,
            &x * &clip * (1.0 / 6.0),
            (&x / 6.0) * &clip,
            (&x * (1.0 / 6.0)) * &clip,
        ];
        let gate = rule(&x * &op("HardSigmoid", [&x]), &swish).when(is_sixth);
        let rules = products.into_iter().map(|formula| rule(formula, &swish)).chain([gate]);
        Rules::start(rules.map(|rule| rule.since_opset(14)))
    },
};

/// The attribute is a float, so 1/6 differs from the double.
fn is_sixth(found: &Match<'_>) -> Result<(), Refusal> {
    if found.fact("x").dtype() == Some(DType::F64) {
        return Err(Refusal("1/6 as a float differs from 1/6 as a double"));
    }
    match found.node("HardSigmoid").operator() {
        Some(&Activation::HardSigmoid { alpha, beta }) if alpha == 1.0 / 6.0 && beta == 0.5 => {
            Ok(())
        }
        _ => Err(Refusal("its slope or offset differs")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized_in;

    const GRAPH: &str = "graph(x: float[n,3]) -> (y, z, w, v) {
        zero = const float[] 0
        three = const float[] 3
        six = const float[] 6
        sixth = const float[] 0.16666667
        a = HardSigmoid-6 [alpha: 0.16666667, beta: 0.5] (x)
        y = Mul-14 (a, x)
        b = Add-14 (y, three)
        c = Clip-13 (b, zero, six)
        d = Mul-14 (c, y)
        z = Div-14 (d, six)
        e = Add-14 (z, three)
        f = Clip-13 (e, zero, six)
        g = Mul-14 (z, sixth)
        w = Mul-14 (f, g)
        h = HardSigmoid-6 (w)
        v = Mul-14 (h, w)
      }";

    #[test]
    fn x_times_its_hard_sigmoid_is_one_node() {
        assert_optimized_in(
            Some(14),
            super::PASS,
            GRAPH,
            &expect![[r#"
            graph(x: float[n,3]) -> (y, z, w, v) {
              y = HardSwish-14 (x)
              z = HardSwish-14 (y)
              w = HardSwish-14 (z)
              h = HardSigmoid-6 (w)
              v = Mul-14 (h, w)
            }
            1 refused: its slope or offset differs"#]],
        );
    }

    #[test]
    fn a_model_of_opset_13_has_no_such_node() {
        assert_optimized_in(
            Some(13),
            super::PASS,
            GRAPH,
            &expect![[r#"
            graph(x: float[n,3]) -> (y, z, w, v) {
              zero = const float[] 0
              three = const float[] 3
              six = const float[] 6
              sixth = const float[] 0.16666667
              a = HardSigmoid-6 [alpha: 0.16666667, beta: 0.5] (x)
              y = Mul-14 (a, x)
              b = Add-14 (y, three)
              c = Clip-13 (b, zero, six)
              d = Mul-14 (c, y)
              z = Div-14 (d, six)
              e = Add-14 (z, three)
              f = Clip-13 (e, zero, six)
              g = Mul-14 (z, sixth)
              w = Mul-14 (f, g)
              h = HardSigmoid-6 (w)
              v = Mul-14 (h, w)
            }"#]],
        );
    }
}
