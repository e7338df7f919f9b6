//! ConstantFolding: what is the same in every run is computed once, before all runs.
//!
//! ```text
//! outputs whose contents inference knows (Shape of a known shape, …)  → constants
//! If with a constant condition                                       → the branch's nodes
//! deterministic nodes with constant inputs only                      → constants, by ConstEval
//! ```
//! DequantizeLinear is kept for the fusions; QDQConstantFolding runs after them.

use ort_graph::{Control, Fact, Node, Patch, ValueId};
use ort_tensor::{DType, Tensor, n_elements};

use super::inline_if;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ConstantFolding",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ConstantFolding),
};

/// A result of up to this many bytes is kept even if the inputs take less.
const SMALL_BYTES: usize = 4 << 20;

/// The node would fail in a run, too, if it ran.
const NOT_COMPUTED: Refusal = Refusal("it cannot be computed");

struct ConstantFolding;

impl Rewrite for ConstantFolding {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        if node.op_type == "DequantizeLinear" {
            return Err(Refusal("fusions need it to detect quantized values"));
        }
        if let Some(patch) = inferred(site, node)? {
            return Ok(Some(patch));
        }
        match node.op.behaviour().control {
            Some(Control::If) => inline_if::inline(site, node),
            Some(_) => Ok(None),
            None => folded(site, node),
        }
    }
}

/// Constants for outputs that inference knows, if it knows all that are used.
fn inferred(site: &Site<'_>, node: &Node) -> Result<Option<Patch>, Refusal> {
    let mut patch = Patch::new(site.graph);
    let mut is_any = false;
    for output in node.outputs.iter().flatten().copied() {
        if let Some(tensor) = &site.graph.fact(output).constant {
            let new = patch.constant("", tensor.clone())?;
            patch.replace(output, new);
            is_any = true;
        } else if site.graph.is_used(output) {
            return Ok(None);
        }
    }
    Ok(is_any.then_some(patch))
}

/// Constants for all outputs, if all inputs are constant.
pub(in crate::passes) fn folded(site: &Site<'_>, node: &Node) -> Result<Option<Patch>, Refusal> {
    let constant = |input: &Option<ValueId>| match input {
        None => Some(None),
        Some(value) => site.graph.constant(*value).cloned().map(Some),
    };
    let inputs: Option<Vec<Option<Tensor>>> = node.inputs.iter().map(constant).collect();
    let Some(inputs) = inputs else { return Ok(None) };
    if !node.op.behaviour().is_deterministic {
        return Err(Refusal("it is not deterministic"));
    }
    let n_bytes = admitted(site, node, &inputs)?;
    let outputs = site.eval.eval(site.graph, node, &inputs).map_err(|_| NOT_COMPUTED)?;
    let wanted: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
    if wanted.len() != outputs.len() {
        return Err(NOT_COMPUTED);
    }
    site.folded_bytes.set(site.folded_bytes.get() - n_bytes);
    let mut patch = Patch::new(site.graph);
    for (old, tensor) in wanted.into_iter().zip(outputs) {
        let new = patch.constant("", tensor)?;
        patch.replace(old, new);
    }
    Ok(Some(patch))
}

/// The bytes of the results, if they are within the limits.
fn admitted(site: &Site<'_>, node: &Node, inputs: &[Option<Tensor>]) -> Result<usize, Refusal> {
    let unknown = Refusal("the size of its result is not known in advance");
    let facts = site.graph.infer(site.id).map_err(|_| NOT_COMPUTED)?;
    let sizes = node.outputs.iter().zip(&facts).filter(|(output, _)| output.is_some());
    let n_bytes = sizes
        .map(|(_, fact)| fact_bytes(fact))
        .try_fold(0_usize, |sum, bytes| sum.checked_add(bytes?))
        .ok_or(unknown)?;
    let input_bytes: usize = inputs.iter().flatten().map(Tensor::n_bytes).sum();
    // A dequantized constant permanently takes four bytes per quantized value of 8 to 2 bits; f16 casts to float
    // double the size.
    let most = match &*node.op_type {
        "DequantizeLinear" => usize::MAX,
        "Cast" => input_bytes.saturating_mul(2),
        _ => input_bytes,
    };
    if n_bytes > most.max(SMALL_BYTES) {
        return Err(Refusal("its result is much larger than its inputs"));
    }
    if n_bytes > site.folded_bytes.get() {
        return Err(Refusal("folded constants would take too many bytes"));
    }
    Ok(n_bytes)
}

