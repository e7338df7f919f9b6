//! DynamicQuantizeLSTM with constant weights of bytes.
//!
//! ```text
//! x, all steps at once: quantized, times w, scaled: the input part of the gates
//! state, each step:     quantized, times r, scaled and added; then the LSTM cell
//! ```
//! Products are exact; zero points are corrected when sums become floats. Threads share the directions.

// collects are bounded: by the directions

mod parameters;

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_kernels::gemm_i8::{Gemm, Signs, Start, row_sum};
use ort_kernels::quantize::{Columns, Row, add_scaled_sums, quantize_u8};
use ort_ops::ops::rnn::{Cell, DynamicQuantizeLstm};
use ort_tensor::{DType, Inputs, Output};

use self::parameters::OneDirection;
use super::rnn::cell::{Coupling, Functions};
use super::rnn::{operand, wrong_shape};
use super::{Compiled, Compiler, KernelDef};
use crate::bytes::{ByteProduct, Left, Right, variant_name};
use crate::cpu::{Cpu, Team, floats, numbers};
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct LstmKernel {
    cpu: Cpu,
    clip: Option<f32>,
    is_input_forget: bool,
    hidden: usize,
    input: usize,
    directions: Vec<OneDirection>,
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
}

/// The memory of a direction; lengths in elements.
struct Memory<'a> {
    /// `[steps, batch, 4·hidden]`
    gates: &'a mut [f32],
    /// `[steps, batch, hidden]`
    history: &'a mut [f32],
    /// `[batch, hidden]`, like the following fields.
    h: &'a mut [f32],
    c: &'a mut [f32],
    quantized: &'a mut [u8],
    /// `[batch, 4·hidden]`
    sums: &'a mut [i32],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    Ok(kernel(compiler).map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
}

fn kernel(compiler: &Compiler<'_>) -> Option<LstmKernel> {
    let layer = &compiler.op::<DynamicQuantizeLstm>()?.layer;
    let Cell::Lstm { input_forget } = layer.cell else { return None };
    let &[n, input, width] = compiler.constant(1)?.shape() else { return None };
    let &[n_r, hidden, width_r] = compiler.constant(2)?.shape() else { return None };
    let is_whole = n == layer.direction.count()
        && [n_r, width_r] == [n, width]
        && width == 4 * hidden
        && layer.hidden_size.is_none_or(|size| size == hidden)
        && input > 0
        && hidden > 0;
    let has_lens = compiler.fact(4).is_some();
    let are_f32 = [0, 3, 5, 6, 7]
        .into_iter()
        .all(|input| compiler.fact(input).is_none_or(|fact| fact.dtype() == Some(DType::F32)));
    if !is_whole || has_lens || !are_f32 || layer.is_batch_first {
        return None;
    }
    let directions = (0..n).map(|d| OneDirection::compile(compiler, layer, [n, width], d));
    Some(LstmKernel {
        cpu: compiler.cpu,
        clip: layer.clip,
        is_input_forget: input_forget,
        hidden,
        input,
        directions: directions.collect::<Option<_>>()?,
    })
}

const fn lines(n_bytes: usize) -> usize {
    n_bytes.next_multiple_of(64)
}

impl LstmKernel {
    fn cost(&self, Sizes { steps, batch }: Sizes) -> usize {
        let each = (self.input + self.hidden).saturating_mul(self.hidden);
        each.saturating_mul(steps).saturating_mul(batch)
    }

    /// Bytes of each part of a direction's memory.
    fn parts(&self, Sizes { steps, batch }: Sizes) -> [usize; 6] {
        let state = batch * self.hidden;
        let f32s = |len: usize| lines(len * size_of::<f32>());
        let gates = f32s(steps * 4 * state);
        [gates, f32s(steps * state), f32s(state), f32s(state), lines(state), f32s(4 * state)]
    }

    fn memory_bytes(&self, sizes: Sizes) -> usize {
        self.parts(sizes).into_iter().sum()
    }

