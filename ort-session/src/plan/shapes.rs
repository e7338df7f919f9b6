//! What follows from the shapes of a run's inputs: every shape, and contents where they follow, too.

use ort_graph::{Fact, Node, OpError, TensorType, Type, ValueId};
use ort_tensor::{DType, Inputs, Output, Shape, Tensor, Value, ValueView, n_elements};
use smallvec::SmallVec;

use super::{Plan, PlanError};

/// Contents up to this size are computed along with the shapes: shapes themselves, and what
/// graphs compute from them.
const MAX_KNOWN_BYTES: usize = 1024;

/// What a plan is run with: views of its inputs, and for a subgraph of what it captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    pub(crate) inputs: &'a [ValueView<'a>],
    pub(crate) captures: &'a [ValueView<'a>],
}

/// The types and shapes of inputs and captures, in order. Equal signatures share a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature(Vec<Option<(DType, Shape)>>);

impl Signature {
    pub(super) fn new(args: &Args<'_>) -> Self {
        let of = |view: &ValueView<'_>| match view {
            ValueView::Tensor(view) => Some((view.dtype(), Shape::from_slice(view.shape()))),
            _ => None,
        };
        Self(args.inputs.iter().chain(args.captures).map(of).collect())
    }

    /// Whether `args` have this signature; allocates nothing.
    pub(super) fn matches(&self, args: &Args<'_>) -> bool {
        let n = args.inputs.len() + args.captures.len();
        self.0.len() == n
            && self.0.iter().zip(args.inputs.iter().chain(args.captures)).all(|(own, view)| match (
                own, view,
            ) {
                (Some((dtype, shape)), ValueView::Tensor(view)) => {
                    *dtype == view.dtype() && shape.as_slice() == view.shape()
                }
                (None, ValueView::Tensor(_)) => false,
                (own, _) => own.is_none(),
            })
    }
}

impl Plan {
    /// The fact of every value for a run with inputs of these types and shapes.
    pub(crate) fn facts(&self, args: &Args<'_>) -> Result<Vec<Fact>, PlanError> {
        propagate(self, args)
            .map_err(|(node, error)| PlanError::Shapes { node, error: Box::new(error) })
    }
}

fn propagate(plan: &Plan, args: &Args<'_>) -> Result<Vec<Fact>, (String, OpError)> {
    let graph = &plan.graph;
    let start = |id: ValueId| graph.constant(id).cloned().map_or(Fact::UNKNOWN, Fact::constant);
    let mut facts: Vec<Fact> = graph.value_ids().map(start).collect();
    for (&id, view) in graph.inputs().iter().zip(args.inputs) {
        facts[id.index()] = fact_of(*view);
    }
    for (&(here, _), view) in graph.captures().iter().zip(args.captures) {
        facts[here.index()] = fact_of(*view);
    }
    for &id in &plan.order {
        let node = graph.node(id);
        let inferred = graph.inferred(node, |value| &facts[value.index()]);
        let inferred = inferred.map_err(|error| (node.label().to_owned(), error))?;
        let known = contents(node, &facts, &inferred);
        for (i, (&output, fact)) in node.outputs.iter().zip(inferred).enumerate() {
            let Some(output) = output else { continue };
            let known = known.as_ref().and_then(|known| known.get(i)?.clone());
            facts[output.index()] = match known {
                Some(tensor) => Fact::constant(tensor),
                None if node.op.behaviour().control.is_some() => without_shape(fact.ty).into(),
                None if fact.ty == Type::Unknown => {
                    without_shape(graph.fact(output).ty.clone()).into()
                }
                None => fact,
            };
        }
    }
    Ok(facts)
}

/// The fact of a value that is there: small contents are not looked at, and neither are shapes
/// within a sequence or optional, which a [`Signature`] does not hold.
pub(crate) fn fact_of(view: ValueView<'_>) -> Fact {
    match view {
        ValueView::Tensor(view) => Fact::shaped(view.dtype(), view.shape()),
        ValueView::Other(value) => without_shape(Type::of_value(value)).into(),
        _ => Fact::UNKNOWN,
    }
}

/// The same without what only a run can tell.
fn without_shape(ty: Type) -> Type {
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType { dims: None, ..tensor }),
        Type::Sequence(item) => Type::Sequence(Box::new(without_shape(*item))),
        Type::Optional(inner) => Type::Optional(Box::new(without_shape(*inner))),
        other => other,
    }
}

/// The outputs of a node whose inputs are all known, and small, as its outputs are.
fn contents(node: &Node, facts: &[Fact], inferred: &[Fact]) -> Option<Vec<Option<Tensor>>> {
    let behaviour = node.op.behaviour();
    if behaviour.control.is_some() || !behaviour.is_deterministic {
        return None;
    }
    let mut wanted = node.outputs.iter().zip(inferred).filter(|(id, _)| id.is_some());
    if !wanted.all(|(_, fact)| n_bytes(fact).is_some_and(|n| n <= MAX_KNOWN_BYTES)) {
        return None;
    }
    let is_small = |tensor: &Tensor| tensor.n_bytes() <= MAX_KNOWN_BYTES;
    let mut views: SmallVec<[Option<ValueView<'_>>; 8]> = SmallVec::new();
    for input in &node.inputs {
        views.push(match input {
            None => None,
            Some(id) => {
                let constant = facts[id.index()].constant.as_ref().filter(|t| is_small(t))?;
                Some(ValueView::Tensor(constant.view()))
            }
        });
    }
    let mut outputs: Vec<Output<'_>> = node.outputs.iter().map(|_| Output::free()).collect();
    // An error here is reported by the run, where the node computes for real.
    node.op.eval(Inputs::new(&views), &mut outputs).ok()?;
    let tensor = |output: Output<'_>| match output.into_value() {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    Some(outputs.into_iter().map(tensor).collect())
}

/// The size of a tensor of numbers, if its shape is known.
fn n_bytes(fact: &Fact) -> Option<usize> {
    fact.dtype()?.n_bytes(n_elements(&fact.shape()?)?)
}
