//! MatmulTransposeFusion: `MatMul(Transpose(a), b) = com.microsoft:FusedMatMul(a, b)`, likewise
//! for `b`, for the permutations that FusedMatMul supports.
//!
//! Source: ONNX Runtime 1.31, MatmulTransposeFusion, which also looks through a Cast.

use ort_graph::{Attr, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::matmul::{Arrangement, MatMul};

use super::matrices::{expect_fused_matmul, fused_matmul_attrs};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "MatmulTransposeFusion",
    level: Level::Extended,
    exactness: Exactness::Bitwise,
    start: || Box::new(MatmulTransposeFusion),
};

struct MatmulTransposeFusion;

impl Rewrite for MatmulTransposeFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["MatMul", "FusedMatMul", "TransposeMatMul"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some(&op) = node.operator::<MatMul>() else { return Ok(None) };
        let [Some(a), Some(b)] = node.inputs[..] else { return Ok(None) };
        let (of_a, of_b) = (transpose(graph, a), transpose(graph, b));
        if of_a.is_none() && of_b.is_none() {
            return Ok(None);
        }
        expect_fused_matmul(graph, a)?;
        let ranks = [graph.fact(a).rank(), graph.fact(b).rank()];
        let mut fused = op;
        let mut inputs = [a, b];
        if let Some((x, arrangement)) = of_a.and_then(|found| arranged(found, op.a, ranks)) {
            (inputs[0], fused.a) = (x, arrangement);
        }
        let [a_rank, b_rank] = ranks;
        let swapped = [b_rank, a_rank];
        if let Some((x, arrangement)) = of_b.and_then(|found| arranged(found, op.b, swapped)) {
            (inputs[1], fused.b) = (x, arrangement);
        }
        if inputs == [a, b] {
            return Err(Refusal("its axes are permuted in another way"));
        }
        let mut patch = Patch::new(graph);
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: "FusedMatMul".to_owned(),
            since_version: 1,
            inputs: inputs.map(Some).to_vec(),
            attrs: fused_matmul_attrs(&fused),
            ..NewNode::default()
        })?;
        if let Some(&Some(old)) = node.outputs.first() {
            patch.replace(old, new);
        }
        Ok(Some(patch))
    }
}

/// The Transpose that computes a value, and what it transposes.
fn transpose(graph: &Graph, value: ValueId) -> Option<(&Node, ValueId)> {
    let node = graph.node(graph.producer(value)?.0);
    let is_transpose = node.op_type == "Transpose" && node.domain.is_empty();
    Some((node, node.inputs.first().copied().flatten().filter(|_| is_transpose)?))
}

/// The operand `x` with flags for its permutation, if FusedMatMul has them with an operand of rank `other`.
fn arranged(
    (transpose, x): (&Node, ValueId),
    arrangement: Arrangement,
    [rank, other]: [Option<usize>; 2],
) -> Option<(ValueId, Arrangement)> {
    let (rank, other) = (rank?, other?);
    let perm: Vec<usize> = match transpose.attrs.get("perm") {
        Some(Attr::Ints(perm)) => {
            perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?
        }
        _ => (0..rank).rev().collect(),
    };
    let wanted: Vec<usize> = arrangement.perm(rank).iter().map(|&axis| perm[axis]).collect();
    // Batches are moved only where both operands have as many axes.
    let moves_batch = if rank == other && rank > 2 { [false, true].as_slice() } else { &[false] };
    let mut all = moves_batch.iter().flat_map(|&is_batch_transposed| {
        [false, true].map(|is_transposed| Arrangement { is_transposed, is_batch_transposed })
    });
    let to = all.find(|to| to.perm(rank).as_slice() == wanted)?;
    (rank.min(other) >= 2).then_some((x, to))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn transposes_become_flags() {
        assert_optimized(
            super::PASS,
            "graph(a: float[b,h,m,k], c: float[b,h,n,k], d: float[k,b,h,n], e: float[n,k])
               -> (w, x, y, z) {
               t = Transpose-13 [perm: [0, 1, 3, 2]] (c)
               w = MatMul-13 (a, t)
               s = Transpose-13 [perm: [1, 2, 0, 3]] (d)
               x = com.microsoft:FusedMatMul-1 [alpha: 0.5] (a, s)
               u = Transpose-13 (e)
               y = MatMul-9 (a, u)
               r = Transpose-13 [perm: [1, 2, 0, 3]] (d)
               q = Transpose-13 [perm: [1, 2, 3, 0]] (d)
               z = com.microsoft:FusedMatMul-1 [transB: 1, transA: 1] (r, q)
             }",
            &expect![[r#"
                graph(a: float[b,h,m,k], c: float[b,h,n,k], d: float[k,b,h,n], e: float[n,k]) -> (w, x, y, z) {
                  w = com.microsoft:FusedMatMul-1 [alpha: 1.0, transA: 0, transB: 1, transBatchA: 0, transBatchB: 0] (a, c)
                  x = com.microsoft:FusedMatMul-1 [alpha: 0.5, transA: 0, transB: 0, transBatchA: 0, transBatchB: 1] (a, d)
                  y = com.microsoft:FusedMatMul-1 [alpha: 1.0, transA: 0, transB: 1, transBatchA: 0, transBatchB: 0] (a, e)
                  z = com.microsoft:FusedMatMul-1 [alpha: 1.0, transA: 1, transB: 0, transBatchA: 1, transBatchB: 1] (d, d)
                }"#]],
        );
    }

    #[test]
    fn other_permutations_and_types_stay() {
        assert_optimized(
            super::PASS,
            "graph(a: float[2,2,3], c: float[3,4,2], i: int32[2,2], d: float[2,3,2], v: float[2],
                   f: float[2,4])
               -> (x, y, z, u) {
               t = Transpose-13 [perm: [2, 0, 1]] (c)
               x = MatMul-13 (a, t)
               s = Transpose-13 (i)
               y = MatMul-13 (i, s)
               r = Transpose-13 [perm: [1, 0, 2]] (d)
               q = Transpose-13 (f)
               z = MatMul-13 (q, r)
               p = Transpose-13 (f)
               u = MatMul-13 (p, v)
             }",
            &expect![[r#"
                graph(a: float[2,2,3], c: float[3,4,2], i: int32[2,2], d: float[2,3,2], v: float[2], f: float[2,4]) -> (x, y, z, u) {
                  t = Transpose-13 [perm: [2, 0, 1]] (c)
                  x = MatMul-13 (a, t)
                  s = Transpose-13 (i)
                  y = MatMul-13 (i, s)
                  r = Transpose-13 [perm: [1, 0, 2]] (d)
                  p = Transpose-13 (f)
                  u = MatMul-13 (p, v)
                  z = com.microsoft:FusedMatMul-1 [alpha: 1.0, transA: 1, transB: 0, transBatchA: 0, transBatchB: 0] (f, r)
                }
                3 refused: its axes are permuted in another way
                1 refused: it computes with other types"#]],
        );
    }
}
