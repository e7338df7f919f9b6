//! RNN, GRU and LSTM in f32 and f64.
//!
//! The inputs of all steps are multiplied at once; then each step adds the product of the previous state and the
//! recurrent weights, and computes a new state from the sums. Threads take one direction each, or, in a
//! layer too large for the cache of one core, some units of each step. Non-constant weights
//! are packed by each run. A sequence that has ended keeps its state while the others continue.

// collects are bounded: by the directions

pub(super) mod cell;
mod parameters;
mod pass;
mod real;
mod step;
#[cfg(test)]
mod tests;

use ort_ep::{Io, Kernel, KernelError, OneThread, Prepared};
use ort_graph::OpError;
use ort_ops::ops::rnn::{self, Cell, Rnn};
use ort_tensor::{DType, Element, Inputs, Output, Pace};

use self::parameters::{Layer, Parameters};
use self::pass::Pass;
use self::real::Real;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, numbers};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One layer.
#[derive(Debug)]
struct RnnKernel<T> {
    cpu: Cpu,
    cell: Cell,
    is_batch_first: bool,
    clip: Option<f32>,
    hidden: usize,
    input: usize,
    directions: Vec<Direction<T>>,
}

/// The parameters of a direction.
#[derive(Debug)]
struct Direction<T> {
    is_reverse: bool,
    activations: [rnn::Activation; 3],
    /// `None` if each run supplies them.
    parameters: Option<Parameters<T>>,
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Rnn>() else { return Ok(None) };
    Ok(match compiler.dtype_of(0..4) {
        Some(DType::F32) => kernel::<f32>(compiler, op),
        Some(DType::F64) => kernel::<f64>(compiler, op),
        _ => None,
    })
}

fn kernel<T: Real>(compiler: &Compiler<'_>, op: &Rnn) -> Option<Box<dyn Kernel>> {
    let columns = |input: usize| compiler.fact(input)?.dims()?.get(2)?.known();
    let (input, hidden) = (columns(1)?, columns(2)?);
    let has_size = op.hidden_size.is_none_or(|size| size == hidden);
    if !has_size || input == 0 || hidden == 0 {
        return None;
    }
    let n = n_activations(op.cell);
    let directions = (0..op.direction.count()).map(|d| {
        // A cell with fewer functions ignores the rest.
        let mut activations = [rnn::Activation::Tanh; 3];
        activations[..n].copy_from_slice(op.activations.get(d * n..(d + 1) * n)?);
        let is_reverse = op.direction == rnn::Direction::Reverse || d == 1;
        let layer = Layer { isa: compiler.cpu.isa, cell: op.cell, hidden, d };
        Some(Direction { is_reverse, activations, parameters: layer.constant(compiler) })
    });
    let directions = directions.collect::<Option<Vec<_>>>()?;
    Some(Box::new(RnnKernel::<T> {
        cpu: compiler.cpu,
        cell: op.cell,
        is_batch_first: op.is_batch_first,
        clip: op.clip,
        hidden,
        input,
        directions,
    }))
}

/// The number of activations of a cell.
const fn n_activations(cell: Cell) -> usize {
    match cell {
        Cell::Simple => 1,
        Cell::Gru { .. } => 2,
        Cell::Lstm { .. } => 3,
    }
}

impl<T: Real> RnnKernel<T> {
    /// The cost of a pass over `n_inputs` input elements, in multiply-adds.
    fn cost(&self, n_inputs: usize) -> usize {
        n_inputs.saturating_mul(self.hidden).saturating_mul(8)
    }

    /// The offset of the state of sequence `b` in direction `d`.
    fn state_at(&self, batch: usize, d: usize, b: usize) -> usize {
        let row = match self.is_batch_first {
            true => b * self.directions.len() + d,
            false => d * batch + b,
        };
        row * self.hidden
    }

