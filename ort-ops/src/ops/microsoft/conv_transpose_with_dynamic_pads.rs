//! ConvTransposeWithDynamicPads: a transposed convolution whose padding is an input.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::{int_values, sizes, vector_len};
use crate::ops::conv_transpose::ConvTranspose;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "ConvTransposeWithDynamicPads",
    versions: (1, 1),
    types: DType::is_float,
    build: ConvTransposeWithDynamicPads::build,
}];

/// ConvTransposeWithDynamicPads: [`ConvTranspose`] of `x`, `w`, and the bias, which is input 3; the
/// pads are input 2 (int64), before each axis, then after each, 0 without it.
///
/// Source: com.microsoft, ConvTransposeWithDynamicPads-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTransposeWithDynamicPads {
    /// The operator without pads.
    pub unpadded: ConvTranspose,
}

/// The position of the pads.
const PADS: usize = 2;

impl ConvTransposeWithDynamicPads {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { unpadded: ConvTranspose::with_dynamic_pads(spec)? }))
    }

    /// The operator with these pads.
    fn padded(&self, pads: &[i64]) -> Result<ConvTranspose, OpError> {
        let mut padded = self.unpadded.clone();
        let wrong = |_| OpError::InputValue { index: PADS, what: "a pad is below zero" };
        padded.window.pads = Some(sizes(PADS, pads).map_err(wrong)?);
        Ok(padded)
    }
}

impl Operator for ConvTransposeWithDynamicPads {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.expect_dtype(PADS, DType::I64)?;
        vector_len(inputs, PADS)?;
        let others = [inputs.get(0), inputs.get(1), inputs.get(3)];
        let others = Facts::new(&others);
        let Some(pads) = inputs.get(PADS) else { return self.unpadded.infer(&others) };
        if let Some(pads) = pads.ints() {
            return self.padded(&pads)?.infer(&others);
        }
        let mut facts = self.unpadded.infer(&others)?;
        for fact in &mut facts {
            let Some(dims) = fact.dims() else { continue };
            let spatial = dims.iter().skip(2).map(|_| Dim::Unknown);
            let dims: Vec<_> = dims.iter().take(2).cloned().chain(spatial).collect();
            *fact = fact.dtype().map_or(Fact::UNKNOWN, |dtype| Fact::tensor(dtype, dims));
        }
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let others = [inputs.get(0), inputs.get(1), inputs.get(3)];
        let others = Inputs::new(&others);
        match inputs.optional_tensor(PADS)? {
            Some(pads) => self.padded(&int_values(pads)?)?.eval(others, outputs),
            None => self.unpadded.eval(others, outputs),
        }
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        self.unpadded.flops(inputs, outputs)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn pads_come_before_the_bias() {
        let case = Case::new("ConvTransposeWithDynamicPads", 1).domain("com.microsoft");
        let case = case.attr("strides", Attr::Ints(vec![2]));
        let x = || Some(tensor(&[1, 1, 2], &[1_f32, 2.0]));
        let w = || Some(tensor(&[1, 1, 3], &[1_f32; 3]));
        let run = |pads: Option<&[i64]>, bias: Option<f32>| {
            let pads = pads.map(|pads| tensor(&[pads.len()], pads));
            let bias = bias.map(|bias| tensor(&[1], &[bias]));
            let y = case.run_optional(&[x(), w(), pads, bias])?;
            Ok::<_, String>(y[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec())
        };
        assert_eq!(run(None, None), Ok(vec![1.0, 1.0, 3.0, 2.0, 2.0]));
        assert_eq!(run(Some(&[1, 2]), Some(0.5)), Ok(vec![1.5, 3.5]));
        for pads in [&[1][..], &[-1, 0], &[3, 3], &[i64::MAX, 0]] {
            assert!(run(Some(pads), None).is_err());
        }
    }
}
