//! Normalization of rows in f32: LayerNormalization and its relatives, with a skip connection or
//! without.

use std::sync::Arc;

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Dim, Graph, NodeId, Operator};
use ort_kernels::vec;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_ops::ops::skip_layer_normalization::SkipLayerNormalization;
use ort_tensor::{DType, Inputs, Output, Shape};

use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// One normalization. What it reads besides `x` is named by position; what stretches, `op` does.
#[derive(Clone, Debug)]
struct NormKernel {
    cpu: Cpu,
    op: Arc<dyn Operator>,
    /// The first dimension of a row, negative from the back.
    axis: i64,
    epsilon: f32,
    is_centered: bool,
    has_skip: bool,
    at: Positions,
}

/// Where parameters stand, those that are there.
#[derive(Clone, Copy, Debug)]
struct Positions {
    scale: usize,
    /// What is added at the end.
    shift: Option<usize>,
    /// What is added to `x` beforehand, as long as a row.
    bias: Option<usize>,
    /// The output of inverse deviations; that of means is output 1, if that is another.
    deviation: usize,
}

/// What a shape signature makes of it.
struct State {
    shape: Shape,
    /// The shape of mean and deviation.
    statistic: Shape,
    /// The elements of a row.
    len: usize,
    /// After how many elements the skip connection repeats.
    period: usize,
}

/// The tensors of a run; none of them is empty unless the rows are.
struct Operands<'a> {
    /// None if the output holds it already.
    x: Option<&'a [f32]>,
    skip: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    scale: &'a [f32],
    shift: Option<&'a [f32]>,
}

/// In place where parameters provably are as long as a row: then no run needs `eval`, which is not.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let mut inputs = node.inputs.iter().flatten();
    if !inputs.all(|&id| graph.fact(id).dtype() == Some(DType::F32)) {
        return None;
    }
    let dims = |i: usize| graph.fact(node.inputs.get(i).copied().flatten()?).dims();
    let is_provable = if let Some(op) = op::<LayerNormalization>(graph, id) {
        let x = dims(0)?;
        let row = &x[normalize_axis(op.axis, x.len()).ok()?..];
        let is_row = |i| dims(i).is_some_and(|own| ends_with(row, own, row.len()));
        is_ours(op, node.inputs.len()) && (1..node.inputs.len()).all(is_row)
    } else if op::<SkipLayerNormalization>(graph, id).is_some() {
        let x = dims(0)?;
        dims(1).is_some_and(|skip| ends_with(x, skip, 1))
    } else {
        false
    };
    is_provable.then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

/// Whether there is a kernel for these attributes and number of inputs.
fn is_ours(op: &LayerNormalization, n_inputs: usize) -> bool {
    op.stash_dtype == DType::F32 && (op.is_centered || n_inputs == 2)
}

/// Whether the last dimensions of `x`, at least `least` of them, provably are `own`.
fn ends_with(x: &[Dim], own: &[Dim], least: usize) -> bool {
    let last = x.len().checked_sub(own.len()).map(|first| &x[first..]);
    own.len() >= least && last.is_some_and(|last| last.iter().zip(own).all(|(a, b)| a.equals(b)))
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let kernel = kernel(compiler).filter(|_| compiler.are_f32(0..5));
    Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
}

fn kernel(compiler: &Compiler<'_>) -> Option<NormKernel> {
    let (cpu, op) = (compiler.cpu, compiler.graph.node(*compiler.claim.nodes.first()?).op.clone());
    let given = |index: usize| Some(index).filter(|&index| compiler.fact(index).is_some());
    if let Some(found) = compiler.op::<LayerNormalization>() {
        let LayerNormalization { axis, epsilon, is_centered, .. } = *found;
        let deviation = if is_centered { 2 } else { 1 };
        let at = Positions { scale: 1, shift: given(2), bias: None, deviation };
        let kernel = NormKernel { cpu, op, axis, epsilon, is_centered, has_skip: false, at };
        return is_ours(found, compiler.claim.inputs.len()).then_some(kernel);
    }
    let &SkipLayerNormalization { epsilon, is_centered } = compiler.op()?;
    let (shift, bias) = if is_centered { (given(3), given(4)) } else { (None, given(3)) };
    let at = Positions { scale: 2, shift, bias, deviation: 2 };
    Some(NormKernel { cpu, op, axis: -1, epsilon, is_centered, has_skip: true, at })
}

