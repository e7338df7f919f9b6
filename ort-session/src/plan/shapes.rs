//! Facts that follow from the shapes of a run's inputs: every shape, and contents derived from shapes.

// collects are bounded: as long as the graph's lists

use ort_graph::{Dim, Fact, Graph, Node, OpError, TensorType, Type, ValueId};
use ort_tensor::{DType, Inputs, Output, Tensor, Value, ValueView, n_elements};
use smallvec::SmallVec;

use super::{Plan, PlanError};

/// Contents up to this size are computed along with shapes: shapes themselves, and what
/// graphs compute from them.
const MAX_KNOWN_BYTES: usize = 1024;

/// The arguments of a plan: views of its inputs, and for a subgraph of its captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    pub(crate) inputs: &'a [ValueView<'a>],
    pub(crate) captures: &'a [ValueView<'a>],
}

/// The types and shapes of inputs and captures, in order; some dimensions may be dynamic. Equal
/// signatures share a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature(Vec<Kind>);

/// The part of a signature for one value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A tensor of this type, and of this rank and these dimensions, where `None` is any size.
    Tensor(DType, Option<SmallVec<[Option<usize>; 6]>>),
    Other,
}

impl Kind {
    fn of(view: &ValueView<'_>) -> Self {
        match view {
            ValueView::Tensor(view) => {
                Kind::Tensor(view.dtype(), Some(view.shape().iter().copied().map(Some).collect()))
            }
            _ => Kind::Other,
        }
    }

    fn matches(&self, view: &ValueView<'_>) -> bool {
        match (self, view) {
            (Kind::Tensor(dtype, dims), ValueView::Tensor(view)) => {
                let is = |(dim, n): (&Option<usize>, &usize)| dim.is_none_or(|dim| dim == *n);
                let is_of = |dims: &SmallVec<[Option<usize>; 6]>| {
                    dims.len() == view.shape().len() && dims.iter().zip(view.shape()).all(is)
                };
                *dtype == view.dtype() && dims.as_ref().is_none_or(is_of)
            }
            (Kind::Other, ValueView::Tensor(_)) | (Kind::Tensor(..), _) => false,
            (Kind::Other, _) => true,
        }
    }

    /// Whether both have the same type and rank, and no dynamic dimensions.
    fn is_like(&self, other: &Self) -> bool {
        let is_known = |dims: &SmallVec<[Option<usize>; 6]>| dims.iter().all(Option::is_some);
        match (self, other) {
            (Kind::Tensor(a, Some(dims)), Kind::Tensor(b, Some(others))) => {
                a == b && dims.len() == others.len() && is_known(dims) && is_known(others)
            }
            (Kind::Other, Kind::Other) => true,
            _ => false,
        }
    }

    /// A kind that also matches `view`.
    fn or(&self, view: &ValueView<'_>) -> Self {
        match (self, view) {
            (Kind::Tensor(dtype, dims), ValueView::Tensor(view)) if *dtype == view.dtype() => {
                let dims = dims.as_ref().filter(|dims| dims.len() == view.shape().len());
                let common = |(dim, n): (&Option<usize>, &usize)| dim.filter(|dim| dim == n);
                let dims = dims.map(|dims| dims.iter().zip(view.shape()).map(common).collect());
                Kind::Tensor(*dtype, dims)
            }
            _ => Kind::of(view),
        }
    }

    /// The fact of a value that matches.
    fn fact(&self, view: &ValueView<'_>) -> Fact {
        let dim = |dim: &Option<usize>| dim.map_or(Dim::Unknown, Dim::Known);
        match self {
            Kind::Tensor(dtype, Some(dims)) => Fact::tensor(*dtype, dims.iter().map(dim)),
            Kind::Tensor(dtype, None) => Fact::unranked(*dtype),
            Kind::Other => fact_of(*view),
        }
    }
}

impl Signature {
    pub(super) fn new(args: &Args<'_>) -> Self {
        Self(args.all().map(Kind::of).collect())
    }

    /// Whether `args` have this signature; allocates nothing.
    pub(super) fn matches(&self, args: &Args<'_>) -> bool {
        let n = args.inputs.len() + args.captures.len();
        self.0.len() == n && self.0.iter().zip(args.all()).all(|(own, view)| own.matches(view))
    }

    /// The facts that differ from those of `before`; `None` if more than dimensions
    /// differ.
    pub(super) fn differing(
        &self,
        before: &Self,
        args: &Args<'_>,
    ) -> Option<SmallVec<[Option<Fact>; 8]>> {
        let pairs = self.0.iter().zip(&before.0);
        let are_alike = self.0.len() == before.0.len() && pairs.clone().all(|(a, b)| a.is_like(b));
        let fact =
            |((own, before), view): ((&Kind, &Kind), _)| (own != before).then(|| own.fact(view));
        are_alike.then(|| pairs.zip(args.all()).map(fact).collect())
    }