    fn split<'m>(&self, sizes: Sizes, mut memory: &'m mut [u8]) -> Memory<'m> {
        let state = sizes.batch * self.hidden;
        let [gates, history, h, c, quantized, sums] = self.parts(sizes).map(|len| {
            let (part, rest) = std::mem::take(&mut memory).split_at_mut(len);
            memory = rest;
            part
        });
        Memory {
            gates: &mut floats(gates)[..sizes.steps * 4 * state],
            history: &mut floats(history)[..sizes.steps * state],
            h: &mut floats(h)[..state],
            c: &mut floats(c)[..state],
            quantized: &mut quantized[..state],
            sums: &mut numbers(sums)[..4 * state],
        }
    }

    fn product<'a>(&self, right: &'a Right, Sizes { steps, batch }: Sizes) -> ByteProduct<'a> {
        let right = right.view();
        ByteProduct { cpu: self.cpu, m: steps * batch, right }
    }

    /// Loads an initial state of direction `d`, or zeros.
    fn load(
        &self,
        inputs: Inputs<'_>,
        (index, d, batch): (usize, usize, usize),
        to: &mut [f32],
    ) -> Result<(), KernelError> {
        let shape = [self.directions.len(), batch, self.hidden];
        match operand(inputs, index, &shape)? {
            Some(from) => to.copy_from_slice(&from[d * to.len()..(d + 1) * to.len()]),
            None => to.fill(0.0),
        }
        Ok(())
    }

    /// Copies the outputs from the directions' memory.
    fn write(
        &self,
        sizes: Sizes,
        memory: &mut [u8],
        outputs: &mut [Output<'_>],
    ) -> Result<(), KernelError> {
        let Sizes { steps, batch } = sizes;
        let (n, state) = (self.directions.len(), batch * self.hidden);
        let mut slots: [&mut [f32]; 3] = Default::default();
        for (i, (slot, output)) in slots.iter_mut().zip(outputs).enumerate() {
            if output.is_wanted() {
                let shape = [steps, n, batch, self.hidden];
                let shape = if i == 0 { &shape[..] } else { &shape[1..] };
                *slot = output.tensor(DType::F32, shape)?.into_slice::<f32>()?;
            }
        }
        let [y, h, c] = slots;
        for (d, memory) in memory.chunks_exact_mut(self.memory_bytes(sizes).max(1)).enumerate() {
            let memory = self.split(sizes, memory);
            let rows = y.chunks_exact_mut(state.max(1)).skip(d).step_by(n);
            rows.zip(memory.history.chunks_exact(state)).for_each(|(y, h)| y.copy_from_slice(h));
            for (to, from) in [(&mut *h, memory.h), (&mut *c, memory.c)] {
                match to.get_mut(d * state..(d + 1) * state) {
                    // The last states of a sequence without steps are zeros.
                    Some(to) if steps == 0 => to.fill(0.0),
                    Some(to) => to.copy_from_slice(from),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Runs a direction whose gates hold the input part.
    fn run_direction(
        &self,
        direction: &OneDirection,
        (sizes, peepholes): (Sizes, Option<&[f32]>),
        memory: &mut Memory<'_>,
    ) {
        let (hidden, state) = (self.hidden, sizes.batch * self.hidden);
        let (isa, activations) = (self.cpu.isa, direction.activations);
        let functions = Functions { isa, clip: self.clip, activations };
        let coupling = Coupling {
            peepholes: peepholes.map(|p| [0, 1, 2].map(|i| &p[i * hidden..(i + 1) * hidden])),
            is_input_forget: self.is_input_forget,
        };
        let columns = Columns {
            less: &direction.less,
            zeros: direction.r.view().zeros,
            factors: &direction.factors[1],
        };
        let has_zeros = columns.zeros.iter().any(|&zero| zero != 0);
        for i in 0..sizes.steps {
            let t = if direction.is_reverse { sizes.steps - 1 - i } else { i };
            let Scheme { scale, zero } = Scheme::of_floats(isa, memory.h);
            quantize_u8(isa, memory.h, scale, zero, memory.quantized);
            let gemm = Gemm {
                isa,
                n: 4 * hidden,
                k: hidden,
                signs: Signs::UnsignedA,
                a: memory.quantized,
                a_stride: hidden,
                a_masks: &[],
                b: direction.r.view().panels,
                start: Start::Zero,
            };
            gemm.run(0..sizes.batch, 0..4 * hidden, memory.sums);
            let gates = &mut memory.gates[t * 4 * state..(t + 1) * 4 * state];
            let rows = gates.chunks_exact_mut(4 * hidden).zip(memory.sums.chunks_exact(4 * hidden));
            for (b, (gates, sums)) in rows.enumerate() {
                let own = &memory.quantized[b * hidden..(b + 1) * hidden];
                let sum = if has_zeros { row_sum(own) } else { 0 };
                #[expect(clippy::cast_possible_truncation, reason = "0 to 255")]
                let row = Row { zero: zero as i32, sum, scale };
                add_scaled_sums(isa, sums, columns, row, gates);
                let mut gates = gates.chunks_exact_mut(hidden);
                let gates = [(); 4].map(|()| gates.next().unwrap_or_default());
                let units = b * hidden..(b + 1) * hidden;
                let (c, h) = (&mut memory.c[units.clone()], &mut memory.h[units]);
                functions.lstm(gates, coupling, c, h);
            }
            memory.history[t * state..(t + 1) * state].copy_from_slice(memory.h);
        }
    }
}

/// Writes the input part of the gates for all steps.
fn multiply_inputs(
    (direction, product): (&OneDirection, ByteProduct<'_>),
    (left, scale): (Left<'_>, f32),
    gates: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let (isa, factors) = (product.cpu.isa, &direction.factors[0]);
    product.run((left, None), gates, (threads, scratch), |columns, sums, y| {
        let factors = &factors[columns.clone()];
        y.copy_from_slice(&direction.bias[columns.clone()]);
        let zeros = &direction.zeros[columns];
        let columns = Columns { less: zeros, zeros, factors };
        add_scaled_sums(isa, sums, columns, Row { zero: 0, sum: 0, scale }, y);
    });
}

impl Kernel for LstmKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[steps, batch, input] = shapes.first().copied().unwrap_or_default() else {
            return Err(wrong_shape(shapes.first().copied().unwrap_or_default(), &[self.input]));
        };
        if input != self.input {
            return Err(wrong_shape(shapes[0], &[self.input]));
        }
        let sizes = Sizes { steps, batch };
        let x = lines(steps * batch * input);
        let memory = self.memory_bytes(sizes) * self.directions.len();
        let product = self.product(&self.directions[0].w, sizes).scratch_bytes();
        Ok(Prepared::new(sizes).with_scratch(x + memory + product))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &sizes: &Sizes = prepared.state()?;
        let (isa, inputs, n) = (self.cpu.isa, io.inputs, self.directions.len());
        let x = inputs.tensor(0)?.as_slice::<f32>()?;
        let peepholes = operand(inputs, 7, &[n, 3 * self.hidden])?;
        let (quantized, rest) = io.scratch.split_at_mut(lines(x.len()));
        let (memory, scratch) = rest.split_at_mut(self.memory_bytes(sizes) * n);
        if self.memory_bytes(sizes) > 0 {
            let quantized = &mut quantized[..x.len()];
            let Scheme { scale, zero } = Scheme::of_floats(isa, x);
            quantize_u8(isa, x, scale, zero, quantized);
            #[expect(clippy::cast_possible_truncation, reason = "0 to 255")]
            let left = Left { bytes: quantized, zero: zero as i32 };
            let mut states = memory.chunks_exact_mut(self.memory_bytes(sizes)).enumerate();
            states.try_for_each(|(d, memory)| {
                let memory = self.split(sizes, memory);
                let direction = &self.directions[d];
                let product = (direction, self.product(&direction.w, sizes));
                let rest = (io.threads, &mut *scratch);
                multiply_inputs(product, (left, scale), memory.gates, rest);
                self.load(inputs, (5, d, sizes.batch), memory.h)?;
                self.load(inputs, (6, d, sizes.batch), memory.c)
            })?;
            let parts = memory.chunks_exact_mut(self.memory_bytes(sizes)).enumerate();
            Team::new(io.threads, n).if_worth(self.cost(sizes)).run(parts, |(d, memory), _| {
                let peepholes = peepholes.and_then(|p| p.chunks_exact(3 * self.hidden).nth(d));
                let mut memory = self.split(sizes, memory);
                self.run_direction(&self.directions[d], (sizes, peepholes), &mut memory);
            });
        }
        self.write(sizes, memory, io.outputs)
    }

    fn reads(&self, input: usize) -> bool {
        !matches!(input, 1 | 2)
    }

    fn variant(&self) -> &'static str {
        variant_name(self.cpu.isa, self.input.max(self.hidden))
    }
}

#[cfg(test)]
mod tests;
