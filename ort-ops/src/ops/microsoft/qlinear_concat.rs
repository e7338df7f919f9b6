//! QLinearConcat: quantized tensors concatenated along an axis.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor};

use crate::elementwise::only;
use crate::infer::normalize_axis;
use crate::ops::concat::{Concat, join};
use crate::quantized::{Scheme, Table};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QLinearConcat",
    versions: (1, 1),
    types: DType::is_byte,
    build: QLinearConcat::build,
}];

/// QLinearConcat: the parts concatenated along `axis`, requantized like `y`: `saturate(round(value/y_scale) +
/// y_zero_point)`, rounding half to even. Inputs: scale and zero point of `y`, then each part with its scale and zero
/// point. Quantized values are all int8 or all uint8, scales float.
///
/// Source: com.microsoft, QLinearConcat-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearConcat {
    /// The axis, `−rank..rank`.
    pub axis: i64,
}

impl QLinearConcat {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let found = spec.inputs.len();
        if found < 5 || found % 3 != 2 {
            return Err(OpError::InputCount { expected: "2 and 3 per part", found });
        }
        let axis = spec.int("axis")?.ok_or(OpError::MissingAttribute { name: "axis" })?;
        Ok(Arc::new(Self { axis }))
    }
}

impl Operator for QLinearConcat {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(1, DType::is_byte)?;
        Scheme::expect(inputs, 0, dtype)?;
        let mut types = Vec::new();
        for index in (2..inputs.len()).step_by(3) {
            inputs.expect_dtype(index, dtype)?;
            Scheme::expect(inputs, index + 1, dtype)?;
            // Its contents are not the result's.
            types.push(Fact::from(inputs.fact(index)?.ty.clone()));
        }
        let types: Vec<_> = types.iter().map(Some).collect();
        Concat { axis: self.axis }.infer(&Facts::new(&types))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let to = Scheme::read(inputs, 0)?;
        let part = |index: usize| {
            let (x, from) = (inputs.tensor(index)?, Scheme::read(inputs, index + 1)?);
            Table::again(x.dtype(), from, to).applied(x)
        };
        let parts = (2..inputs.len()).step_by(3).map(part).collect::<Result<Vec<_>, OpError>>()?;
        let rank = parts.first().map_or(0, |part| part.shape().len());
        let parts: Vec<_> = parts.iter().map(Tensor::view).collect();
        join(&parts, normalize_axis(self.axis, rank)?, only(outputs)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn parts_of_any_scale_follow_each_other() {
        let scheme = |scale: f32, zero: u8| [Tensor::scalar(scale), Tensor::scalar(zero)];
        let a = [vec![tensor(&[2, 1], &[1_u8, 255])], scheme(0.5, 0).to_vec()].concat();
        let b = [vec![tensor(&[2, 2], &[3_u8, 5, 7, 9])], scheme(1.0, 4).to_vec()].concat();
        let inputs = [scheme(1.0, 4).to_vec(), a, b].concat();
        let concat = Case::new("QLinearConcat", 1).domain("com.microsoft");
        let concat = concat.attr("axis", Attr::Int(-1));
        // 0.5 rounds to 0, 127.5 to 128.
        assert_eq!(concat.tensor(&inputs), Ok(tensor(&[2, 3], &[4_u8, 3, 5, 132, 7, 9])));
        assert!(concat.tensor(&inputs[..2]).is_err());
        assert!(concat.tensor(&inputs[..7]).is_err());
    }
}
