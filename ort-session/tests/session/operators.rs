//! Operators that the caller brings.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator, Registry};
use ort_session::{ModelBytes, Session, Tensor};
use ort_tensor::{DType, Inputs, Output};

use crate::model::of_text;

/// In place of the standard's: `y = x + 1`.
const NEG: OpDef = OpDef {
    domain: "",
    name: "Neg",
    versions: (13, 13),
    types: |dtype| dtype == DType::F32,
    build: |_| Ok(Arc::new(Successor)),
};

#[derive(Debug)]
struct Successor;

impl Operator for Successor {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![Fact::from(inputs.fact(0)?.ty.clone())])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let y = outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        y.iter_mut().zip(x.as_slice::<f32>()?).for_each(|(y, x)| *y = x + 1.0);
        Ok(())
    }
}

#[test]
fn an_operator_of_the_caller_takes_the_place_of_the_standards() {
    let model = || ModelBytes::from_vec(of_text("graph(x: float[2]) -> (y) { y = Neg-13 (x) }"));
    let x = Tensor::from_slice(&[2], &[1.0_f32, -5.0]).unwrap();
    for (operators, expected) in [(&[][..], [-1.0, 5.0]), (&[NEG], [2.0, -4.0])] {
        let session = Session::builder().operators(operators).commit(model()).unwrap();
        let outputs = session.run([("x", &x)]).unwrap();
        assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), expected);
    }
}

#[test]
fn the_last_definition_of_a_version_counts() {
    let registry = Registry::new(&[&[OpDef { name: "A", ..NEG }]]).with(&[OpDef {
        versions: (1, 20),
        name: "A",
        ..NEG
    }]);
    assert_eq!(registry.find("", "A", 13).unwrap().versions, (1, 20));
    assert_eq!(registry.defs().len(), 2);
}
