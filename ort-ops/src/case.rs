//! How operator tests run a node: as a session would, with outputs planned where inference knows
//! their shapes, and free where it does not; both must agree.

use std::sync::Arc;

use ort_graph::{Attr, Attrs, Fact, Facts, NodeSpec, Operator};
use ort_tensor::{Ending, Inputs, Output, Tensor, Value, ended_by};

/// The result of a run that is cancelled before it begins.
pub(crate) fn once_cancelled<R>(work: impl FnOnce() -> R) -> R {
    #[derive(Debug)]
    struct Ended;

    impl Ending for Ended {
        fn is_ended(&self) -> bool {
            true
        }
    }

    let ending: Arc<dyn Ending> = Arc::new(Ended);
    ended_by(&ending, work)
}

/// One node to run.
#[derive(Default)]
pub(crate) struct Case {
    domain: &'static str,
    op_type: &'static str,
    since_version: i32,
    attrs: Attrs,
    n_outputs: usize,
}

impl Case {
    /// A node of ai.onnx with one output.
    pub(crate) fn new(op_type: &'static str, since_version: i32) -> Self {
        Self { op_type, since_version, n_outputs: 1, ..Self::default() }
    }

    pub(crate) fn domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    pub(crate) fn attr(self, name: &str, attr: Attr) -> Self {
        Self { attrs: self.attrs.with(name, attr), ..self }
    }

    pub(crate) fn outputs(self, n_outputs: usize) -> Self {
        Self { n_outputs, ..self }
    }

    /// Runs the node on tensors, all present.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Value>, String> {
        self.run_optional(&inputs.iter().cloned().map(Some).collect::<Vec<_>>())
    }

    /// Runs the node and returns its only output as a tensor.
    pub(crate) fn tensor(&self, inputs: &[Tensor]) -> Result<Tensor, String> {
        let values = self.run(inputs)?;
        values[0].as_tensor().cloned().map_err(|error| error.to_string())
    }

    /// Runs the node; an error of any stage comes back as its message.
    pub(crate) fn run_optional(&self, inputs: &[Option<Tensor>]) -> Result<Vec<Value>, String> {
        self.run_values(&inputs.iter().cloned().map(|t| t.map(Value::Tensor)).collect::<Vec<_>>())
    }

    /// The node's operator, for inputs of which these are present.
    fn operator(&self, inputs: &[Option<Value>]) -> Result<Arc<dyn Operator>, String> {
        let present: Vec<bool> = inputs.iter().map(Option::is_some).collect();
        let spec = NodeSpec::new(self.since_version, &present, self.n_outputs, &self.attrs);
        let op = crate::registry().build(self.domain, self.op_type, &spec);
        op.map_err(|error| error.to_string())
    }

    /// What inference finds for the outputs from types and shapes.
    pub(crate) fn infer(&self, inputs: &[Option<Value>]) -> Result<Vec<Fact>, String> {
        infer(&*self.operator(inputs)?, inputs, Fact::of_value)
    }

    /// Runs the node on values of any kind.
    pub(crate) fn run_values(&self, inputs: &[Option<Value>]) -> Result<Vec<Value>, String> {
        let op = self.operator(inputs)?;
        let infer = |fact_of| infer(&*op, inputs, fact_of);
        let inferred = infer(constant)?;
        let views: Vec<_> = inputs.iter().map(|value| value.as_ref().map(Value::view)).collect();
        let mut free: Vec<_> = (0..self.n_outputs).map(|_| Output::free()).collect();
        op.eval(Inputs::new(&views), &mut free).map_err(|error| error.to_string())?;
        let values: Vec<Value> = free.into_iter().filter_map(Output::into_value).collect();
        assert_eq!(values.len(), self.n_outputs, "an output was not made");
        // What is inferred from less must agree, too.
        for facts in [inferred, infer(Fact::of_value)?, infer(unranked)?] {
            for (i, (value, fact)) in values.iter().zip(&facts).enumerate() {
                fact.unify(&Fact::of_value(value)).unwrap_or_else(|e| panic!("output {i}: {e}"));
                if let Some(constant) = &fact.constant {
                    assert_eq!(Ok(constant), value.as_tensor(), "output {i}");
                }
            }
        }
        for &(from, to) in op.behaviour().in_place {
            self.check_in_place(&*op, inputs, &values, (from, to))?;
        }
        Ok(values)
    }

    /// Checks that output `to` computed over the data of input `from`, where both have the same type and shape,
    /// equals the result in separate memory.
    fn check_in_place(
        &self,
        op: &dyn Operator,
        inputs: &[Option<Value>],
        expected: &[Value],
        (from, to): (usize, usize),
    ) -> Result<(), String> {
        let Some(Some(Value::Tensor(input))) = inputs.get(from) else { return Ok(()) };
        let Some(Value::Tensor(output)) = expected.get(to) else { return Ok(()) };
        if (input.dtype(), input.shape()) != (output.dtype(), output.shape()) {
            return Ok(());
        }
        let mut data = input.clone();
        let mut views: Vec<_> =
            inputs.iter().map(|value| value.as_ref().map(Value::view)).collect();
        views[from] = None;
        let mut outputs: Vec<_> = (0..self.n_outputs).map(|_| Output::free()).collect();
        outputs[to] = Output::in_place(data.view_mut(), from);
        op.eval(Inputs::new(&views), &mut outputs).map_err(|error| error.to_string())?;
        drop(outputs);
        assert_eq!(data, *output, "output {to} over input {from}");
        Ok(())
    }
}

fn infer(
    op: &dyn Operator,
    inputs: &[Option<Value>],
    fact_of: fn(&Value) -> Fact,
) -> Result<Vec<Fact>, String> {
    let facts: Vec<_> = inputs.iter().map(|value| value.as_ref().map(fact_of)).collect();
    let facts: Vec<_> = facts.iter().map(Option::as_ref).collect();
    op.infer(&Facts::new(&facts)).map_err(|error| error.to_string())
}

fn constant(value: &Value) -> Fact {
    value.as_tensor().map_or_else(|_| Fact::of_value(value), |t| Fact::constant(t.clone()))
}

fn unranked(value: &Value) -> Fact {
    value.as_tensor().map_or_else(|_| Fact::of_value(value), |t| Fact::unranked(t.dtype()))
}

/// A tensor from a slice, for tables of cases.
pub(crate) fn tensor<T: ort_tensor::Element>(shape: &[usize], data: &[T]) -> Tensor {
    Tensor::from_slice(shape, data).expect("the case's own shape fits its data")
}
