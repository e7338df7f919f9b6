//! All steps of all sequences, one direction after the other.
//!
//! ```text
//! for each direction:
//!     xw = x · wᵀ + bias                   for all steps and sequences at once
//!     for each step, in the direction's order:
//!         recurrent = h · rᵀ + recurrent bias
//!         for each active sequence: h, c = cell(xw, recurrent, h, c)
//! ```

// collects are bounded: into checked allocations

use std::borrow::Cow;

use ort_graph::OpError;
use ort_tensor::{Inputs, Output, Pace, TensorError, filled, go_on, try_collected, with_room};

use super::cell::Gates;
use super::weights::{Matrix, Weights};
use super::{Cell, Rnn};
use crate::floats;
use crate::product::Real;

/// The sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    directions: usize,
}

/// The operands of a call, and the length of each sequence.
struct Operands<'a, R: Real> {
    x: Cow<'a, [R]>,
    w: Weights<'a, R>,
    r: Weights<'a, R>,
    b: Option<Cow<'a, [R]>>,
    p: Option<Cow<'a, [R]>>,
    lens: Vec<usize>,
}

/// The results for the outputs.
struct Results<R> {
    y: Vec<R>,
    h: Vec<R>,
    c: Vec<R>,
}

/// Evaluates the operator in `R` with weights of type `R`.
pub(super) fn run<R: Real>(
    op: &Rnn,
    inputs: Inputs<'_>,
    outputs: &mut [Output<'_>],
) -> Result<(), OpError> {
    let sizes = Sizes::of(op, inputs)?;
    let n_gates = op.cell.n_gates().checked_mul(sizes.hidden).ok_or(OpError::TooLarge)?;
    let weights = |index, n| -> Result<Weights<'_, R>, OpError> {
        Ok(Weights::Floats(parameter(inputs, index, &[sizes.directions, n_gates, n])?))
    };
    run_with(op, inputs, outputs, [weights(1, sizes.input)?, weights(2, sizes.hidden)?])
}

/// Evaluates the operator in `R` with these weights of `x` and `h`, whose shapes are valid.
pub(super) fn run_with<'a, R: Real>(
    op: &Rnn,
    inputs: Inputs<'a>,
    outputs: &mut [Output<'_>],
    [w, r]: [Weights<'a, R>; 2],
) -> Result<(), OpError> {
    let sizes = Sizes::of(op, inputs)?;
    let Sizes { steps, batch, hidden, directions, .. } = sizes;
    let state = op.ordered([directions, batch, hidden], 0, 1);
    let y_shape = match op.is_batch_first {
        true => [batch, steps, directions, hidden],
        false => [steps, directions, batch, hidden],
    };
    let gates = op.cell.n_gates();
    let n_gates = gates.checked_mul(hidden).ok_or(OpError::TooLarge)?;
    let operands = Operands {
        x: floats::read_as(inputs.tensor(0)?)?,
        w,
        r,
        b: optional(inputs, 3, &[directions, n_gates.saturating_mul(2)])?,
        p: optional(inputs, 7, &[directions, hidden.saturating_mul(3)])?,
        lens: lengths(inputs, sizes)?,
    };
    let n_states = product(&state)?;
    let initial = |index| -> Result<Vec<R>, OpError> {
        let found = optional(inputs, index, &state)?;
        match found {
            Some(found) => floats::owned(found),
            None => Ok(filled(R::default(), n_states)?),
        }
    };
    let c = if matches!(op.cell, Cell::Lstm { .. }) { initial(6)? } else { Vec::new() };
    let mut results = Results { y: filled(R::default(), product(&y_shape)?)?, h: initial(5)?, c };
    if hidden > 0 {
        for d in 0..directions {
            Pass::new(op, sizes, d, &operands)?.run(&mut results)?;
        }
    }
    let dtype = inputs.tensor(0)?.dtype();
    floats::write(outputs, 0, dtype, &y_shape, &results.y)?;
    floats::write(outputs, 1, dtype, &state, &results.h)?;
    match op.cell {
        Cell::Lstm { .. } => floats::write(outputs, 2, dtype, &state, &results.c),
        Cell::Simple | Cell::Gru { .. } => Ok(()),
    }
}

/// One direction of a call.
struct Pass<'a, R: Real> {
    op: &'a Rnn,
    sizes: Sizes,
    d: usize,
    /// `x · wᵀ + bias`, a row of all gates for each step and sequence.
    xw: Vec<R>,
    recurrent_bias: Vec<R>,
    /// The rows of R that multiply `h`.
    at_once: Matrix<'a, R>,
    /// The rows of R that multiply `h` after it was reset.
    after_reset: Option<&'a [R]>,
    peepholes: Option<&'a [R]>,
    gates: Gates<'a>,
    lens: &'a [usize],
}

