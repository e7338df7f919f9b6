//! Outputs and intermediate values, compared by name.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use ort_session::{IntermediateValue, Outputs, Session, TensorError, Value, ValueView, inspect};
use ort_tensor_io::{Deviation, Tolerance, compare, deviation};

use super::Side;
use crate::failure::Failure;
use crate::inputs::Inputs;

/// How far two values differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Comparison {
    /// Two tensors of the same type and shape.
    Tensors(Deviation),
    /// Two sequences, maps or optionals that are equal within the tolerance.
    Same,
    /// The reason, for values of different type or shape, values that one side lacks, and other values that differ.
    Other(String),
}

/// A node that computes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) node: String,
    pub(super) op_type: String,
}

/// A value that nodes of both models compute.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) sources: [Source; 2],
    pub(super) comparison: Comparison,
}

/// The values that nodes of both models compute.
#[derive(Debug)]
pub(super) struct Values {
    /// In the order in which A computes them, which is a topological one.
    pub(super) compared: Vec<Compared>,
    /// How many values each side computes.
    pub(super) counts: [usize; 2],
}

/// What A computes: by name the place in its order, the node and the value.
type Computed = HashMap<String, ((usize, usize), Source, Value)>;

impl Comparison {
    pub(super) const fn differs(&self) -> bool {
        match self {
            Comparison::Tensors(deviation) => deviation.n_beyond > 0,
            Comparison::Same => false,
            Comparison::Other(_) => true,
        }
    }

    fn of(expected: &Value, found: ValueView<'_>, tolerance: Tolerance) -> Self {
        let mismatch = match (expected, found) {
            (Value::Tensor(expected), ValueView::Tensor(found)) => {
                match deviation(expected.view(), found, tolerance) {
                    Ok(deviation) => return Comparison::Tensors(deviation),
                    Err(difference) => Some(difference.to_string()),
                }
            }
            (expected, ValueView::Other(found)) => {
                compare(expected, found, tolerance).err().map(|it| it.to_string())
            }
            (expected, _) => Some(format!("expected a {}, found a tensor", expected.kind())),
        };
        mismatch.map_or(Comparison::Same, Comparison::Other)
    }
}

/// Compares the outputs of A and B by name.
pub(super) fn outputs([a, b]: [&Outputs; 2], tolerance: Tolerance) -> Vec<(String, Comparison)> {
    let of_a = a.iter().map(|(name, expected)| {
        let comparison = match b.get(name) {
            Some(found) => Comparison::of(expected, found.view(), tolerance),
            None => Comparison::Other("only A has it".to_owned()),
        };
        (name.to_owned(), comparison)
    });
    let only_b = b.iter().filter(|(name, _)| a.get(name).is_none());
    let only_b =
        only_b.map(|(name, _)| (name.to_owned(), Comparison::Other("only B has it".to_owned())));
    of_a.chain(only_b).collect()
}

impl Values {
    /// Runs both models once more. All values of A are kept until B has run.
    pub(super) fn compare(
        [a, b]: [&Side<'_>; 2],
        inputs: &Inputs,
        tolerance: Tolerance,
    ) -> Result<Self, Failure> {
        let (names, names_b) = (names_in_file(a)?, names_in_file(b)?);
        let is_common = |name: &str| names.contains(name) && names_b.contains(name);
        let mut computed = Computed::new();
        let mut n_a = 0;
        observe(a, inputs, |value| {
            n_a += 1;
            if is_common(value.name) {
                let entry = ((value.step, n_a), source(value), value.value.to_value()?);
                computed.insert(value.name.to_owned(), entry);
            }
            Ok(())
        })?;
        let (mut compared, mut n_b) = (Vec::new(), 0);
        observe(b, inputs, |value| {
            n_b += 1;
            if let Some((place, of_a, expected)) = computed.remove(value.name) {
                let comparison = Comparison::of(&expected, value.value, tolerance);
                let (name, sources) = (value.name.to_owned(), [of_a, source(value)]);
                compared.push((place, Compared { name, sources, comparison }));
            }
            Ok(())
        })?;
        compared.sort_by_key(|(place, _)| *place);
        let compared = compared.into_iter().map(|(_, compared)| compared).collect();
        Ok(Self { compared, counts: [n_a, n_b] })
    }

    /// The first that differs, in topological order.
    pub(super) fn first_difference(&self) -> Option<&Compared> {
        self.compared.iter().find(|value| value.comparison.differs())
    }
}

/// The names of values in the model's file: names that the optimizer creates differ between models.
fn names_in_file(side: &Side<'_>) -> Result<HashSet<String>, Failure> {
    let inspected = inspect(side.session.bytes());
    let inspected = inspected.map_err(|source| Failure::model(side.path, source))?;
    Ok(inspected.computed.into_iter().collect())
}

fn source(value: &IntermediateValue<'_>) -> Source {
    Source { node: value.node.to_owned(), op_type: value.op_type.to_owned() }
}

/// Runs a model and visits each intermediate value.
fn observe(
    side: &Side<'_>,
    inputs: &Inputs,
    visit: impl FnMut(&IntermediateValue<'_>) -> Result<(), TensorError> + Send,
) -> Result<(), Failure> {
    let visit = Mutex::new((visit, Ok(())));
    let observe = |value: &IntermediateValue<'_>| {
        let (visit, done) = &mut *visit.lock().unwrap_or_else(PoisonError::into_inner);
        if done.is_ok() {
            let visited = visit(value);
            *done =
                visited.map_err(|source| Failure::Value { name: value.name.to_owned(), source });
        }
    };
    let session: &Session = &side.session;
    let run = session.run_observed(inputs.to_run(), &observe);
    run.map_err(|error| Failure::run(side.path, error))?;
    visit.into_inner().unwrap_or_else(PoisonError::into_inner).1
}
