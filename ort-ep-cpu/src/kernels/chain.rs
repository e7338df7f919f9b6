//! Chains of element-wise operators in f32 as one step: each piece of the result passes through all of
//! them while it is in the first-level cache.
//!
//! ```text
//! for each piece:  y = x;  y = f₁(y);  y = y ∘ b₂;  y = f₃(y);  …
//! ```
//! Every element is computed as by the separate operators, so the bits are the same.

// collects are bounded: by the nodes of the claim

use ort_ep::{Claim, CompileError, Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Graph, NodeId, OpError, ValueId};
use ort_kernels::{Activation, Isa};
use ort_ops::broadcast::Runs;
use ort_ops::ops::binary::Binary;
use ort_tensor::{DType, Inputs, Shape, TensorViewMut};
use smallvec::SmallVec;

use super::unary::Function;
use super::{Compiled, Compiler, KernelDef, op};
use crate::operation::{Combiner, Operand, Operation, long};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// Longer chains are split: the session claims the rest separately.
const MAX_LINKS: usize = 32;

/// A chain; input 0 passes through it, and has the shape of the result. If operators also use it
/// as their other operand, each piece of it is kept until they are all done.
#[derive(Debug)]
struct ChainKernel {
    isa: Isa,
    links: Vec<Link>,
}

/// One operator of a chain.
#[derive(Clone, Copy, Debug)]
enum Link {
    Unary(Function),
    /// `y ∘ b`, or `b ∘ y`: `b` is this input; input 0 stands for its original value.
    Binary {
        operation: Operation,
        input: usize,
        is_before: bool,
    },
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// For each link, the traversal of its operand.
    runs: Vec<Option<Runs<2>>>,
}

/// A node that can be a link, and the operands that the chain can pass through.
struct Candidate {
    id: NodeId,
    /// Input 0, or 1, or either.
    chained: SmallVec<[usize; 2]>,
}

/// The longest chain that ends at `root`, if it has at least two operators.
fn claim(graph: &Graph, root: NodeId) -> Option<Claim> {
    let mut nodes: SmallVec<[NodeId; 1]> = SmallVec::new();
    let mut others: SmallVec<[Option<ValueId>; 4]> = SmallVec::new();
    let mut candidate = candidate(graph, root, root)?;
    let through = loop {
        let node = graph.node(candidate.id);
        nodes.push(candidate.id);
        let next = candidate.chained.iter().find_map(|&input| {
            let value = node.inputs[input]?;
            let is_last = nodes.len() == MAX_LINKS;
            let before = if is_last { None } else { producer(graph, value, root) };
            before.map(|before| (input, before))
        });
        let (input, before) = match next {
            Some((input, before)) => (input, Some(before)),
            None => (*candidate.chained.first()?, None),
        };
        if op::<Binary>(graph, candidate.id).is_some() {
            others.push(node.inputs[1 - input]);
        }
        match before {
            Some(before) => candidate = before,
            None => break node.inputs[input],
        }
    };
    if nodes.len() < 2 {
        return None;
    }
    nodes.reverse();
    others.reverse();
    others.retain(|other| *other != through);
    let inputs = std::iter::once(through).chain(others).collect();
    // bounded: by the nodes of the claim
    let (outputs, in_place) = (graph.node(root).outputs.clone(), SmallVec::from_elem((0, 0), 1));
    Some(Claim { nodes, inputs, outputs, in_place })
}

/// The link that computes `value`, if it has no other reader.
fn producer(graph: &Graph, value: ValueId, root: NodeId) -> Option<Candidate> {
    let (id, _) = graph.producer(value)?;
    let is_private = graph.consumers(value).len() == 1 && !graph.outputs().contains(&value);
    if is_private { candidate(graph, id, root) } else { None }
}

