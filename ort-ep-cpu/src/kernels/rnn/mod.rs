//! LSTM, GRU and RNN in f32, with their usual activations.
//!
//! ```text
//! for each direction, on threads of their own if there are two:
//!     xw = x · wᵀ + bias                       one product for all steps and sequences
//!     for each step: h, c = cell(xw[step], h · rᵀ, h, c)
//! ```

mod cell;
mod pass;
#[cfg(test)]
mod tests;

use ort_ep::{Io, Kernel, KernelError, OneThread, Packed, Prepared, Threads};
use ort_graph::OpError;
use ort_ops::ops::rnn::{Activation, Cell, Rnn};
use ort_tensor::{DType, TensorViewMut, n_elements};

use self::pass::{Desk, Pass, Tensors};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team};
use crate::product::{Product, pack_right};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The inputs.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENS: usize = 4;
const INITIAL_H: usize = 5;
const INITIAL_C: usize = 6;
const PEEPHOLES: usize = 7;

/// One layer; the weights that are constant are packed.
#[derive(Debug)]
struct RnnKernel {
    cpu: Cpu,
    op: Rnn,
    w: Option<Packed>,
    r: Option<Packed>,
}

/// What a shape signature makes of it.
struct State {
    sizes: Sizes,
    /// `x · wᵀ` of one direction.
    input: Product,
    /// `h · rᵀ` of one direction.
    recurrent: Product,
    /// How much scratch a direction needs: for the products, then for all of it.
    product_len: usize,
    direction_len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
    hidden: usize,
    directions: usize,
    /// The elements of all gates of a cell.
    gates: usize,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Rnn>().cloned() else { return Ok(None) };
    let is_absent = |input| compiler.fact(input).is_none();
    let is_f32 = compiler.are_f32(X..LENS)
        && [INITIAL_H, INITIAL_C]
            .into_iter()
            .all(|input| is_absent(input) || compiler.are_f32(input..input + 1));
    if !(is_usual(&op) && is_f32 && is_absent(LENS) && is_absent(PEEPHOLES)) {
        return Ok(None);
    }
    let (w, r) = (pack_right(compiler, W, true), pack_right(compiler, R, true));
    Ok(Some(Box::new(RnnKernel { cpu: compiler.cpu, op, w, r })))
}

/// Whether nothing is asked for but what most models have.
fn is_usual(op: &Rnn) -> bool {
    let activations: &[Activation] = match op.cell {
        Cell::Simple => &[Activation::Tanh],
        Cell::Gru { linear_before_reset: true } => &[Activation::Sigmoid, Activation::Tanh],
        Cell::Lstm { input_forget: false } => {
            &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh]
        }
        Cell::Gru { .. } | Cell::Lstm { .. } => return false,
    };
    let usual = activations.iter().cycle().take(activations.len() * op.direction.count());
    op.activations.iter().zip(usual).all(|(a, b)| a == b) && op.clip.is_none() && !op.is_batch_first
}

impl State {
    fn new(kernel: &RnnKernel, shapes: &[&[usize]]) -> Result<Self, KernelError> {
        let &[&[steps, batch, input], _, r, ..] = shapes else {
            let found = shapes.first().map_or(0, |x| x.len());
            return Err(OpError::InputRank { index: X, expected: "3", found }.into());
        };
        let hidden = kernel.op.hidden_size.or(r.last().copied()).unwrap_or(0);
        let directions = kernel.op.direction.count();
        let gates = product(&[kernel.op.cell.n_gates(), hidden])?;
        let sizes = Sizes { steps, batch, hidden, directions, gates };
        for (index, expected) in [
            (W, &[directions, gates, input][..]),
            (R, &[directions, gates, hidden]),
            (B, &[directions, product(&[gates, 2])?]),
            (INITIAL_H, &sizes.state()),
            (INITIAL_C, &sizes.state()),
        ] {
            // An absent input has no dimensions.
            match shapes.get(index).filter(|shape| !shape.is_empty() || index <= R) {
                Some(&found) if found != expected => {
                    let (left, right) = (found.to_vec(), expected.to_vec());
                    return Err(OpError::Shapes { what: "an input", left, right }.into());
                }
                _ => {}
            }
        }
        let cpu = kernel.cpu;
        let by = |m, k| Product {
            cpu,
            m,
            n: gates,
            k,
            a: [k, 1],
            b: [1, k],
            batch: [(1, 0, 0)].into_iter().collect(),
        };
        let (input, recurrent) = (by(product(&[steps, batch])?, input), by(batch, hidden));
        let scratch_len = input.scratch_len().max(recurrent.scratch_len());
        let product_len = cpu.scratch_bytes(scratch_len) / size_of::<f32>();
        let lens = sizes.lens()?;
        let all = lens.into_iter().try_fold(product_len, usize::checked_add);
        let direction_len = all.ok_or(OpError::TooLarge)?.next_multiple_of(16);
        Ok(Self { sizes, input, recurrent, product_len, direction_len })
    }
}

