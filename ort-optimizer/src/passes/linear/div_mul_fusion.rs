//! DivMulFusion: `(1/a)·b = b/a`, of floats.
//!
//! Source: ONNX Runtime 1.31, DivMulFusion, which also rewrites integers, where it is wrong.

use ort_tensor::DType;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::var;
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "DivMulFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let (a, b) = (var("a"), var("b"));
        Rules::start([rule((1.0 / &a) * &b, &b / &a).when(is_float)])
    },
};

fn is_float(found: &Match<'_>) -> Result<(), Refusal> {
    let is_float = found.fact("a").dtype().is_some_and(DType::is_float);
    if is_float { Ok(()) } else { Err(Refusal("1/a is truncated")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_reciprocal_becomes_the_divisor() {
        assert_optimized(
            super::PASS,
            "graph(a: float[n], b: float[n], i: int64[2], u: float[...]) -> (x, y, z, j, v) {
               one = const float[1] [1]
               deep = const float[1,1] [1]
               unit = const int64[] 1
               five = const float[] 5
               s = Add-14 (five, a)
               r = Div-14 (one, s)
               x = Mul-14 (b, r)
               q = Div-14 (deep, s)
               y = Mul-14 (q, b)
               t = Div-14 (one, s)
               z = Mul-14 (t, t)
               k = Add-14 (i, unit)
               l = Div-14 (unit, k)
               j = Mul-14 (l, i)
               h = Div-14 (one, five)
               v = Mul-14 (h, u)
             }",
            &expect![[r#"
                graph(a: float[n], b: float[n], i: int64[2], u: float[...]) -> (x, y, z, j, v) {
                  one = const float[1] [1]
                  deep = const float[1,1] [1]
                  unit = const int64[] 1
                  five = const float[] 5
                  s = Add-14 (five, a)
                  q = Div-14 (deep, s)
                  y = Mul-14 (q, b)
                  t = Div-14 (one, s)
                  k = Add-14 (i, unit)
                  l = Div-14 (unit, k)
                  j = Mul-14 (l, i)
                  h = Div-14 (one, five)
                  v = Mul-14 (h, u)
                  x = Div-14 (b, s)
                  z = Div-14 (t, s)
                }
                1 refused: the replacement has another type
                1 refused: 1/a is truncated
                1 refused: its rank may change"#]],
        );
    }
}