impl NormKernel {
    fn operands<'a>(
        &self,
        inputs: Inputs<'a>,
        is_in_place: bool,
    ) -> Result<Operands<'a>, KernelError> {
        let given = |index: usize| -> Result<&'a [f32], KernelError> {
            Ok(inputs.tensor(index)?.as_slice()?)
        };
        let optional = |index: Option<usize>| -> Result<Option<&'a [f32]>, KernelError> {
            let tensor = index.map(|index| inputs.optional_tensor(index)).transpose()?.flatten();
            Ok(tensor.map(|tensor| tensor.as_slice()).transpose()?)
        };
        Ok(Operands {
            x: if is_in_place { None } else { Some(given(0)?) },
            skip: optional(self.has_skip.then_some(1))?,
            bias: optional(self.at.bias)?,
            scale: given(self.at.scale)?,
            shift: optional(self.at.shift)?,
        })
    }

    /// Sums up the row that begins at `at`.
    fn sum(&self, operands: &Operands<'_>, period: usize, at: usize, row: &mut [f32]) {
        if let Some(x) = operands.x {
            row.copy_from_slice(&x[at..at + row.len()]);
        }
        if let Some(skip) = operands.skip {
            vec::add(self.cpu.isa, row, &skip[at % period..][..row.len()]);
        }
        if let Some(bias) = operands.bias {
            vec::add(self.cpu.isa, row, bias);
        }
    }

    /// Normalizes a row; its mean and the inverse of its deviation.
    fn normalize(&self, operands: &Operands<'_>, row: &mut [f32]) -> [f32; 2] {
        let (isa, epsilon) = (self.cpu.isa, self.epsilon);
        if self.is_centered {
            let moments = vec::layer_norm(isa, row, operands.scale, operands.shift, epsilon);
            [moments.mean, moments.inverse_deviation]
        } else {
            [0.0, vec::rms_norm(isa, row, operands.scale, epsilon)]
        }
    }
}

impl Kernel for NormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.state(shapes)?;
        let statistics =
            state.as_ref().map_or(0, |state| 2 * state.statistic.iter().product::<usize>());
        Ok(Prepared::new(state).with_scratch(statistics * size_of::<f32>()))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Some(state) = prepared.state::<Option<State>>()? else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        let operands = self.operands(io.inputs, io.outputs[0].in_place_of().is_some())?;
        let statistics: &mut [f32] = bytemuck::cast_slice_mut(io.scratch);
        let [y, others @ ..] = &mut *io.outputs else { return Ok(()) };
        let y = y.tensor(DType::F32, &state.shape)?.into_slice::<f32>()?;
        let sums = match others.get_mut(2).filter(|sums| self.has_skip && sums.is_wanted()) {
            Some(sums) => sums.tensor(DType::F32, &state.shape)?.into_slice::<f32>()?,
            None => &mut [],
        };
        if state.len == 0 {
            statistics.fill(f32::NAN);
        } else {
            self.rows(state, &operands, (y, sums, statistics), io.threads);
        }
        self.write_statistics(&state.statistic, statistics, others)
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "norm_f32")
    }
}

impl NormKernel {
    /// `None` where parameters are not as long as a row.
    fn state(&self, shapes: &[&[usize]]) -> Result<Option<State>, KernelError> {
        let x = shapes.first().copied().unwrap_or_default();
        let axis = normalize_axis(self.axis, x.len())?;
        let row = &x[axis..];
        let shape = |index: usize| shapes.get(index).copied().unwrap_or_default();
        let parameters = [Some(self.at.scale), self.at.shift, self.at.bias];
        let mut period = row.iter().product();
        if self.has_skip {
            let skip = shape(1);
            let leading = skip.iter().take_while(|&&dim| dim == 1).count();
            let own = &skip[leading.min(skip.len().saturating_sub(1))..];
            if own.is_empty() || !x.ends_with(own) {
                return Ok(None);
            }
            period = own.iter().product();
        }
        if !parameters.into_iter().flatten().all(|index| shape(index) == row) {
            return Ok(None);
        }
        let mut statistic = Shape::from_slice(x);
        statistic[axis..].fill(1);
        let (shape, len) = (Shape::from_slice(x), row.iter().product());
        Ok(Some(State { shape, statistic, len, period }))
    }

