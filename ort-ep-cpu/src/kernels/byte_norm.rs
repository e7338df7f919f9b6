//! BatchNormalization between quantized values, as one step from bytes to bytes.
//!
//! ```text
//! y = Q(DQ(x)·factor[c] + summand[c])
//! ```
//! Every step rounds as the separate operators do, so the bytes are the same.

// collects are bounded: by the inputs of three nodes

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Graph, Node, NodeId};
use ort_kernels::Isa;
use ort_kernels::quantize::normalize;
use ort_ops::ops::quantization::{DequantizeLinear, Granularity, QuantizeLinear};
use ort_tensor::{DType, with_dtype};
use smallvec::{SmallVec, smallvec};

use super::batch_norm::{Parameters, channels, is_supported, norm};
use super::quantize::{Schemes, State};
use super::{Compiled, Compiler, KernelDef, op};
use crate::bytes::split_floats;
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// Rows of fewer channels have their factors repeated up to about this length.
const LONG_ROW: usize = 512;

#[derive(Debug)]
struct ByteNorm {
    isa: Isa,
    /// The types of operand and result.
    dtypes: [DType; 2],
    epsilon: f64,
    is_channels_last: bool,
}

fn claim(graph: &Graph, root: NodeId) -> Option<Claim> {
    let nodes = nodes(graph, root)?;
    let [from, norm, to] = nodes.map(|id| &graph.node(id).inputs);
    let input = |of: &[_], index: usize| of.get(index).copied().flatten();
    let mut inputs: SmallVec<[_; 4]> = (0..3).map(|index| input(from, index)).collect();
    inputs.extend((1..5).map(|index| input(norm, index)));
    inputs.extend((1..3).map(|index| input(to, index)));
    let outputs = graph.node(root).outputs.clone();
    Some(Claim { nodes: nodes.into_iter().collect(), inputs, outputs, in_place: smallvec![] })
}

/// DequantizeLinear, BatchNormalization and QuantizeLinear up to `root`, if they are of whole tensors of bytes, and
/// nothing else reads what is between them.
fn nodes(graph: &Graph, root: NodeId) -> Option<[NodeId; 3]> {
    let to = graph.node(root);
    let QuantizeLinear { precision, granularity, .. } = op(graph, root)?;
    let middle = before(graph, to)?;
    let (norm, _) = norm(graph, middle)?;
    let first = before(graph, graph.node(middle))?;
    let from = graph.node(first);
    let by: &DequantizeLinear = op(graph, first)?;
    let is_taken = is_supported(norm, graph, graph.node(middle))
        && [precision, &by.output_dtype].into_iter().flatten().all(|dtype| *dtype == DType::F32)
        && is_whole(graph, from, &by.granularity)
        && is_whole(graph, to, granularity)
        && [from.inputs.first()?, to.outputs.first()?].into_iter().all(|value| {
            value.and_then(|value| graph.fact(value).dtype()).is_some_and(DType::is_byte)
        });
    is_taken.then_some([first, middle, root])
}

/// The producer of the first input, if that is f32 and nothing else reads it.
fn before(graph: &Graph, node: &Node) -> Option<NodeId> {
    let value = (*node.inputs.first()?)?;
    let is_private = graph.consumers(value).len() == 1 && !graph.is_output(value);
    let is_taken = is_private && graph.fact(value).dtype() == Some(DType::F32);
    graph.producer(value).filter(|_| is_taken).map(|(id, _)| id)
}

/// Whether there is one scale, in f32, and one zero point or none.
fn is_whole(graph: &Graph, node: &Node, granularity: &Granularity) -> bool {
    let mut facts = node.inputs.iter().skip(1).flatten().map(|&input| graph.fact(input));
    let is_f32 = facts.clone().next().and_then(|scale| scale.dtype()) == Some(DType::F32);
    let is_one = |dims: &[Dim]| dims.iter().all(|dim| *dim == Dim::Known(1));
    is_f32 && granularity.block_size == 0 && facts.all(|fact| fact.dims().is_some_and(is_one))
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let found = claim.root().and_then(|root| nodes(graph, root));
    let Some([_, middle, _]) = found.filter(|nodes| nodes[..] == claim.nodes[..]) else {
        return Ok(None);
    };
    let dtype = |value: Option<_>| value.and_then(|value| graph.fact(value).dtype());
    let result = claim.outputs.first().copied().flatten();
    let (Some((norm, is_channels_last)), Some(x), Some(y)) =
        (norm(graph, middle), dtype(claim.inputs[0]), dtype(result))
    else {
        return Ok(None);
    };
    let (isa, epsilon) = (compiler.cpu.isa, f64::from(norm.epsilon));
    Ok(Some(Box::new(ByteNorm { isa, dtypes: [x, y], epsilon, is_channels_last })))
}

