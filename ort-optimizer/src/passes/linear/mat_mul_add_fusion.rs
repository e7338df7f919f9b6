//! MatMulAddFusion: `a·b + c = Gemm(a, b, c)`, of matrices.
//!
//! Source: ONNX Runtime 1.31, MatMulAddFusion. Where `a` is a batch of matrices it makes a Gemm
//! between two Reshapes; that is one node more, so such products are kept here, where attention finds its three
//! projections. A product of quantized operands with a bias that is not quantized is kept as well.

use ort_graph::{Graph, ValueId};
use ort_tensor::DType;

use super::channels::expect_broadcast;
use super::matrices::{expect_bias, gemm_of_matmul};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "MatMulAddFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let [a, b, c] = ["a", "b", "c"].map(var);
        let product = op("MatMul", [&a, &b]);
        let sums = [(&product + &c).in_order(), (&c + &product).in_order()];
        let gemm = op("Gemm", [a, b, c]).following(gemm_of_matmul);
        Rules::start(sums.map(|sum| rule(sum, &gemm).when(is_gemm)))
    },
};

fn is_gemm(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    if !found.fact("a").dtype().is_some_and(DType::is_float) {
        return Err(Refusal("it computes with integers"));
    }
    if [found.fact("a").rank(), found.fact("b").rank()] != [Some(2); 2] {
        return Err(Refusal("an operand is not a matrix"));
    }
    let is_quantized = |name: &str| is_dequantized(found.graph, found.value(name));
    if is_quantized("a") && is_quantized("b") && !is_quantized("c") {
        return Err(Refusal("its operands are quantized, but not the summand"));
    }
    expect_bias(found.graph, found.node("MatMul"), found.fact("c"))
}

fn is_dequantized(graph: &Graph, value: ValueId) -> bool {
    let producer = graph.producer(value).map(|(node, _)| graph.node(node));
    producer.is_some_and(|node| node.op_type == "DequantizeLinear")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_product_and_a_bias_become_a_gemm() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,2], b: float[2,3], c: float[3], d: double[m,2], e: double[2,n])
               -> (x, y, z, w) {
               p = MatMul-13 (a, b)
               x = Add-14 (c, p)
               q = MatMul-9 (a, b)
               y = Add-7 (q, x)
               one = const double[1,1] [0.5]
               r = MatMul-1 (d, e)
               z = Add-7 (r, one)
               s = MatMul-13 (d, e)
               t = MatMul-13 (d, e)
               v = Relu-14 (t)
               u = Add-14 (t, s)
               w = Add-14 (u, v)
             }",
            &expect![[r#"
                graph(a: float[m,2], b: float[2,3], c: float[3], d: double[m,2], e: double[2,n]) -> (x, y, z, w) {
                  one = const double[1,1] [0.5]
                  t = MatMul-13 (d, e)
                  v = Relu-14 (t)
                  x = Gemm-13 (a, b, c)
                  y = Gemm-9 (a, b, x)
                  z = Gemm-7 (d, e, one)
                  u = Gemm-13 (d, e, t)
                  w = Add-14 (u, v)
                }"#]],
        );
    }

    #[test]
    fn what_is_no_gemm_stays() {
        assert_optimized(
            super::PASS,
            "graph(a: float[5,m,2], b: float[2,3], c: float[3], i: int32[2,2], v: float[2],
                   u: float[m,2], w: float[...]) -> (x, y, z, s, t, q) {
               p1 = MatMul-13 (a, b)
               x = Add-14 (p1, c)
               p2 = MatMul-13 (i, i)
               y = Add-14 (p2, i)
               p3 = MatMul-13 (v, b)
               z = Add-14 (p3, c)
               p4 = MatMul-13 (u, b)
               s = Add-14 (p4, p1)
               t = Add-14 (p4, w)
               codes = const uint8[2,2] [1, 2, 3, 4]
               scale = const float[] 0.5
               k = DequantizeLinear-13 (codes, scale)
               l = DequantizeLinear-13 (codes, scale)
               p5 = MatMul-13 (k, l)
               q = Add-14 (p5, v)
             }",
            &expect![[r#"
                graph(a: float[5,m,2], b: float[2,3], c: float[3], i: int32[2,2], v: float[2], u: float[m,2], w: float[...]) -> (x, y, z, s, t, q) {
                  codes = const uint8[2,2] [1, 2, 3, 4]
                  scale = const float[] 0.5
                  p1 = MatMul-13 (a, b)
                  x = Add-14 (p1, c)
                  p2 = MatMul-13 (i, i)
                  y = Add-14 (p2, i)
                  p3 = MatMul-13 (v, b)
                  z = Add-14 (p3, c)
                  p4 = MatMul-13 (u, b)
                  s = Add-14 (p4, p1)
                  t = Add-14 (p4, w)
                  k = DequantizeLinear-13 (codes, scale)
                  l = DequantizeLinear-13 (codes, scale)
                  p5 = MatMul-13 (k, l)
                  q = Add-14 (p5, v)
                }
                3 refused: a value within it is used elsewhere
                1 refused: it computes with integers
                1 refused: an operand is not a matrix
                1 refused: its operands are quantized, but not the summand"#]],
        );
    }
}
