//! Batches of matrix products, `C[b] = act(start + α·A[b]·B[b])`, shared by the threads of a run.

mod right;

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::gemm::halves::PackedHalves;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, PackedB, Panels, Start};
use ort_tensor::go_on;
use smallvec::SmallVec;

use self::right::Right;
pub(crate) use self::right::{PackedRight, RightOperand, pack_right, row_needs_no_packing};
use crate::cpu::{Cpu, READ, Team, cancellable_packing_parts, most_parts, n_parts};
use crate::cut::{Along, Cut, Part};
use crate::summand::Summand;

/// The cost of writing an element to memory that was never touched, in multiply-adds: 2 ns.
const WRITE: usize = 64;

/// The sizes of a batch of products. Strides in elements.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) cpu: Cpu,
    /// Rows of A and C.
    pub(crate) m: usize,
    /// Columns of B and C.
    pub(crate) n: usize,
    /// Columns of A, rows of B.
    pub(crate) k: usize,
    /// The row and column stride of A.
    pub(crate) a: [usize; 2],
    /// The row and column stride of B, unless it is packed.
    pub(crate) b: [usize; 2],
    /// The dimensions of the batch: size, stride of A, stride of B.
    pub(crate) batch: SmallVec<[(usize, usize, usize); 3]>,
    /// Whether operands are exchanged, see [`Product::exchange_column`].
    pub(crate) is_exchanged: bool,
}

/// The operands of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a, T: Summand = f32> {
    pub(crate) a: &'a [T],
    pub(crate) alpha: T,
    pub(crate) b: RightOperand<'a, T>,
    pub(crate) start: Start<'a, T>,
    pub(crate) epilogue: T::Epilogue,
}

impl<T: Summand> Operands<'_, T> {
    /// The same for Cᵀ.
    fn exchanged(&self) -> Self {
        // A B of one column is never packed.
        let RightOperand::Plain(b) = self.b else { return *self };
        let start = match self.start {
            Start::ByColumn(bias) => Start::ByRow(bias),
            Start::ByRow(bias) => Start::ByColumn(bias),
            start => start,
        };
        Self { a: b, b: RightOperand::Plain(self.a), start, ..*self }
    }
}

impl Product {
    /// Merges products that share B and whose A, like their C, are contiguous rows.
    pub(crate) fn merge_rows(&mut self) {
        self.batch.retain(|&mut (len, ..)| len != 1);
        while let Some(&(len, a, 0)) = self.batch.last() {
            if self.m == 1 {
                self.a[0] = a;
            } else if a != self.m * self.a[0] {
                break;
            }
            self.m *= len;
            self.batch.pop();
        }
    }

    /// Turns a product with a column into one with a row: `b` times Aᵀ, exchanging A and `b`. A B of one
    /// column is never packed.
    pub(crate) fn exchange_column(&mut self) {
        if self.n != 1 || self.m == 1 {
            return;
        }
        let [row, column] = self.a;
        (self.a, self.b) = ([0, self.b[0]], [column, row]);
        (self.m, self.n) = (1, self.m);
        self.batch.iter_mut().for_each(|(_, a, b)| std::mem::swap(a, b));
        self.is_exchanged = true;
    }

    /// The shape of one result.
    pub(crate) const fn shape(&self) -> [usize; 2] {
        if self.is_exchanged { [self.n, self.m] } else { [self.m, self.n] }
    }

    /// Elements of scratch per thread for an f32 product.
    pub(crate) fn scratch_len(&self) -> usize {
        self.scratch_len_of::<f32>()
    }

    /// Scratch per thread for a product of `T`, in elements of f32.
    pub(crate) fn scratch_len_of<T: Summand>(&self) -> usize {
        let none = Matrix::row_major(&[], 0, 0);
        let a = Lhs::Strided { a: none, alpha: T::ONE };
        let gemm = self.gemm::<T, _>(a, none, (Start::Zero, T::fused(T::no_epilogue())));
        gemm.scratch_len(self.m) * size_of::<T>() / size_of::<f32>()
    }

