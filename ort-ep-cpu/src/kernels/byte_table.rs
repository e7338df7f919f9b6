//! A function of one quantized value is a table of 256 entries: QLinearSigmoid and QLinearLeakyRelu, and functions
//! of one operand between DequantizeLinear and QuantizeLinear.
//!
//! ```text
//! y = Q(f(g(DQ(x))))      table[q] = y for x = q      y[i] = table[x[i]]
//! ```
//! The table holds the results of the operators' own `eval`, so the results equal theirs.

// collects are bounded: by the 256 values of a byte, and the nodes of the claim

use ort_ep::{Claim, CompileError, Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Graph, Node, NodeId, ValueId};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::binary::Binary;
use ort_ops::ops::clip::Clip;
use ort_ops::ops::gelu::Gelu;
use ort_ops::ops::microsoft::qlinear_unary::QLinearUnary;
use ort_ops::ops::pow::Pow;
use ort_ops::ops::quantization::{DequantizeLinear, QuantizeLinear};
use ort_ops::ops::unary::Unary;
use ort_tensor::{DType, Inputs, Output, Shape, Tensor, Value, ValueView};
use smallvec::{SmallVec, smallvec};

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// The maximum number of functions between the two quantized values: longer chains are not claimed.
const MAX_FUNCTIONS: usize = 16;

#[derive(Debug)]
struct ByteTable {
    table: [u8; 256],
    /// The type of the results.
    dtype: DType,
}

/// The nodes that a table replaces.
struct Functions {
    /// In order; the first reads the quantized values.
    nodes: SmallVec<[NodeId; 4]>,
    quantized: ValueId,
    /// Whether the first node has no reader outside the chain.
    owns_first: bool,
}

fn claim(graph: &Graph, root: NodeId) -> Option<Claim> {
    op::<QuantizeLinear>(graph, root)?;
    let functions = Functions::to(graph, root)?;
    let n_others = usize::from(!functions.owns_first);
    let nodes = functions.nodes[n_others..].iter().copied().collect();
    let inputs = smallvec![Some(functions.quantized)];
    let outputs = graph.node(root).outputs.clone();
    Some(Claim { nodes, inputs, outputs, in_place: SmallVec::new() })
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let functions = match (compiler.op::<QLinearUnary>(), claim.root(), &claim.inputs[..]) {
        (Some(_), Some(root), _) => Functions::alone(graph, root),
        // As claimed: a node that is claimed alone also reads its scale.
        (None, Some(root), [Some(quantized)]) if op::<QuantizeLinear>(graph, root).is_some() => {
            Functions::to(graph, root).filter(|functions| functions.quantized == *quantized)
        }
        _ => None,
    };
    let Some(functions) = functions else { return Ok(None) };
    let table = functions.table(graph)?;
    let dtype = table.dtype();
    let table = table.view().as_bytes().and_then(|bytes| bytes.try_into().ok());
    Ok(table.map(|table| Box::new(ByteTable { table, dtype }) as Box<dyn Kernel>))
}

impl Functions {
    /// A node from quantized to quantized values, if its other operands are constant.
    fn alone(graph: &Graph, id: NodeId) -> Option<Self> {
        let (&quantized, others) = graph.node(id).inputs.split_first()?;
        let quantized = quantized.filter(|&quantized| is_byte(graph, quantized))?;
        let are_constant = others.iter().flatten().all(|&other| is_number(graph, other));
        let nodes = smallvec![id];
        are_constant.then_some(Self { nodes, quantized, owns_first: true })
    }

    /// The chain that ends at a QuantizeLinear, if it begins with a DequantizeLinear and has only
    /// functions of one operand in between.
    fn to(graph: &Graph, root: NodeId) -> Option<Self> {
        let result = graph.node(root).outputs.first().copied().flatten()?;
        if !is_byte(graph, result) || !has_one_scale(graph, graph.node(root)) {
            return None;
        }
        let mut nodes: SmallVec<[NodeId; 4]> = smallvec![root];
        let mut value = graph.node(root).inputs[0]?;
        while nodes.len() <= MAX_FUNCTIONS {
            let (id, _) = graph.producer(value)?;
            let node = graph.node(id);
            let is_private = graph.consumers(value).len() == 1 && !graph.outputs().contains(&value);
            nodes.push(id);
            if op::<DequantizeLinear>(graph, id).is_some() {
                let quantized = node.inputs[0].filter(|&quantized| is_byte(graph, quantized))?;
                let (before, after) = (graph.fact(quantized).dims()?, graph.fact(result).dims()?);
                let is_taken = has_one_scale(graph, node)
                    && Dim::all_equal(before, after)
                    && nodes.len() > 2
                    && graph.constant(quantized).is_none();
                nodes.reverse();
                return is_taken.then_some(Self { nodes, quantized, owns_first: is_private });
            }
            value = operand(graph, id).filter(|_| is_private)?;
        }
        None
    }

