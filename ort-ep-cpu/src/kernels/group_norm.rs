//! GroupNormalization and InstanceNormalization in f32: a mean and a deviation a group of channels, which
//! lie side by side, and a factor and a summand a channel.

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, Node, NodeId, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{self, Fold};
use ort_ops::ops::group_normalization::GroupNormalization;
use ort_tensor::{DType, Inputs, n_elements};

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// What an element costs, in multiply-adds.
const COST: usize = 12;
/// Elements whose sum is one term of the sum of a group, which is one of f64: a rounding error grows with
/// the length of a sum.
const TERM: usize = 1 << 12;

#[derive(Clone, Copy, Debug)]
struct GroupNormKernel {
    isa: Isa,
    op: GroupNormalization,
}

/// What a shape signature makes of it.
struct State {
    channels: usize,
    /// The channels of a group, and those with one scale and summand.
    n_in_group: usize,
    n_shared: usize,
    /// Elements of a channel.
    plane: usize,
}

/// A group is read before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    op::<GroupNormalization>(graph, id)?;
    is_f32(graph, node)
        .then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

fn is_f32(graph: &Graph, node: &Node) -> bool {
    node.inputs.iter().flatten().all(|&id| graph.fact(id).dtype() == Some(DType::F32))
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<GroupNormalization>().filter(|_| compiler.are_f32(0..3)) else {
        return Ok(None);
    };
    Ok(Some(Box::new(GroupNormKernel { isa: compiler.cpu.isa, op })))
}

/// The scale and the summand of channels, or of groups.
struct Parameters<'a>([&'a [f32]; 2]);

impl<'a> Parameters<'a> {
    fn new(inputs: Inputs<'a>) -> Result<Self, KernelError> {
        Ok(Self([inputs.tensor(1)?.as_slice()?, inputs.tensor(2)?.as_slice()?]))
    }
}

impl GroupNormKernel {
    /// The mean, and `1 / √(variance + epsilon)`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded to what results are")]
    fn moments(&self, x: &[f32]) -> [f32; 2] {
        let sum =
            |term: &dyn Fn(&[f32]) -> f32| x.chunks(TERM).map(|x| f64::from(term(x))).sum::<f64>();
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
        let n_shared = if self.op.is_scaled_by_group { n_in_group } else { 1 };
        let n_parameters = channels.checked_div(n_shared).unwrap_or(0);
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
        let Parameters([scale, b]) = Parameters::new(io.inputs)?;
        let len = n_in_group * plane;
        let rows = Rows { len, cost: len.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (group, y) in (start / len.max(1)..).zip(y.chunks_exact_mut(len.max(1))) {
                if let Some(x) = x {
                    y.copy_from_slice(&x[group * len..][..len]);
                }
                let [mean, inverse_deviation] = self.moments(y);
                let first = group * n_in_group;
                for (channel, y) in (first..).zip(y.chunks_exact_mut(plane)) {
                    let at = channel % channels / n_shared;
                    vec::standardize(self.isa, y, mean, inverse_deviation * scale[at], b[at]);
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

    use crate::case::{Case, floats, within};

    /// Normal values are at most the root of the number of elements, here below 64, and have five
    /// roundings before they are scaled by at most 4 and moved by as much.
    const BOUND: f32 = 260.0 * 6.0 * f32::EPSILON;

    #[test]
    fn every_group_has_moments_of_its_own() {
        for shape in
            [&[2, 6, 5, 7][..], &[1, 6, 60, 61], &[3, 6, 9], &[1, 6, 1], &[2, 6, 0], &[0, 6, 4]]
        {
            let parameter = |n: usize| floats(&[n]);
            Case::new("InstanceNormalization", 22)
                .input(floats(shape))
                .weight(parameter(6))
                .weight(parameter(6))
                .check(within(BOUND));
            for (version, n) in [(18, 3), (21, 6)] {
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
