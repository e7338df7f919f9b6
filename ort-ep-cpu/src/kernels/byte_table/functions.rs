//! Nodes that together compute a function of one quantized value.
//!
//! ```text
//! from the result on: while an open value has no reader outside, its node joins, and its operands are open instead
//! whenever all open values are one quantized value, or that value dequantized: the nodes so far are a function of it
//! ```

// collects are bounded: by the 256 values of a byte, and MAX_FUNCTIONS

use ort_ep::CompileError;
use ort_graph::{Dim, Graph, NodeId, ValueId};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::binary::Binary;
use ort_ops::ops::clip::Clip;
use ort_ops::ops::gelu::Gelu;
use ort_ops::ops::microsoft::qlinear_binary::QLinearBinary;
use ort_ops::ops::microsoft::qlinear_unary::QLinearUnary;
use ort_ops::ops::pow::Pow;
use ort_ops::ops::quantization::{DequantizeLinear, QuantizeLinear};
use ort_ops::ops::unary::Unary;
use ort_tensor::{DType, Inputs, Output, Tensor, Value, ValueView};
use smallvec::{SmallVec, smallvec};

use crate::kernels::op;

/// The maximum number of nodes of a function: longer ones are cut.
const MAX_FUNCTIONS: usize = 32;

/// The nodes that a table replaces.
pub(super) struct Functions {
    /// In order.
    pub(super) nodes: SmallVec<[NodeId; 4]>,
    pub(super) quantized: ValueId,
    /// How many nodes at the front have other readers, which keep them.
    pub(super) n_shared: usize,
}

/// A search for functions from their result on.
struct Search<'a> {
    graph: &'a Graph,
    /// From the last to the first.
    nodes: SmallVec<[NodeId; 4]>,
    /// The values that the nodes read, and do not compute.
    open: SmallVec<[ValueId; 4]>,
}

impl Functions {
    /// A node from quantized to quantized values, if its other operands are constant.
    pub(super) fn alone(graph: &Graph, id: NodeId) -> Option<Self> {
        let &[quantized] = &*operands(graph, id)? else { return None };
        is_byte(graph, quantized).then(|| Self { nodes: smallvec![id], quantized, n_shared: 0 })
    }

    /// The most nodes up to `root` that are a function of one quantized value.
    pub(super) fn to(graph: &Graph, root: NodeId) -> Option<Self> {
        let result = graph.node(root).outputs.first().copied().flatten()?;
        if !is_byte(graph, result) {
            return None;
        }
        let mut search = Search { graph, nodes: smallvec![root], open: operands(graph, root)? };
        let mut found = None;
        loop {
            found = search.found(result).or(found);
            if !search.extend() {
                return found;
            }
        }
    }

    /// The results of the nodes for every quantized value.
    pub(super) fn table(&self, graph: &Graph) -> Result<Tensor, CompileError> {
        let dtype = graph.fact(self.quantized).dtype().unwrap_or(DType::U8);
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let wrong = |id: NodeId| CompileError::NotClaimed {
            provider: crate::CpuProvider::NAME,
            op_type: graph.node(id).op_type.clone(),
        };
        let mut table = Tensor::from_bytes(dtype, &[bytes.len()], bytes.into())
            .map_err(|_| wrong(self.nodes[0]))?;
        let mut through = self.quantized;
        let mut others: SmallVec<[(ValueId, Tensor); 4]> = SmallVec::new();
        for &id in &self.nodes {
            let result = {
                let view = |input: ValueId| match others.iter().find(|(value, _)| *value == input) {
                    _ if input == through => Some(&table),
                    Some((_, tensor)) => Some(tensor),
                    None => graph.constant(input),
                };
                let inputs = graph.node(id).inputs.iter();
                let views = inputs.map(|input| Some(ValueView::Tensor(view((*input)?)?.view())));
                let views: Vec<_> = views.collect();
                let mut outputs = [Output::free()];
                let done = graph.node(id).op.eval(Inputs::new(&views), &mut outputs);
                let [output] = outputs;
                match (done, output.into_value()) {
                    (Ok(()), Some(Value::Tensor(result))) => result,
                    _ => return Err(wrong(id)),
                }
            };
            others.push((through, std::mem::replace(&mut table, result)));
            through = graph.node(id).outputs[0].ok_or_else(|| wrong(id))?;
        }
        Ok(table)
    }
}

