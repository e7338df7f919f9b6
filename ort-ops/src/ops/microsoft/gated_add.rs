//! GatedAdd: `output = x + y · gate`, with a gate for each row.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, n_elements, with_dtype};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "GatedAdd",
    versions: (1, 1),
    types: DType::is_float,
    build: |_| Ok(Arc::new(GatedAdd)),
}];

/// GatedAdd: `output = x + y · gate` of `x` and `y: […, C]` and `gate: […, 1]`, floats of one type;
/// the product is rounded before it is added.
///
/// Source: com.microsoft, GatedAdd-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedAdd;

impl Operator for GatedAdd {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, dtype)?;
        Ok(vec![inputs.fact(0)?.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, y, gate) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let Some((&size, rows)) = x.shape().split_last() else {
            return Err(OpError::InputRank { index: 0, expected: "at least 1", found: 0 });
        };
        let fits = gate.shape().split_last() == Some((&1, rows)) && x.shape() == y.shape();
        if !fits || n_elements(rows).is_none() {
            let (left, right) = (x.shape().to_vec(), gate.shape().to_vec());
            return Err(OpError::Shapes { what: "the rows of a gate", left, right });
        }
        let out = outputs[0].tensor(x.dtype(), x.shape())?;
        with_dtype!(x.dtype(), float, T => {
            let (x, y, gate) = (x.as_slice::<T>()?, y.as_slice::<T>()?, gate.as_slice::<T>()?);
            let out = out.into_slice::<T>()?;
            for (i, (out, (&x, &y))) in out.iter_mut().zip(x.iter().zip(y)).enumerate() {
                let gated = T::from_f64(Number::to_f64(y) * Number::to_f64(gate[i / size]));
                *out = T::from_f64(Number::to_f64(x) + Number::to_f64(gated));
            }
            Ok(())
        }, else => Err(OpError::Unsupported { what: "a gate of other types than floats" }))
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn run(x: Tensor, y: Tensor, gate: Tensor) -> Result<Tensor, String> {
        Case::new("GatedAdd", 1).domain("com.microsoft").tensor(&[x, y, gate])
    }

    #[test]
    fn each_row_has_its_gate() {
        let (x, y) = (tensor(&[2, 2], &[1_f32, 2.0, 3.0, 4.0]), tensor(&[2, 2], &[1_f32; 4]));
        let sum = run(x.clone(), y.clone(), tensor(&[2, 1], &[0.5_f32, 2.0]));
        assert_eq!(sum, Ok(tensor(&[2, 2], &[1.5_f32, 2.5, 5.0, 6.0])));
        assert!(run(x, y, tensor(&[1, 1], &[1_f32])).is_err());
    }

    #[test]
    fn the_product_is_rounded() {
        // 3 · 683 is 2049, which rounds to 2048 as float16; 2049 + 1 would have been exact.
        let of = |x: f32| tensor(&[1], &[f16::from_f32(x)]);
        assert_eq!(run(of(1.0), of(683.0), of(3.0)), Ok(of(2048.0)));
    }
}