    /// The results of the nodes for every quantized value.
    fn table(&self, graph: &Graph) -> Result<Tensor, CompileError> {
        let dtype = graph.fact(self.quantized).dtype().unwrap_or(DType::U8);
        let values: Vec<u8> = (0..=u8::MAX).collect();
        let wrong = |id: NodeId| CompileError::NotClaimed {
            provider: crate::CpuProvider::NAME,
            op_type: graph.node(id).op_type.clone(),
        };
        let mut through = self.quantized;
        let values = Tensor::from_bytes(dtype, &[values.len()], values.into());
        let mut table = values.map_err(|_| wrong(self.nodes[0]))?;
        for &id in &self.nodes {
            let node = graph.node(id);
            let views = node.inputs.iter().map(|input| match *input {
                Some(input) if input == through => Some(ValueView::Tensor(table.view())),
                Some(input) => graph.constant(input).map(|it| ValueView::Tensor(it.view())),
                None => None,
            });
            let views: Vec<_> = views.collect();
            let mut outputs = [Output::free()];
            node.op.eval(Inputs::new(&views), &mut outputs).map_err(|_| wrong(id))?;
            let [output] = outputs;
            let Some(Value::Tensor(result)) = output.into_value() else { return Err(wrong(id)) };
            through = node.outputs[0].ok_or_else(|| wrong(id))?;
            table = result;
        }
        Ok(table)
    }
}

/// The operand of a function whose other operands are constant.
fn operand(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = graph.node(id);
    let is_function = op::<Unary>(graph, id).is_some()
        || op::<Activation>(graph, id).is_some()
        || op::<Clip>(graph, id).is_some()
        || op::<Gelu>(graph, id).is_some()
        || op::<Pow>(graph, id).is_some();
    let is_pair = op::<Binary>(graph, id).is_some();
    let index = match node.inputs[..] {
        _ if is_function => 0,
        [Some(a), Some(_)] if is_pair => usize::from(graph.constant(a).is_some()),
        _ => return None,
    };
    let others = node.inputs.iter().enumerate().filter(|(i, _)| *i != index);
    let are_numbers = others.flat_map(|(_, other)| other).all(|&other| is_number(graph, other));
    let is_f32 = node.inputs.iter().flatten().all(|&x| graph.fact(x).dtype() == Some(DType::F32));
    node.inputs[index].filter(|_| are_numbers && is_f32)
}

/// Whether a value is a constant of one element.
fn is_number(graph: &Graph, value: ValueId) -> bool {
    graph.constant(value).is_some_and(|constant| constant.len() == 1)
}

fn is_byte(graph: &Graph, value: ValueId) -> bool {
    graph.fact(value).dtype().is_some_and(DType::is_byte)
}

/// Whether scale and zero point are one constant each.
fn has_one_scale(graph: &Graph, node: &Node) -> bool {
    node.inputs[1..].iter().flatten().all(|&input| is_number(graph, input))
}

impl Kernel for ByteTable {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Shape::from(x)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_words::<u8>()?;
        let y = io.outputs[0].tensor(self.dtype, prepared.state::<Shape>()?)?;
        Rows::ELEMENTS.for_each(io.threads, y.into_words::<u8>()?, |start, y| {
            let x = &x[start..][..y.len()];
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = self.table[usize::from(x)]);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "quantized lookup table"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};
    use crate::steps::assert_steps;

    #[test]
    fn functions_of_quantized_values_equal_eval() {
        for name in ["QLinearSigmoid", "QLinearLeakyRelu"] {
            let case = |x: Tensor, zeros: [Tensor; 2]| {
                let [x_zero, y_zero] = zeros;
                let case = Case::new(name, 1).domain("com.microsoft");
                let case = if name.ends_with("Relu") {
                    case.attr("alpha", Attr::Float(0.1))
                } else {
                    case
                };
                let case = case.input(x).constant(Tensor::scalar(0.06_f32)).constant(x_zero);
                case.constant(Tensor::scalar(0.02_f32)).constant(y_zero).check(exact);
            };
            case(bytes(&[3, 500, 71], |bits| bits), [100_u8, 7].map(Tensor::scalar));
            case(bytes(&[0, 3], u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
            case(bytes(&[], u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
        }
    }

    #[test]
    fn functions_between_quantized_values_are_one_step() {
        assert_steps(
            "graph(x: float[3,40,21]) -> (u, v) {
               s = const float[] 0.03
               z = const uint8[] 128
               t = const float[] 0.0078125
               tz = const int8[] 3
               root = const float[] 1.5
               q = QuantizeLinear-13 (x, s, z)
               a = DequantizeLinear-13 (q, s, z)
               b = Div-14 (a, root)
               c = Round-11 (b)
               d = Relu-14 (c)
               u = QuantizeLinear-13 (d, t, tz)
               e = DequantizeLinear-13 (u, t, tz)
               f = Abs-13 (e)
               g = Sub-14 (root, f)
               v = QuantizeLinear-13 (g, t, tz)
             }",
            &[1, 5, 4],
        );
    }
}
