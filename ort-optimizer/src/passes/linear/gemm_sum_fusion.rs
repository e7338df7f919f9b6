//! GemmSumFusion: `Sum(Gemm(a, b), c) = Add(Gemm(a, b), c) = Gemm(a, b, c)`.
//!
//! Source: ONNX Runtime 1.31, GemmSumFusion, which supports only Sum.

use ort_graph::{Attr, Attrs};
use ort_tensor::DType;

use super::channels::expect_broadcast;
use super::matrices::expect_bias;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GemmSumFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let [a, b, c] = ["a", "b", "c"].map(var);
        let gemm = op("Gemm", [&a, &b]);
        let sums = [
            op("Sum", [&gemm, &c]),
            op("Sum", [&c, &gemm]),
            op("Add", [&gemm, &c]).in_order(),
            op("Add", [&c, &gemm]).in_order(),
        ];
        let fused = op("Gemm", [a, b, c]).following(with_whole_bias);
        Rules::start(sums.map(|sum| rule(sum, &fused).when(is_bias)))
    },
};

fn with_whole_bias(found: &Match<'_>) -> (i32, Attrs) {
    let gemm = found.node("Gemm");
    (gemm.since_version, gemm.attrs.clone().with("beta", Attr::Float(1.0)))
}

fn is_bias(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    if !found.fact("a").dtype().is_some_and(DType::is_float) {
        return Err(Refusal("it computes with integers"));
    }
    expect_bias(found.graph, found.node("Gemm"), found.fact("c"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_summand_becomes_the_bias() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,2], b: float[2,3], c: float[3], d: float[m,1], e: float[1,3])
               -> (v, w, x, y) {
               g1 = Gemm-11 [alpha: 0.5, beta: 2.0] (a, b)
               v = Sum-13 (g1, c)
               g2 = Gemm-13 (a, b)
               w = Add-14 (d, g2)
               g3 = Gemm-13 (a, b)
               x = Sum-8 (e, g3)
               g4 = Gemm-13 (a, b)
               g5 = Gemm-13 [transA: 1] (d, w)
               y = Add-14 (g4, g5)
             }",
            &expect![[r#"
                graph(a: float[m,2], b: float[2,3], c: float[3], d: float[m,1], e: float[1,3]) -> (v, w, x, y) {
                  v = Gemm-11 [alpha: 0.5, beta: 1.0] (a, b, c)
                  w = Gemm-13 [beta: 1.0] (a, b, d)
                  g5 = Gemm-13 [transA: 1] (d, w)
                  x = Gemm-13 [beta: 1.0] (a, b, e)
                  y = Gemm-13 [beta: 1.0] (a, b, g5)
                }"#]],
        );
    }

    #[test]
    fn other_summands_stay() {
        assert_optimized(
            super::PASS,
            "graph(a: float[2,2], b: float[2,1], c: float[3], d: float[1,1,1], s: float[2,1],
                   t: float[?,1], i: int32[2,2]) -> (v, w, x, y, z, j) {
               g1 = Gemm-11 (a, b)
               v = Sum-13 (g1, c)
               g2 = Gemm-13 (a, b)
               w = Add-14 (d, g2)
               g3 = Gemm-13 (a, b)
               x = Sum-8 (t, g3)
               g4 = Gemm-13 (a, b)
               y = Sum-13 (g4, s, c)
               z = Add-14 (g4, s)
               h = Gemm-13 (i, i)
               j = Add-14 (h, i)
             }",
            &expect![[r#"
                graph(a: float[2,2], b: float[2,1], c: float[3], d: float[1,1,1], s: float[2,1], t: float[?,1], i: int32[2,2]) -> (v, w, x, y, z, j) {
                  g1 = Gemm-11 (a, b)
                  v = Sum-13 (g1, c)
                  g2 = Gemm-13 (a, b)
                  w = Add-14 (d, g2)
                  g3 = Gemm-13 (a, b)
                  x = Sum-8 (t, g3)
                  g4 = Gemm-13 (a, b)
                  y = Sum-13 (g4, s, c)
                  z = Add-14 (g4, s)
                  h = Gemm-13 (i, i)
                  j = Add-14 (h, i)
                }
                3 refused: the summand may broadcast the product
                1 refused: a value within it is used elsewhere
                1 refused: it computes with integers"#]],
        );
    }
}
