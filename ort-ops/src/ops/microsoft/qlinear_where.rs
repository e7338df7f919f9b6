//! QLinearWhere: `z = condition ? x : y`, each with its own scale.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, ValueView};

use crate::ops::where_::Where;
use crate::quantized::{Scheme, Table};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QLinearWhere",
    versions: (1, 1),
    types: DType::is_byte,
    build: |_| Ok(Arc::new(QLinearWhere)),
}];

/// QLinearWhere: `z = condition ? x : y`, broadcast, with `x` and `y` requantized like `z`:
/// `saturate(round(value/z_scale) + z_zero_point)`, rounding half to even. Inputs: `condition`, `x`, its scale and
/// zero point, the same of `y`, scale and zero point of `z`. Quantized values are all int8 or all uint8, scales
/// float.
///
/// Source: com.microsoft, QLinearWhere-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearWhere;

impl Operator for QLinearWhere {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(1, DType::is_byte)?;
        [2, 5, 7].iter().try_for_each(|&i| Scheme::expect(inputs, i, dtype))?;
        // Their contents are not the result's.
        let types = [0, 1, 4].map(|i| inputs.fact(i).map(|fact| Fact::from(fact.ty.clone())));
        let [condition, x, y] = types;
        let (condition, x, y) = (condition?, x?, y?);
        Where.infer(&Facts::new(&[Some(&condition), Some(&x), Some(&y)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let to = Scheme::read(inputs, 7)?;
        let side = |index| {
            let (x, from) = (inputs.tensor(index)?, Scheme::read(inputs, index + 1)?);
            Table::again(x.dtype(), from, to).applied(x)
        };
        let (x, y) = (side(1)?, side(4)?);
        let views =
            [inputs.get(0), Some(ValueView::Tensor(x.view())), Some(ValueView::Tensor(y.view()))];
        Where.eval(Inputs::new(&views), outputs)
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, Tensor};

    use crate::case::{Case, tensor};

    #[test]
    fn both_sides_are_quantized_again() {
        let condition = tensor(&[2, 1], &[true, false].map(Bool::from));
        let (half, one) = (Tensor::scalar(0.5_f32), Tensor::scalar(1_f32));
        let (zero, two) = (Tensor::scalar(0_i8), Tensor::scalar(2_i8));
        let x = tensor(&[3], &[-128_i8, 3, 5]);
        let y = Tensor::scalar(-4_i8);
        let inputs = [condition, x, half, zero.clone(), y, one.clone(), zero, one, two];
        let z = Case::new("QLinearWhere", 1).domain("com.microsoft").tensor(&inputs);
        assert_eq!(z, Ok(tensor(&[2, 3], &[-62_i8, 4, 4, -2, -2, -2])));
    }
}
