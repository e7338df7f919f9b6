//! BatchNormalization in f32 and f64 with given mean and variance: a scale and a shift per plane, or, with the channels
//! last, per column.

// collects are bounded: one

use std::ops::{Add, Mul};

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Graph, Node, NodeId, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{Lane, each, each_in_place, pairs};
use ort_ops::channels_last::ChannelsLast;
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_tensor::{DType, Inputs, Number, n_elements};

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// The cost of an element, in multiply-adds.
const COST: usize = 4;

/// Planes of fewer elements are computed several at a time.
const SMALL_PLANE: usize = 64;

/// So many elements have their scales and shifts side by side, for one row after another.
const BLOCK: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct BatchNormKernel {
    isa: Isa,
    dtype: DType,
    epsilon: f64,
    is_channels_last: bool,
}

/// Prepared state for one shape signature.
struct State {
    channels: usize,
    /// Elements of a plane.
    plane: usize,
}

fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let (norm, _) = norm(graph, id)?;
    is_supported(norm, graph, node)
        .then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

/// The operator of a node, and whether its channels are last.
pub(super) fn norm(graph: &Graph, id: NodeId) -> Option<(&BatchNormalization, bool)> {
    let first = || Some((op::<BatchNormalization>(graph, id)?, false));
    let last = || Some((&op::<ChannelsLast<BatchNormalization>>(graph, id)?.0, true));
    first().or_else(last)
}

/// Whether there is one mean per channel, only output `y`, and everything is f32 or everything f64.
pub(super) fn is_supported(op: &BatchNormalization, graph: &Graph, node: &Node) -> bool {
    let mut inputs = node.inputs.iter().flatten().map(|&id| graph.fact(id));
    let has_channels = inputs.clone().next().and_then(|x| x.rank()).is_some_and(|rank| rank > 1);
    let has_moments = node.outputs.iter().skip(1).any(Option::is_some);
    let dtype = inputs.clone().next().and_then(|x| x.dtype());
    let is_real = matches!(dtype, Some(DType::F32 | DType::F64));
    let is_one_type = inputs.all(|fact| fact.dtype() == dtype);
    let is_given = op.is_spatial && !op.is_training && has_channels && !has_moments;
    is_given && is_real && is_one_type
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let node = compiler.graph.node(id);
    let norm = norm(compiler.graph, id);
    let norm = norm.filter(|(norm, _)| is_supported(norm, compiler.graph, node));
    let (Some((norm, is_channels_last)), Some(dtype)) = (norm, compiler.dtype_of(0..1)) else {
        return Ok(None);
    };
    let (isa, epsilon) = (compiler.cpu.isa, f64::from(norm.epsilon));
    Ok(Some(Box::new(BatchNormKernel { isa, dtype, epsilon, is_channels_last })))
}

/// Scale, summand, mean and variance of each channel.
pub(super) struct Parameters<'a, T>([&'a [T]; 4]);

impl<'a, T: Number> Parameters<'a, T> {
    /// Inputs `first` to `first + 3`.
    pub(super) fn at(inputs: Inputs<'a>, first: usize) -> Result<Self, KernelError> {
        let slice =
            |i| -> Result<&'a [T], KernelError> { Ok(inputs.tensor(first + i)?.as_slice()?) };
        Ok(Self([slice(0)?, slice(1)?, slice(2)?, slice(3)?]))
    }

    pub(super) fn len(&self) -> usize {
        self.0[0].len()
    }

    /// The scale and the shift of a channel.
    pub(super) fn of(&self, channel: usize, epsilon: f64) -> [T; 2] {
        let [scale, b, mean, variance] = self.0.map(|values| values[channel].to_f64());
        let factor = scale / (variance + epsilon).sqrt();
        [factor, b - mean * factor].map(T::from_f64)
    }
}