impl<'a, R: Real> Pass<'a, R> {
    fn new(
        op: &'a Rnn,
        sizes: Sizes,
        d: usize,
        operands: &'a Operands<'_, R>,
    ) -> Result<Self, OpError> {
        let Sizes { steps, batch, input, hidden, .. } = sizes;
        let n = op.cell.n_gates() * hidden;
        let (bias, recurrent_bias) = biases(op, operands.b.as_ref().map(|b| part(b, d, 2 * n)), n)?;
        let n_rows = product(&[steps, batch])?;
        let mut xw = repeated(&bias, n_rows)?;
        // Steps beyond the longest sequence are not read.
        let longest = operands.lens.iter().copied().max().unwrap_or(0);
        let n_rows = if op.is_batch_first { steps } else { longest } * batch;
        let x = &operands.x[..n_rows * input];
        operands.w.matrix(d, n * input).add_product(&mut xw, n, x, input)?;
        let (at_once, after_reset) = match (op.cell, operands.r.matrix(d, n * hidden)) {
            (Cell::Gru { linear_before_reset: false }, Matrix::Floats(r)) => {
                let (at_once, rest) = r.split_at(2 * hidden * hidden);
                (Matrix::Floats(at_once), Some(rest))
            }
            (_, r) => (r, None),
        };
        let activations = &op.activations[d * op.cell.activations().len()..];
        let gates = Gates { activations, clip: op.clip.map_or(f64::INFINITY, f64::from) };
        let peepholes = operands.p.as_ref().map(|p| part(p, d, 3 * hidden));
        let lens = &operands.lens;
        Ok(Self { op, sizes, d, xw, recurrent_bias, at_once, after_reset, peepholes, gates, lens })
    }

    fn run(&self, results: &mut Results<R>) -> Result<(), OpError> {
        let Sizes { steps, batch, hidden, .. } = self.sizes;
        let mut h = filled(R::default(), batch * hidden)?;
        for (b, h) in h.chunks_exact_mut(hidden).enumerate() {
            h.copy_from_slice(&results.h[self.state(b)..][..hidden]);
        }
        let mut recurrent = repeated(&self.recurrent_bias, batch)?;
        for step in 0..steps {
            go_on()?;
            self.step(step, (&mut h, &mut recurrent), results)?;
        }
        for b in (0..batch).filter(|&b| self.lens[b] == 0) {
            let at = self.state(b);
            results.h[at..at + hidden].fill(R::default());
            results.c.get_mut(at..at + hidden).unwrap_or_default().fill(R::default());
        }
        Ok(())
    }

    /// Computes one step of all active sequences.
    fn step(
        &self,
        step: usize,
        (h, recurrent): (&mut [R], &mut Vec<R>),
        results: &mut Results<R>,
    ) -> Result<(), TensorError> {
        let Sizes { steps, batch, hidden, directions, .. } = self.sizes;
        let n = self.recurrent_bias.len();
        recurrent.truncate(0);
        let mut pace = Pace::new();
        for _ in 0..batch {
            pace.go(n)?;
            recurrent.extend_from_slice(&self.recurrent_bias);
        }
        self.at_once.add_product(recurrent, n, h, hidden)?;
        for (b, h) in h.chunks_exact_mut(hidden).enumerate() {
            let len = self.lens[b];
            if step >= len {
                // These states are no longer read, but must not widen the quantization range for long.
                h.fill(R::default());
                continue;
            }
            let t = if self.op.direction.is_reverse(self.d) { len - 1 - step } else { step };
            let (row, y) = match self.op.is_batch_first {
                true => (b * steps + t, (b * steps + t) * directions + self.d),
                false => (t * batch + b, (t * directions + self.d) * batch + b),
            };
            let x = &self.xw[row * n..][..n];
            let recurrent = &recurrent[b * n..][..n];
            match self.op.cell {
                Cell::Simple => self.gates.simple(x, recurrent, h),
                Cell::Gru { .. } => self.gates.gru(x, recurrent, self.after_reset, h)?,
                Cell::Lstm { input_forget } => {
                    let c = &mut results.c[self.state(b)..][..hidden];
                    self.gates.lstm(x, recurrent, (self.peepholes, input_forget), (h, c));
                }
            }
            results.y[y * hidden..][..hidden].copy_from_slice(h);
            results.h[self.state(b)..][..hidden].copy_from_slice(h);
        }
        Ok(())
    }

