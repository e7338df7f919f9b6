//! GeluApproximation: `Gelu(x) ≈ FastGelu(x)` and `BiasGelu(x, bias) ≈ FastGelu(x, bias)`, which differ by less than
//! 5e-4. Only on request.
//!
//! Source: ONNX Runtime 1.31, GeluApproximation.

use ort_graph::Attrs;

use super::{is_exact_gelu, is_f32};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{Pat, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GeluApproximation",
    level: Level::Extended,
    exactness: Exactness::Approximate,
    start: || {
        let (x, bias) = (var("x"), var("bias"));
        let microsoft = |gelu: Pat| gelu.of("com.microsoft").since(1, |_| Attrs::new());
        let fast = microsoft(op("FastGelu", [&x]));
        let biased = microsoft(op("BiasGelu", [&x, &bias]));
        Rules::start([
            rule(op("Gelu", [&x]).of("com.microsoft"), &fast).when(is_f32),
            rule(op("Gelu", [&x]), &fast).when(is_exact_gelu),
            rule(biased, microsoft(op("FastGelu", [&x, &bias]))).when(is_f32),
        ])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn exact_forms_become_the_one_by_tanh() {
        assert_optimized(
            super::PASS,
            r#"graph(x: float[n,3], b: float[3], d: double[2]) -> (y, z, w, e) {
               y = com.microsoft:Gelu-1 (x)
               z = Gelu-20 (y)
               v = com.microsoft:BiasGelu-1 (z, b)
               w = Gelu-20 [approximate: "tanh"] (v)
               e = Gelu-20 (d)
             }"#,
            &expect![[r#"
                graph(x: float[n,3], b: float[3], d: double[2]) -> (y, z, w, e) {
                  e = Gelu-20 (d)
                  y = com.microsoft:FastGelu-1 (x)
                  z = com.microsoft:FastGelu-1 (y)
                  v = com.microsoft:FastGelu-1 (z, b)
                  w = Gelu-20 [approximate: "tanh"] (v)
                }
                1 refused: it is the approximate Gelu
                1 refused: it is not f32"#]],
        );
    }
}