    /// A signature that `args` match as well: dimensions that differ become dynamic.
    pub(super) fn or(&self, args: &Args<'_>) -> Self {
        Self(self.0.iter().zip(args.all()).map(|(own, view)| own.or(view)).collect())
    }
}

impl<'a> Args<'a> {
    fn all(&self) -> impl Iterator<Item = &'a ValueView<'a>> {
        self.inputs.iter().chain(self.captures)
    }
}

impl Plan {
    /// The fact of every value for a run with inputs of these types and shapes.
    pub(crate) fn facts(&self, args: &Args<'_>) -> Result<Vec<Fact>, PlanError> {
        self.facts_of(args, &Signature::new(args))
    }

    /// The same for all inputs that match a signature, such as `args`.
    pub(super) fn facts_of(
        &self,
        args: &Args<'_>,
        signature: &Signature,
    ) -> Result<Vec<Fact>, PlanError> {
        propagate(self, args, signature)
            .map_err(|(node, error)| PlanError::Shapes { node, error: Box::new(error) })
    }
}

fn propagate(
    plan: &Plan,
    args: &Args<'_>,
    signature: &Signature,
) -> Result<Vec<Fact>, (String, OpError)> {
    let graph = &plan.graph;
    let start = |id: ValueId| graph.constant(id).cloned().map_or(Fact::UNKNOWN, Fact::constant);
    let mut facts: Vec<Fact> = graph.value_ids().map(start).collect();
    let given = graph.inputs().iter().chain(graph.captures().iter().map(|(here, _)| here));
    for ((&id, view), kind) in given.zip(args.all()).zip(&signature.0) {
        facts[id.index()] = kind.fact(view);
    }
    for &id in &plan.order {
        let node = graph.node(id);
        let inferred = inferred(graph, node, |value| &facts[value.index()]);
        let inferred = inferred.map_err(|error| (node.label().to_owned(), error))?;
        for (output, fact) in node.outputs.iter().zip(inferred) {
            if let Some(output) = output {
                facts[output.index()] = fact;
            }
        }
    }
    Ok(facts)
}

/// The facts of the outputs of a node before a run.
pub(super) fn inferred<'f>(
    graph: &'f Graph,
    node: &Node,
    fact_of: impl Fn(ValueId) -> &'f Fact,
) -> Result<Vec<Fact>, OpError> {
    let mut inferred = graph.inferred(node, &fact_of)?;
    let known = contents(node, &fact_of, &inferred);
    for (i, (&output, fact)) in node.outputs.iter().zip(&mut inferred).enumerate() {
        let Some(output) = output else { continue };
        if let Some(tensor) = known.as_ref().and_then(|known| known.get(i)?.clone()) {
            *fact = Fact::constant(tensor);
        } else if node.op.behaviour().control.is_some() {
            *fact = without_shape(std::mem::take(&mut fact.ty)).into();
        } else if fact.ty == Type::Unknown {
            *fact = without_shape(graph.fact(output).ty.clone()).into();
        }
    }
    Ok(inferred)
}

/// The fact of an actual value, without its contents, and without the shapes
/// in a sequence or optional, which a [`Signature`] does not hold.
pub(crate) fn fact_of(view: ValueView<'_>) -> Fact {
    match view {
        ValueView::Tensor(view) => Fact::shaped(view.dtype(), view.shape()),
        ValueView::Other(value) => without_shape(Type::of_value(value)).into(),
        _ => Fact::UNKNOWN,
    }
}

/// The type without what only a run determines.
fn without_shape(ty: Type) -> Type {
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType { dims: None, ..tensor }),
        Type::Sequence(item) => Type::Sequence(Box::new(without_shape(*item))),
        Type::Optional(inner) => Type::Optional(Box::new(without_shape(*inner))),
        other => other,
    }
}

/// The outputs of a node, if its inputs are known and small, and its outputs are small.
fn contents<'f>(
    node: &Node,
    fact_of: impl Fn(ValueId) -> &'f Fact,
    inferred: &[Fact],
) -> Option<Vec<Option<Tensor>>> {
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
                let constant = fact_of(*id).constant.as_ref().filter(|t| is_small(t))?;
                Some(ValueView::Tensor(constant.view()))
            }
        });
    }
    let mut outputs: Vec<Output<'_>> = node.outputs.iter().map(|_| Output::free()).collect();
    // An error is reported by the run, when the node computes its result.
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
