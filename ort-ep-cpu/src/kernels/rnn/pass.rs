//! One direction of a layer: its parameters, its memory, its steps.

use ort_ep::{Packed, Recipe, Threads};
use ort_kernels::Activation;
use ort_kernels::gemm_f32::{Matrix, Start, pack_b, packed_b_len, variant};
use ort_ops::ops::rnn::Cell;
use smallvec::SmallVec;

use super::{Direction, RnnKernel, Sizes, cell};
use crate::kernels::Compiler;
use crate::product::{Operands, Product};
use crate::tail::Tail;

/// Elements to a cache line.
const LINE: usize = 16;

/// The weights of a direction, by the gates that are multiplied at once.
#[derive(Debug)]
pub(super) struct Parameters {
    groups: SmallVec<[Gates; 2]>,
    /// What is added to the recurrent product of the last gates, if they are reset afterwards.
    reset_bias: Vec<f32>,
}

/// Gates that are multiplied at once.
#[derive(Debug)]
struct Gates {
    /// Elements of all of them.
    width: usize,
    /// `[input, width]`, packed.
    w: Packed,
    /// `[hidden, width]`, packed.
    r: Packed,
    bias: Vec<f32>,
}

/// One direction of one run.
pub(super) struct Pass<'a> {
    pub(super) kernel: &'a RnnKernel,
    pub(super) sizes: Sizes,
    pub(super) direction: &'a Direction,
}

/// What a direction remembers.
pub(super) struct Memory<'a> {
    /// By group of gates `[steps, batch, width]`: what goes into them. The last group's rows begin
    /// with the step's state when the step is over.
    gates: SmallVec<[&'a mut [f32]; 2]>,
    /// `[batch, hidden]`
    pub(super) h: &'a mut [f32],
    /// `[batch, hidden]`
    pub(super) c: &'a mut [f32],
    /// `[batch, hidden]`
    reset: &'a mut [f32],
    scratch: &'a mut [u8],
}

impl Parameters {
    /// `None` unless the weights of direction `d` are constant.
    pub(super) fn new(
        compiler: &mut Compiler<'_>,
        cell: Cell,
        hidden: usize,
        d: usize,
    ) -> Option<Self> {
        let counts: &[usize] = match cell {
            Cell::Simple => &[1],
            Cell::Gru { .. } => &[2, 1],
            Cell::Lstm { .. } => &[4],
        };
        let n: usize = counts.iter().sum::<usize>() * hidden;
        let bias = match compiler.fact(3) {
            Some(_) => {
                compiler.constant(3)?.as_slice::<f32>().ok()?.get(d * 2 * n..(d + 1) * 2 * n)?
            }
            None => &[],
        };
        let (mut groups, mut first) = (SmallVec::new(), 0);
        let is_reset_after = |first| first > 0 && cell == Cell::Gru { linear_before_reset: true };
        for width in counts.iter().map(|count| count * hidden) {
            let sum = |i| match bias.get(i) {
                Some(own) if is_reset_after(first) => *own,
                Some(own) => own + bias[n + i],
                None => 0.0,
            };
            let bias = (first..first + width).map(sum).collect();
            let w = pack(compiler, 1, d, first..first + width)?;
            let r = pack(compiler, 2, d, first..first + width)?;
            groups.push(Gates { width, w, r, bias });
            first += width;
        }
        let reset_bias = bias.get(2 * n - hidden..).map_or(vec![0.0; hidden], <[f32]>::to_vec);
        Some(Self { groups, reset_bias })
    }

    pub(super) fn packed_bytes(&self) -> usize {
        self.groups.iter().map(|gates| gates.w.bytes().len() + gates.r.bytes().len()).sum()
    }
}

/// `rows` of the matrix of direction `d` at `input`, transposed and packed as a right operand.
fn pack(
    compiler: &mut Compiler<'_>,
    input: usize,
    d: usize,
    rows: std::ops::Range<usize>,
) -> Option<Packed> {
    let isa = compiler.cpu.isa;
    let constant = compiler.constant(input)?;
    let &[_, all, k] = constant.shape() else { return None };
    let data = constant.as_slice::<f32>().ok()?;
    let b = data.get((d * all + rows.start) * k..(d * all + rows.end) * k)?;
    let recipe = Recipe {
        name: "rnn_f32/b",
        parameters: [variant(isa).nr, d, rows.start, rows.end].map(|n| n as u64).to_vec(),
        n_bytes: packed_b_len(isa, k, rows.len()) * size_of::<f32>(),
    };
    Some(compiler.packs.pack(constant, &recipe, &mut |bytes| {
        let b = Matrix::row_major(b, rows.len(), k).transposed();
        pack_b(isa, &b, bytemuck::cast_slice_mut(bytes));
    }))
}