/// The node as a link of a chain that ends at `root`: an operator in f32 whose result and chained
/// operand certainly have the shape of the root's result.
fn candidate(graph: &Graph, id: NodeId, root: NodeId) -> Option<Candidate> {
    let node = graph.node(id);
    let shape = |value: ValueId| graph.fact(value).dims();
    let result = shape(graph.node(root).outputs.first().copied().flatten()?)?;
    let has_shape = |value: ValueId| shape(value).is_some_and(|dims| Dim::all_equal(dims, result));
    let values = node.inputs.iter().chain(&node.outputs).flatten();
    let is_f32 = |&value: &ValueId| graph.fact(value).dtype() == Some(DType::F32);
    let output = node.outputs.first().copied().flatten()?;
    if !values.into_iter().all(is_f32) || !has_shape(output) {
        return None;
    }
    let is_chained =
        |&input: &usize| node.inputs.get(input).copied().flatten().is_some_and(has_shape);
    let chained: SmallVec<[usize; 2]> = match link(graph, id)? {
        Link::Unary(_) => [0].into_iter().filter(is_chained).collect(),
        Link::Binary { .. } => [0, 1].into_iter().filter(is_chained).collect(),
    };
    (!chained.is_empty()).then_some(Candidate { id, chained })
}

/// The operation of a node; the input index is assigned later.
fn link(graph: &Graph, id: NodeId) -> Option<Link> {
    if let Some(binary) = op::<Binary>(graph, id) {
        let operation = Operation::of_op(*binary)?;
        return Some(Link::Binary { operation, input: 0, is_before: false });
    }
    let function = Function::of(graph, id)?;
    let inputs = &graph.node(id).inputs;
    Some(Link::Unary(match function {
        Function::ClipByInputs => {
            let bound = |index: usize, absent: f32| match inputs.get(index).copied().flatten() {
                None => Some(absent),
                Some(bound) => match graph.constant(bound)?.as_slice::<f32>().ok()? {
                    [bound] => Some(*bound),
                    _ => None,
                },
            };
            Function::clip(bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?)
        }
        // The constant exponent is part of the function.
        Function::Pow(_) => function,
        // A bias belongs to another kernel.
        _ if inputs.iter().skip(1).any(Option::is_some) => return None,
        _ => function,
    }))
}

/// The activation of a node that clamps between constants.
pub(super) fn clamp(graph: &Graph, id: NodeId) -> Option<Activation> {
    match link(graph, id)? {
        Link::Unary(Function::Activation(activation)) => activation.as_clamp().map(|_| activation),
        _ => None,
    }
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    if claim.nodes.len() < 2 {
        return Ok(None);
    }
    let mut n_inputs = 1;
    let mut through = claim.inputs[0];
    // bounded: by the nodes of the claim
    let mut links = Vec::with_capacity(claim.nodes.len());
    for &id in &claim.nodes {
        let node = graph.node(id);
        links.push(match link(graph, id).ok_or_else(|| foreign(&node.op_type))? {
            Link::Binary { operation, .. } => {
                let is_before = node.inputs[0] != through;
                let other = node.inputs[if is_before { 0 } else { 1 }];
                let input = if other == claim.inputs[0] { 0 } else { n_inputs };
                n_inputs += usize::from(input > 0);
                Link::Binary { operation, input, is_before }
            }
            unary => unary,
        });
        through = node.outputs[0];
    }
    Ok(Some(Box::new(ChainKernel { isa: compiler.cpu.isa, links })))
}

fn foreign(op_type: &str) -> CompileError {
    let provider = crate::CpuProvider::NAME;
    CompileError::NotClaimed { provider, op_type: op_type.to_owned() }
}

impl Kernel for ChainKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&shape) = shapes.first() else { return Err(KernelError::ForeignState) };
        let runs = self.links.iter().map(|link| match *link {
            Link::Unary(_) => Ok(None),
            Link::Binary { input, is_before, .. } => {
                let other = shapes.get(input).copied().ok_or(KernelError::ForeignState)?;
                let operands = if is_before { [other, shape] } else { [shape, other] };
                Ok(Some(long(Runs::new(shape, operands)?)))
            }
        });
        let runs: Result<Vec<_>, KernelError> = runs.collect();
        Ok(Prepared::new(State { shape: shape.into(), runs: runs? }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let x = match io.outputs[0].in_place_of() {
            Some(0) => None,
            _ => Some(io.inputs.tensor(0)?.as_slice::<f32>()?),
        };
        let mut others: SmallVec<[&[f32]; MAX_LINKS]> = SmallVec::new();
        for link in &self.links {
            match *link {
                Link::Unary(_) | Link::Binary { input: 0, .. } => {}
                Link::Binary { input, .. } => others.push(operand(io.inputs, input)?),
            }
        }
        let is_read_again =
            self.links.iter().any(|link| matches!(link, Link::Binary { input: 0, .. }));
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &state.shape)?)?;
        let cost = Rows::ELEMENTS.cost * self.links.len();
        Rows { cost, ..Rows::ELEMENTS }.for_each(io.threads, y, |start, y| {
            let mut combiner = Combiner::new(self.isa);
            let mut kept = [0.0; PIECE];
            for (i, y) in y.chunks_mut(PIECE).enumerate() {
                let start = start + i * PIECE;
                let kept = &mut kept[..y.len()];
                let x: &[f32] = match x {
                    Some(x) => {
                        y.copy_from_slice(&x[start..][..y.len()]);
                        &x[start..][..y.len()]
                    }
                    None if is_read_again => {
                        kept.copy_from_slice(y);
                        kept
                    }
                    None => &[],
                };
                self.piece(state, (x, &others), (start, y), &mut combiner);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "chain_f32")
    }
}

