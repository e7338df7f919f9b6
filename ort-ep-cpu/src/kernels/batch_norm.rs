//! BatchNormalization in f32 with given mean and variance: a factor and a summand a plane.

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, Node, NodeId, OpError};
use ort_kernels::{Isa, vec};
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_tensor::{DType, Inputs};

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::{Rows, first_and_output, map};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// What an element costs, in multiply-adds.
const COST: usize = 4;

#[derive(Clone, Copy, Debug)]
struct BatchNormKernel {
    isa: Isa,
    epsilon: f32,
}

/// What a shape signature makes of it.
struct State {
    channels: usize,
    /// Elements of a plane.
    plane: usize,
}

fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let is_ours = op(graph, id).is_some_and(|op| is_ours(op, graph, node));
    is_ours.then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

/// Whether one mean a channel is given, nothing but `y` asked for, and everything f32.
fn is_ours(op: &BatchNormalization, graph: &Graph, node: &Node) -> bool {
    let mut inputs = node.inputs.iter().flatten().map(|&id| graph.fact(id));
    let has_channels = inputs.clone().next().and_then(|x| x.rank()).is_some_and(|rank| rank > 1);
    let has_moments = node.outputs.iter().skip(1).any(Option::is_some);
    let is_f32 = inputs.all(|fact| fact.dtype() == Some(DType::F32));
    op.is_spatial && !op.is_training && has_channels && !has_moments && is_f32
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let node = compiler.graph.node(id);
    let op = compiler.op::<BatchNormalization>();
    let op = op.filter(|op| is_ours(op, compiler.graph, node));
    let kernel =
        |op: &BatchNormalization| BatchNormKernel { isa: compiler.cpu.isa, epsilon: op.epsilon };
    Ok(op.map(|op| Box::new(kernel(op)) as Box<dyn Kernel>))
}

/// Scale, summand, mean and variance of each channel.
struct Parameters<'a>([&'a [f32]; 4]);

impl<'a> Parameters<'a> {
    fn new(inputs: Inputs<'a>) -> Result<Self, KernelError> {
        let slice = |i| -> Result<&'a [f32], KernelError> { Ok(inputs.tensor(i)?.as_slice()?) };
        Ok(Self([slice(1)?, slice(2)?, slice(3)?, slice(4)?]))
    }

    /// The factor and the summand of a channel.
    fn of(&self, channel: usize, epsilon: f32) -> [f32; 2] {
        let [scale, b, mean, variance] = self.0.map(|values| values[channel]);
        let factor = scale / (variance + epsilon).sqrt();
        [factor, b - mean * factor]
    }
}

impl Kernel for BatchNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[&[_, channels, ref plane @ ..], ref parameters @ ..] = shapes else {
            return Err(KernelError::ForeignState);
        };
        if let Some(wrong) = parameters.iter().find(|shape| **shape != [channels]) {
            let (left, right) = (wrong.to_vec(), vec![channels]);
            return Err(OpError::Shapes { what: "values of channels", left, right }.into());
        }
        Ok(Prepared::new(State { channels, plane: plane.iter().product() }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { channels, plane } = prepared.state()?;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        let parameters = Parameters::new(io.inputs)?;
        let rows = Rows { len: plane, cost: plane.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_exact_mut(plane.max(1)).enumerate() {
                let at = start + i * plane;
                let [factor, summand] = parameters.of(at / plane % channels, self.epsilon);
                let x = x.map(|x| &x[at..at + plane]);
                map(x, y, |_, y| vec::scale_and_shift(self.isa, y, factor, summand));
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
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, within};

    /// Operands are at most 4 and deviations at least 1, so that no term exceeds 16; each of five
    /// operations rounds at most 36.
    const BOUND: f32 = 5.0 * 36.0 * f32::EPSILON;

    #[test]
    fn every_plane_has_the_parameters_of_its_channel() {
        for shape in
            [&[2, 3, 4, 5][..], &[1, 40, 60, 61], &[5, 7], &[2, 3, 0], &[0, 2, 3], &[2, 3, 4]]
        {
            let channels = [shape[1]];
            let parameter = || floats(&channels);
            let variance: Vec<f32> =
                parameter().as_slice::<f32>().unwrap().iter().map(|x| x.abs() + 1.0).collect();
            Case::new("BatchNormalization", 15)
                .input(floats(shape))
                .weight(parameter())
                .weight(parameter())
                .weight(parameter())
                .weight(Tensor::from_slice(&channels, &variance).unwrap())
                .check(within(BOUND));
        }
    }
}
