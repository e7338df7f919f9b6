//! QEmbedLayerNormalization: EmbedLayerNormalization of tables and parameters that are quantized values.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Tensor, ValueView, collected};

use crate::infer::tensor_fact;
use crate::ops::embed_layer_normalization::EmbedLayerNormalization;
use crate::quantized::{self, QuantizedElement, Scheme};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QEmbedLayerNormalization",
    versions: (1, 1),
    types: DType::is_byte,
    build: QEmbedLayerNormalization::build,
}];

/// QEmbedLayerNormalization: EmbedLayerNormalization, where each table and parameter is `(q − zero
/// point) · scale`.
///
/// Inputs: ids, segments, five tensors of quantized values, and the mask, as in EmbedLayerNormalization, then the
/// five scales, float32, and the five zero points, a single value each. Outputs: `y: [B, S, H]`, and the number of
/// ones in each row of the mask.
///
/// Source: com.microsoft, QEmbedLayerNormalization-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QEmbedLayerNormalization {
    /// The same operator on floats.
    pub plain: EmbedLayerNormalization,
}

/// The positions of the quantized tensors.
const QUANTIZED: std::ops::Range<usize> = 2..7;
/// From a tensor of quantized values to its scale.
const TO_SCALE: usize = 6;
/// From a tensor of quantized values to its zero point.
const TO_ZERO_POINT: usize = 11;

impl QEmbedLayerNormalization {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let epsilon = spec.float("epsilon")?.unwrap_or(1e-12);
        Ok(Arc::new(Self { plain: EmbedLayerNormalization { epsilon } }))
    }
}

impl Operator for QEmbedLayerNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let quantized = inputs.dtype(QUANTIZED.start, DType::is_byte)?;
        for i in QUANTIZED {
            inputs.expect_dtype(i, quantized)?;
            inputs.expect_dtype(i + TO_SCALE, DType::F32)?;
            inputs.expect_dtype(i + TO_ZERO_POINT, quantized)?;
        }
        let plain: Vec<_> = (0..8_usize)
            .map(|i| match inputs.get(i) {
                Some(fact) if QUANTIZED.contains(&i) => {
                    Some(tensor_fact(DType::F32, fact.dims().map(Into::into)))
                }
                fact => fact.cloned(),
            })
            .collect();
        let plain: Vec<_> = plain.iter().map(Option::as_ref).collect();
        let mut facts = self.plain.infer(&Facts::new(&plain))?;
        facts.truncate(2);
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let mut tensors = Vec::new();
        for i in QUANTIZED {
            tensors.push(inputs.get(i).map(|_| decoded(inputs, i)).transpose()?);
        }
        let plain: Vec<_> = (0..8_usize)
            .map(|i| match i.checked_sub(QUANTIZED.start).and_then(|i| tensors.get(i)) {
                Some(tensor) => tensor.as_ref().map(|tensor| ValueView::Tensor(tensor.view())),
                None => inputs.get(i),
            })
            .collect();
        self.plain.eval(Inputs::new(&plain), outputs)
    }
}

/// `(q − zero point) · scale` of the tensor of quantized values at `index`, in float32.
fn decoded(inputs: Inputs<'_>, index: usize) -> Result<Tensor, OpError> {
    let view = inputs.tensor(index)?;
    let scale = f64::from(quantized::scale(index, inputs.tensor(index + TO_SCALE)?)?);
    let zero_point = inputs.optional_tensor(index + TO_ZERO_POINT)?;
    let zero_point = f64::from(Scheme::zero_point(index + TO_ZERO_POINT, zero_point)?);
    let quantized = f64::of(index, view)?.into_iter();
    let values = collected(quantized.map(|q| f32::from_f64((q - zero_point) * scale)))?;
    Ok(Tensor::from_slice(view.shape(), &values)?)
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn run(ids: &[i32]) -> Result<[Tensor; 2], String> {
        let scalar = |x: f32| Some(tensor(&[], &[x]));
        let zero = |x: u8| Some(tensor(&[], &[x]));
        let inputs = [
            Some(tensor(&[1, 2], ids)),
            None,
            Some(tensor(&[2, 2], &[1_u8, 3, 10, 6])),
            Some(tensor(&[2, 2], &[5_u8; 4])),
            None,
            Some(tensor(&[2], &[12_u8, 14])),
            Some(tensor(&[2], &[1_u8, 0])),
            Some(tensor(&[1, 2], &[1, 0])),
            scalar(0.5),
            scalar(1.0),
            None,
            scalar(0.5),
            scalar(3.0),
            zero(1),
            zero(5),
            None,
            zero(10),
            zero(0),
        ];
        let case = Case::new("QEmbedLayerNormalization", 1).domain("com.microsoft").outputs(2);
        let found = case.run_optional(&inputs)?;
        Ok([0, 1].map(|i| found[i].as_tensor().unwrap().clone()))
    }

    #[test]
    fn quantized_values_are_scaled_and_centered() {
        let [y, counts] = run(&[0, 1]).unwrap();
        // The rows are −1, 1 and 1, −1 once they are normalized; gamma is 1, 2 and beta 3, 0.
        let expected = [2_f32, 2.0, 4.0, -2.0];
        assert_eq!((y, counts), (tensor(&[1, 2, 2], &expected), tensor(&[1], &[1])));
        assert!(run(&[0, 2]).is_err());
    }
}
