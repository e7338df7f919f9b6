//! BatchNormalization in f32, with given moments: a factor and a summand a channel.

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId, OpError};
use ort_kernels::{Isa, vec};
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_tensor::{DType, Inputs, n_elements};

use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::floats;
use crate::pieces::{Rows, first_and_output, map};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// The inputs, scale, summand, mean and variance after x.
const N_INPUTS: usize = 5;

#[derive(Debug)]
struct BatchNormKernel {
    isa: Isa,
    epsilon: f32,
}

/// The sizes of one signature of shapes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    channels: usize,
    /// The elements of a plane.
    inner: usize,
}

fn fits(graph: &Graph, id: NodeId) -> bool {
    let Some(node) = graph.get_node(id) else { return false };
    let is_f32 = |&id: &ort_graph::ValueId| graph.fact(id).dtype() == Some(DType::F32);
    let has_rank = |&id: &ort_graph::ValueId| graph.fact(id).rank().is_some_and(|rank| rank > 1);
    op::<BatchNormalization>(graph, id).is_some_and(|op| op.is_spatial && !op.is_training)
        && node.inputs.first().copied().flatten().as_ref().is_some_and(has_rank)
        && node.inputs.len() == N_INPUTS
        && node.inputs.iter().all(|id| id.as_ref().is_some_and(is_f32))
        && node.outputs.iter().skip(1).all(Option::is_none)
}

/// An element is read before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    fits(graph, id).then(|| {
        let mut claim = Claim::one(id, graph.node(id));
        claim.in_place.push((0, 0));
        claim
    })
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<BatchNormalization>() else { return Ok(None) };
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    if !fits(compiler.graph, id) {
        return Ok(None);
    }
    Ok(Some(Box::new(BatchNormKernel { isa: compiler.cpu.isa, epsilon: op.epsilon })))
}

impl BatchNormKernel {
    /// `y = x·factors + summands` for each channel, both to be computed.
    fn fold(
        &self,
        inputs: Inputs<'_>,
        (factors, summands): (&mut [f32], &mut [f32]),
    ) -> Result<(), KernelError> {
        let parameter = |index| inputs.tensor(index)?.as_slice::<f32>();
        let (scale, b) = (parameter(1)?, parameter(2)?);
        let (mean, variance) = (parameter(3)?, parameter(4)?);
        for (c, (factor, summand)) in factors.iter_mut().zip(summands).enumerate() {
            *factor = scale[c] / (variance[c] + self.epsilon).sqrt();
            *summand = b[c] - mean[c] * *factor;
        }
        Ok(())
    }
}

impl Kernel for BatchNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ref parameters @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let channels = x.get(1).copied().unwrap_or(1);
        if let Some(wrong) = parameters.iter().find(|&&parameter| parameter != [channels]) {
            let (left, right) = (x.to_vec(), wrong.to_vec());
            return Err(OpError::Shapes { what: "the channels", left, right }.into());
        }
        let inner = x.get(2..).and_then(n_elements).unwrap_or(1);
        let sizes = Sizes { channels, inner };
        Ok(Prepared::new(sizes).with_scratch(2 * channels * size_of::<f32>()))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &Sizes { channels, inner } = prepared.state()?;
        let (factors, summands) = floats(io.scratch).split_at_mut(channels);
        self.fold(io.inputs, (factors, summands))?;
        let (factors, summands) = (&*factors, &*summands);
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        // Without planes, a row has all channels.
        let len = if inner == 1 { channels } else { inner };
        if y.is_empty() {
            return Ok(());
        }
        let rows = Rows { len, cost: len.saturating_mul(4) };
        rows.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_exact_mut(len).enumerate() {
                let x = x.map(|x| &x[start + i * len..][..len]);
                let c = (start / len + i) % channels;
                map(x, y, |at, y| match inner {
                    1 => {
                        vec::mul(self.isa, y, &factors[at..][..y.len()]);
                        vec::add(self.isa, y, &summands[at..][..y.len()]);
                    }
                    _ => vec::scale_and_shift(self.isa, y, factors[c], summands[c]),
                });
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "batch_norm_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, within};

    #[test]
    fn every_channel_has_its_own_line() {
        let shapes: [&[usize]; 7] = [
            &[2, 3, 4, 5],
            &[1, 40, 60, 70],
            &[5, 33],
            &[3, 2, 17],
            &[0, 3, 2],
            &[2, 0, 3],
            &[2, 3, 1, 1],
        ];
        for shape in shapes {
            let n = shape[1];
            let variance: Vec<f32> = (0..n).map(|c| 1.0 + c as f32 / n as f32).collect();
            // Operands are at most 4 and factors too, so a product is at most 16, each of four
            // roundings half a unit of it.
            Case::new("BatchNormalization", 15)
                .attr("epsilon", Attr::Float(1e-3))
                .input(floats(shape))
                .weight(floats(&[n]))
                .weight(floats(&[n]))
                .weight(floats(&[n]))
                .weight(Tensor::from_slice(&[n], &variance).unwrap())
                .check(within(4.0 * 32.0 * f32::EPSILON));
        }
    }
}