impl Search<'_> {
    /// The nodes so far, if all that they read is one quantized value with the shape of the result.
    fn found(&self, result: ValueId) -> Option<Functions> {
        let graph = self.graph;
        let mut quantized = None;
        let [mut shared, mut nodes] = [(); 2].map(|()| SmallVec::<[NodeId; 4]>::new());
        for &value in &self.open {
            let mut source = value;
            if !is_byte(graph, value) {
                let (id, _) = graph
                    .producer(value)
                    .filter(|&(id, _)| op::<DequantizeLinear>(graph, id).is_some())?;
                source = operands(graph, id)?.first().copied()?;
                if self.owns(value) { nodes.push(id) } else { shared.push(id) }
            }
            let is_same = quantized.replace(source).is_none_or(|other| other == source);
            if !is_same || !is_byte(graph, source) {
                return None;
            }
        }
        let quantized = quantized?;
        let (before, after) = (graph.fact(quantized).dims()?, graph.fact(result).dims()?);
        let n_shared = shared.len();
        shared.extend(nodes);
        shared.extend(self.nodes.iter().rev().copied());
        let is_taken = Dim::all_equal(before, after) && shared.len() > 1;
        is_taken.then_some(Functions { nodes: shared, quantized, n_shared })
    }

    /// Adds a node whose result nothing else reads; false if there is none.
    fn extend(&mut self) -> bool {
        if self.nodes.len() >= MAX_FUNCTIONS {
            return false;
        }
        let graph = self.graph;
        let next = self.open.iter().enumerate().find_map(|(i, &value)| {
            let (id, _) = graph.producer(value).filter(|_| self.owns(value))?;
            Some((i, id, operands(graph, id)?))
        });
        let Some((i, id, operands)) = next else { return false };
        self.open.swap_remove(i);
        self.nodes.push(id);
        for value in operands {
            if !self.open.contains(&value) {
                self.open.push(value);
            }
        }
        true
    }

    /// Whether only these nodes read a value.
    fn owns(&self, value: ValueId) -> bool {
        let graph = self.graph;
        let is_own = |id: &NodeId| self.nodes.contains(id);
        graph.consumers(value).iter().all(is_own) && !graph.outputs().contains(&value)
    }
}

/// The operands of a function whose parameters are constants of one element: floats, or quantized values. A constant
/// operand is a parameter.
fn operands(graph: &Graph, id: NodeId) -> Option<SmallVec<[ValueId; 4]>> {
    let node = graph.node(id);
    let is_unary = op::<Unary>(graph, id).is_some()
        || op::<Activation>(graph, id).is_some()
        || op::<Clip>(graph, id).is_some()
        || op::<Gelu>(graph, id).is_some()
        || op::<Pow>(graph, id).is_some();
    let is_quantized = op::<QuantizeLinear>(graph, id).is_some()
        || op::<DequantizeLinear>(graph, id).is_some()
        || op::<QLinearUnary>(graph, id).is_some();
    let arguments: &[usize] = if is_unary || is_quantized {
        &[0]
    } else if op::<Binary>(graph, id).is_some() {
        &[0, 1]
    } else if op::<QLinearBinary>(graph, id).is_some() {
        &[0, 3]
    } else {
        return None;
    };
    let mut operands = SmallVec::new();
    for (index, &input) in node.inputs.iter().enumerate() {
        let Some(input) = input else { continue };
        let is_number = graph.constant(input).is_some_and(|constant| constant.len() == 1);
        match arguments.contains(&index) {
            _ if is_number => {}
            true if graph.constant(input).is_none() => operands.push(input),
            _ => return None,
        }
    }
    operands.dedup();
    let is_f32 = |x: &ValueId| graph.fact(*x).dtype() == Some(DType::F32);
    let is_float = is_unary || op::<Binary>(graph, id).is_some();
    (!is_float || node.inputs.iter().flatten().all(is_f32)).then_some(operands)
}

fn is_byte(graph: &Graph, value: ValueId) -> bool {
    graph.fact(value).dtype().is_some_and(DType::is_byte)
}