    /// All rows of `y`, their sums if those are wanted, and pairs of mean and inverse deviation.
    fn rows(
        &self,
        state: &State,
        operands: &Operands<'_>,
        (y, sums, statistics): (&mut [f32], &mut [f32], &mut [f32]),
        threads: &dyn Threads,
    ) {
        let len = state.len;
        let n_parts = n_parts(threads, y.len().saturating_mul(16));
        let n_rows = (y.len() / len).div_ceil(n_parts).max(1);
        // Nobody wants the sums: every part gets none of them.
        let sums = sums.chunks_mut(n_rows * len).chain(std::iter::repeat_with(|| &mut [][..]));
        let rows = y.chunks_mut(n_rows * len).zip(statistics.chunks_mut(2 * n_rows)).zip(sums);
        Team::new(threads, n_parts).run(rows.enumerate(), |(i, ((y, statistics), sums)), _| {
            let rows = y.chunks_exact_mut(len).zip(statistics.as_chunks_mut::<2>().0);
            for (j, (row, statistic)) in rows.enumerate() {
                self.sum(operands, state.period, (i * n_rows + j) * len, row);
                if let Some(sum) = sums.get_mut(j * len..(j + 1) * len) {
                    sum.copy_from_slice(row);
                }
                *statistic = self.normalize(operands, row);
            }
        });
    }

    /// Writes those of mean and deviation that are wanted, from pairs. `outputs` begin with the
    /// second.
    fn write_statistics(
        &self,
        shape: &[usize],
        statistics: &[f32],
        outputs: &mut [Output<'_>],
    ) -> Result<(), KernelError> {
        let deviation = self.at.deviation;
        for (i, index) in [(0, 1), (1, deviation)].into_iter().skip(usize::from(deviation == 1)) {
            let output = outputs.get_mut(index - 1).filter(|output| output.is_wanted());
            if let Some(output) = output {
                let to = output.tensor(DType::F32, shape)?.into_slice::<f32>()?;
                let from = statistics.iter().skip(i).step_by(2);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, floats, integers, within};

    /// Mean and variance of at most 2¹⁰ numbers up to 4 are off by γ(n/64 + 7) of their size; what
    /// they normalize is at most √n, times a scale up to 4.
    fn bound(n: usize) -> f32 {
        let terms = n as f32 / 64.0 + 12.0;
        8.0 * terms * f32::EPSILON * (n as f32).sqrt() * 4.0
    }

    #[test]
    fn rows_begin_at_the_axis() {
        let shapes: [(&[usize], i64); 7] = [
            (&[3, 7], -1),
            (&[2, 5, 33], -1),
            (&[2, 5, 33], 1),
            (&[4, 2, 3], 0),
            (&[100, 768], 1),
            (&[0, 5], 1),
            (&[1, 2], -1),
        ];
        for (shape, axis) in shapes {
            let from = usize::try_from(axis).unwrap_or(shape.len() - 1);
            let row = || floats(&shape[from..]);
            let case = |name, version| {
                let case = Case::new(name, version).attr("axis", Attr::Int(axis));
                case.input(floats(shape)).weight(row())
            };
            let n = shape[from..].iter().product();
            let layer = || case("LayerNormalization", 17).weight(row());
            layer().check(within(bound(n)));
            layer().outputs(3).check(within(bound(n)));
            case("LayerNormalization", 17).check(within(bound(n)));
            case("RMSNormalization", 23).check(within(bound(n)));
            case("SimplifiedLayerNormalization", 1).outputs(2).check(within(bound(n)));
        }
    }

    #[test]
    fn a_skip_connection_is_added_and_repeats() {
        let shapes: [(&[usize], &[usize]); 5] = [
            (&[2, 3, 17], &[2, 3, 17]),
            (&[2, 3, 17], &[3, 17]),
            (&[2, 3, 17], &[1, 3, 17]),
            (&[150, 256], &[150, 256]),
            (&[0, 4], &[0, 4]),
        ];
        for (x, skip) in shapes {
            let n = x[x.len() - 1];
            let case = |name| {
                let case =
                    Case::new(name, 1).domain("com.microsoft").attr("epsilon", Attr::Float(1e-5));
                case.input(integers(x)).input(integers(skip)).weight(floats(&[n]))
            };
            let layer = || case("SkipLayerNormalization").weight(floats(&[n]));
            layer().check(within(bound(n)));
            layer().weight(integers(&[n])).outputs(4).check(within(bound(n)));
            layer().outputs(1).check(within(bound(n)));
            let simplified = || case("SkipSimplifiedLayerNormalization");
            simplified().check(within(bound(n)));
            simplified().weight(integers(&[n])).outputs(4).check(within(bound(n)));
        }
    }
}
