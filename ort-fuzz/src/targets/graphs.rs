//! Random graphs at every level, by the CPU provider, compared with `Reference`.

use std::sync::Arc;

use bytes::Bytes;
use ort_graph::Graph;
use ort_session::provider::Reference;
use ort_session::{
    DType, Level, ModelBytes, Outputs, RunError, Session, SessionError, Tensor, Value,
};
use ort_tensor_io::{Tolerance, compare};

use super::Attack;
use crate::attack::Outcome;
use crate::grammar::{Sample, draw, templates};
use crate::stages::{LEVELS, builder, options};

pub(super) fn prepare() -> Attack {
    let registry = ort_ops::registry();
    let templates = templates(&registry);
    Box::new(move |mutant| {
        let Some(sample) = draw(&templates, &registry, &mut mutant.rng) else {
            return Outcome::Rejected;
        };
        mutant.label = sample.graph.text().to_string();
        compared(&sample)
    })
}

fn compared(sample: &Sample) -> Outcome {
    let reference = match result(sample, Level::Disable, true) {
        Done::Outputs(outputs) => outputs,
        Done::Limited => return Outcome::Rejected,
        Done::Failed(error) => {
            // Higher levels may remove what fails.
            return match result(sample, Level::Disable, false) {
                Done::Outputs(_) => Outcome::Found(format!("runs, though by eval {error}")),
                _ => Outcome::Rejected,
            };
        }
    };
    let tolerance = Bounds::of(&sample.graph);
    for level in LEVELS {
        match result(sample, level, false) {
            Done::Outputs(outputs) => {
                if let Some(what) = tolerance.difference(&sample.graph, &reference, &outputs) {
                    return Outcome::Found(format!("at level {level}: {what}"));
                }
            }
            Done::Limited => {}
            Done::Failed(error) => {
                return Outcome::Found(format!("fails at level {level}: {error}"));
            }
        }
    }
    Outcome::Accepted
}

enum Done {
    Outputs(Outputs),
    /// A limit was exceeded.
    Limited,
    Failed(String),
}

/// The outputs by the CPU provider, or by `eval`.
fn result(sample: &Sample, level: Level, is_reference: bool) -> Done {
    let mut builder = builder(level);
    if is_reference {
        builder = builder.provider(Arc::new(Reference));
    }
    let session: Session =
        match builder.commit(ModelBytes::from_owner(Bytes::from(sample.file.clone()))) {
            Ok(session) => session,
            Err(SessionError::Limit(_)) => return Done::Limited,
            Err(error) => return Done::Failed(error.to_string()),
        };
    let inputs: Vec<(&str, &Tensor)> =
        sample.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    match session.run_with(inputs, &options()) {
        Ok(outputs) => Done::Outputs(outputs),
        Err(RunError::Limit(_)) => Done::Limited,
        Err(error) => Done::Failed(error.to_string()),
    }
}

/// How much results may deviate. Errors of chains of nodes are not derived; the bound is what no rounding explains.
struct Bounds {
    is_deterministic: bool,
    /// Relative to the largest element.
    relative: f64,
    /// Of integers.
    integers: f64,
    /// Whether bools and texts are comparisons of rounded numbers.
    is_rounded: bool,
}

impl Bounds {
    fn of(graph: &Graph) -> Self {
        let dtypes: Vec<DType> =
            graph.value_ids().filter_map(|id| graph.fact(id).dtype()).collect();
        let has = |few: &[DType]| dtypes.iter().any(|dtype| few.contains(dtype));
        let is_float = dtypes.iter().any(|dtype| dtype.is_float());
        let relative = match () {
            () if has(&[DType::Bf16]) => 0.1,
            () if has(&[DType::F16]) => 0.02,
            () => 1e-3,
        };
        let nodes = || graph.node_ids().map(|id| graph.node(id));
        Self {
            is_deterministic: nodes().all(|node| node.op.behaviour().is_deterministic),
            relative,
            integers: if is_float { 1.0 } else { 0.0 },
            is_rounded: is_float && nodes().count() > 1,
        }
    }

    /// The first output that differs, and its operator.
    fn difference(&self, graph: &Graph, expected: &Outputs, found: &Outputs) -> Option<String> {
        let producer = |id| Some(graph.node(graph.producer(id)?.0).op_type.clone());
        let names = graph.outputs().iter().map(|id| producer(*id).unwrap_or_default());
        let pairs = expected.iter().zip(found.iter()).zip(names);
        pairs
            .filter_map(|(((_, expected), (_, found)), op_type)| {
                Some(format!("{op_type}: {}", self.differ(expected, found)?))
            })
            .next()
    }

    fn differ(&self, expected: &Value, found: &Value) -> Option<String> {
        if !self.is_deterministic {
            return None;
        }
        let tolerance = match expected {
            Value::Tensor(tensor) if tensor.dtype().is_float() => {
                let largest = largest(tensor);
                Tolerance { rtol: self.relative, atol: self.relative * largest }
            }
            Value::Tensor(tensor) if tensor.dtype().is_integer() => {
                Tolerance { rtol: 0.0, atol: self.integers }
            }
            _ if self.is_rounded => return None,
            _ => Tolerance { rtol: self.relative, atol: self.relative },
        };
        compare(expected, found, tolerance).err().map(|error| error.to_string())
    }
}

/// The largest finite element.
fn largest(tensor: &Tensor) -> f64 {
    let largest = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()))
    };
    match tensor.dtype() {
        DType::F32 => {
            let numbers = tensor.as_slice::<f32>().unwrap_or_default();
            largest(&mut numbers.iter().map(|x| f64::from(*x)))
        }
        DType::F64 => largest(&mut tensor.as_slice::<f64>().unwrap_or_default().iter().copied()),
        _ => 1.0,
    }
}
