//! Products, convolutions, pools, reductions and norms of f16 and bf16, by the f32 kernels: operands are widened, which is
//! exact, sums are at least in f32, and results are rounded once.
//!
//! The node is compiled again in its own graph, as an f32 node. Its kernel packs
//! the widened constant, which is stored as a packed form of the original constant.

// collects are bounded: by the rank and the operands

use std::ops::Range;
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use ort_ep::{
    Claim, Io, Kernel, KernelError, PackStore, Packed, Prepared, Reader, Recipe, Threads,
};
use ort_graph::{Fact, Facts, Graph, NewNode, NodeId, Operator, ValueId, ValueInfo};
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::conv::Conv;
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_ops::ops::einsum::Einsum;
use ort_ops::ops::gemm::Gemm;
use ort_ops::ops::global_pool::GlobalPool;
use ort_ops::ops::group_normalization::GroupNormalization;
use ort_ops::ops::lp_normalization::LpNormalization;
use ort_ops::ops::lp_pool::LpPool;
use ort_ops::ops::lrn::Lrn;
use ort_ops::ops::matmul::MatMul;
use ort_ops::ops::max_pool::MaxPool;
use ort_ops::ops::mean_variance_normalization::MeanVarianceNormalization;
use ort_ops::ops::microsoft::moe::MoE;
use ort_ops::ops::reduce::Reduce;
use ort_tensor::{
    DType, Inputs, Output, Shape, Tensor, TensorView, TensorViewMut, ValueView, bf16, f16, filled,
    n_elements,
};

use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, floats, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of converting an element between two widths, in multiply-adds.
const COST: usize = 12;

/// A node of f16 or bf16 as a node of f32.
#[derive(Debug)]
struct WidenedKernel {
    /// The f32 kernel.
    kernel: Box<dyn Kernel>,
    op: Arc<dyn Operator>,
    inputs: Vec<Operand>,
}

/// An input.
#[derive(Debug)]
enum Operand {
    Absent,
    /// Is widened.
    Half,
    /// Has another type, such as axes.
    Other(Box<Fact>),
}

/// Prepared state for one shape signature.
struct State {
    /// The prepared state of the f32 kernel.
    prepared: Prepared,
    /// The shape of the result.
    shape: Shape,
    /// The range of each input in scratch, in f32.
    inputs: Vec<Range<usize>>,
    /// The range of the result.
    result: Range<usize>,
    /// The range of the f32 kernel's own scratch.
    rest: Range<usize>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    // The indices of maxima are not floats to round.
    let has_more = compiler.claim.outputs.iter().skip(1).any(Option::is_some);
    let is_half = compiler.fact(0).and_then(Fact::dtype).is_some_and(is_half);
    let is_meant = is_half && !has_more && computes_in_f32(compiler);
    let Some((graph, wide)) = is_meant.then(|| widened(compiler, id)).flatten() else {
        return Ok(None);
    };
    let claim = Claim::one(wide, graph.node(wide));
    let packs = WidenedPacks { of: compiler };
    let inner = Compiler { cpu: compiler.cpu, graph: &graph, claim: &claim, packs: &packs };
    for (_, def) in super::ALL {
        if let Some(kernel) = (def.compile)(&inner)? {
            let inputs = (0..claim.inputs.len()).map(|i| Operand::of(compiler.fact(i))).collect();
            let op = graph.node(wide).op.clone();
            return Ok(Some(Box::new(WidenedKernel { kernel, op, inputs })));
        }
    }
    Ok(None)
}

const fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// Whether the node is computed at least in f32.
fn computes_in_f32(compiler: &Compiler<'_>) -> bool {
    compiler.op::<MatMul>().is_some()
        || compiler.op::<Gemm>().is_some()
        || compiler.op::<Einsum>().is_some()
        || compiler.op::<Conv>().is_some()
        || compiler.op::<ConvTranspose>().is_some()
        || compiler.op::<MaxPool>().is_some()
        || compiler.op::<AveragePool>().is_some()
        || compiler.op::<GlobalPool>().is_some()
        || compiler.op::<GroupNormalization>().is_some()
        || compiler.op::<Reduce>().is_some()
        || compiler.op::<LpNormalization>().is_some()
        || compiler.op::<LpPool>().is_some()
        || compiler.op::<Lrn>().is_some()
        || compiler.op::<MeanVarianceNormalization>().is_some()
        || compiler.op::<MoE>().is_some_and(|op| op.quantization.is_none())
}

/// A graph that contains only the node, with f32 inputs named by their index.
fn widened(compiler: &Compiler<'_>, id: NodeId) -> Option<(Graph, NodeId)> {
    let (node, mut graph) = (compiler.graph.node(id), Graph::new());
    let mut inputs = Vec::new();
    for (index, input) in compiler.claim.inputs.iter().enumerate() {
        let id = input.map(|input| {
            let fact = compiler.graph.fact(input);
            let wide = match (Operand::of(Some(fact)), &fact.constant) {
                (Operand::Other(fact), _) => *fact,
                (_, Some(constant)) => Fact::constant(widen(constant)?),
                (_, None) => Fact::tensor(DType::F32, fact.dims()?.iter().cloned()),
            };
            graph.add_value(index.to_string(), wide).ok()
        });
        inputs.push(match id {
            Some(id) => Some(id?),
            None => None,
        });
    }
    let outputs = vec![Some(graph.add_value("y", Fact::unranked(DType::F32)).ok()?)];
    let new = NewNode {
        name: node.name.clone(),
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs,
        outputs,
        captured: Vec::new(),
        attrs: node.attrs.clone(),
    };
    let id = graph.add_node(new, &ort_ops::registry()).ok()?;
    Some((graph, id))
}

/// The constant in f32; without elements if it is released.
fn widen(constant: &Tensor) -> Option<Tensor> {
    if constant.is_released() {
        return Tensor::released(DType::F32, constant.shape()).ok();
    }
    let mut wide = filled(0.0, constant.len()).ok()?;
    widen_elements(constant.view(), &mut wide).ok()?;
    Tensor::from_slice(constant.shape(), &wide).ok()
}

/// Widens constants before another store packs them.
struct WidenedPacks<'a> {
    of: &'a Compiler<'a>,
}

impl PackStore for WidenedPacks<'_> {
    fn pack(
        &self,
        constant: &ValueInfo,
        recipe: &Recipe,
        reader: Reader,
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<Packed> {
        let input: ValueId =
            self.of.claim.inputs.get(constant.name.parse::<usize>().ok()?).copied()??;
        // Already widened, in the graph that the kernel is compiled from.
        let wide = constant.fact.constant.as_ref()?;
        let pack = &mut |_: &Tensor, packed: &mut [u8]| pack(wide, packed);
        self.of.packs.pack(self.of.graph.value(input), recipe, reader, pack)
    }
}

impl Operand {
    fn of(fact: Option<&Fact>) -> Self {
        match fact {
            None => Self::Absent,
            Some(fact) if fact.dtype().is_some_and(is_half) => Self::Half,
            Some(fact) => Self::Other(Box::new(fact.clone())),
        }
    }
}

impl WidenedKernel {
    /// The shape of the result.
    fn shape(&self, shapes: &[&[usize]]) -> Result<Shape, KernelError> {
        let facts: Vec<Option<Fact>> = shapes
            .iter()
            .zip(&self.inputs)
            .map(|(shape, operand)| match operand {
                Operand::Absent => None,
                Operand::Half => Some(Fact::shaped(DType::F32, shape)),
                Operand::Other(fact) => Some(Fact::clone(fact)),
            })
            .collect();
        let facts: Vec<Option<&Fact>> = facts.iter().map(Option::as_ref).collect();
        let inferred = self.op.infer(&Facts::new(&facts)).map_err(KernelError::Op)?;
        inferred.first().and_then(Fact::shape).ok_or(KernelError::ForeignState)
    }
}