fn fact_bytes(fact: &Fact) -> Option<usize> {
    let n = n_elements(&fact.shape()?)?;
    match fact.dtype()? {
        DType::String => n.checked_mul(size_of::<String>()),
        dtype => dtype.n_bytes(n),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_rewritten};

    #[test]
    fn what_is_the_same_in_every_run_becomes_constant() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3], w = float[1] [1]) -> (y, z) {
               two = const float[1] [2]
               a = Mul-14 (two, two)
               b = Mul-14 (a, w)
               half = Constant-13 [value_float: 0.5] ()
               c = Add-14 (half, a)
               d = Mul-14 (c, b)
               y = Mul-14 (x, d)
               z = Sqrt-13 (a)
             }",
            &expect![[r#"
                graph(x: float[n,3], w = float[1] [1]) -> (y, z) {
                  a = const float[1] [4]
                  c = const float[1] [4.5]
                  z = const float[1] [2]
                  b = Mul-14 (a, w)
                  d = Mul-14 (c, b)
                  y = Mul-14 (x, d)
                }"#]],
        );
    }

    #[test]
    fn known_shapes_become_constant_and_more_shapes_known() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[2,3,4], s: float[n,3], u: float[...]) -> (y, n, z) {
               first = const int64[] 0
               last = const int64[] 2
               minus = const int64[1] [-1]
               axes = const int64[1] [0]
               all = Shape-15 (x)
               a = Gather-13 (all, last)
               b = Unsqueeze-13 (a, axes)
               c = Concat-13 [axis: 0] (minus, b)
               r = Reshape-14 (u, c)
               t = Shape-15 [start: 1] (r)
               y = Expand-13 (x, t)
               n = Gather-13 (all, first)
               symbolic = Shape-15 (s)
               z = Gather-13 (symbolic, first)
             }",
            &expect![[r#"
                graph(x: float[2,3,4], s: float[n,3], u: float[...]) -> (y, n, z) {
                  first = const int64[] 0
                  t = const int64[1] [4]
                  n = const int64[] 2
                  y = Expand-13 (x, t)
                  symbolic = Shape-15 (s)
                  z = Gather-13 (symbolic, first)
                }"#]],
        );
    }

    #[test]
    fn an_if_with_a_constant_condition_becomes_its_branch() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2], h: float[2], c: bool[]) -> (y, z) {
               yes = const bool[1] [true]
               no = const bool[] false
               k = const float[2] [1, 2]
               a, _ = If-16 [
                 then_branch: graph() -> (t, h) {
                   h2 = Neg-13 (x)
                   t = If-16 [
                     then_branch: graph() -> (p) { p = Add-14 (h2, k) },
                     else_branch: graph() -> (q) { h = outer h2 q = Mul-14 (x, h) }
                   ] (c)
                 },
                 else_branch: graph() -> (x, x) {}
               ] (yes)
               y = Relu-14 (a)
               z = If-16 [
                 then_branch: graph() -> (h) {},
                 else_branch: graph() -> (x) {}
               ] (no)
             }",
            &expect![[r#"
                graph(x: float[2], h: float[2], c: bool[]) -> (y, z) {
                  no = const bool[] false
                  z = If-16 [else_branch: graph() -> (x) {
                  }, then_branch: graph() -> (h) {
                  }] (no)
                  h2 = Neg-13 (x)
                  a = If-16 [else_branch: graph() -> (q) {
                    h = outer h2
                    q = Mul-14 (x, h)
                  }, then_branch: graph() -> (p) {
                    k = const float[2] [1, 2]
                    p = Add-14 (h2, k)
                  }] (c)
                  y = Relu-14 (a)
                }
                1 refused: it would change the name of a graph output"#]],
        );
    }

    #[test]
    fn what_cannot_be_folded_or_costs_too_much_stays() {
        assert_rewritten(
            super::PASS,
            "graph() -> (a, b, c, d) {
               training = const bool[] true
               x = const float[2] [0, 1]
               huge = const int64[2] [4096, 4096]
               far = const int64[1] [5]
               a = Dropout-13 (x, _, training)
               b = ConstantOfShape-9 (huge)
               c = Gather-13 (x, far)
               q = const uint8[2] [7, 8]
               scale = const float[] 0.5
               d = DequantizeLinear-13 (q, scale)
             }",
            &expect![[r#"
                graph() -> (a, b, c, d) {
                  training = const bool[] true
                  x = const float[2] [0, 1]
                  huge = const int64[2] fill 4096
                  far = const int64[1] [5]
                  q = const uint8[2] [7, 8]
                  scale = const float[] 0.5
                  a = Dropout-13 (x, _, training)
                  b = ConstantOfShape-9 (huge)
                  c = Gather-13 (x, far)
                  d = DequantizeLinear-13 (q, scale)
                }
                1 refused: it is not deterministic
                1 refused: its result is much larger than its inputs
                1 refused: it cannot be computed
                1 refused: fusions need it to detect quantized values"#]],
        );
    }
}