impl Kernel for ByteNorm {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, _, _, scale, b, mean, variance, _, _] = shapes else {
            return Err(KernelError::ForeignState);
        };
        let parameters = [scale, b, mean, variance];
        let (channels, inner) = channels(x, self.is_channels_last, &parameters)?;
        let n_rows = if self.is_channels_last { LONG_ROW / channels.max(1) } else { 1 };
        let n = channels * n_rows.max(1);
        let scratch = 2 * (n * size_of::<f32>()).next_multiple_of(64);
        Ok(Prepared::new(State { shape: x.into(), n, inner }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, state, threads) = (self.isa, prepared.state::<State>()?, io.threads);
        let (scales, rest) = split_floats(io.scratch, state.n);
        let (zeros, _) = split_floats(rest, state.n);
        let parameters = Parameters::<f32>::at(io.inputs, 3)?;
        for (c, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
            [*scale, *zero] = parameters.of(c % parameters.len(), self.epsilon);
        }
        let by = Schemes { scales, zeros };
        let schemes = [Scheme::read(io.inputs, 1)?, Scheme::read(io.inputs, 7)?];
        let schemes = schemes.map(|Scheme { scale, zero }| (scale, zero));
        let [x_type, y_type] = self.dtypes;
        let y = io.outputs[0].tensor(y_type, &state.shape)?;
        with_dtype!(x_type, [i8, u8], X => {
            let x = io.inputs.tensor(0)?.as_slice::<X>()?;
            with_dtype!(y_type, [i8, u8], Y => {
                state.for_each_run(by, (x, y.into_slice::<Y>()?), threads, |x, by, y| {
                    normalize(isa, x, schemes, by, y);
                });
                Ok(())
            }, else => Err(KernelError::ForeignState))
        }, else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantized batch_norm")
    }
}

#[cfg(test)]
mod tests {
    use crate::steps::assert_steps;

    /// A graph of quantized values of this type and shape, with the channels along `axis`.
    fn assert_one_step(dtypes: [&str; 2], shape: &[usize], axis: usize) {
        let [from, to] = dtypes;
        let (c, domain) = (shape[axis], if axis == 1 { "" } else { "com.ms.internal.nhwc:" });
        let numbers = |of: fn(usize) -> f64| (0..c).map(of).collect::<Vec<_>>();
        assert_steps(
            &format!(
                "graph(x: float{shape:?}) -> (y) {{
                   s = const float[] 0.03
                   z = const {from}[] 100
                   t = const float[1] [0.05]
                   tz = const {to}[1] [3]
                   k = const float[{c}] {:?}
                   m = const float[{c}] {:?}
                   v = const float[{c}] {:?}
                   q = QuantizeLinear-13 (x, s, z)
                   a = DequantizeLinear-13 (q, s, z)
                   b = {domain}BatchNormalization-15 (a, k, m, m, v)
                   y = QuantizeLinear-13 (b, t, tz)
                 }}",
                numbers(|i| (i * 37 % 19) as f64 * 0.1 - 0.7),
                numbers(|i| (i * 23 % 17) as f64 * 0.2 - 1.1),
                numbers(|i| (i * 29 % 13) as f64 * 0.3 + 0.1),
            ),
            &[1, 3],
        );
    }

    #[test]
    fn normalized_bytes_have_the_bits_of_their_operators() {
        for shape in [&[2, 3, 4, 5][..], &[1, 40, 20, 61], &[3, 700], &[5, 300, 7], &[2, 3, 0]] {
            assert_one_step(["uint8", "uint8"], shape, 1);
            assert_one_step(["int8", "uint8"], shape, shape.len() - 1);
            assert_one_step(["uint8", "int8"], shape, shape.len() - 1);
        }
    }

    #[test]
    fn what_has_other_readers_or_many_scales_remains() {
        assert_steps(
            "graph(x: float[2,3,4,5]) -> (y, a, z) {
               s = const float[] 0.03
               t = const float[3] [0.03, 0.1, 0.2]
               k = const float[3] [0.5, 1, 2]
               q = QuantizeLinear-13 (x, s)
               a = DequantizeLinear-13 (q, s)
               b = BatchNormalization-15 (a, k, k, k, k)
               y = QuantizeLinear-13 (b, s)
               c = DequantizeLinear-13 (q, s)
               d = BatchNormalization-15 (c, k, k, k, k)
               z = QuantizeLinear-13 [axis: 1] (d, t)
             }",
            &[1, 1, 1, 1, 1, 1, 1],
        );
    }
}