/// Consecutive ranges, each aligned to a cache line.
#[derive(Default)]
struct Places(usize);

impl Places {
    fn next(&mut self, len: usize) -> Range<usize> {
        const LINE: usize = 16;
        let start = self.0;
        self.0 = start.saturating_add(len).checked_next_multiple_of(LINE).unwrap_or(usize::MAX);
        start..start.saturating_add(len)
    }
}

impl Kernel for WidenedKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let prepared = self.kernel.prepare(shapes)?;
        let shape = self.shape(shapes)?;
        let mut places = Places::default();
        let len = |shape: &[usize]| n_elements(shape).unwrap_or(usize::MAX);
        let inputs = shapes.iter().enumerate().map(|(i, shape)| {
            let is_read = matches!(self.inputs[i], Operand::Half) && self.kernel.reads(i);
            places.next(if is_read { len(shape) } else { 0 })
        });
        let inputs = inputs.collect();
        let result = places.next(len(&shape));
        let rest = places.next(prepared.scratch_bytes.div_ceil(size_of::<f32>()));
        let scratch_bytes = places.0.saturating_mul(size_of::<f32>());
        let state = State { prepared, shape, inputs, result, rest };
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { prepared, shape, inputs, result, rest } = prepared.state()?;
        let (wide, scratch) = floats(io.scratch).split_at_mut(rest.start);
        let (wide, y) = wide.split_at_mut(result.start);
        let y = &mut y[..result.len()];
        for (i, place) in inputs.iter().enumerate().filter(|(_, place)| !place.is_empty()) {
            widen_all(io.inputs.tensor(i)?, &mut wide[place.clone()], io.threads)?;
        }
        let mut views = SmallVec::<[_; 4]>::new();
        for (i, place) in inputs.iter().enumerate() {
            let is_half = matches!(self.inputs[i], Operand::Half);
            views.push(match io.inputs.get(i) {
                Some(ValueView::Tensor(x)) if is_half && self.kernel.reads(i) => Some(
                    ValueView::Tensor(TensorView::from_slice(x.shape(), &wide[place.clone()])?),
                ),
                view => view,
            });
        }
        let mut outputs = [Output::planned(TensorViewMut::from_slice(shape, &mut *y)?)];
        let scratch = &mut bytemuck::cast_slice_mut(scratch)[..prepared.scratch_bytes];
        let (inputs, threads) = (Inputs::new(&views), io.threads);
        self.kernel.run(prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads })?;
        narrow_all(y, &mut io.outputs[0], (shape, io.inputs.tensor(0)?.dtype()), threads)
    }

    fn reads(&self, input: usize) -> bool {
        self.kernel.reads(input)
    }

    fn variant(&self) -> &'static str {
        self.kernel.variant()
    }
}

/// `wide = x`, from f16 or bf16.
fn widen_elements(x: TensorView<'_>, wide: &mut [f32]) -> Result<(), KernelError> {
    match x.dtype() {
        DType::F16 => x.as_slice::<f16>()?.convert_to_f32_slice(wide),
        _ => x.as_slice::<bf16>()?.convert_to_f32_slice(wide),
    }
    Ok(())
}

/// The same on all threads.
fn widen_all(
    x: TensorView<'_>,
    wide: &mut [f32],
    threads: &dyn Threads,
) -> Result<(), KernelError> {
    let len = piece_len(threads, wide.len());
    let team = Team::new(threads, wide.len().div_ceil(len));
    match x.dtype() {
        DType::F16 => {
            let pieces = x.as_slice::<f16>()?.chunks(len).zip(wide.chunks_mut(len));
            team.run(pieces, |(x, wide), _| x.convert_to_f32_slice(wide));
        }
        _ => {
            let pieces = x.as_slice::<bf16>()?.chunks(len).zip(wide.chunks_mut(len));
            team.run(pieces, |(x, wide), _| x.convert_to_f32_slice(wide));
        }
    }
    Ok(())
}

