//! GroupNormalization and InstanceNormalization in f32: a mean and a deviation per group of adjacent channels,
//! and a scale and a shift per channel.

// collects are bounded: one

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Graph, Node, NodeId, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{self, Fold};
use ort_ops::ops::group_normalization::GroupNormalization;
use ort_tensor::{DType, n_elements};

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::{PIECE, Rows, first_and_output, wanted};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// The cost of an element, in multiply-adds.
const COST: usize = 12;
/// Elements whose sum is one term of the f64 sum of a group: the rounding error grows with
/// the length of a sum.
const TERM: usize = 1 << 12;

#[derive(Clone, Copy, Debug)]
struct GroupNormKernel {
    isa: Isa,
    op: GroupNormalization,
}

/// Prepared state for one shape signature.
struct State {
    channels: usize,
    /// Channels per group, and channels per scale and shift.
    n_in_group: usize,
    n_shared: usize,
    /// Elements per channel.
    plane: usize,
}

/// A group is read before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let is_supported = op::<GroupNormalization>(graph, id).is_some() && is_supported(graph, node);
    is_supported.then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

/// Whether there are channels, and everything is f32.
fn is_supported(graph: &Graph, node: &Node) -> bool {
    let mut inputs = node.inputs.iter().flatten().map(|&id| graph.fact(id));
    let rank = inputs.clone().next().and_then(Fact::rank);
    rank.is_some_and(|rank| rank > 1) && inputs.all(|fact| fact.dtype() == Some(DType::F32))
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let is_supported = is_supported(compiler.graph, compiler.graph.node(id));
    let op = compiler.op::<GroupNormalization>().filter(|_| is_supported);
    let kernel = |&op| Box::new(GroupNormKernel { isa: compiler.cpu.isa, op }) as Box<dyn Kernel>;
    Ok(op.map(kernel))
}

impl GroupNormKernel {
    /// The mean, and `1 / √(variance + epsilon)`.
    #[expect(clippy::cast_possible_truncation, reason = "results are f32")]
    fn moments(&self, x: &[f32]) -> [f32; 2] {
        let terms = || wanted(x.chunks(PIECE)).flat_map(|x| x.chunks(TERM));
        let sum = |term: &dyn Fn(&[f32]) -> f32| terms().map(|x| f64::from(term(x))).sum::<f64>();
        let count = x.len() as f64;
        let mean = (sum(&|x| vec::fold_row(self.isa, Fold::Sum, x)) / count) as f32;
        let deviations = sum(&|x| vec::sum_of_squared_deviations(self.isa, x, mean));
        let deviation = (deviations / count + f64::from(self.op.epsilon)).sqrt();
        [mean, (1.0 / deviation) as f32]
    }
}

impl Kernel for GroupNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[&[_, channels, ref plane @ ..], scale, b] = shapes else {
            return Err(KernelError::ForeignState);
        };
        let n_groups = self.op.n_groups.unwrap_or(channels).max(1);
        if channels % n_groups != 0 {
            let (left, right) = (vec![channels], vec![n_groups]);
            return Err(OpError::Shapes { what: "channels and groups", left, right }.into());
        }
        let n_in_group = channels / n_groups;
        let (n_shared, n_parameters) = match self.op.is_scaled_by_group {
            true => (n_in_group, n_groups),
            false => (1, channels),
        };
        if let Some(wrong) = [scale, b].into_iter().find(|shape| **shape != [n_parameters]) {
            let (left, right) = (wrong.to_vec(), vec![n_parameters]);
            return Err(OpError::Shapes { what: "values of channels", left, right }.into());
        }
        let plane = n_elements(plane).ok_or(OpError::TooLarge)?;
        Ok(Prepared::new(State { channels, n_in_group, n_shared, plane }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { channels, n_in_group, n_shared, plane } = prepared.state()?;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        let scale = io.inputs.tensor(1)?.as_slice::<f32>()?;
        let b = io.inputs.tensor(2)?.as_slice::<f32>()?;
        let len = n_in_group * plane;
        let rows = Rows { len, cost: len.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (group, y) in (start / len.max(1)..).zip(y.chunks_exact_mut(len.max(1))) {
                if let Some(x) = x {
                    let pieces = y.chunks_mut(PIECE).zip(x[group * len..].chunks(PIECE));
                    wanted(pieces).for_each(|(y, x)| y.copy_from_slice(&x[..y.len()]));
                }
                let [mean, inverse_deviation] = self.moments(y);
                let first = group * n_in_group;
                for (channel, y) in (first..).zip(y.chunks_exact_mut(plane)) {
                    let at = channel % channels / n_shared;
                    let factor = inverse_deviation * scale[at];
                    for y in wanted(y.chunks_mut(PIECE)) {
                        vec::standardize(self.isa, y, mean, factor, b[at]);
                    }
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "group_norm_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::PIECE;
    use crate::case::{Case, floats, within};

    /// Normalized values are at most the root of the number of elements: 9 in the small groups, and less in the
    /// large ones, whose values are evenly distributed. They have five roundings before they are scaled by
    /// at most 4 and shifted by as much.
    const BOUND: f32 = 40.0 * 6.0 * f32::EPSILON;

    #[test]
    fn every_group_has_its_own_moments() {
        for shape in [
            &[2, 6, 5, 7][..],
            &[1, 6, 60, 61],
            &[1, 3, PIECE + 77],
            &[3, 6, 9],
            &[1, 6, 1],
            &[2, 6, 0],
            &[0, 6, 4],
            &[1, 0, 4],
        ] {
            let (parameter, channels) = (|n: usize| floats(&[n]), shape[1]);
            Case::new("InstanceNormalization", 22)
                .input(floats(shape))
                .weight(parameter(channels))
                .weight(parameter(channels))
                .check(within(BOUND));
            for (version, n) in [(18, 3), (21, channels)] {
                Case::new("GroupNormalization", version)
                    .attr("num_groups", Attr::Int(3))
                    .input(floats(shape))
                    .weight(parameter(n))
                    .weight(parameter(n))
                    .check(within(BOUND));
            }
        }
    }
}
