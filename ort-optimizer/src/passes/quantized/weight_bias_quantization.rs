//! WeightBiasQuantization: quantizes float weights of quantized operands.
//!
//! ```text
//! Q(f(DQ(x), w)) ≈ Q(f(DQ(x), DQ(Q(w, s), s)))      s = max |w| / 127
//! ```
//! Each weight changes by up to half of `s`: ONNX Runtime does it to every such network, here it is done on request
//! only. (A float bias costs next to nothing: QDQSelectorActionTransformer quantizes it.) Only at level Basic:
//! weights that are dequantized later stay float.

use ort_graph::{Attr, Attrs, NewNode, Patch, PatchError, ValueId};
use ort_tensor::Tensor;

use super::values::Quantized;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "WeightBiasQuantization",
    level: Level::Basic,
    exactness: Exactness::Approximate,
    start: || Box::new(WeightBiasQuantization),
};

struct WeightBiasQuantization;

impl Rewrite for WeightBiasQuantization {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Conv", "MatMul", "Gemm"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let (&[Some(x), Some(w), ..], &[Some(y)]) = (&*node.inputs, &*node.outputs) else {
            return Ok(None);
        };
        let weights = graph.constant(w).and_then(|weights| weights.as_slice::<f32>().ok());
        let (Some(weights), Some(_)) = (weights, Quantized::of(graph, x)) else { return Ok(None) };
        if Quantized::after(graph, y).is_none() || site.phase > Level::Basic {
            return Err(Refusal("its result is not quantized, or its weights are float again"));
        }
        let largest = weights.iter().fold(0.0, |largest: f32, w| largest.max(w.abs()));
        if !(largest / 127.0).is_normal() || weights.iter().any(|w| w.is_nan()) {
            return Err(Refusal("its weights have no scale"));
        }
        let mut patch = Patch::new(graph);
        let dequantized = quantized(w, &mut patch)?;
        let mut inputs = node.inputs.to_vec();
        inputs[1] = Some(dequantized);
        let (op_type, attrs) = (node.op_type.clone(), node.attrs.clone());
        let (name, since_version) = (node.name.clone(), node.since_version);
        let new = NewNode { name, op_type, since_version, inputs, attrs, ..NewNode::default() };
        let new = patch.output_of(new)?;
        patch.replace(y, new);
        Ok(Some(patch))
    }
}

/// `w`, quantized and dequantized.
fn quantized(w: ValueId, patch: &mut Patch) -> Result<ValueId, PatchError> {
    let steps = patch.constant("steps", Tensor::scalar(127.0_f32))?;
    let zero = patch.constant("zero_point", Tensor::scalar(0_i8))?;
    let mut node = |op_type: &str, since_version, inputs: &[ValueId], attrs| {
        patch.output_of(NewNode {
            name: "weight".to_owned(),
            op_type: op_type.to_owned(),
            since_version,
            inputs: inputs.iter().copied().map(Some).collect(),
            attrs,
            ..NewNode::default()
        })
    };
    let sizes = node("Abs", 6, &[w], Attrs::new())?;
    let largest = node("ReduceMax", 11, &[sizes], Attrs::new().with("keepdims", Attr::Int(0)))?;
    let scale = node("Div", 7, &[largest, steps], Attrs::new())?;
    let quantized = node("QuantizeLinear", 10, &[w, scale, zero], Attrs::new())?;
    node("DequantizeLinear", 10, &[quantized, scale, zero], Attrs::new())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    /// These weights are multiples of their scale, so that none changes.
    #[test]
    fn weights_next_to_quantized_values_are_quantized() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2]) -> (y, z, v, u) {
               s = const float[] 0.015625
               w = const float[2,2] [-254, 2, 6, 100]
               none = const float[2,2] fill 0
               b = const float[2] [1, 2]
               xq = QuantizeLinear-13 (x, s)
               x1 = DequantizeLinear-13 (xq, s)
               a = Gemm-13 (x1, w, b)
               y = QuantizeLinear-13 (a, s)
               z = MatMul-13 (x1, w)
               c = MatMul-13 (x, w)
               v = QuantizeLinear-13 (c, s)
               d = MatMul-13 (x1, none)
               u = QuantizeLinear-13 (d, s)
             }",
            &expect![[r#"
                graph(x: float[n,2]) -> (y, z, v, u) {
                  s = const float[] 0.015625
                  w = const float[2,2] [-254, 2, 6, 100]
                  none = const float[2,2] fill 0
                  b = const float[2] [1, 2]
                  steps = const float[] 127
                  zero_point = const int8[] 0
                  xq = QuantizeLinear-13 (x, s)
                  x1 = DequantizeLinear-13 (xq, s)
                  z = MatMul-13 (x1, w)
                  c = MatMul-13 (x, w)
                  v = QuantizeLinear-13 (c, s)
                  d = MatMul-13 (x1, none)
                  u = QuantizeLinear-13 (d, s)
                  weight = Abs-6 "weight" (w)
                  weight_2 = ReduceMax-11 "weight" [keepdims: 0] (weight)
                  weight_3 = Div-7 "weight" (weight_2, steps)
                  weight_4 = QuantizeLinear-10 "weight" (w, weight_3, zero_point)
                  weight_5 = DequantizeLinear-10 "weight" (weight_4, weight_3, zero_point)
                  a = Gemm-13 (x1, weight_5, b)
                  y = QuantizeLinear-13 (a, s)
                }
                2 refused: its result is not quantized, or its weights are float again"#]],
        );
    }
}
