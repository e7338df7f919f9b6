//! The epilogue of ConvInteger in dynamically quantized models: its sums become floats that
//! are scaled, biased or normalized, and clamped while they are in cache.
//!
//! ```text
//! y = clamp(float(sum)·scale·factor + summand)
//! ```
//! Each step is rounded separately, so the bits equal those of the separate operators.

// collects are bounded: by the operands

use ort_ep::{Claim, KernelError};
use ort_graph::{Dim, Graph, NodeId, OpError, ValueId};
use ort_kernels::Activation;
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_ops::ops::binary::Binary;
use ort_ops::ops::cast::Cast;
use ort_ops::ops::conv_integer::ConvInteger;
use ort_tensor::{DType, Inputs};
use smallvec::{SmallVec, smallvec};

use crate::kernels::{batch_norm, chain, op};

/// The first input of the epilogue, after those of the convolution.
const SCALE: usize = 4;
/// The bias, or the first parameter of BatchNormalization.
const NEXT: usize = 5;

/// The operators after a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epilogue {
    next: Next,
    pub(super) activation: Activation,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Nothing,
    Bias,
    Norm { epsilon: f64 },
}

/// A convolution with its epilogue.
pub(super) struct WithEpilogue {
    pub(super) conv: NodeId,
    pub(super) epilogue: Epilogue,
    claim: Claim,
}

/// The claim whose root is an epilogue's last node.
pub(super) fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    Some(WithEpilogue::at(graph, id)?.claim)
}

impl WithEpilogue {
    /// The convolution whose epilogue ends at `root`, if it has one.
    pub(super) fn at(graph: &Graph, root: NodeId) -> Option<Self> {
        let (mut id, mut nodes) = (root, smallvec![root]);
        // The producer of a value without other readers.
        let mut before = |value: Option<ValueId>| -> Option<NodeId> {
            let value = value?;
            let is_private = graph.consumers(value).len() == 1 && !graph.outputs().contains(&value);
            let (id, _) = graph.producer(value).filter(|_| is_private)?;
            nodes.push(id);
            Some(id)
        };
        let mut activation = Activation::None;
        if let Some(clamp) = chain::clamp(graph, id) {
            activation = clamp;
            id = before(graph.node(id).inputs[0])?;
        }
        let (mut next, mut others) = (Next::Nothing, Vec::new());
        if let Some(norm) = op::<BatchNormalization>(graph, id) {
            if !batch_norm::is_supported(norm, graph, graph.node(id)) {
                return None;
            }
            next = Next::Norm { epsilon: f64::from(norm.epsilon) };
            others.extend(&graph.node(id).inputs[1..5]);
            id = before(graph.node(id).inputs[0])?;
        } else if op::<Binary>(graph, id) == Some(&Binary::Add) {
            next = Next::Bias;
            let (sums, bias) = sides(graph, id)?;
            others.push(Some(bias));
            id = before(Some(sums))?;
        }
        op::<Binary>(graph, id).filter(|op| **op == Binary::Mul)?;
        let (floats, scale) = sides(graph, id)?;
        id = before(Some(floats))?;
        let cast = op::<Cast>(graph, id)?;
        (cast.to == DType::F32).then_some(())?;
        id = before(graph.node(id).inputs[0])?;
        op::<ConvInteger>(graph, id)?;
        nodes.reverse();
        let conv = graph.node(id);
        let mut inputs: SmallVec<[Option<ValueId>; 4]> = conv.inputs.clone();
        inputs.resize(SCALE, None); // bounded: by SCALE
        inputs.push(Some(scale));
        inputs.extend(others);
        let by_channel = [Some(scale), inputs.get(NEXT).copied().flatten()];
        let is_norm = matches!(next, Next::Norm { .. });
        let n_spread = if is_norm { 1 } else { 2 };
        let w = graph.fact(conv.inputs[1]?).dims()?;
        let fits = |value: &ValueId| is_by_channel(graph, *value, w);
        if !by_channel[..n_spread].iter().flatten().all(fits) {
            return None;
        }
        let outputs = graph.node(root).outputs.clone();
        let outputs = outputs.into_iter().take(1).collect();
        let claim = Claim { nodes, inputs, outputs, in_place: SmallVec::new() };
        Some(Self { conv: id, epilogue: Epilogue { next, activation }, claim })
    }
}

/// The two operands of a node: first the one that a Cast or a Mul produces,
/// the left one if both do.
fn sides(graph: &Graph, id: NodeId) -> Option<(ValueId, ValueId)> {
    let &[Some(a), Some(b)] = graph.node(id).inputs.as_slice() else { return None };
    let leads_there = |value: ValueId| {
        let Some((id, _)) = graph.producer(value) else { return false };
        let is_image = graph.fact(value).rank().is_some_and(|rank| rank > 2);
        is_image && (op::<Cast>(graph, id).is_some() || op::<Binary>(graph, id).is_some())
    };
    match (leads_there(a), leads_there(b)) {
        (true, _) => Some((a, b)),
        (_, true) => Some((b, a)),
        _ => None,
    }
}

/// Whether a float value is a scalar, or has one element per channel; `w` is the shape of
/// the weights.
fn is_by_channel(graph: &Graph, value: ValueId, w: &[Dim]) -> bool {
    let fact = graph.fact(value);
    let (Some(dims), Some(DType::F32)) = (fact.dims(), fact.dtype()) else { return false };
    if dims.len() > w.len() {
        return false;
    }
    let axis = |i: usize| i + w.len() - dims.len();
    let is_one = |dim: &Dim| *dim == Dim::Known(1);
    let fits = |(i, dim): (usize, &Dim)| is_one(dim) || (axis(i) == 1 && *dim == w[0]);
    dims.iter().enumerate().all(fits)
}

impl Epilogue {
    /// Writes the factors of the sums, the factors of those products, and the summands of each channel.
    pub(super) fn fill(
        self,
        inputs: Inputs<'_>,
        [scales, factors, summands]: [&mut [f32]; 3],
    ) -> Result<(), KernelError> {
        spread(inputs, SCALE, scales)?;
        // Neither changes the result of an arithmetic operation.
        factors.fill(1.0);
        summands.fill(-0.0);
        match self.next {
            Next::Nothing => Ok(()),
            Next::Bias => spread(inputs, NEXT, summands),
            Next::Norm { epsilon } => {
                for index in NEXT..NEXT + 4 {
                    let (left, right) = (inputs.tensor(index)?.shape(), [factors.len()]);
                    if left != right {
                        let (left, right) = (left.to_vec(), right.to_vec());
                        return Err(
                            OpError::Shapes { what: "values of channels", left, right }.into()
                        );
                    }
                }
                let parameters = batch_norm::Parameters::<f32>::at(inputs, NEXT)?;
                for (channel, (factor, summand)) in factors.iter_mut().zip(summands).enumerate() {
                    [*factor, *summand] = parameters.of(channel, epsilon);
                }
                Ok(())
            }
        }
    }
}

/// Copies the values at `index`, one for all or one per channel, to `to`.
fn spread(inputs: Inputs<'_>, index: usize, to: &mut [f32]) -> Result<(), KernelError> {
    match inputs.tensor(index)?.as_slice::<f32>()? {
        &[value] => to.fill(value),
        values if values.len() == to.len() => to.copy_from_slice(values),
        _ => return Err(KernelError::ForeignState),
    }
    Ok(())
}
