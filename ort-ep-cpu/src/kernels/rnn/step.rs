//! One step of a direction: the products of the previous state, and the cell.
//!
//! The recurrent weights are read again by every step. Those of a large layer do not fit a
//! second-level cache, so a single sequence alternates the direction of reading, and each thread keeps
//! the same units, whose weights then stay in its own cache.

use std::sync::Mutex;

use ort_ep::Threads;
use ort_kernels::gemm::Start;
use ort_kernels::gemv_f32::Walk;
use ort_ops::ops::rnn::Cell;
use smallvec::SmallVec;

use super::cell::{Coupling, Functions};
use super::parameters::Gates;
use super::pass::{Pass, operands};
use super::real::Real;
use super::{RnnKernel, Sizes};

/// The operands of one step, for all sequences.
pub(super) struct Step<'a, T> {
    pub(super) pass: &'a Pass<'a, T>,
    /// By group of gates `[batch, width]`: the input part.
    pub(super) gates: [&'a mut [T]; 2],
    /// `[batch, hidden]`, like the following fields: the states before and after.
    pub(super) before: &'a [T],
    pub(super) h: &'a mut [T],
    pub(super) c: &'a mut [T],
    pub(super) reset: &'a mut [T],
    /// The index of the step.
    pub(super) t: usize,
    /// The order in which the recurrent weights are read.
    pub(super) walk: Walk,
}

/// A range of units of one sequence.
#[derive(Default)]
struct Units<'a, T> {
    /// The first unit.
    first: usize,
    /// The first group of gates; as many as the cell has.
    gates: [&'a mut [T]; 4],
    /// The input part of the second group, if there is one.
    x: &'a mut [T],
    /// The previous state of all units.
    before: &'a [T],
    h: &'a mut [T],
    c: &'a mut [T],
    reset: &'a mut [T],
}

/// The minimum size of recurrent weights that threads share: more than fits the
/// second-level cache of one core.
const SHARED_BYTES: usize = 2 << 20;

impl<T: Real> Pass<'_, T> {
    fn functions(&self) -> Functions {
        let RnnKernel { cpu, clip, .. } = *self.kernel;
        Functions { isa: cpu.isa, clip, activations: self.direction.activations }
    }
}

impl<T: Real> RnnKernel<T> {
    /// The number of units per thread: all of them unless threads share the steps.
    pub(super) fn units_per_part(&self, sizes: Sizes, threads: &dyn Threads) -> usize {
        let (hidden, nr) = (self.hidden, T::variant(self.cpu.isa).nr);
        let is_reset_first = self.cell == Cell::Gru { linear_before_reset: false };
        if sizes.batch > 1
            || is_reset_first
            || hidden % nr > 0
            || self.cell.n_gates() * hidden * hidden * size_of::<T>() < SHARED_BYTES
        {
            return hidden;
        }
        (hidden / nr).div_ceil(threads.count()) * nr
    }
}

impl<'a, T: Real> Step<'a, T> {
    /// Takes the step.
    pub(super) fn take(self, threads: &dyn Threads, scratch: &mut [u8]) {
        if self.t >= self.pass.longest {
            return self.h.copy_from_slice(self.before);
        }
        let per_part = self.pass.kernel.units_per_part(self.pass.sizes, threads);
        if per_part < self.pass.kernel.hidden {
            self.take_in_parts(per_part, threads);
        } else {
            self.take_whole(threads, scratch);
        }
    }

    fn take_whole(mut self, threads: &dyn Threads, scratch: &mut [u8]) {
        let (pass, walk) = (self.pass, self.walk);
        let multiply = |group: &Gates<T>, a: &[T], to: &mut [T], scratch: &mut [u8]| {
            if pass.sizes.batch == 1 {
                let r = group.r.elements();
                return T::add_row_times_panels(pass.kernel.cpu.isa, a, r, to, walk);
            }
            let operands = operands(a, &group.r, Start::C);
            pass.recurrent(group).run(&operands, to, (threads, scratch), |_| {});
        };
        multiply(&pass.groups()[0], self.before, self.gates[0], scratch);
        if let Cell::Gru { linear_before_reset } = pass.kernel.cell {
            if linear_before_reset {
                let bias = &pass.parameters.reset_bias;
                self.reset.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
                multiply(&pass.groups()[1], self.before, self.reset, scratch);
            } else {
                for units in self.sequences() {
                    let [_, r, ..] = units.gates;
                    pass.functions().reset(r, units.before, units.reset);
                }
                multiply(&pass.groups()[1], self.reset, self.gates[1], scratch);
            }
        }
        let t = self.t;
        for (b, units) in self.sequences().enumerate() {
            if pass.is_over(b, t) { units.keep() } else { units.finish(pass) }
        }
    }

