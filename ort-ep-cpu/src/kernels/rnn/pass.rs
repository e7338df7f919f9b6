//! One direction of a run: what it reads, what it works on, and its steps.

use ort_ep::{KernelError, Packed, Threads};
use ort_graph::OpError;
use ort_kernels::gemm_f32::Start;
use ort_kernels::{Isa, vec};
use ort_ops::activation::Activation as Tail;
use ort_ops::ops::rnn::{Cell, Direction};
use ort_tensor::Inputs;

use super::cell::{gru, lstm, simple};
use super::{B, INITIAL_C, INITIAL_H, R, RnnKernel, Sizes, State, W, X};
use crate::product::Operands;

/// The tensors of a run.
pub(super) struct Tensors<'a> {
    pub(super) x: &'a [f32],
    pub(super) w: (&'a [f32], bool),
    pub(super) r: (&'a [f32], bool),
    pub(super) b: Option<&'a [f32]>,
    pub(super) h: Option<&'a [f32]>,
    pub(super) c: Option<&'a [f32]>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(kernel: &'a RnnKernel, inputs: Inputs<'a>) -> Result<Self, KernelError> {
        let weights = |packed: &'a Option<Packed>, index| -> Result<_, KernelError> {
            Ok(match packed {
                Some(packed) => (bytemuck::cast_slice(packed.bytes()), true),
                None => (inputs.tensor(index)?.as_slice()?, false),
            })
        };
        let optional = |index| -> Result<Option<&'a [f32]>, KernelError> {
            Ok(inputs.optional_tensor(index)?.map(|tensor| tensor.as_slice()).transpose()?)
        };
        Ok(Self {
            x: inputs.tensor(X)?.as_slice()?,
            w: weights(&kernel.w, W)?,
            r: weights(&kernel.r, R)?,
            b: optional(B)?,
            h: optional(INITIAL_H)?,
            c: optional(INITIAL_C)?,
        })
    }
}

/// The scratch of one direction.
pub(super) struct Desk<'a> {
    pub(super) products: &'a mut [f32],
    pub(super) bias: &'a mut [f32],
    /// `[steps, batch, gates]`.
    pub(super) xw: &'a mut [f32],
    /// `[batch, gates]`.
    pub(super) recurrent: &'a mut [f32],
    /// The states after each step, `[steps, batch, hidden]`.
    pub(super) hs: &'a mut [f32],
    pub(super) h: &'a mut [f32],
    pub(super) c: &'a mut [f32],
}

impl<'a> Desk<'a> {
    pub(super) fn new(state: &State, scratch: &'a mut [f32]) -> Result<Self, OpError> {
        let mut rest = scratch;
        let mut take = |len| {
            let (piece, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            piece
        };
        let products = take(state.product_len);
        let [bias, xw, recurrent, hs, h, c] = state.sizes.lens()?.map(take);
        Ok(Self { products, bias, xw, recurrent, hs, h, c })
    }
}

/// One direction of a run.
pub(super) struct Pass<'a> {
    isa: Isa,
    cell: Cell,
    is_reverse: bool,
    state: &'a State,
    x: &'a [f32],
    w: (&'a [f32], bool),
    r: (&'a [f32], bool),
    /// The biases of w and of r.
    b: Option<(&'a [f32], &'a [f32])>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        kernel: &RnnKernel,
        state: &'a State,
        tensors: &Tensors<'a>,
        d: usize,
    ) -> Self {
        let n = state.sizes.directions;
        let part = |all: &'a [f32]| &all[all.len() / n * d..all.len() / n * (d + 1)];
        let is_reverse = match kernel.op.direction {
            Direction::Forward => false,
            Direction::Reverse => true,
            Direction::Bidirectional => d == 1,
        };
        Self {
            isa: kernel.cpu.isa,
            cell: kernel.op.cell,
            is_reverse,
            state,
            x: tensors.x,
            w: (part(tensors.w.0), tensors.w.1),
            r: (part(tensors.r.0), tensors.r.1),
            b: tensors.b.map(|b| part(b).split_at(state.sizes.gates)),
        }
    }

    /// Takes all steps from the state on the desk.
    pub(super) fn run(&self, desk: &mut Desk<'_>, threads: &dyn Threads) {
        let Sizes { steps, batch, hidden, gates, .. } = self.state.sizes;
        if let Some((w, r)) = self.b {
            desk.bias.copy_from_slice(w);
            if self.adds_at_once() {
                vec::add(self.isa, desk.bias, r);
            }
        }
        let start = if self.b.is_some() { Start::ByColumn(desk.bias) } else { Start::Zero };
        let crew = (threads, bytemuck::cast_slice_mut(desk.products));
        self.state.input.run(&operands(self.x, self.w, start), desk.xw, crew, |_| {});
        for step in 0..steps {
            let t = if self.is_reverse { steps - 1 - step } else { step };
            let xw = &mut desk.xw[t * batch * gates..][..batch * gates];
            let (start, c) = match self.adds_at_once() {
                true => (Start::C, &mut *xw),
                false => {
                    (self.b.map_or(Start::Zero, |b| Start::ByColumn(b.1)), &mut *desk.recurrent)
                }
            };
            let crew = (threads, bytemuck::cast_slice_mut(desk.products));
            self.state.recurrent.run(&operands(desk.h, self.r, start), c, crew, |_| {});
            let states = desk.h.chunks_exact_mut(hidden).zip(desk.c.chunks_exact_mut(hidden));
            let sums = xw.chunks_exact_mut(gates).zip(desk.recurrent.chunks_exact_mut(gates));
            for ((xw, recurrent), (h, c)) in sums.zip(states) {
                match self.cell {
                    Cell::Simple => simple(self.isa, xw, h),
                    Cell::Gru { .. } => gru(self.isa, xw, recurrent, h),
                    Cell::Lstm { .. } => lstm(self.isa, xw, h, c),
                }
            }
            desk.hs[t * batch * hidden..][..batch * hidden].copy_from_slice(desk.h);
        }
    }

    /// Whether what the state adds to the gates is just added.
    const fn adds_at_once(&self) -> bool {
        !matches!(self.cell, Cell::Gru { .. })
    }
}

fn operands<'a>(a: &'a [f32], (b, is_packed): (&'a [f32], bool), start: Start<'a>) -> Operands<'a> {
    Operands { a, alpha: 1.0, b, is_packed, start, tail: Tail::None.into() }
}
