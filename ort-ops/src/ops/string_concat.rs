//! StringConcat: concatenates strings.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, broadcast, broadcast_strides, text_of};

use crate::infer::broadcast_facts;
use crate::offsets::Offsets;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "StringConcat",
    versions: (20, 20),
    types: DType::is_string,
    build: StringConcat::build,
}];

/// StringConcat: `z[i] = x[i] + y[i]`, broadcasting.
///
/// Source: ONNX operator set, StringConcat-20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringConcat;

impl StringConcat {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(StringConcat))
    }
}

impl Operator for StringConcat {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        (0..2).try_for_each(|i| inputs.dtype(i, DType::is_string).map(drop))?;
        Ok(vec![broadcast_facts(inputs, DType::String)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, y) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let shape = broadcast(x.shape(), y.shape()).ok_or_else(|| {
            let (left, right) = (x.shape().to_vec(), y.shape().to_vec());
            OpError::Shapes { what: "broadcasting", left, right }
        })?;
        let z = outputs[0].tensor(DType::String, &shape)?.into_strings()?;
        let strides = [x, y].map(|x| broadcast_strides(x.shape(), &shape));
        let pairs = Offsets::new(&shape, &strides[0]).zip(Offsets::new(&shape, &strides[1]));
        let (x, y) = (x.as_strings()?, y.as_strings()?);
        for (z, (i, j)) in z.iter_mut().zip(pairs) {
            *z = text_of(&[&x[i], &y[j]])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::Case;

    #[test]
    fn strings_broadcast() {
        let strings = |shape: &[usize], words: &[&str]| {
            Tensor::from_strings(shape, words.iter().map(|w| (*w).to_owned()).collect()).unwrap()
        };
        let (x, y) = (strings(&[2, 1], &["a", ""]), strings(&[2], &["é", "b"]));
        let z = strings(&[2, 2], &["aé", "ab", "é", "b"]);
        assert_eq!(Case::new("StringConcat", 20).tensor(&[x.clone(), y]), Ok(z));
        let empty = Case::new("StringConcat", 20).tensor(&[x.clone(), strings(&[0], &[])]);
        assert_eq!(empty, Ok(strings(&[2, 0], &[])));
        assert!(
            Case::new("StringConcat", 20).tensor(&[x, strings(&[3, 1], &["", "", ""])]).is_err()
        );
    }
}