impl Sizes {
    /// The shape of a state.
    const fn state(&self) -> [usize; 3] {
        [self.directions, self.batch, self.hidden]
    }

    /// The elements of each part of a [`Desk`], but for the first.
    fn lens(&self) -> Result<[usize; 6], OpError> {
        let &Self { steps, batch, hidden, gates, .. } = self;
        Ok([
            gates,
            product(&[steps, batch, gates])?,
            product(&[batch, gates])?,
            product(&[steps, batch, hidden])?,
            product(&[batch, hidden])?,
            product(&[batch, hidden])?,
        ])
    }
}

impl Kernel for RnnKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = State::new(self, shapes)?;
        let all = product(&[state.direction_len, state.sizes.directions, size_of::<f32>()])?;
        Ok(Prepared::new(state).with_scratch(all))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let Sizes { steps, batch, hidden, directions, .. } = state.sizes;
        let tensors = Tensors::new(self, io.inputs)?;
        let scratch: &mut [f32] = bytemuck::cast_slice_mut(io.scratch);
        let n = batch * hidden;
        // The last states of no steps are 0, whatever the first ones were.
        let start = |initial: Option<&[f32]>, d: usize, to: &mut [f32]| match initial {
            Some(initial) if steps > 0 => to.copy_from_slice(&initial[d * n..][..n]),
            _ => to.fill(0.0),
        };
        let direction = |d: usize, scratch: &mut [f32], threads: &dyn Threads| {
            let Ok(mut desk) = Desk::new(state, scratch) else { return };
            start(tensors.h, d, desk.h);
            start(tensors.c, d, desk.c);
            if n > 0 {
                Pass::new(self, state, &tensors, d).run(&mut desk, threads);
            }
        };
        let len = state.direction_len.max(1);
        match directions {
            1 => direction(0, scratch, io.threads),
            _ => Team::new(io.threads, directions).run(
                scratch.chunks_exact_mut(len).enumerate(),
                |(d, scratch), _| {
                    direction(d, scratch, &OneThread);
                },
            ),
        }
        let shapes = [&[steps, directions, batch, hidden][..], &state.sizes.state()];
        let n = n.max(1);
        for (i, output) in io.outputs.iter_mut().enumerate().filter(|(_, y)| y.is_wanted()) {
            let y = output.tensor(DType::F32, shapes[i.min(1)])?;
            let y: &mut [f32] = TensorViewMut::into_slice(y)?;
            for (d, scratch) in scratch.chunks_exact_mut(len).enumerate() {
                let desk = Desk::new(state, scratch)?;
                let states: &[f32] = [&*desk.hs, desk.h, desk.c][i.min(2)];
                let places = y.chunks_exact_mut(n).skip(d).step_by(directions);
                places.zip(states.chunks_exact(n)).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "rnn_f32")
    }

    fn packed_bytes(&self) -> usize {
        [&self.w, &self.r].into_iter().flatten().map(|packed| packed.bytes().len()).sum()
    }
}

fn product(dims: &[usize]) -> Result<usize, OpError> {
    n_elements(dims).ok_or(OpError::TooLarge)
}
