//! RNN, GRU and LSTM in f32 with constant weights.
//!
//! The inputs of all steps are multiplied at once; then each step adds the state before it times the
//! recurrent weights and makes a new state of the sums. Threads take a direction each, or, of a
//! layer that is too large for the cache of one, some units of each step. Sequences of unequal
//! length, peepholes and rare activations are left to the operator's `eval`.

mod cell;
mod parameters;
mod pass;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, OneThread, Prepared};
use ort_graph::{OpError, Operator};
use ort_kernels::Activation;
use ort_ops::ops::rnn::{self, Cell, Rnn};
use ort_tensor::{DType, Inputs, Output};

use self::parameters::Parameters;
use self::pass::Pass;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, floats, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One layer.
#[derive(Debug)]
struct RnnKernel {
    cpu: Cpu,
    op: Arc<dyn Operator>,
    cell: Cell,
    is_batch_first: bool,
    /// Whether runs say how long each sequence is.
    has_lengths: bool,
    clip: Option<f32>,
    hidden: usize,
    input: usize,
    directions: Vec<Direction>,
}

/// What a direction computes with.
#[derive(Debug)]
struct Direction {
    is_reverse: bool,
    activations: [Activation; 3],
    parameters: Parameters,
}

/// What a shape signature makes of it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    Ok(kernel(compiler).map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
}

fn kernel(compiler: &Compiler<'_>) -> Option<RnnKernel> {
    let op = compiler.op::<Rnn>()?;
    let is_f32 = compiler.are_f32(0..4) && compiler.are_f32(0..1);
    let has_peepholes = compiler.fact(7).is_some();
    let is_coupled = op.cell == Cell::Lstm { input_forget: true };
    let (&[_, _, input], &[_, _, hidden]) =
        (compiler.constant(1)?.shape(), compiler.constant(2)?.shape())
    else {
        return None;
    };
    if !is_f32 || has_peepholes || is_coupled || input == 0 || hidden == 0 {
        return None;
    }
    let per_direction = op.activations.len() / op.direction.count();
    let directions = (0..op.direction.count()).map(|d| {
        let n = n_activations(op.cell);
        let found = op.activations.get(d * n..(d + 1) * n).filter(|_| per_direction >= n)?;
        let mut activations = [Activation::None; 3];
        for (to, &from) in activations.iter_mut().zip(found) {
            *to = activation(from)?;
        }
        let is_reverse = op.direction == rnn::Direction::Reverse || d == 1;
        let parameters = Parameters::new(compiler, op.cell, hidden, d)?;
        Some(Direction { is_reverse, activations, parameters })
    });
    let directions = directions.collect::<Option<Vec<_>>>()?;
    Some(RnnKernel {
        cpu: compiler.cpu,
        op: compiler.graph.node(compiler.claim.nodes[0]).op.clone(),
        cell: op.cell,
        is_batch_first: op.is_batch_first,
        has_lengths: compiler.fact(4).is_some(),
        clip: op.clip,
        hidden,
        input,
        directions,
    })
}

/// The activations of a cell.
const fn n_activations(cell: Cell) -> usize {
    match cell {
        Cell::Simple => 1,
        Cell::Gru { .. } => 2,
        Cell::Lstm { .. } => 3,
    }
}

/// The same function as kernels have it.
fn activation(function: rnn::Activation) -> Option<Activation> {
    Some(match function {
        rnn::Activation::HardSigmoid { alpha, beta } => Activation::HardSigmoid { alpha, beta },
        rnn::Activation::LeakyRelu { alpha } => Activation::LeakyRelu { alpha },
        rnn::Activation::Relu => Activation::Relu,
        rnn::Activation::Sigmoid => Activation::Sigmoid,
        rnn::Activation::Tanh => Activation::Tanh,
        _ => return None,
    })
}

impl RnnKernel {
    /// What a pass over so many elements of input costs, in multiply-adds.
    fn cost(&self, n_inputs: usize) -> usize {
        n_inputs.saturating_mul(self.hidden).saturating_mul(8)
    }

    fn pass<'a>(&'a self, sizes: Sizes, direction: &'a Direction) -> Pass<'a> {
        Pass { kernel: self, sizes, direction }
    }

    /// Where the state of sequence `b` in direction `d` begins.
    fn state_at(&self, batch: usize, d: usize, b: usize) -> usize {
        let row = match self.is_batch_first {
            true => b * self.directions.len() + d,
            false => d * batch + b,
        };
        row * self.hidden
    }

