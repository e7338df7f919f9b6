//! MatMulScaleFusion: a constant factor before or after a product becomes its `alpha`.
//!
//! ```text
//! MatMul(a, b) · s = MatMul(a · s, b) = MatMul(a, b · s) = com.microsoft:FusedMatMul(a, b), alpha s
//! ```
//! and likewise for quotients. Source: ONNX Runtime 1.31, MatMulScaleFusion.

use ort_graph::{Attr, Attrs};
use ort_ops::ops::matmul::MatMul;
use ort_tensor::{DType, Number, Tensor, with_dtype};

use super::matrices::{expect_fused_matmul, fused_matmul_attrs};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, constant, op, var};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "MatMulScaleFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let products = [("", "MatMul"), ("com.microsoft", "FusedMatMul")];
        Rules::start(products.into_iter().flat_map(|(domain, name)| rules(domain, name)))
    },
};

fn rules(domain: &'static str, name: &'static str) -> [Rule; 6] {
    let [a, b] = ["a", "b"].map(var);
    let product = |a: &Pat, b: &Pat| op(name, [a, b]).of(domain).labelled("product");
    let scaled = |x: &Pat| [x * constant("s"), x / constant("s")];
    let fused = op("FusedMatMul", [&a, &b]).of("com.microsoft").since(1, with_scale);
    let [after_mul, after_div] = scaled(&product(&a, &b));
    let [left_mul, left_div] = scaled(&a).map(|a| product(&a, &b));
    let [right_mul, right_div] = scaled(&b).map(|b| product(&a, &b));
    [after_mul, after_div, left_mul, left_div, right_mul, right_div]
        .map(|find| rule(find, &fused).when(is_scalar))
}

fn with_scale(found: &Match<'_>) -> Attrs {
    let attrs = found.node("product").operator().map(fused_matmul_attrs).unwrap_or_default();
    attrs.with("alpha", Attr::Float(alpha(found).unwrap_or(1.0)))
}

/// The factor of the fused product, if its attribute can represent it.
fn alpha(found: &Match<'_>) -> Option<f32> {
    let own = f64::from(found.node("product").operator::<MatMul>()?.alpha);
    let s = found.constant("s")?;
    let factor = with_dtype!(s.dtype(), float, T => match s.as_slice::<T>() {
        Ok([s]) => s.to_f64(),
        _ => return None,
    }, else => return None);
    let exact = if found.get_node("Div").is_some() { own / factor } else { own * factor };
    #[expect(clippy::cast_possible_truncation, reason = "the graph rounds on purpose")]
    let alpha = exact as f32;
    let is_held = s.dtype() != DType::F64 || f64::from(alpha) == exact;
    (alpha.is_finite() && is_held).then_some(alpha)
}

fn is_scalar(found: &Match<'_>) -> Result<(), Refusal> {
    expect_fused_matmul(found.graph, found.value("a"))?;
    let rank = found.constant("s").map(Tensor::shape).map_or(0, <[usize]>::len);
    // The factor must not add dimensions to the operand or product it is multiplied with.
    let product = found.node("product").outputs.first().copied().flatten();
    let product = product.and_then(|product| found.graph.fact(product).rank());
    let ranks = [found.fact("a").rank(), found.fact("b").rank(), product];
    if rank > 0 && ranks.iter().any(|met| met.is_none_or(|met| met < rank)) {
        return Err(Refusal("its rank may change"));
    }
    alpha(found)
        .map(drop)
        .ok_or(Refusal("the factor is not a number that an attribute can represent"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn factors_become_alpha() {
        assert_optimized(
            super::PASS,
            "graph(a: float[2,m,3], b: float[2,3,m], d: double[3,3]) -> (x, y, z) {
               half = const float[] 0.5
               eight = const float[1] [8]
               p = MatMul-13 (a, b)
               q = Div-14 (p, eight)
               x = Mul-14 (half, q)
               s = Mul-14 (a, half)
               t = Div-14 (b, eight)
               y = com.microsoft:FusedMatMul-1 [alpha: 3.0, transA: 1, transB: 1] (s, t)
               two = const double[] 2
               u = Mul-14 (d, two)
               z = MatMul-9 (d, u)
             }",
            &expect![[r#"
                graph(a: float[2,m,3], b: float[2,3,m], d: double[3,3]) -> (x, y, z) {
                  x = com.microsoft:FusedMatMul-1 [alpha: 0.0625, transA: 0, transB: 0, transBatchA: 0, transBatchB: 0] (a, b)
                  z = com.microsoft:FusedMatMul-1 [alpha: 2.0, transA: 0, transB: 0, transBatchA: 0, transBatchB: 0] (d, d)
                  y = com.microsoft:FusedMatMul-1 [alpha: 0.1875, transA: 1, transB: 1, transBatchA: 0, transBatchB: 0] (a, b)
                }"#]],
        );
    }

    #[test]
    fn other_factors_stay() {
        assert_optimized(
            super::PASS,
            "graph(a: float[2,3], d: double[3,3], i: int32[2,2], f: float[]) -> (x, y, z, u, v, w) {
               deep = const float[1,1,1] [0.5]
               two = const float[3] [1, 2, 3]
               third = const double[] 0.3333333333333333
               int = const int32[] 2
               zero = const float[] 0
               d2 = Cast-13 [to: 1] (d)
               p1 = MatMul-13 (a, d2)
               x = Mul-14 (deep, p1)
               p2 = MatMul-13 (a, d2)
               y = Mul-14 (two, p2)
               p3 = MatMul-13 (d, d)
               z = Mul-14 (p3, third)
               p4 = MatMul-13 (i, i)
               u = Mul-14 (p4, int)
               p5 = MatMul-13 (a, d2)
               v = Mul-14 (p5, f)
               p6 = MatMul-13 (a, d2)
               w = Div-14 (p6, zero)
             }",
            &expect![[r#"
                graph(a: float[2,3], d: double[3,3], i: int32[2,2], f: float[]) -> (x, y, z, u, v, w) {
                  deep = const float[1,1,1] [0.5]
                  two = const float[3] [1, 2, 3]
                  third = const double[] 0.3333333333333333
                  int = const int32[] 2
                  zero = const float[] 0
                  d2 = Cast-13 [to: 1] (d)
                  p1 = MatMul-13 (a, d2)
                  x = Mul-14 (deep, p1)
                  p2 = MatMul-13 (a, d2)
                  y = Mul-14 (two, p2)
                  p3 = MatMul-13 (d, d)
                  z = Mul-14 (p3, third)
                  p4 = MatMul-13 (i, i)
                  u = Mul-14 (p4, int)
                  p5 = MatMul-13 (a, d2)
                  v = Mul-14 (p5, f)
                  p6 = MatMul-13 (a, d2)
                  w = Div-14 (p6, zero)
                }
                1 refused: its rank may change
                3 refused: the factor is not a number that an attribute can represent
                1 refused: it computes with other types"#]],
        );
    }
}
