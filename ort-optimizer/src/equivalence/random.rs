//! Random small graphs, as text, with what the passes look for in them.
//!
//! Every float has a shape that broadcasts to [2, 3], so that any two can be combined, and is no scalar. Nothing
//! divides by a value that could be zero, so that signs of zeros do not spread.

use std::fmt::Write as _;

use ort_graph::Graph;
use ort_tensor::{Bool, DType, Tensor};
use proptest::prelude::*;

/// The text of a graph.
pub(crate) fn graph() -> impl Strategy<Value = String> {
    let node = (0..FORMS.len(), any::<[u8; 3]>());
    (prop::collection::vec(node, 1..12), any::<bool>()).prop_map(|(nodes, is_symbolic)| {
        let n = if is_symbolic { "n" } else { "2" };
        let mut text = String::new();
        writeln!(
            text,
            "graph(x: float[{n},3], v: float[3], c: bool[], w = float[1] [2]) -> (OUT) {{"
        )
        .unwrap();
        text.push_str(CONSTANTS);
        let mut floats: Vec<String> =
            ["x", "v", "w", "minus", "one", "row"].map(str::to_owned).into();
        for (i, (form, picks)) in nodes.into_iter().enumerate() {
            let pick = |at: usize| floats[usize::from(picks[at]) % floats.len()].as_str();
            let form = FORMS[form].replace('@', &i.to_string());
            let form = form.replace("$a", pick(0)).replace("$b", pick(1)).replace("$c", pick(2));
            writeln!(text, "  {form}").unwrap();
            floats.push(format!("y{i}"));
        }
        let n_made = floats.len() - 6;
        let outputs = floats[floats.len() - n_made.min(3)..].join(", ");
        text.replace("OUT", &outputs) + "}"
    })
}

const CONSTANTS: &str = "
  zero = const float[] 0
  minus = const float[1] [-0]
  one = const float[1,1] [1]
  half = const float[] 0.5
  row = const float[3] [1, -2, 3]
  yes = const bool[] true
  no = const bool[] false
  shape = const int64[2] [2, 3]
  ones = const int64[1] [1]
  from = const int64[1] [0]
  max = const int64[1] [9223372036854775807]
  last = const int64[1] [-1]
  index = const int64[] -1
";

/// Nodes that make the float `y@` from the floats `$a`, `$b` and `$c`.
const FORMS: &[&str] = &[
    "y@ = Identity-14 ($a)",
    "y@ = Add-14 ($a, $b)",
    "y@ = Sub-14 ($a, $b)",
    "y@ = Mul-14 ($a, $b)",
    "y@ = Add-14 ($a, zero)",
    "y@ = Add-14 (minus, $a)",
    "y@ = Sub-14 ($a, zero)",
    "y@ = Mul-14 (one, $a)",
    "y@ = Div-14 ($a, one)",
    "y@ = Div-14 ($a, half)",
    "y@ = Cast-13 [to: 1] ($a)",
    "i@ = Cast-13 [to: 9] ($a) y@ = Cast-13 [to: 1] (i@)",
    "y@ = Dropout-7 ($a)",
    "y@, m@ = Dropout-13 ($a, half, no)",
    "y@ = Slice-13 ($a, from, max, last)",
    "y@ = Slice-13 ($a, from, ones, last)",
    "y@ = Expand-13 ($a, shape)",
    "y@ = Expand-13 ($a, ones)",
    "s@ = Shape-15 ($a) y@ = Reshape-14 ($a, s@)",
    "s@ = Shape-15 ($a) t@ = Shape-15 ($a) y@ = Expand-13 ($a, t@)",
    "e@ = Expand-13 ($a, shape) s@ = Shape-15 (e@) g@ = Gather-13 (s@, index)
  f@ = Cast-13 [to: 1] (g@) y@ = Reshape-14 (f@, last)",
    "k@ = Concat-13 [axis: -1] ($a, $a) y@ = Slice-13 (k@, from, ones, last)",
    "l@ = Less-13 ($a, $b) n@ = Not-1 (l@) y@ = Where-16 (n@, $a, $c)",
    "d@ = Neg-13 ($a) y@ = Neg-13 ($b)",
    "y@ = If-16 [
        then_branch: graph() -> (p) { p = Mul-14 ($a, $b) },
        else_branch: graph() -> (q) { r = Identity-14 ($c) q = Add-14 (r, $b) }
      ] (c)",
    "y@ = If-16 [
        then_branch: graph() -> (p) { y = Neg-13 ($a) p = Sub-14 (y, $b) },
        else_branch: graph() -> (q) { q = Identity-14 ($c) }
      ] (yes)",
    "y@ = If-16 [
        then_branch: graph() -> (p) { p = Identity-14 ($a) },
        else_branch: graph() -> (q) {
          q = If-16 [
            then_branch: graph() -> (t) { t = Mul-14 ($b, one) },
            else_branch: graph() -> (u) { u = Identity-14 ($c) }
          ] (c)
        }
      ] (no)",
    "y@, k@, z@ = Loop-16 [
        body: graph(i: int64[], go: bool[], p: float[...], q: float[...], r: float[...]) -> (on, s, k, r) {
          k = Identity-14 (q)
          t = Mul-14 (q, $c)
          u = Add-14 (t, r)
          s = Sub-14 (u, p)
          two = const int64[] 1
          on = Less-13 (i, two)
        }
      ] (_, _, $a, $b, $a)
  e@ = Add-14 (k@, z@)",
];

/// Inputs for a graph of [`graph`]; the overridable one is optional.
pub(crate) fn inputs(graph: &Graph, seed: u64) -> Vec<(String, Tensor)> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 40).unwrap()
    };
    let mut inputs = Vec::new();
    for &id in graph.inputs() {
        let info = graph.value(id);
        let shape: Vec<usize> =
            info.fact.dims().unwrap().iter().map(|dim| dim.known().unwrap_or(2)).collect();
        let n = shape.iter().product();
        if info.default.is_some() && next() % 2 == 0 {
            continue;
        }
        let tensor = if info.fact.dtype() == Some(DType::Bool) {
            Tensor::scalar(Bool::from(next() % 2 == 0))
        } else {
            let data: Vec<f32> = (0..n).map(|_| FLOATS[next() % FLOATS.len()]).collect();
            Tensor::from_slice(&shape, &data).unwrap()
        };
        inputs.push((info.name.clone(), tensor));
    }
    inputs
}

const FLOATS: &[f32] =
    &[0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