    /// Copies the outputs out of the directions' memory.
    fn write(
        &self,
        sizes: Sizes,
        memory: &mut [f32],
        outputs: &mut [Output<'_>],
    ) -> Result<(), KernelError> {
        let Sizes { steps, batch } = sizes;
        let (hidden, n) = (self.hidden, self.directions.len());
        let (y_shape, state_shape) = match self.is_batch_first {
            true => ([batch, steps, n, hidden], [batch, n, hidden]),
            false => ([steps, n, batch, hidden], [n, batch, hidden]),
        };
        let mut slots: [&mut [f32]; 3] = Default::default();
        for (i, (slot, output)) in slots.iter_mut().zip(outputs).enumerate() {
            if output.is_wanted() {
                let shape = if i == 0 { &y_shape[..] } else { &state_shape[..] };
                *slot = output.tensor(DType::F32, shape)?.into_slice::<f32>()?;
            }
        }
        let [y, h, c] = slots;
        let each = self.pass(sizes, &self.directions[0]).memory_len();
        for (d, memory) in memory.chunks_exact_mut(each.max(1)).enumerate() {
            let pass = self.pass(sizes, &self.directions[d]);
            let memory = pass.split(memory);
            let (history, last) = pass.results(&memory);
            for (i, row) in history.chunks_exact(hidden).enumerate() {
                let (t, b) = (i / batch, i % batch);
                let at = match self.is_batch_first {
                    true => (b * steps + t) * n + d,
                    false => (t * n + d) * batch + b,
                };
                if let Some(y) = y.get_mut(at * hidden..(at + 1) * hidden) {
                    y.copy_from_slice(row);
                }
            }
            for (to, from) in [&mut *h, &mut *c].into_iter().zip(last) {
                for (b, row) in from.chunks_exact(hidden).enumerate() {
                    let at = self.state_at(batch, d, b);
                    if let Some(to) = to.get_mut(at..at + hidden) {
                        to.copy_from_slice(row);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether every sequence has all steps.
fn are_full(inputs: Inputs<'_>, steps: usize) -> Result<bool, KernelError> {
    let Some(lens) = inputs.optional_tensor(4)? else { return Ok(true) };
    let is_full = |&len: &i32| usize::try_from(len) == Ok(steps);
    Ok(lens.as_slice::<i32>()?.iter().all(is_full))
}

impl Kernel for RnnKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let (steps, batch) = match (shapes.first(), self.is_batch_first) {
            (Some(&&[steps, batch, input]), false) | (Some(&&[batch, steps, input]), true)
                if input == self.input =>
            {
                (steps, batch)
            }
            _ => {
                let left = shapes.first().copied().unwrap_or_default().to_vec();
                let (what, right) = ("the dimensions of an input", vec![self.input]);
                return Err(OpError::Shapes { what, left, right }.into());
            }
        };
        let sizes = Sizes { steps, batch };
        let pass = self.pass(sizes, &self.directions[0]);
        let memory_len = pass.memory_len() * self.directions.len();
        let cost = self.cost(steps.saturating_mul(batch).saturating_mul(self.input));
        let scratch_bytes = self.cpu.scratch_bytes_for(pass.scratch_len(), cost);
        Ok(Prepared::new(sizes).with_scratch(memory_len * size_of::<f32>() + scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &sizes: &Sizes = prepared.state()?;
        if !are_full(io.inputs, sizes.steps)? {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        if sizes.batch == 0 {
            return self.write(sizes, &mut [], io.outputs);
        }
        let inputs = io.inputs;
        let optional = |index| -> Result<Option<&[f32]>, KernelError> {
            Ok(inputs.optional_tensor(index)?.map(|x| x.as_slice()).transpose()?)
        };
        let x = inputs.tensor(0)?.as_slice::<f32>()?;
        let (h, c) = (optional(5)?, optional(6)?);
        let first = self.pass(sizes, &self.directions[0]);
        let (each, scratch_len) = (first.memory_len(), first.scratch_len());
        let memory_bytes = each * self.directions.len() * size_of::<f32>();
        let (memory, scratch) = io.scratch.split_at_mut(memory_bytes);
        let memory = floats(memory);
        let start = |d: usize, memory: &mut [f32]| {
            let pass = self.pass(sizes, &self.directions[d]);
            pass.load(d, [h, c], &mut pass.split(memory));
            pass
        };
        let cost = self.cost(x.len());
        let share_steps = first.units_per_part(io.threads) < self.hidden;
        if self.directions.len() > 1 && !share_steps && n_parts(io.threads, cost) > 1 {
            let parts = memory.chunks_exact_mut(each).enumerate();
            let team = Team::new(io.threads, self.directions.len());
            team.with_scratch(scratch, scratch_len).run(parts, |(d, memory), scratch| {
                let scratch = bytemuck::cast_slice_mut(scratch);
                start(d, memory).run(x, memory, (&OneThread, scratch));
            });
        } else {
            for (d, memory) in memory.chunks_exact_mut(each).enumerate() {
                start(d, memory).run(x, memory, (io.threads, &mut *scratch));
            }
        }
        self.write(sizes, memory, io.outputs)
    }

    /// Sequences that are not full are left to `eval`.
    fn reads(&self, input: usize) -> bool {
        self.has_lengths || !matches!(input, 1 | 2)
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "rnn_f32": product)
    }
}