    /// Computes `c`: `[batch…, m, n]`, contiguous. `prefill` initializes a part if
    /// products are added to C itself.
    pub(crate) fn run<T: Summand>(
        &self,
        operands: &Operands<'_, T>,
        c: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
        prefill: impl Fn(&mut Part<'_, T>) + Sync,
    ) {
        if c.is_empty() {
            return;
        }
        let operands = &if self.is_exchanged { operands.exchanged() } else { *operands };
        let is_packed = !matches!(operands.b, RightOperand::Plain(_));
        let cut = self.cut::<T>(is_packed, threads);
        let n_batch: usize = self.batch.iter().map(|&(len, ..)| len).product();
        let team = Team::new(threads, n_batch * cut.n_parts());
        let team = team.with_scratch(scratch, self.scratch_len_of::<T>());
        let matrices = c.chunks_mut(self.m * self.n).enumerate();
        let parts = matrices.flat_map(|(i, c)| cut.parts(c).map(move |part| (i, part)));
        team.run(parts, |(i, mut part), scratch| {
            prefill(&mut part);
            let (a, b) = self.starts(i);
            let scratch: &mut [T] = bytemuck::cast_slice_mut(scratch);
            for first in (0..self.k.max(1)).step_by(TERMS) {
                let k = TERMS.min(self.k - first);
                let (is_first, is_last) = (first == 0, first + k == self.k);
                if !is_first && go_on().is_err() {
                    return;
                }
                let start = if is_first { operands.start } else { Start::C };
                let epilogue = if is_last { operands.epilogue } else { T::no_epilogue() };
                let a = &operands.a[a + first * self.a[1]..];
                let a = self.matrix(a, [self.m, k], self.a);
                let a = Lhs::Strided { a, alpha: operands.alpha };
                let b = self.right(&operands.b, b, first..first + k);
                let gemm = Gemm { k, ..self.gemm(a, b, (start, T::fused(epilogue))) };
                part.compute(&gemm, epilogue, scratch);
            }
        });
    }

    /// The rows `k` of the right operand that starts at `start`.
    fn right<'a, T: Summand>(
        &self,
        b: &RightOperand<'a, T>,
        start: usize,
        k: Range<usize>,
    ) -> Right<'a, T> {
        match *b {
            RightOperand::Plain(b) => {
                let b = &b[start + k.start * self.b[0]..];
                Right::Plain(self.matrix(b, [k.len(), self.n], self.b))
            }
            RightOperand::Packed(b) => Right::Packed(PackedB { data: &b[start..], k: self.k }, k),
            RightOperand::Halves(b, half) => {
                Right::Halves(PackedHalves { data: &b[start..], half, k: self.k }, k)
            }
        }
    }

    /// The larger operand is read once, part by part, and the smaller by all parts. An unpacked B
    /// is split by columns, since each part packs its columns.
    fn cut<T: Summand>(&self, is_packed: bool, threads: &dyn Threads) -> Cut {
        let n_batch = self.batch.iter().map(|&(len, ..)| len).product::<usize>().max(1);
        let cost = self.n.saturating_mul(self.k).saturating_mul(n_batch);
        let cost = cost.saturating_mul(self.m * T::COST + READ);
        let n_parts = n_parts(threads, cost).div_ceil(n_batch);
        let (along, n_parts) = match is_packed {
            true if self.m >= self.n => (Along::Rows, n_parts),
            true => (Along::Columns, n_parts.min(most_parts(threads, cost))),
            false => {
                // With few terms, writing the result for the first time takes longer than computing it.
                let written = self.m.saturating_mul(self.n).saturating_mul(n_batch * WRITE);
                let least = cancellable_packing_parts(cost.saturating_add(written));
                (Along::Columns, n_parts.max(least).min(threads.count().max(least)))
            }
        };
        Cut::new(self.cpu.isa, [self.m, self.n], n_parts, along)
    }

    fn gemm<'a, T: Summand, B: Panels<T>>(
        &self,
        a: Lhs<'a, T>,
        b: B,
        (start, activation): (Start<'a, T>, T::Activation),
    ) -> Gemm<'a, B, T> {
        Gemm { isa: self.cpu.isa, m: self.m, n: self.n, k: self.k, a, b, start, activation }
    }

    fn matrix<'a, T>(
        &self,
        data: &'a [T],
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [usize; 2],
    ) -> Matrix<'a, T> {
        Matrix { data, rows, columns, row_stride, column_stride }
    }

    /// The offsets of A and B of product `i`.
    fn starts(&self, mut i: usize) -> (usize, usize) {
        let (mut a, mut b) = (0, 0);
        for &(len, a_stride, b_stride) in self.batch.iter().rev() {
            let index = i % len;
            i /= len;
            (a, b) = (a + index * a_stride, b + index * b_stride);
        }
        (a, b)
    }
}

/// Terms of a sum between two checks for cancellation.
pub(crate) const TERMS: usize = 1 << 18;
