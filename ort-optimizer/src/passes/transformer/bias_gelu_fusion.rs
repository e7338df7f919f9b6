//! BiasGeluFusion: `Gelu(x + bias) = BiasGelu(x, bias)` and `FastGelu(x + bias) = FastGelu(x, bias)`
//! with a bias for each element of the last dimension.
//!
//! Source: ONNX Runtime 1.31, BiasGeluFusion.

use ort_graph::{Attrs, Dim};

use super::is_f32;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, absent, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "BiasGeluFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let (x, bias) = (var("x"), var("bias"));
        let microsoft = |name, inputs: [&Pat; 2]| {
            op(name, inputs).of("com.microsoft").since(1, |_| Attrs::new())
        };
        let (exact, fast) =
            (microsoft("BiasGelu", [&x, &bias]), microsoft("FastGelu", [&x, &bias]));
        // Either operand of a sum may be the bias, and only the first match is tried.
        let rules = [&x + &bias, &bias + &x].into_iter().flat_map(move |sum| {
            [
                rule(op("Gelu", [&sum]).of("com.microsoft"), &exact).when(is_biased),
                rule(op("Gelu", [&sum]), &exact).when(is_exact_and_biased),
                rule(op("FastGelu", [sum, absent()]).of("com.microsoft"), &fast).when(is_biased),
            ]
        });
        Rules::start(rules)
    },
};

/// The bias has one dimension, the last of x.
fn is_biased(found: &Match<'_>) -> Result<(), Refusal> {
    is_f32(found)?;
    let (x, bias) = (found.fact("x").dims(), found.fact("bias").dims());
    match (x.and_then(<[Dim]>::last), bias) {
        (Some(channels), Some([n])) if channels.equals(n) => Ok(()),
        _ => Err(Refusal("it is not a bias for each element of the last dimension")),
    }
}

fn is_exact_and_biased(found: &Match<'_>) -> Result<(), Refusal> {
    super::is_exact_gelu(found)?;
    is_biased(found)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_bias_goes_into_the_gelu() {
        assert_optimized(
            super::PASS,
            r#"graph(x: float[n,3], b: float[3]) -> (y, z, w, t) {
               a = Add-14 (x, b)
               y = com.microsoft:Gelu-1 (a)
               c = Add-14 (b, y)
               z = Gelu-20 (c)
               d = Add-14 (b, z)
               w = com.microsoft:FastGelu-1 (d)
               e = Add-14 (b, w)
               t = Gelu-20 [approximate: "tanh"] (e)
             }"#,
            &expect![[r#"
                graph(x: float[n,3], b: float[3]) -> (y, z, w, t) {
                  y = com.microsoft:BiasGelu-1 (x, b)
                  z = com.microsoft:BiasGelu-1 (y, b)
                  w = com.microsoft:FastGelu-1 (z, b)
                  e = Add-14 (b, w)
                  t = Gelu-20 [approximate: "tanh"] (e)
                }
                1 refused: it is the approximate Gelu"#]],
        );
    }

    #[test]
    fn what_is_no_bias_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3], u: float[n,k], s: float[2,3], b: float[3], one: float[1]) -> (v, w, y, z, t, e) {
               a = Add-14 (x, s)
               v = com.microsoft:Gelu-1 (a)
               c = Add-14 (u, b)
               w = com.microsoft:Gelu-1 (c)
               d = Add-14 (x, one)
               y = com.microsoft:Gelu-1 (d)
               e = Add-14 (x, b)
               z = com.microsoft:Gelu-1 (e)
               f = Add-14 (x, b)
               t = com.microsoft:FastGelu-1 (f, b)
             }",
            &expect![[r#"
                graph(x: float[n,3], u: float[n,k], s: float[2,3], b: float[3], one: float[1]) -> (v, w, y, z, t, e) {
                  a = Add-14 (x, s)
                  v = com.microsoft:Gelu-1 (a)
                  c = Add-14 (u, b)
                  w = com.microsoft:Gelu-1 (c)
                  d = Add-14 (x, one)
                  y = com.microsoft:Gelu-1 (d)
                  e = Add-14 (x, b)
                  z = com.microsoft:Gelu-1 (e)
                  f = Add-14 (x, b)
                  t = com.microsoft:FastGelu-1 (f, b)
                }
                3 refused: it is not a bias for each element of the last dimension
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
