//! A custom operator in a custom domain: attributes, shape inference, and evaluation.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::sync::Arc;

use ort_session::provider::{
    DType, Fact, Facts, Inputs, NodeSpec, OpDef, OpError, Operator, Output,
};
use ort_session::{Session, Tensor};

/// `com.example:Clamp`: `y = max(-limit, min(x, limit))`. The attributes are the fields.
#[derive(Debug)]
struct Clamp {
    limit: f32,
}

/// Its definition for sessions: name, versions, element types, and how it is built from a node.
const CLAMP: OpDef = OpDef {
    domain: "com.example",
    name: "Clamp",
    versions: (1, 1),
    types: |dtype| dtype == DType::F32,
    build: |spec: &NodeSpec<'_>| {
        // An attribute that is never read is an error when the model is loaded.
        let limit = spec.float("limit")?.ok_or(OpError::MissingAttribute { name: "limit" })?;
        Ok(Arc::new(Clamp { limit }))
    },
};

impl Operator for Clamp {
    /// The type and shape of the output from those of the input.
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, CLAMP.types)?;
        Ok(vec![Fact::from(inputs.fact(0)?.ty.clone())])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let y = outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        for (y, x) in y.iter_mut().zip(x.as_slice::<f32>()?) {
            *y = x.max(-self.limit).min(self.limit);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A file that imports com.example loads in the same way.
    let text = "graph(x: float[n]) -> (y) {
        h = com.example:Clamp-1 [limit: 2.0] (x)
        y = Neg-13 (h)
    }";
    let model = ort_examples::model(text, &ort_ops::registry().with(&[CLAMP]))?;
    let session = Session::builder().operators(&[CLAMP]).commit(model)?;
    let x = Tensor::from_slice(&[3], &[-3.0_f32, 0.5, 9.0])?;
    let outputs = session.run([("x", &x)])?;
    println!("{:?}", outputs[0].as_tensor()?.as_slice::<f32>()?);
    Ok(())
}
