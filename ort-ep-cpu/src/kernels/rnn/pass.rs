//! One direction of a layer: its memory and its steps.

// collects are bounded: by the gates

use ort_ep::Threads;
use ort_kernels::gemm::Start;
use ort_kernels::gemv_f32::Walk;
use smallvec::SmallVec;

use super::parameters::{Gates, Layer, Parameters, Weights};
use super::real::Real;
use super::step::Step;
use super::{Direction, RnnKernel, Sizes, is_over};
use crate::pieces::wanted;
use crate::product::{Operands, Product, RightOperand};

/// Elements per cache line of f32.
const LINE: usize = 16;

/// One direction of one run.
pub(super) struct Pass<'a, T> {
    pub(super) kernel: &'a RnnKernel<T>,
    pub(super) sizes: Sizes,
    pub(super) direction: &'a Direction<T>,
    pub(super) parameters: &'a Parameters<T>,
    /// The weights for i, o and f, if there are any.
    pub(super) peepholes: Option<&'a [T]>,
    /// The number of steps of each sequence, if they differ.
    pub(super) lens: Option<&'a [i32]>,
    /// The number of steps of the longest sequence.
    pub(super) longest: usize,
}

/// The memory of a direction.
pub(super) struct Memory<'a, T> {
    /// By group of gates `[steps, batch, width]`: the input part.
    gates: SmallVec<[&'a mut [T]; 2]>,
    /// `[steps, batch, hidden]`: the states.
    history: &'a mut [T],
    /// `[batch, hidden]`: the state before the first step.
    h: &'a mut [T],
    /// `[batch, hidden]`
    c: &'a mut [T],
    /// `[batch, hidden]`
    reset: &'a mut [T],
}

impl<T: Real> RnnKernel<T> {
    /// The product of the inputs of the first `steps` with the weights of gates of this width.
    fn inputs(&self, sizes: Sizes, steps: usize, width: usize) -> Product {
        let k = self.input;
        let (step, sequence) = match self.is_batch_first {
            true => (k, sizes.steps * k),
            false => (sizes.batch * k, k),
        };
        let mut product = Product {
            cpu: self.cpu,
            m: sizes.batch,
            n: width,
            k,
            a: [sequence, 1],
            b: [0, 0],
            batch: [(steps, step, 0)].into_iter().collect(),
            is_exchanged: false,
        };
        product.merge_rows();
        product
    }

    /// The product of the states with the recurrent weights of gates of this width.
    fn recurrent(&self, sizes: Sizes, width: usize) -> Product {
        let k = self.hidden;
        let (cpu, m, batch) = (self.cpu, sizes.batch, SmallVec::new());
        Product { cpu, m, n: width, k, a: [k, 1], b: [0, 0], batch, is_exchanged: false }
    }

    /// Elements per group of gates.
    fn widths(&self) -> impl Iterator<Item = usize> {
        Layer::groups(self.cell).iter().map(|count| count * self.hidden)
    }

    /// Elements of each part of a direction's memory: gates by group, history, then states.
    fn part_lens(&self, sizes: Sizes) -> impl Iterator<Item = usize> {
        let Sizes { steps, batch } = sizes;
        let state = batch * self.hidden;
        let gates = self.widths().map(move |width| steps * batch * width);
        let states = [steps * state, state, state, state];
        gates.chain(states).map(|len| len.next_multiple_of(LINE))
    }

    /// Elements of memory of a direction.
    pub(super) fn memory_len(&self, sizes: Sizes) -> usize {
        self.part_lens(sizes).sum()
    }

    /// Scratch per thread for products, in elements of f32.
    pub(super) fn scratch_len(&self, sizes: Sizes) -> usize {
        let inputs = |width| self.inputs(sizes, sizes.steps, width);
        let products = self.widths().flat_map(|n| [inputs(n), self.recurrent(sizes, n)]);
        products.map(|product| product.scratch_len_of::<T>()).max().unwrap_or(0)
    }

