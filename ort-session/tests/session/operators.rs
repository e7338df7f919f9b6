//! Custom operators.

use std::sync::Arc;

use ort_graph::{
    Export, Fact, Facts, Graph, ModelInfo, NodeSpec, OpDef, OpError, Operator, OperatorSource,
    RegistryError, export,
};
use ort_session::{Cache, ModelBytes, Session, SessionError, Tensor};
use ort_tensor::{DType, Inputs, Output};

/// `y = x + 1`
const SUCCESSOR: OpDef = OpDef {
    domain: "com.example",
    name: "Successor",
    versions: (1, 1),
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

fn model() -> ModelBytes {
    let text = "graph(x: float[2]) -> (y) {
        h = com.example:Successor-1 (x)
        y = Neg-13 (h)
    }";
    let graph = Graph::parse(text, &ort_ops::registry().with(&[SUCCESSOR])).unwrap();
    let opsets = vec![(String::new(), 17), ("com.example".to_owned(), 1)];
    let info = ModelInfo { opsets, ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info)).unwrap();
    ModelBytes::from_vec(ort_format::write(&file).unwrap())
}

#[test]
fn an_operator_of_a_custom_domain_runs() {
    let x = Tensor::from_slice(&[2], &[1.0_f32, -5.0]).unwrap();
    let session = Session::builder().operators(&[SUCCESSOR]).commit(model()).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), [-2.0, 4.0]);
    assert!(matches!(Session::builder().commit(model()), Err(SessionError::Import(_))));
}

#[test]
fn a_standard_operator_is_not_replaced() {
    for (domain, versions) in [("", (13, 13)), ("ai.onnx", (1, 99))] {
        let neg = OpDef { domain, name: "Neg", versions, ..SUCCESSOR };
        let built = Session::builder().operators(&[neg]).commit(model());
        let error = built.unwrap_err();
        assert!(
            matches!(error, SessionError::StandardOperator { domain: "ai.onnx", name: "Neg" }),
            "{error}"
        );
    }
    let other = OpDef { domain: "", name: "Successor", ..SUCCESSOR };
    assert!(Session::builder().operators(&[SUCCESSOR, other]).commit(model()).is_ok());
}

#[test]
fn a_cache_distinguishes_sessions_with_other_operators() {
    let folder = tempfile::tempdir().unwrap();
    let other = OpDef { name: "Other", ..SUCCESSOR };
    for operators in [&[SUCCESSOR][..], &[SUCCESSOR, other], &[SUCCESSOR]] {
        let builder = Session::builder().operators(operators).cache_dir(folder.path());
        builder.commit(model()).unwrap();
    }
    assert_eq!(Cache::new(folder.path()).entries().unwrap().len(), 2);
}

/// `Successor`, as a program that registers it at run time defines it.
#[derive(Debug)]
struct Source(&'static str);

impl OperatorSource for Source {
    fn names(&self) -> Vec<(String, String)> {
        vec![("com.example".to_owned(), self.0.to_owned())]
    }

    fn build(
        &self,
        domain: &str,
        op_type: &str,
        spec: &NodeSpec<'_>,
    ) -> Option<Result<Arc<dyn Operator>, RegistryError>> {
        assert_eq!(spec.since_version, 1);
        ((domain, op_type) == ("com.example", self.0)).then(|| Ok(Arc::new(Successor) as _))
    }
}

#[test]
fn an_operator_of_a_source_runs() {
    let with = |name| Session::builder().operator_source(Arc::new(Source(name)));
    let x = Tensor::from_slice(&[2], &[1.0_f32, -5.0]).unwrap();
    let session = with("Successor").commit(model()).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), [-2.0, 4.0]);
    assert!(matches!(with("Other").commit(model()), Err(SessionError::Import(_))));
    let folder = tempfile::tempdir().unwrap();
    with("Successor").cache_dir(folder.path()).commit(model()).unwrap();
    assert!(Session::builder().cache_dir(folder.path()).commit(model()).is_err());
}
