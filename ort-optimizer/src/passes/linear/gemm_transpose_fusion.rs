//! GemmTransposeFusion: a Gemm reads its operands without Transposes.
//!
//! ```text
//! Gemm(aᵀ, b, c) = Gemm(a, b, c), transA flipped      Gemm(a, bᵀ, c): likewise
//! Gemm(a, b)ᵀ = Gemm(b, a), transA = ¬transB, transB = ¬transA
//! ```
//! Source: ONNX Runtime 1.31, GemmTransposeFusion.

use ort_graph::{Attr, Attrs, Node};

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{absent, op, var};
use crate::rule::{Rules, rule};
use ort_ops::ops::gemm::Gemm;

pub(crate) const PASS: Pass = Pass {
    name: "GemmTransposeFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let [a, b] = ["a", "b"].map(var);
        let before = [absent(), var("c")].into_iter().flat_map(|c| {
            let gemm = |a, b| op("Gemm", [a, b, c.clone()]);
            let transposed = |x: &_| op("Transpose", [x]);
            let plain = gemm(a.clone(), b.clone());
            [
                rule(gemm(transposed(&a), b.clone()), plain.clone().following(flip_a)),
                rule(gemm(a.clone(), transposed(&b)), plain.following(flip_b)),
            ]
        });
        let before = before.map(|rule| rule.when(swaps).sharing());
        let after = op("Transpose", [op("Gemm", [&a, &b])]);
        let after = rule(after, op("Gemm", [&b, &a]).following(swap)).when(swaps);
        Rules::start(before.chain([after]))
    },
};

fn flip_a(found: &Match<'_>) -> (i32, Attrs) {
    let (gemm, [a, b]) = flags(found);
    with_flags(gemm, [!a, b])
}

fn flip_b(found: &Match<'_>) -> (i32, Attrs) {
    let (gemm, [a, b]) = flags(found);
    with_flags(gemm, [a, !b])
}

fn swap(found: &Match<'_>) -> (i32, Attrs) {
    let (gemm, [a, b]) = flags(found);
    with_flags(gemm, [!b, !a])
}

fn flags<'a>(found: &Match<'a>) -> (&'a Node, [bool; 2]) {
    let gemm = found.node("Gemm");
    let flags = gemm.operator::<Gemm>().map(|gemm| [gemm.is_a_transposed, gemm.is_b_transposed]);
    (gemm, flags.unwrap_or_default())
}

fn with_flags(gemm: &Node, [a, b]: [bool; 2]) -> (i32, Attrs) {
    let attrs = gemm.attrs.clone();
    let attrs = attrs.with("transA", Attr::Int(i64::from(a))).with("transB", Attr::Int(b.into()));
    (gemm.since_version, attrs)
}

/// The operand is a matrix: without a permutation, its axes are swapped.
fn swaps(found: &Match<'_>) -> Result<(), Refusal> {
    match found.node("Transpose").attrs.get("perm") {
        Some(Attr::Ints(perm)) if *perm != [1, 0] => Err(Refusal("its axes are not swapped")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn transposes_become_flags() {
        assert_optimized(
            super::PASS,
            "graph(a: float[2,m], b: float[3,2], c: float[3]) -> (x, y, z, u) {
               t = Transpose-13 [perm: [1, 0]] (a)
               s = Transpose-13 (b)
               x = Gemm-13 [alpha: 0.5] (t, s, c)
               y = Gemm-11 [transB: 1] (t, b)
               g = Gemm-13 [transA: 1] (a, s)
               z = Transpose-13 (g)
               same = Transpose-13 [perm: [0, 1]] (b)
               h = Gemm-13 [transA: 1, transB: 1] (a, same)
               v = Transpose-13 (h)
               u = Concat-13 [axis: 1] (h, t)
             }",
            &expect![[r#"
                graph(a: float[2,m], b: float[3,2], c: float[3]) -> (x, y, z, u) {
                  t = Transpose-13 [perm: [1, 0]] (a)
                  same = Transpose-13 [perm: [0, 1]] (b)
                  h = Gemm-13 [transA: 1, transB: 1] (a, same)
                  v = Transpose-13 (h)
                  u = Concat-13 [axis: 1] (h, t)
                  y = Gemm-11 [transA: 1, transB: 1] (a, b)
                  z = Gemm-13 [transA: 0, transB: 0] (b, a)
                  x = Gemm-13 [alpha: 0.5, transA: 1, transB: 1] (a, b, c)
                }
                1 refused: its axes are not swapped
                1 refused: a value within it is used elsewhere"#]],
        );
    }

    #[test]
    fn the_transpose_of_a_sum_or_of_a_returned_product_stays() {
        assert_optimized(
            super::PASS,
            "graph(a: float[4,2], b: float[2,3], c: float[3]) -> (g, x, y) {
               g = Gemm-13 (a, b)
               x = Transpose-13 (g)
               h = Gemm-13 (a, b, c)
               y = Transpose-13 (h)
             }",
            &expect![[r#"
                graph(a: float[4,2], b: float[2,3], c: float[3]) -> (g, x, y) {
                  g = Gemm-13 (a, b)
                  x = Transpose-13 (g)
                  h = Gemm-13 (a, b, c)
                  y = Transpose-13 (h)
                }
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
