//! ConstantOfShape: a tensor filled with one value.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, Tensor};

use crate::infer::{folded, int_values, ranked_fact, sizes, vector_len};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ConstantOfShape",
    versions: (9, 25),
    types: DType::is_any,
    build: ConstantOfShape::build,
}];

/// ConstantOfShape: a tensor of the dimensions in input 0, every element `value`.
///
/// Source: ONNX operator set, ConstantOfShape-25.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantOfShape {
    /// One element; 0, a float, if the attribute is absent.
    pub value: Tensor,
}

impl ConstantOfShape {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let value = spec.tensor("value")?.unwrap_or_else(|| Tensor::scalar(0_f32));
        if value.len() != 1 {
            let found = format!("a tensor of {} elements", value.len());
            return Err(OpError::AttributeValue { name: "value", found });
        }
        Ok(Arc::new(Self { value }))
    }
}

impl Operator for ConstantOfShape {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dims = inputs.fact(0)?;
        inputs.expect_dtype(0, DType::I64)?;
        let rank = vector_len(inputs, 0)?;
        let Some(dims) = dims.ints() else {
            return Ok(vec![ranked_fact(self.value.dtype(), rank)]);
        };
        let dims = sizes(0, &dims)?.into_iter().map(Dim::Known);
        Ok(folded(self, inputs, vec![Fact::tensor(self.value.dtype(), dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let shape = sizes(0, &int_values(inputs.tensor(0)?)?)?;
        // bounded: rank
        let everywhere = Strided::new(0, &Shape::from_elem(0, shape.len()));
        let y = outputs[0].tensor(self.value.dtype(), &shape)?;
        Ok(strided::copy(&shape, self.value.view(), &everywhere, y, &Strided::row_major(&shape))?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn the_value_fills_the_shape() {
        let shape = |dims: &[i64]| tensor(&[dims.len()], dims);
        let case = Case::new("ConstantOfShape", 25);
        assert_eq!(case.tensor(&[shape(&[2, 1])]), Ok(tensor(&[2, 1], &[0_f32, 0.0])));
        let case = case.attr("value", Attr::Tensor(tensor(&[1], &[7_i16])));
        assert_eq!(case.tensor(&[shape(&[])]), Ok(Tensor::scalar(7_i16)));
        assert_eq!(case.tensor(&[shape(&[3])]), Ok(tensor(&[3], &[7_i16, 7, 7])));
        assert_eq!(case.tensor(&[shape(&[3, 0])]), Ok(tensor::<i16>(&[3, 0], &[])));
        assert!(case.tensor(&[shape(&[-1])]).is_err());
        assert!(case.tensor(&[shape(&[i64::MAX, i64::MAX])]).is_err());
    }

    #[test]
    fn strings_and_packed_types_fill_too() {
        let word = Tensor::from_strings(&[1], vec!["x".into()]).unwrap();
        let nibble = Tensor::from_bytes(DType::U4, &[1], vec![0x5].into()).unwrap();
        for value in [word, nibble] {
            let dtype = value.dtype();
            let case = Case::new("ConstantOfShape", 25).attr("value", Attr::Tensor(value));
            let y = case.tensor(&[tensor(&[1], &[3_i64])]).unwrap();
            let expected = match dtype {
                DType::String => Tensor::from_strings(&[3], vec!["x".into(); 3]).unwrap(),
                _ => Tensor::from_bytes(dtype, &[3], vec![0x55, 0x5].into()).unwrap(),
            };
            assert_eq!(y, expected);
        }
    }
}