    /// The parameters of each direction that a run supplies, if they are not constant.
    fn given(&self, inputs: Inputs<'_>) -> Result<Vec<Parameters<T>>, KernelError> {
        if self.directions.iter().all(|direction| direction.parameters.is_some()) {
            return Ok(Vec::new());
        }
        let (n, gates) = (self.directions.len(), self.cell.n_gates() * self.hidden);
        let w = operand(inputs, 1, &[n, gates, self.input])?;
        let r = operand(inputs, 2, &[n, gates, self.hidden])?;
        let bias = operand(inputs, 3, &[n, 2 * gates])?.unwrap_or_default();
        let weights = [w, r].map(Option::unwrap_or_default);
        let weights = [(weights[0], self.input), (weights[1], self.hidden)];
        (0..n)
            .map(|d| {
                let layer = Layer { isa: self.cpu.isa, cell: self.cell, hidden: self.hidden, d };
                layer.given(weights, bias)
            })
            .collect()
    }

    /// The number of steps of each sequence, if given.
    fn lens<'a>(&self, inputs: Inputs<'a>, sizes: Sizes) -> Result<Option<&'a [i32]>, KernelError> {
        let Some(lens) = inputs.optional_tensor(4)? else { return Ok(None) };
        if lens.shape() != [sizes.batch] {
            return Err(wrong_shape(lens.shape(), &[sizes.batch]));
        }
        let lens = lens.as_slice::<i32>()?;
        let is_short = |&len: &i32| usize::try_from(len).is_ok_and(|len| len <= sizes.steps);
        match lens.iter().all(is_short) {
            true => Ok(Some(lens)),
            false => {
                let what = "a sequence longer than all steps";
                Err(OpError::InputValue { index: 4, what }.into())
            }
        }
    }

    /// Copies the outputs from the directions' memory.
    fn write(
        &self,
        sizes: Sizes,
        lens: Option<&[i32]>,
        memory: &mut [T],
        outputs: &mut [Output<'_>],
    ) -> Result<(), KernelError> {
        let Sizes { steps, batch } = sizes;
        let (hidden, n) = (self.hidden, self.directions.len());
        let (y_shape, state_shape) = match self.is_batch_first {
            true => ([batch, steps, n, hidden], [batch, n, hidden]),
            false => ([steps, n, batch, hidden], [n, batch, hidden]),
        };
        let mut slots: [&mut [T]; 3] = Default::default();
        for (i, (slot, output)) in slots.iter_mut().zip(outputs).enumerate() {
            if output.is_wanted() {
                let shape = if i == 0 { &y_shape[..] } else { &state_shape[..] };
                *slot = output.tensor(T::DTYPE, shape)?.into_slice::<T>()?;
            }
        }
        let [y, h, c] = slots;
        let each = self.memory_len(sizes);
        for (d, memory) in memory.chunks_exact_mut(each.max(1)).enumerate() {
            let memory = self.split(sizes, memory);
            let (history, last) = self.results(sizes, self.directions[d].is_reverse, &memory);
            let mut pace = Pace::new();
            for (i, row) in history.chunks_exact(hidden).enumerate() {
                pace.go(hidden)?;
                let (t, b) = (i / batch, i % batch);
                let at = match self.is_batch_first {
                    true => (b * steps + t) * n + d,
                    false => (t * n + d) * batch + b,
                };
                if let Some(y) = y.get_mut(at * hidden..(at + 1) * hidden) {
                    copy(row, y, is_over(lens, b, t));
                }
            }
            for (to, from) in [&mut *h, &mut *c].into_iter().zip(last) {
                for (b, row) in from.chunks_exact(hidden).enumerate() {
                    let at = self.state_at(batch, d, b);
                    if let Some(to) = to.get_mut(at..at + hidden) {
                        // The last state of a sequence without steps is zero.
                        copy(row, to, lens.is_some() && is_over(lens, b, 0));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether sequence `b` has ended before step `t`.
fn is_over(lens: Option<&[i32]>, b: usize, t: usize) -> bool {
    lens.is_some_and(|lens| usize::try_from(lens[b]).is_ok_and(|len| t >= len))
}

/// `to = from`, or zero.
fn copy<T: Real>(from: &[T], to: &mut [T], is_zero: bool) {
    if is_zero { to.fill(T::zeroed()) } else { to.copy_from_slice(from) }
}

/// The elements of an optional input, which must have this shape.
pub(super) fn operand<'a, T: Element>(
    inputs: Inputs<'a>,
    index: usize,
    shape: &[usize],
) -> Result<Option<&'a [T]>, KernelError> {
    match inputs.optional_tensor(index)? {
        Some(x) if x.shape() != shape => Err(wrong_shape(x.shape(), shape)),
        x => Ok(x.map(|x| x.as_slice()).transpose()?),
    }
}

pub(super) fn wrong_shape(found: &[usize], expected: &[usize]) -> KernelError {
    let (left, right) = (found.to_vec(), expected.to_vec());
    OpError::Shapes { what: "the dimensions of an input", left, right }.into()
}

impl<T: Real> Kernel for RnnKernel<T> {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let (steps, batch) = match (shapes.first(), self.is_batch_first) {
            (Some(&&[steps, batch, input]), false) | (Some(&&[batch, steps, input]), true)
                if input == self.input =>
            {
                (steps, batch)
            }
            _ => {
                let found = shapes.first().copied().unwrap_or_default();
                return Err(wrong_shape(found, &[self.input]));
            }
        };
        let sizes = Sizes { steps, batch };
        let memory_len = self.memory_len(sizes) * self.directions.len();
        let cost = self.cost(steps.saturating_mul(batch).saturating_mul(self.input));
        let scratch_bytes = self.cpu.scratch_bytes_for(self.scratch_len(sizes), cost);
        Ok(Prepared::new(sizes).with_scratch(memory_len * size_of::<T>() + scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &sizes: &Sizes = prepared.state()?;
        let inputs = io.inputs;
        let lens = self.lens(inputs, sizes)?;
        if sizes.batch == 0 {
            return self.write(sizes, lens, &mut [], io.outputs);
        }
        let longest = lens.and_then(|lens| usize::try_from(*lens.iter().max()?).ok());
        let x = inputs.tensor(0)?.as_slice::<T>()?;
        let n = self.directions.len();
        let state = match self.is_batch_first {
            true => [sizes.batch, n, self.hidden],
            false => [n, sizes.batch, self.hidden],
        };
        let (h, c) = (operand(inputs, 5, &state)?, operand(inputs, 6, &state)?);
        let peepholes = operand(inputs, 7, &[n, 3 * self.hidden])?;
        let given = self.given(inputs)?;
        let (each, scratch_len) = (self.memory_len(sizes), self.scratch_len(sizes));
        let memory_bytes = each * self.directions.len() * size_of::<T>();
        let (memory, scratch) = io.scratch.split_at_mut(memory_bytes);
        let memory = numbers::<T>(memory);
        let start = |d: usize, memory: &mut [T]| {
            let direction = &self.directions[d];
            let parameters = direction.parameters.as_ref().or(given.get(d))?;
            let peepholes = peepholes.and_then(|p| p.chunks_exact(3 * self.hidden).nth(d));
            let longest = longest.unwrap_or(sizes.steps);
            let pass =
                Pass { kernel: self, sizes, direction, parameters, peepholes, lens, longest };
            pass.load(d, [h, c], &mut self.split(sizes, memory));
            Some(pass)
        };
        let cost = self.cost(x.len());
        let share_steps = self.units_per_part(sizes, io.threads) < self.hidden;
        if self.directions.len() > 1 && !share_steps && n_parts(io.threads, cost) > 1 {
            let parts = memory.chunks_exact_mut(each).enumerate();
            let team = Team::new(io.threads, self.directions.len());
            team.with_scratch(scratch, scratch_len).run(parts, |(d, memory), scratch| {
                let scratch = bytemuck::cast_slice_mut(scratch);
                if let Some(pass) = start(d, memory) {
                    pass.run(x, memory, (&OneThread, scratch));
                }
            });
        } else {
            for (d, memory) in memory.chunks_exact_mut(each).enumerate() {
                if let Some(pass) = start(d, memory) {
                    pass.run(x, memory, (io.threads, &mut *scratch));
                }
            }
        }
        self.write(sizes, lens, memory, io.outputs)
    }

    /// Constant weights are held packed.
    fn reads(&self, input: usize) -> bool {
        let is_packed = self.directions.iter().all(|direction| direction.parameters.is_some());
        !is_packed || !matches!(input, 1 | 2)
    }

    fn variant(&self) -> &'static str {
        T::name(self.cpu.isa)
    }
}