    /// The parts of a direction's memory.
    pub(super) fn split<'m>(&self, sizes: Sizes, mut memory: &'m mut [T]) -> Memory<'m, T> {
        let mut parts = self.part_lens(sizes).map(|len| {
            let (part, rest) = std::mem::take(&mut memory).split_at_mut(len);
            memory = rest;
            part
        });
        let gates = parts.by_ref().take(self.widths().count()).collect();
        let mut state = || parts.next().unwrap_or_default();
        let (history, h, c, reset) = (state(), state(), state(), state());
        Memory { gates, history, h, c, reset }
    }

    /// The states of all steps, `[steps, batch]` rows, and the last `[h, c]`, `[batch]` rows each,
    /// once a pass has run.
    pub(super) fn results<'m>(
        &self,
        sizes: Sizes,
        is_reverse: bool,
        memory: &'m Memory<'_, T>,
    ) -> (&'m [T], [&'m [T]; 2]) {
        let (steps, state) = (sizes.steps, sizes.batch * self.hidden);
        let h = match steps.checked_sub(1) {
            None => &memory.h[..state],
            Some(_) if is_reverse => &memory.history[..state],
            Some(last) => &memory.history[last * state..][..state],
        };
        (&memory.history[..steps * state], [h, &memory.c[..state]])
    }
}

impl<'a, T: Real> Pass<'a, T> {
    pub(super) fn groups(&self) -> &'a [Gates<T>] {
        &self.parameters.groups
    }

    /// Whether sequence `b` has ended before step `t`.
    pub(super) fn is_over(&self, b: usize, t: usize) -> bool {
        is_over(self.lens, b, t)
    }

    /// The product of the states with the recurrent weights of some gates.
    pub(super) fn recurrent(&self, gates: &Gates<T>) -> Product {
        self.kernel.recurrent(self.sizes, gates.width)
    }

    /// Loads the initial states.
    pub(super) fn load(&self, d: usize, given: [Option<&[T]>; 2], memory: &mut Memory<'_, T>) {
        let (batch, hidden) = (self.sizes.batch, self.kernel.hidden);
        for (state, given) in [&mut *memory.h, &mut *memory.c].into_iter().zip(given) {
            match given {
                None => state.fill(T::zeroed()),
                Some(given) => {
                    for (b, state) in state.chunks_exact_mut(hidden).take(batch).enumerate() {
                        state
                            .copy_from_slice(&given[self.kernel.state_at(batch, d, b)..][..hidden]);
                    }
                }
            }
        }
    }

    /// Takes all steps; the initial states must be loaded.
    pub(super) fn run(
        &self,
        x: &[T],
        memory: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let Sizes { steps, batch } = self.sizes;
        let mut memory = self.kernel.split(self.sizes, memory);
        for (gates, to) in self.groups().iter().zip(&mut memory.gates) {
            let operands = operands(x, &gates.w, Start::ByColumn(&gates.bias));
            let to = &mut to[..self.longest * batch * gates.width];
            let product = self.kernel.inputs(self.sizes, self.longest, gates.width);
            product.run(&operands, to, (threads, &mut *scratch), |_| {});
        }
        for i in wanted(0..steps) {
            self.step(i, &mut memory).take(threads, scratch);
        }
    }

    /// The operands of step `i`.
    fn step<'m>(&'m self, i: usize, memory: &'m mut Memory<'_, T>) -> Step<'m, T> {
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
        Step { pass: self, gates, before, h, c, reset, t, walk }
    }
}

/// The operands of a product with packed weights.
pub(super) fn operands<'a, T: Real>(
    a: &'a [T],
    b: &'a Weights<T>,
    start: Start<'a, T>,
) -> Operands<'a, T> {
    let (b, epilogue) = (RightOperand::Packed(b.elements()), T::no_epilogue());
    Operands { a, alpha: T::ONE, b, start, epilogue }
}
