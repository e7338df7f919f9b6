//! One direction of a layer: its memory and its steps.

use ort_ep::{Packed, Threads};
use ort_kernels::Activation;
use ort_kernels::gemm_f32::Start;
use ort_kernels::gemv_f32::Walk;
use smallvec::SmallVec;

use super::parameters::Gates;
use super::step::Step;
use super::{Direction, RnnKernel, Sizes};
use crate::product::{Operands, Product};
use crate::tail::Tail;

/// Elements to a cache line.
const LINE: usize = 16;

/// One direction of one run.
pub(super) struct Pass<'a> {
    pub(super) kernel: &'a RnnKernel,
    pub(super) sizes: Sizes,
    pub(super) direction: &'a Direction,
}

/// What a direction remembers.
pub(super) struct Memory<'a> {
    /// By group of gates `[steps, batch, width]`: what goes into them.
    gates: SmallVec<[&'a mut [f32]; 2]>,
    /// `[steps, batch, hidden]`: the states.
    history: &'a mut [f32],
    /// `[batch, hidden]`: the state before the first step.
    h: &'a mut [f32],
    /// `[batch, hidden]`
    c: &'a mut [f32],
    /// `[batch, hidden]`
    reset: &'a mut [f32],
}

impl<'a> Pass<'a> {
    pub(super) fn groups(&self) -> &'a [Gates] {
        &self.direction.parameters.groups
    }

    /// The product of all inputs with the weights of some gates.
    fn inputs(&self, gates: &Gates) -> Product {
        let (Sizes { steps, batch }, k) = (self.sizes, self.kernel.input);
        let (step, sequence) = match self.kernel.is_batch_first {
            true => (k, steps * k),
            false => (batch * k, k),
        };
        let mut product = Product {
            cpu: self.kernel.cpu,
            m: batch,
            n: gates.width,
            k,
            a: [sequence, 1],
            b: [0, 0],
            batch: [(steps, step, 0)].into_iter().collect(),
        };
        product.merge_rows();
        product
    }

    /// The product of the states with the recurrent weights of some gates.
    pub(super) fn recurrent(&self, gates: &Gates) -> Product {
        let k = self.kernel.hidden;
        let (cpu, m, batch) = (self.kernel.cpu, self.sizes.batch, SmallVec::new());
        Product { cpu, m, n: gates.width, k, a: [k, 1], b: [0, 0], batch }
    }

    /// The elements of the parts of the memory: gates by group, history, then states.
    fn lens(&self) -> impl Iterator<Item = usize> {
        let Sizes { steps, batch } = self.sizes;
        let state = batch * self.kernel.hidden;
        let gates = self.groups().iter().map(move |gates| steps * batch * gates.width);
        let states = [steps * state, state, state, state];
        gates.chain(states).map(|len| len.next_multiple_of(LINE))
    }

    /// The elements of memory the direction needs.
    pub(super) fn memory_len(&self) -> usize {
        self.lens().sum()
    }

    /// The elements of scratch that a thread needs for products.
    pub(super) fn scratch_len(&self) -> usize {
        let products = self.groups().iter().flat_map(|g| [self.inputs(g), self.recurrent(g)]);
        products.map(|product| product.scratch_len()).max().unwrap_or(0)
    }

    /// The parts of the memory.
    pub(super) fn split<'m>(&self, mut memory: &'m mut [f32]) -> Memory<'m> {
        let mut parts = self.lens().map(|len| {
            let (part, rest) = std::mem::take(&mut memory).split_at_mut(len);
            memory = rest;
            part
        });
        let gates = parts.by_ref().take(self.groups().len()).collect();
        let mut state = || parts.next().unwrap_or_default();
        let (history, h, c, reset) = (state(), state(), state(), state());
        Memory { gates, history, h, c, reset }
    }

    /// Loads the initial states.
    pub(super) fn load(&self, d: usize, given: [Option<&[f32]>; 2], memory: &mut Memory<'_>) {
        let (batch, hidden) = (self.sizes.batch, self.kernel.hidden);
        for (state, given) in [&mut *memory.h, &mut *memory.c].into_iter().zip(given) {
            match given {
                None => state.fill(0.0),
                Some(given) => {
                    for (b, state) in state.chunks_exact_mut(hidden).take(batch).enumerate() {
                        state
                            .copy_from_slice(&given[self.kernel.state_at(batch, d, b)..][..hidden]);
                    }
                }
            }
        }
    }

    /// The states of all steps, `[steps, batch]` rows, and the last `[h, c]`, `[batch]` rows each,
    /// once the pass has run.
    pub(super) fn results<'m>(&self, memory: &'m Memory<'_>) -> (&'m [f32], [&'m [f32]; 2]) {
        let (steps, state) = (self.sizes.steps, self.sizes.batch * self.kernel.hidden);
        let h = match steps.checked_sub(1) {
            None => &memory.h[..state],
            Some(_) if self.direction.is_reverse => &memory.history[..state],
            Some(last) => &memory.history[last * state..][..state],
        };
        (&memory.history[..steps * state], [h, &memory.c[..state]])
    }

    /// Takes all steps. The memory is loaded with the initial states.
    pub(super) fn run(
        &self,
        x: &[f32],
        memory: &mut [f32],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let Sizes { steps, batch } = self.sizes;
        let mut memory = self.split(memory);
        for (gates, to) in self.groups().iter().zip(&mut memory.gates) {
            let operands = operands(x, &gates.w, Start::ByColumn(&gates.bias));
            let to = &mut to[..steps * batch * gates.width];
            self.inputs(gates).run(&operands, to, (threads, &mut *scratch), |_| {});
        }
        for i in 0..steps {
            self.step(i, &mut memory).take(threads, scratch);
        }
    }

    /// What step `i` works on.
    fn step<'m>(&'m self, i: usize, memory: &'m mut Memory<'_>) -> Step<'m> {
        let (steps, len) = (self.sizes.steps, self.sizes.batch * self.kernel.hidden);
        let is_reverse = self.direction.is_reverse;
        let t = if is_reverse { steps - 1 - i } else { i };
        let mut gates = memory.gates.iter_mut().zip(self.groups()).map(|(all, group)| {
            let n = self.sizes.batch * group.width;
            &mut all[t * n..(t + 1) * n]
        });
        let gates = [(); 2].map(|()| gates.next().unwrap_or_default());
        let (before, h) = if i == 0 {
            (&memory.h[..len], &mut memory.history[t * len..(t + 1) * len])
        } else if is_reverse {
            let (now, before) = memory.history.split_at_mut((t + 1) * len);
            (&before[..len], &mut now[t * len..])
        } else {
            let (before, now) = memory.history.split_at_mut(t * len);
            (&before[(t - 1) * len..], &mut now[..len])
        };
        let (c, reset) = (&mut memory.c[..len], &mut memory.reset[..len]);
        let walk = if i.is_multiple_of(2) { Walk::Forward } else { Walk::Backward };
        Step { pass: self, gates, before, h, c, reset, walk }
    }
}

/// The operands of a product with packed weights.
pub(super) fn operands<'a>(a: &'a [f32], b: &'a Packed, start: Start<'a>) -> Operands<'a> {
    let (b, tail) = (bytemuck::cast_slice(b.bytes()), Tail::Fused(Activation::None));
    Operands { a, alpha: 1.0, b, is_packed: true, start, tail }
}