impl Pass<'_> {
    fn groups(&self) -> &[Gates] {
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
    fn recurrent(&self, gates: &Gates) -> Product {
        let k = self.kernel.hidden;
        let (cpu, m, batch) = (self.kernel.cpu, self.sizes.batch, SmallVec::new());
        Product { cpu, m, n: gates.width, k, a: [k, 1], b: [0, 0], batch }
    }

    /// The elements of the parts of the memory: gates by group, then states.
    fn lens(&self) -> impl Iterator<Item = usize> {
        let Sizes { steps, batch } = self.sizes;
        let gates = self.groups().iter().map(move |gates| steps * batch * gates.width);
        let states = [batch * self.kernel.hidden; 3];
        gates.chain(states).map(|len| len.next_multiple_of(LINE))
    }

    /// The elements of memory the direction needs.
    pub(super) fn memory_len(&self) -> usize {
        let products = self.groups().iter().flat_map(|g| [self.inputs(g), self.recurrent(g)]);
        let scratch = products.map(|product| product.scratch_len()).max().unwrap_or(0);
        let scratch = self.kernel.cpu.scratch_bytes(scratch) / size_of::<f32>();
        self.lens().sum::<usize>() + scratch.next_multiple_of(LINE)
    }

    pub(super) fn split<'m>(&self, mut memory: &'m mut [f32]) -> Memory<'m> {
        let mut parts = self.lens().map(|len| {
            let (part, rest) = std::mem::take(&mut memory).split_at_mut(len);
            memory = rest;
            part
        });
        let gates = parts.by_ref().take(self.groups().len()).collect();
        let mut state = || parts.next().unwrap_or_default();
        let (h, c, reset) = (state(), state(), state());
        drop(parts);
        Memory { gates, h, c, reset, scratch: bytemuck::cast_slice_mut(memory) }
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

    /// The states of all steps, `[steps, batch]` rows, once the pass has run.
    pub(super) fn history<'m>(&self, memory: &'m Memory<'_>) -> impl Iterator<Item = &'m [f32]> {
        let (Sizes { steps, batch }, hidden) = (self.sizes, self.kernel.hidden);
        let width = self.groups().last().map_or(1, |gates| gates.width);
        let last = memory.gates.last().map_or(&[][..], |gates| &gates[..steps * batch * width]);
        last.chunks_exact(width).map(move |row| &row[..hidden])
    }

    /// Takes all steps. The memory is loaded with the initial states.
    pub(super) fn run(&self, x: &[f32], memory: &mut [f32], threads: &dyn Threads) {
        let Sizes { steps, batch } = self.sizes;
        let mut memory = self.split(memory);
        for (gates, to) in self.groups().iter().zip(&mut memory.gates) {
            let operands = operands(x, &gates.w, Start::ByColumn(&gates.bias));
            let to = &mut to[..steps * batch * gates.width];
            self.inputs(gates).run(&operands, to, (threads, &mut *memory.scratch), |_| {});
        }
        for step in 0..steps {
            let t = if self.direction.is_reverse { steps - 1 - step } else { step };
            self.step(t, &mut memory, threads);
        }
    }

    fn step(&self, t: usize, memory: &mut Memory<'_>, threads: &dyn Threads) {
        let (batch, hidden) = (self.sizes.batch, self.kernel.hidden);
        let (isa, clip) = (self.kernel.cpu.isa, self.kernel.clip);
        let Memory { gates, h, c, reset, scratch } = memory;
        let [h, c, reset] = [h, c, reset].map(|state| &mut state[..batch * hidden]);
        let groups = self.groups();
        let mut rows = gates.iter_mut().zip(groups).map(|(all, group)| {
            let n = batch * group.width;
            &mut all[t * n..(t + 1) * n]
        });
        let (Some(first), second) = (rows.next(), rows.next()) else { return };
        let mut multiply = |group: &Gates, a: &[f32], start: Start<'_>, to: &mut [f32]| {
            let operands = operands(a, &group.r, start);
            self.recurrent(group).run(&operands, to, (threads, &mut **scratch), |_| {});
        };
        multiply(&groups[0], h, Start::C, first);
        let cell = cell::Step { isa, clip, activations: self.direction.activations, hidden };
        match (self.kernel.cell, second) {
            (Cell::Gru { linear_before_reset }, Some(second)) => {
                cell.gates(first);
                if linear_before_reset {
                    let bias = Start::ByColumn(&self.direction.parameters.reset_bias);
                    multiply(&groups[1], h, bias, reset);
                    cell.add_reset(first, reset, second);
                } else {
                    cell.reset(first, h, reset);
                    multiply(&groups[1], reset, Start::C, second);
                }
                cell.gru(first, second, h);
            }
            (Cell::Lstm { .. }, _) => cell.lstm(first, h, c),
            _ => cell.simple(first, h),
        }
    }
}

fn operands<'a>(a: &'a [f32], b: &'a Packed, start: Start<'a>) -> Operands<'a> {
    let (b, tail) = (bytemuck::cast_slice(b.bytes()), Tail::Fused(Activation::None));
    Operands { a, alpha: 1.0, b, is_packed: true, start, tail }
}
