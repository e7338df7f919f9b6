//! HalfGeluFusion: the Gelu of a network of 16-bit floats, before InsertCastTransformer makes it compute in float: then
//! its constants are no longer the nearest numbers of their type.
//!
//! ```text
//! ½·x·(1 + erf(x/√2)) = Gelu(x)        ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = FastGelu(x)
//! ```
//! Source: ONNX Runtime 1.32, GeluFusion and FastGeluFusion, which run for 16 bits where a provider has such kernels.

use ort_graph::{Attrs, Fact};
use ort_tensor::DType;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::passes::transformer::gelu;
use crate::pattern::{op, var};
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "HalfGeluFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let of = |name| op(name, [&x]).of("com.microsoft").since(1, |_| Attrs::new());
        let rules = [gelu::exact(&x, &of("Gelu")), gelu::by_tanh(&x, &of("FastGelu"))];
        Rules::start(rules.into_iter().flatten().map(|rule| rule.when(is_half)))
    },
};

fn is_half(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root_fact().and_then(Fact::dtype) {
        Some(DType::F16 | DType::Bf16) => Ok(()),
        _ => Err(Refusal("it is not of 16 bits")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn constants_are_the_nearest_numbers_of_16_bits() {
        assert_optimized(
            super::PASS,
            "graph(x: float16[2,3], z: bfloat16[2,3]) -> (u, v, w) {
               root = const float16[] 1.4140625
               one = const float16[] 1
               half = const float16[] 0.5
               cubic = const float16[] 0.044708252
               factor = const float16[] 0.79785156
               three = const float16[] 3
               reciprocal = const bfloat16[] 0.70703125
               unit = const bfloat16[] 1
               two = const bfloat16[] 2
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
               c1 = Mul-14 (z, reciprocal)
               c2 = Erf-13 (c1)
               c3 = Add-14 (c2, unit)
               c4 = Mul-14 (z, c3)
               w = Div-14 (c4, two)
             }",
            &expect![[r#"
                graph(x: float16[2,3], z: bfloat16[2,3]) -> (u, v, w) {
                  u = com.microsoft:Gelu-1 (x)
                  v = com.microsoft:FastGelu-1 (x)
                  w = com.microsoft:Gelu-1 (z)
                }"#]],
        );
    }
}
