//! ConstantFolding: what is the same in every run is computed once, before all runs.
//!
//! ```text
//! outputs whose contents inference knows (Shape of a known shape, …)  → constants
//! If with a constant condition                                       → the branch's nodes
//! deterministic nodes with constant inputs only                      → constants, by ConstEval
//! ```
//! DequantizeLinear is kept for the fusions; QDQConstantFolding runs after them.

use half::slice::HalfFloatSliceExt;
use ort_graph::{Control, Fact, Node, Patch, ValueId};
use ort_tensor::{DType, Tensor, bf16, f16, n_elements};

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
    if let Some(patch) = widened(site, node)? {
        return Ok(Some(patch));
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

/// A Cast of a large constant of 16-bit floats to float: computed when it is read, if at all, since products pack
/// it in 16 bits.
fn widened(site: &Site<'_>, node: &Node) -> Result<Option<Patch>, Refusal> {
    let value = |values: &[Option<ValueId>]| values.first().copied().flatten();
    let (Some(from), Some(to), "Cast") =
        (value(&node.inputs), value(&node.outputs), &*node.op_type)
    else {
        return Ok(None);
    };
    let Some(constant) = site.graph.constant(from).cloned() else { return Ok(None) };
    let is_half = matches!(constant.dtype(), DType::F16 | DType::Bf16);
    let is_widened = is_half && site.graph.fact(to).dtype() == Some(DType::F32);
    if !is_widened || constant.n_bytes() <= SMALL_BYTES {
        return Ok(None);
    }
    let shape = constant.shape().to_vec();
    let wide = Tensor::deferred(DType::F32, &shape, move |wide| {
        let view = constant.unaligned_view();
        let halves = view.as_bytes().unwrap_or_default();
        match constant.dtype() {
            DType::F16 => write_wide(halves, wide, f16::from_ne_bytes),
            _ => write_wide(halves, wide, bf16::from_ne_bytes),
        }
    });
    let mut patch = Patch::new(site.graph);
    let new = patch.constant("", wide.map_err(|_| NOT_COMPUTED)?)?;
    patch.replace(to, new);
    Ok(Some(patch))
}

/// Writes the bytes of 16-bit floats as those of floats.
fn write_wide<T: Copy + Default>(halves: &[u8], wide: &mut [u8], of_bytes: impl Fn([u8; 2]) -> T)
where
    [T]: HalfFloatSliceExt,
{
    const PIECE: usize = 1024;
    let (mut x, mut y) = ([T::default(); PIECE], [0.0_f32; PIECE]);
    for (halves, wide) in halves.chunks(2 * PIECE).zip(wide.chunks_mut(4 * PIECE)) {
        let (x, y) = (&mut x[..halves.len() / 2], &mut y[..wide.len() / 4]);
        x.iter_mut().zip(halves.as_chunks().0).for_each(|(x, bytes)| *x = of_bytes(*bytes));
        x.convert_to_f32_slice(y);
        wide.as_chunks_mut().0.iter_mut().zip(y).for_each(|(wide, y)| *wide = y.to_ne_bytes());
    }
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

    #[test]
    fn large_weights_of_16_bits_are_widened_when_they_are_read() {
        for dtype in ["float16", "bfloat16"] {
            let text = format!(
                "graph(x: float[n,1500]) -> (y, z) {{
                   w = const {dtype}[1500,1500] fill 0.375
                   few = const {dtype}[2] [1.5, -2]
                   a = Cast-13 [to: 1] (w)
                   y = MatMul-13 (x, a)
                   z = Cast-13 [to: 1] (few)
                 }}"
            );
            assert_optimized(
                super::PASS,
                &text,
                &expect![[r#"
                    graph(x: float[n,1500]) -> (y, z) {
                      a = const float[1500,1500] fill 0.375
                      z = const float[2] [1.5, -2]
                      y = MatMul-13 (x, a)
                    }"#]],
            );
        }
    }
}