impl BatchNormKernel {
    fn compute<T: Number + Mul<Output = T> + Add<Output = T>>(
        &self,
        state: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let &State { channels, plane } = state;
        let (x, y) = first_and_output::<T>(io.inputs, &mut io.outputs[0])?;
        let parameters = Parameters::<T>::at(io.inputs, 1)?;
        if plane < SMALL_PLANE {
            self.compute_channels(state, (x, y), &parameters, io.threads);
            return Ok(());
        }
        let rows = Rows { len: plane, cost: plane.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_exact_mut(plane).enumerate() {
                let at = start + i * plane;
                let [factor, summand] = parameters.of(at / plane % channels, self.epsilon);
                let of = move |x: T| x * factor + summand;
                match x {
                    Some(x) => each(self.isa, &x[at..at + plane], y, of),
                    None => each_in_place(self.isa, y, of),
                }
            }
        });
        Ok(())
    }

    /// Planes so small, such as of rows of channels, that a register has elements of several.
    fn compute_channels<T: Number + Mul<Output = T> + Add<Output = T>>(
        &self,
        &State { channels, plane }: &State,
        (x, y): (Option<&[T]>, &mut [T]),
        parameters: &Parameters<'_, T>,
        threads: &dyn Threads,
    ) {
        let plane = plane.max(1);
        let len = channels.saturating_mul(plane);
        // Rows so short that a block has scales for several are computed together.
        let len = len.saturating_mul((BLOCK / len.max(1)).clamp(1, (y.len() / len.max(1)).max(1)));
        // Threads share rows, or the planes of one row.
        let unit = if y.len() > len { len } else { plane };
        let rows = Rows { len: unit, cost: unit.saturating_mul(COST) };
        rows.for_each(threads, y, |start, y| {
            let (row_len, offset) = (len.min(y.len()), start % len.max(1));
            let (mut scales, mut old) = ([[T::from_f64(0.0); 2]; BLOCK], [T::from_f64(0.0); BLOCK]);
            for first in (0..row_len).step_by(BLOCK) {
                let n = BLOCK.min(row_len - first);
                self.write_scales(&mut scales[..n], (offset + first, plane), parameters);
                for (i, y) in y.chunks_mut(row_len).enumerate() {
                    // The last row may be shorter, if it is of several.
                    let n = n.min(y.len().saturating_sub(first));
                    let (at, y) = (start + i * row_len + first, &mut y[first..][..n]);
                    let x = match x {
                        Some(x) => &x[at..at + n],
                        None => {
                            old[..n].copy_from_slice(y);
                            &old[..n]
                        }
                    };
                    let of = |x: T, [factor, summand]: [T; 2]| x * factor + summand;
                    pairs(self.isa, Lane::Row(x), Lane::Row(&scales[..n]), y, of);
                }
            }
        });
    }

    /// Scale and shift of each element from `at` on.
    fn write_scales<T: Number>(
        &self,
        mut to: &mut [[T; 2]],
        (at, plane): (usize, usize),
        parameters: &Parameters<'_, T>,
    ) {
        let (mut channel, mut n) = (at / plane, plane - at % plane);
        while !to.is_empty() {
            let (now, later) = to.split_at_mut(n.min(to.len()));
            now.fill(parameters.of(channel % parameters.len(), self.epsilon));
            (to, channel, n) = (later, channel + 1, plane);
        }
    }
}

/// The number of channels of images of shape `x`, each with one of every parameter, and that of the elements of a plane,
/// which is 1 if the channels are last.
pub(super) fn channels(
    x: &[usize],
    is_last: bool,
    parameters: &[&[usize]],
) -> Result<(usize, usize), KernelError> {
    let image = x.get(1..).unwrap_or_default();
    let split = if is_last { image.split_last() } else { image.split_first() };
    let Some((&channels, rest)) = split else { return Err(KernelError::ForeignState) };
    if let Some(wrong) = parameters.iter().find(|shape| **shape != [channels]) {
        let (left, right) = (wrong.to_vec(), vec![channels]);
        return Err(OpError::Shapes { what: "values of channels", left, right }.into());
    }
    let plane = if is_last { Some(1) } else { n_elements(rest) };
    Ok((channels, plane.ok_or(OpError::TooLarge)?))
}

impl Kernel for BatchNormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ref parameters @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let (channels, plane) = channels(x, self.is_channels_last, parameters)?;
        Ok(Prepared::new(State { channels, plane }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F64 => self.compute::<f64>(prepared.state()?, io),
            _ => self.compute::<f32>(prepared.state()?, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "batch_norm")
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, within};

    /// Operands are at most 4 and deviations at least 1, so no term exceeds 16; each of five
    /// operations rounds a value of at most 36.
    const BOUND: f32 = 5.0 * 36.0 * f32::EPSILON;

    #[test]
    fn every_plane_has_the_parameters_of_its_channel() {
        for shape in [
            &[2, 3, 4, 5][..],
            &[1, 40, 60, 61],
            &[5, 7],
            &[2, 3, 0],
            &[0, 2, 3],
            &[2, 3, 4],
            &[70, 300],
            &[300, 35, 3, 3],
            &[1, 5000, 4],
            &[2, 1],
            &[4, 0],
        ] {
            for (domain, axis) in [("", 1), ("com.ms.internal.nhwc", shape.len() - 1)] {
                let channels = [shape[axis]];
                let parameter = || floats(&channels);
                let variance: Vec<f32> =
                    parameter().as_slice::<f32>().unwrap().iter().map(|x| x.abs() + 1.0).collect();
                Case::new("BatchNormalization", 15)
                    .domain(domain)
                    .input(floats(shape))
                    .weight(parameter())
                    .weight(parameter())
                    .weight(parameter())
                    .weight(Tensor::from_slice(&channels, &variance).unwrap())
                    .check(within(BOUND));
            }
        }
    }

    #[test]
    fn f64_is_as_exact_as_its_type() {
        let numbers = |shape: &[usize]| {
            let n: usize = shape.iter().product();
            let numbers: Vec<f64> = (0..n).map(|i| (i * 7919 % 251) as f64 / 16.0 + 1.0).collect();
            Tensor::from_slice(shape, &numbers).unwrap()
        };
        for shape in [&[2, 3, 4, 5][..], &[1, 40, 60, 61], &[40, 300], &[9, 5, 7]] {
            let case = Case::new("BatchNormalization", 15).input(numbers(shape));
            let weight = || numbers(&shape[1..2]);
            case.weight(weight())
                .weight(weight())
                .weight(weight())
                .weight(weight())
                .check(within(1e-12));
        }
    }
}
