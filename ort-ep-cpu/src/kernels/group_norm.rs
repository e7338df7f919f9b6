//! GroupNormalization and InstanceNormalization in f32 and f64: a mean and a deviation per group of adjacent channels,
//! and a scale and a shift per channel.

// collects are bounded: one

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, Node, NodeId, OpError};
use ort_kernels::vec::{self, Fold};
use ort_kernels::{Isa, Task};
use ort_ops::ops::group_normalization::GroupNormalization;
use ort_tensor::{DType, Number, n_elements};

use super::layer_norm::doubles::total;
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
    dtype: DType,
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
    op::<GroupNormalization>(graph, id)?;
    dtype(graph, node)?;
    Some(Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

/// The type of everything, if it is supported and there are channels.
fn dtype(graph: &Graph, node: &Node) -> Option<DType> {
    let mut inputs = node.inputs.iter().flatten().map(|&id| graph.fact(id));
    let first = inputs.clone().next()?;
    let dtype = first.dtype().filter(|dtype| matches!(dtype, DType::F32 | DType::F64))?;
    let is_supported = first.rank()? > 1 && inputs.all(|fact| fact.dtype() == Some(dtype));
    is_supported.then_some(dtype)
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let dtype = dtype(compiler.graph, compiler.graph.node(id));
    let (Some(&op), Some(dtype)) = (compiler.op::<GroupNormalization>(), dtype) else {
        return Ok(None);
    };
    Ok(Some(Box::new(GroupNormKernel { isa: compiler.cpu.isa, op, dtype })))
}

/// A type of elements, and what is computed of at most [`PIECE`] of them.
trait Grouped: Number {
    /// `Σ x[i]`.
    fn sum(isa: Isa, x: &[Self]) -> f64;

    /// `Σ (x[i] − mean)²`.
    fn deviations(isa: Isa, x: &[Self], mean: Self) -> f64;

    /// `y[i] = (y[i] − mean)·inverse_deviation·scale + b`.
    fn standardize(isa: Isa, y: &mut [Self], moments: [Self; 2], scale: Self, b: Self);
}

impl Grouped for f32 {
    fn sum(isa: Isa, x: &[Self]) -> f64 {
        x.chunks(TERM).map(|x| f64::from(vec::fold_row(isa, Fold::Sum, x))).sum()
    }

    fn deviations(isa: Isa, x: &[Self], mean: Self) -> f64 {
        x.chunks(TERM).map(|x| f64::from(vec::sum_of_squared_deviations(isa, x, mean))).sum()
    }

    fn standardize(isa: Isa, y: &mut [Self], [mean, inverse]: [Self; 2], scale: Self, b: Self) {
        vec::standardize(isa, y, mean, inverse * scale, b);
    }
}

impl Grouped for f64 {
    fn sum(isa: Isa, x: &[Self]) -> f64 {
        isa.run(Total(x, |x| x))
    }

    fn deviations(isa: Isa, x: &[Self], mean: Self) -> f64 {
        isa.run(Total(x, |x| (x - mean) * (x - mean)))
    }

    fn standardize(isa: Isa, y: &mut [Self], [mean, inverse]: [Self; 2], scale: Self, b: Self) {
        let factor = inverse * scale;
        vec::each_in_place(isa, y, |y| (y - mean) * factor + b);
    }
}

/// [`total`] of a function of numbers.
struct Total<'a, F>(&'a [f64], F);

impl<F: Fn(f64) -> f64> Task for Total<'_, F> {
    type Output = f64;
    const IS_WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        total(self.0, self.1)
    }
}

impl GroupNormKernel {
    /// The mean, and `1 / √(variance + epsilon)`.
    fn moments<T: Grouped>(&self, x: &[T]) -> [T; 2] {
        let sum = |of: &dyn Fn(&[T]) -> f64| wanted(x.chunks(PIECE)).map(of).sum::<f64>();
        let count = x.len() as f64;
        let mean = T::from_f64(sum(&|x| T::sum(self.isa, x)) / count);
        let deviations = sum(&|x| T::deviations(self.isa, x, mean));
        let deviation = (deviations / count + f64::from(self.op.epsilon)).sqrt();
        [mean, T::from_f64(1.0 / deviation)]
    }

    fn compute<T: Grouped>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { channels, n_in_group, n_shared, plane } = state;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        let scale = io.inputs.tensor(1)?.as_slice::<T>()?;
        let b = io.inputs.tensor(2)?.as_slice::<T>()?;
        let len = n_in_group * plane;
        let rows = Rows { len, cost: len.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (group, y) in (start / len.max(1)..).zip(y.chunks_exact_mut(len.max(1))) {
                if let Some(x) = x {
                    let pieces = y.chunks_mut(PIECE).zip(x[group * len..].chunks(PIECE));
                    wanted(pieces).for_each(|(y, x)| y.copy_from_slice(&x[..y.len()]));
                }
                let moments = self.moments(y);
                let first = group * n_in_group;
                for (channel, y) in (first..).zip(y.chunks_exact_mut(plane)) {
                    let at = channel % channels / n_shared;
                    for y in wanted(y.chunks_mut(PIECE)) {
                        T::standardize(self.isa, y, moments, scale[at], b[at]);
                    }
                }
            }
        });
        Ok(())
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
        let state = prepared.state()?;
        match self.dtype {
            DType::F64 => self.compute::<f64>(state, io),
            _ => self.compute::<f32>(state, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "group_norm")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Element, Tensor, bf16, f16};

    use super::PIECE;
    use crate::case::{Case, floats, within};

    /// Normalized values are at most the root of the number of elements: 9 in the small groups, and less in the
    /// large ones, whose values are evenly distributed. They have five roundings before they are scaled by
    /// at most 4 and shifted by as much.
    const BOUND: f32 = 40.0 * 6.0 * f32::EPSILON;

    /// Checks elements of another type.
    fn check_as<T: Element>(shape: &[usize], of: fn(f32) -> T, bound: f32) {
        let numbers = |shape: &[usize]| {
            let numbers = floats(shape);
            let numbers = numbers.as_slice::<f32>().unwrap().iter().map(|&x| of(x));
            Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
        };
        let [x, scale, b] = [shape, &shape[1..2], &shape[1..2]].map(numbers);
        let case = Case::new("InstanceNormalization", 22).input(x).weight(scale).weight(b);
        case.check(within(bound));
    }

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
            check_as(shape, f64::from, 1e-12);
            // Results are rounded once, to 11 and to 8 bits.
            check_as(shape, f16::from_f32, 40.0 / 2048.0);
            check_as(shape, bf16::from_f32, 40.0 / 256.0);
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