/// Rounds results to the element type of the output, on all threads.
fn narrow_all(
    y: &[f32],
    output: &mut Output<'_>,
    (shape, dtype): (&[usize], DType),
    threads: &dyn Threads,
) -> Result<(), KernelError> {
    let len = piece_len(threads, y.len());
    let team = Team::new(threads, y.len().div_ceil(len));
    let to = output.tensor(dtype, shape)?;
    match dtype {
        DType::F16 => {
            let pieces = y.chunks(len).zip(to.into_slice::<f16>()?.chunks_mut(len));
            team.run(pieces, |(y, to), _| to.convert_from_f32_slice(y));
        }
        _ => {
            let pieces = y.chunks(len).zip(to.into_slice::<bf16>()?.chunks_mut(len));
            team.run(pieces, |(y, to), _| to.convert_from_f32_slice(y));
        }
    }
    Ok(())
}

/// Elements per piece.
fn piece_len(threads: &dyn Threads, len: usize) -> usize {
    len.div_ceil(n_parts(threads, len.saturating_mul(COST))).max(1)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, exact, integers};

    /// Small integers, whose sums of products are exact in all types.
    fn halves(shape: &[usize], is_brain: bool) -> Tensor {
        let wide = integers(shape);
        let wide = wide.as_slice::<f32>().unwrap().iter().map(|x| x % 3.0);
        if is_brain {
            Tensor::from_slice(shape, &wide.map(bf16::from_f32).collect::<Vec<_>>()).unwrap()
        } else {
            Tensor::from_slice(shape, &wide.map(f16::from_f32).collect::<Vec<_>>()).unwrap()
        }
    }

    #[test]
    fn products_equal_those_of_f32() {
        for brain in [false, true] {
            let some = |shape: &[usize]| halves(shape, brain);
            let case = || Case::new("MatMul", 13);
            case().input(some(&[37, 40])).weight(some(&[40, 33])).check(exact);
            case().input(some(&[3, 17, 8])).input(some(&[3, 8, 9])).check(exact);
            case().input(some(&[1, 60])).input(some(&[60, 300])).check(exact);
            Case::new("Gemm", 13)
                .attr("transB", Attr::Int(1))
                .attr("beta", Attr::Float(2.0))
                .input(some(&[20, 30]))
                .weight(some(&[50, 30]))
                .input(some(&[50]))
                .check(exact);
        }
    }

    #[test]
    fn windows_equal_those_of_f32() {
        let pads = |n: usize| Attr::Ints(vec![1; 2 * n]);
        for brain in [false, true] {
            let some = |shape: &[usize]| halves(shape, brain);
            let conv = || Case::new("Conv", 11).attr("pads", pads(2)).input(some(&[2, 6, 19, 23]));
            conv().weight(some(&[8, 6, 3, 3])).weight(some(&[8])).check(exact);
            conv().attr("group", Attr::Int(6)).weight(some(&[6, 1, 3, 3])).check(exact);
            conv().input(some(&[8, 6, 3, 3])).check(exact);
            Case::new("ConvTranspose", 11)
                .attr("strides", Attr::Ints(vec![2, 2]))
                .input(some(&[1, 4, 9, 10]))
                .weight(some(&[4, 5, 3, 3]))
                .check(exact);
            let pool = Case::new("MaxPool", 12).attr("kernel_shape", Attr::Ints(vec![3, 3]));
            pool.attr("pads", pads(2)).input(some(&[1, 5, 30, 41])).check(exact);
            Case::new("GlobalMaxPool", 1).input(some(&[2, 5, 30, 41])).check(exact);
            Case::new("GlobalAveragePool", 1).input(some(&[2, 5, 4, 4])).check(exact);
        }
    }
}