    /// The start of the state of sequence `b`.
    fn state(&self, b: usize) -> usize {
        let Sizes { batch, directions, hidden, .. } = self.sizes;
        let at = if self.op.is_batch_first { b * directions + self.d } else { self.d * batch + b };
        at * hidden
    }
}

/// The values repeated `n` times.
fn repeated<R: Real>(values: &[R], n: usize) -> Result<Vec<R>, OpError> {
    let (mut all, mut pace) = (with_room(product(&[values.len(), n])?)?, Pace::new());
    for _ in 0..n {
        pace.go(values.len())?;
        all.extend_from_slice(values);
    }
    Ok(all)
}

/// The elements of direction `d`, of which there are `len`.
fn part<R>(all: &[R], d: usize, len: usize) -> &[R] {
    &all[d * len..(d + 1) * len]
}

/// What is added to `w·x` and to `r·h`: both biases are added to the former, except that of the last gate of a GRU
/// that resets after its bias. `n` values each.
fn biases<R: Real>(op: &Rnn, b: Option<&[R]>, n: usize) -> Result<(Vec<R>, Vec<R>), OpError> {
    let (mut bias, mut recurrent) = (filled(R::default(), n)?, filled(R::default(), n)?);
    let Some(b) = b else { return Ok((bias, recurrent)) };
    let n_together = match op.cell {
        Cell::Gru { linear_before_reset: true } => n / 3 * 2,
        _ => n,
    };
    for i in 0..n {
        if i < n_together {
            bias[i] = b[i] + b[n + i];
        } else {
            (bias[i], recurrent[i]) = (b[i], b[n + i]);
        }
    }
    Ok((bias, recurrent))
}

impl Sizes {
    fn of(op: &Rnn, inputs: Inputs<'_>) -> Result<Self, OpError> {
        let rank = |index, found| OpError::InputRank { index, expected: "3", found };
        let (x, r) = (inputs.tensor(0)?.shape(), inputs.tensor(2)?.shape());
        let &[a, b, input] = x else { return Err(rank(0, x.len())) };
        let &[_, _, hidden] = r else { return Err(rank(2, r.len())) };
        let [steps, batch] = op.ordered([a, b], 0, 1);
        let hidden = op.hidden_size.unwrap_or(hidden);
        Ok(Self { steps, batch, input, hidden, directions: op.direction.count() })
    }
}

/// How many steps each sequence has.
fn lengths(inputs: Inputs<'_>, sizes: Sizes) -> Result<Vec<usize>, OpError> {
    let Some(lens) = inputs.optional_tensor(4)? else {
        return Ok(filled(sizes.steps, sizes.batch)?);
    };
    if lens.shape() != [sizes.batch] {
        return Err(wrong_shape(lens.shape(), &[sizes.batch]));
    }
    let len = |&len: &i32| {
        let len = usize::try_from(len).ok().filter(|&len| len <= sizes.steps);
        len.ok_or(OpError::InputValue { index: 4, what: "a sequence longer than all steps" })
    };
    try_collected(lens.as_slice::<i32>()?.iter().map(len))
}

fn parameter<'a, R: Real>(
    inputs: Inputs<'a>,
    index: usize,
    shape: &[usize],
) -> Result<Cow<'a, [R]>, OpError> {
    let view = inputs.tensor(index)?;
    if view.shape() == shape {
        floats::read_as(view)
    } else {
        Err(wrong_shape(view.shape(), shape))
    }
}

fn optional<'a, R: Real>(
    inputs: Inputs<'a>,
    index: usize,
    shape: &[usize],
) -> Result<Option<Cow<'a, [R]>>, OpError> {
    inputs.get(index).map(|_| parameter(inputs, index, shape)).transpose()
}

fn wrong_shape(found: &[usize], expected: &[usize]) -> OpError {
    let (left, right) = (found.to_vec(), expected.to_vec());
    OpError::Shapes { what: "the dimensions of an input", left, right }
}

fn product(shape: &[usize]) -> Result<usize, OpError> {
    ort_tensor::n_elements(shape).ok_or(OpError::TooLarge)
}
