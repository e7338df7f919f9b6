//! HalfGeluFusion: the Gelu of a network of 16-bit floats that computes in float (see `InsertCastTransformer`): its
//! constants have been rounded to 16 bits.
//!
//! ```text
//! ½·x·(1 + erf(x/√2)) = Gelu(x)        ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = FastGelu(x)
//! ```
//! with √2, √(2/π) and 0.044715 off by up to 2⁻¹² of them. Results differ by at most 10⁻⁴ near 1, which is less than a
//! rounding to 16 bits.

use ort_graph::Attrs;
use ort_tensor::f16;

use super::{gelu, is_f32};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "HalfGeluFusion",
    level: Level::Extended,
    exactness: Exactness::Approximate,
    start: || {
        let x = var("x");
        let of = |op_type| op(op_type, [&x]).of("com.microsoft").since(1, |_| Attrs::new());
        let rules = [
            gelu::exact(&x, &of("Gelu"), rounded),
            gelu::by_tanh(&x, &of("FastGelu"), rounded),
        ];
        Rules::start(rules.into_iter().flatten().map(|rule| rule.when(is_f32)))
    },
};

/// The nearest number of 16 bits.
fn rounded(number: f64) -> f64 {
    f16::from_f64(number).to_f64()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn constants_have_been_rounded() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3]) -> (u, v) {
               root = const float[] 1.4140625
               one = const float[] 1
               half = const float[] 0.5
               cubic = const float[] 0.044708252
               factor = const float[] 0.79785156
               three = const float[] 3
               a1 = Div-14 (x, root)
               a2 = Erf-13 (a1)
               a3 = Add-14 (a2, one)
               a4 = Mul-14 (x, a3)
               u = Mul-14 (a4, half)
               b1 = Pow-15 (x, three)
               b2 = Mul-14 (b1, cubic)
               b3 = Add-14 (x, b2)
               b4 = Mul-14 (b3, factor)
               b5 = Tanh-13 (b4)
               b6 = Add-14 (b5, one)
               b7 = Mul-14 (x, half)
               v = Mul-14 (b7, b6)
             }",
            &expect![[r#"
                graph(x: float[2,3]) -> (u, v) {
                  u = com.microsoft:Gelu-1 (x)
                  v = com.microsoft:FastGelu-1 (x)
                }"#]],
        );
    }
}