/// Elements that pass through the chain together: 4 KiB, and as much of each operand.
const PIECE: usize = 1024;

fn operand(inputs: Inputs<'_>, index: usize) -> Result<&[f32], KernelError> {
    inputs.tensor(index)?.as_slice().map_err(|error| KernelError::Op(OpError::from(error)))
}

impl ChainKernel {
    /// Applies all links to a piece that starts at element `start` of the result; `x` is its original value.
    fn piece(
        &self,
        state: &State,
        (x, others): (&[f32], &[&[f32]]),
        (start, y): (usize, &mut [f32]),
        combiner: &mut Combiner,
    ) {
        let mut others = others.iter().copied();
        for (link, runs) in self.links.iter().zip(&state.runs) {
            match (*link, runs) {
                (Link::Unary(function), _) => function.apply(self.isa, y),
                (Link::Binary { operation, input: 0, is_before }, _) => {
                    let (y_now, x) = (Operand::InPlace, Operand::Row(x));
                    let (a, b) = if is_before { (x, y_now) } else { (y_now, x) };
                    combiner.run(operation, y, a, b);
                }
                (Link::Binary { operation, is_before, .. }, Some(runs)) => {
                    let other = others.next();
                    let operands = if is_before { [other, None] } else { [None, other] };
                    combiner.piece(operation, runs, (start, &mut *y), operands);
                }
                (Link::Binary { .. }, None) => unreachable!("invariant: the link is prepared"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::steps::assert_steps;

    #[test]
    fn a_chain_has_the_bits_of_its_operators() {
        assert_steps(
            "graph(x: float[3,40,211], c: float[40,1], u: float[3,40,211]) -> (y) {
               half = const float[] 0.5
               low = const float[] -1
               a = Mul-14 (x, c)
               b = Add-14 (half, a)
               d = Clip-13 (b, low)
               e = Sub-14 (u, d)
               f = HardSwish-14 (e)
               y = Div-14 (f, c)
             }",
            &[6],
        );
    }

    #[test]
    fn the_chained_value_can_be_an_operand_again() {
        assert_steps(
            "graph(x: float[5,7]) -> (y, z) {
               s = Sigmoid-13 (x)
               y = Mul-14 (x, s)
               a = Mul-14 (y, y)
               b = Sub-14 (y, a)
               c = Tanh-13 (b)
               d = Div-14 (c, y)
               e = Sub-14 (d, x)
               z = Add-14 (y, e)
             }",
            &[2, 6],
        );
    }

    #[test]
    fn a_chain_ends_at_a_second_reader_or_a_shape_change() {
        assert_steps(
            "graph(x: float[1,3], u: float[2,3]) -> (b, d, z) {
               a = Neg-13 (x)
               b = Abs-13 (a)
               c = Add-14 (b, u)
               d = Relu-14 (c)
               e = Exp-13 (d)
               f = Softmax-13 (e)
               z = Sqrt-13 (f)
             }",
            &[2, 2, 1, 1, 1],
        );
    }

    #[test]
    fn long_chains_are_split() {
        let text: String = (0..40).map(|i| format!("v{} = Neg-13 (v{i})\n", i + 1)).collect();
        assert_steps(&format!("graph(v0: float[9]) -> (v40) {{ {text} }}"), &[8, 32]);
    }
}