    /// Each thread takes its own units of a single sequence.
    fn take_in_parts(mut self, per_part: usize, threads: &dyn Threads) {
        let (pass, walk) = (self.pass, self.walk);
        let Some(mut rest) = self.sequences().next() else { return };
        let mut parts = SmallVec::<[Mutex<Option<Units<'_, T>>>; 8]>::new();
        while !rest.h.is_empty() {
            parts.push(Mutex::new(Some(rest.split_off(per_part))));
        }
        // One part per thread: as the caller takes the first and the workers the last, each finds in its
        // cache what it read in the previous step.
        threads.for_each(parts.len(), &|i| {
            let units = parts[i].lock().ok().and_then(|mut part| part.take());
            if let Some(mut units) = units {
                units.multiply(pass, walk);
                units.finish(pass);
            }
        });
    }

    /// All units of each sequence.
    fn sequences(&mut self) -> impl Iterator<Item = Units<'_, T>> {
        let hidden = self.pass.kernel.hidden;
        let [first, second] = &mut self.gates;
        let mut first = first.chunks_exact_mut(self.pass.groups()[0].width);
        let mut second = second.chunks_exact_mut(hidden);
        let mut h = self.h.chunks_exact_mut(hidden);
        let mut c = self.c.chunks_exact_mut(hidden);
        let mut reset = self.reset.chunks_exact_mut(hidden);
        self.before.chunks_exact(hidden).map(move |before| {
            let mut gates = first.next().unwrap_or_default().chunks_exact_mut(hidden);
            Units {
                first: 0,
                gates: [(); 4].map(|()| gates.next().unwrap_or_default()),
                x: second.next().unwrap_or_default(),
                before,
                h: h.next().unwrap_or_default(),
                c: c.next().unwrap_or_default(),
                reset: reset.next().unwrap_or_default(),
            }
        })
    }
}

impl<'a, T: Real> Units<'a, T> {
    /// Splits off the first `len` units.
    fn split_off(&mut self, len: usize) -> Self {
        let len = len.min(self.h.len());
        let first = self.first;
        self.first += len;
        let take = |all: &mut &'a mut [T]| {
            let len = len.min(all.len());
            all.split_off_mut(..len).unwrap_or_default()
        };
        Self {
            first,
            gates: self.gates.each_mut().map(take),
            x: take(&mut self.x),
            before: self.before,
            h: take(&mut self.h),
            c: take(&mut self.c),
            reset: take(&mut self.reset),
        }
    }

    /// Adds the previous state times the recurrent weights of these units, which are whole panels.
    fn multiply(&mut self, pass: &Pass<'_, T>, walk: Walk) {
        let (isa, hidden) = (pass.kernel.cpu.isa, pass.kernel.hidden);
        let units = self.first..self.first + self.h.len();
        let add = |group: &Gates<T>, gate: usize, to: &mut [T]| {
            let at = gate * hidden + units.start;
            let panels = &group.r.elements()[at * hidden..(at + units.len()) * hidden];
            T::add_row_times_panels(isa, self.before, panels, to, walk);
        };
        let groups = pass.groups();
        let gates = self.gates.iter_mut().take(groups[0].width / hidden).enumerate();
        match walk {
            Walk::Forward => gates.for_each(|(i, gate)| add(&groups[0], i, gate)),
            Walk::Backward => gates.rev().for_each(|(i, gate)| add(&groups[0], i, gate)),
        }
        if let Some(group) = groups.get(1) {
            self.reset.copy_from_slice(&pass.parameters.reset_bias[units.clone()]);
            add(group, 0, self.reset);
        }
    }

    /// Copies the states unchanged: the sequence has ended.
    fn keep(self) {
        self.h.copy_from_slice(&self.before[self.first..self.first + self.h.len()]);
    }

    /// Computes the new states from the sums.
    fn finish(self, pass: &Pass<'_, T>) {
        let functions = pass.functions();
        let before = &self.before[self.first..self.first + self.h.len()];
        let [i, o, f, g] = self.gates;
        match pass.kernel.cell {
            Cell::Simple => functions.simple(i, self.h),
            Cell::Lstm { input_forget } => {
                let hidden = pass.kernel.hidden;
                let units = self.first..self.first + self.h.len();
                let coupling = Coupling {
                    peepholes: pass.peepholes.map(|p| {
                        [0, 1, 2].map(|i| &p[i * hidden + units.start..i * hidden + units.end])
                    }),
                    is_input_forget: input_forget,
                };
                functions.lstm([i, o, f, g], coupling, self.c, self.h);
            }
            Cell::Gru { linear_before_reset } => {
                let reset = linear_before_reset.then_some(self.reset);
                functions.gru([i, o], (self.x, reset), before, self.h);
            }
        }
    }
}
