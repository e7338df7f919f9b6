//! QuickGeluFusion: `x · sigmoid(α·x) = QuickGelu(x)`; with α = 1 that is SiLU, also written
//! `x / (1 + exp(−x))`.
//!
//! f32 only: ONNX Runtime's CPU has no other kernel for it. Source: ONNX Runtime 1.31,
//! QuickGeluFusion, which lacks the quotient.

use ort_graph::{Attr, Attrs};

use super::is_f32;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{constant, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "QuickGeluFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let (x, alpha) = (var("x"), constant("alpha"));
        let quick = op("QuickGelu", [&x]).of("com.microsoft");
        let silu = quick.clone().since(1, |_| Attrs::new().with("alpha", Attr::Float(1.0)));
        let gelu = quick.since(1, |found| {
            Attrs::new().with("alpha", Attr::Float(factor(found).unwrap_or(1.0)))
        });
        Rules::start([
            rule(&x * &op("Sigmoid", [&x]), &silu).when(is_f32),
            rule(&x / &(op("Exp", [op("Neg", [&x])]) + 1.0), &silu).when(is_f32),
            rule(&x * &op("Sigmoid", [&x * &alpha]), &gelu).when(has_factor),
        ])
    },
};

fn has_factor(found: &Match<'_>) -> Result<(), Refusal> {
    is_f32(found)?;
    factor(found).map(|_| ()).ok_or(Refusal("its factor is not one number"))
}

/// α, if it is one number that leaves the rank of x as it is.
fn factor(found: &Match<'_>) -> Option<f32> {
    let alpha = found.constant("alpha")?;
    let rank = alpha.shape().len();
    let keeps_rank = rank == 0 || found.fact("x").rank().is_some_and(|of_x| rank <= of_x);
    match alpha.as_slice::<f32>() {
        Ok(&[alpha]) if keeps_rank => Some(alpha),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn x_times_its_sigmoid_is_one_node() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3], u: float[...]) -> (d, b, f, h) {
               alpha = const float[1] [1.702]
               one = const float[] 1
               half = const float[] 0.5
               a = Sigmoid-13 (x)
               b = Mul-14 (a, x)
               c = Mul-14 (alpha, b)
               e = Sigmoid-13 (c)
               d = Mul-14 (b, e)
               n = Neg-13 (u)
               g = Exp-13 (n)
               i = Add-14 (one, g)
               f = Div-14 (u, i)
               j = Mul-14 (f, half)
               k = Sigmoid-13 (j)
               h = Mul-14 (k, f)
             }",
            &expect![[r#"
                graph(x: float[2,3], u: float[...]) -> (d, b, f, h) {
                  b = com.microsoft:QuickGelu-1 [alpha: 1.0] (x)
                  d = com.microsoft:QuickGelu-1 [alpha: 1.702] (b)
                  f = com.microsoft:QuickGelu-1 [alpha: 1.0] (u)
                  h = com.microsoft:QuickGelu-1 [alpha: 0.5] (f)
                }"#]],
        );
    }

    #[test]
    fn other_gates_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3], u: float[...], d: double[2]) -> (y, a, z, w, e) {
               row = const float[3] [1, 2, 3]
               alpha = const float[1] [1.702]
               a = Sigmoid-13 (x)
               y = Mul-14 (a, x)
               b = Mul-14 (x, row)
               c = Sigmoid-13 (b)
               z = Mul-14 (x, c)
               f = Mul-14 (u, alpha)
               g = Sigmoid-13 (f)
               w = Mul-14 (u, g)
               h = Sigmoid-13 (d)
               e = Mul-14 (d, h)
             }",
            &expect![[r#"
                graph(x: float[2,3], u: float[...], d: double[2]) -> (y, a, z, w, e) {
                  row = const float[3] [1, 2, 3]
                  alpha = const float[1] [1.702]
                  a = Sigmoid-13 (x)
                  y = Mul-14 (a, x)
                  b = Mul-14 (x, row)
                  c = Sigmoid-13 (b)
                  z = Mul-14 (x, c)
                  f = Mul-14 (u, alpha)
                  g = Sigmoid-13 (f)
                  w = Mul-14 (u, g)
                  h = Sigmoid-13 (d)
                  e = Mul-14 (d, h)
                }
                1 refused: a value within it is used elsewhere
                2 refused: its factor is not one number
                1 refused: it is not f32"#]],
        );
    }
}
