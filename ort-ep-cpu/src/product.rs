//! Batches of matrix products, `C[b] = act(start + α·A[b]·B[b])`, shared by the threads of a run.

use std::ops::Range;

use ort_ep::{Packed, Recipe, Threads};
use ort_kernels::Isa;
use ort_kernels::gemm::halves::{Half, PackedHalves, half_panel_len, pack_halves_while};
use ort_kernels::gemm::{
    Gemm, Lhs, Matrix, PackedB, Panels, Slice, Start, Stored, pack_b_while, packed_b_len_of,
};
use ort_tensor::{DType, Tensor, filled, go_on};
use smallvec::SmallVec;

use crate::cpu::{Cpu, READ, Team, cancellable_packing_parts, most_parts, n_parts};
use crate::cut::{Along, Cut, Part};
use crate::kernels::Compiler;
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

/// The right operands of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RightOperand<'a, T: Summand = f32> {
    Plain(&'a [T]),
    /// Packed by [`pack_right`], or in the same way.
    Packed(&'a [T]),
    /// Packed by [`pack_right`] from 16-bit floats; only of products in f32.
    Halves(&'a [u16], Half),
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

/// A right operand, or some rows of a packed one.
#[derive(Clone, Debug)]
enum Right<'a, T> {
    Plain(Matrix<'a, T>),
    Packed(PackedB<'a, T>, Range<usize>),
    Halves(PackedHalves<'a>, Range<usize>),
}

/// The same panels of all rows, of which `first` is the first of the part.
fn of_whole(slice: &Slice, first: usize) -> Slice {
    Slice { k: slice.k.start + first..slice.k.end + first, ..slice.clone() }
}

impl<T: Summand> Panels<T> for Right<'_, T> {
    fn is_stored(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    fn stored(&self, slice: &Slice) -> Option<Stored<'_, T>> {
        match self {
            Self::Plain(_) => None,
            Self::Packed(b, rows) => b.stored(&of_whole(slice, rows.start)),
            Self::Halves(b, rows) => b.stored(&of_whole(slice, rows.start)),
        }
    }

    fn stored_whole(&self, columns: &Range<usize>, nr: usize) -> Option<&[T]> {
        match self {
            Self::Packed(b, rows) if rows.len() == b.k => b.stored_whole(columns, nr),
            _ => None,
        }
    }

    fn as_rows(&self) -> Option<Matrix<'_, T>> {
        match self {
            Self::Plain(b) => b.as_rows(),
            _ => None,
        }
    }

    fn as_columns(&self) -> Option<Matrix<'_, T>> {
        match self {
            Self::Plain(b) => b.as_columns(),
            _ => None,
        }
    }

    fn write(&self, slice: &Slice, panels: &mut [T]) {
        match self {
            Self::Plain(b) => b.write(slice, panels),
            Self::Packed(b, rows) => b.write(&of_whole(slice, rows.start), panels),
            Self::Halves(b, rows) => T::write_halves(b, &of_whole(slice, rows.start), panels),
        }
    }
}

/// Elements that a second-level cache holds: 1 MiB.
const RESIDENT: usize = 256 * 1024;

/// Whether a single row is multiplied as fast by the constant at `input`, with contiguous rows, as by
/// its packed form. This holds if the matrix comes from memory and kernels use software prefetch.
pub(crate) fn row_needs_no_packing(compiler: &Compiler<'_>, input: usize) -> bool {
    let isa = compiler.cpu.isa;
    let is_read_as_it_is = |b: &Tensor| b.len() > RESIDENT && formats(isa, b).next() == Some(None);
    !isa.fetches_ahead() && compiler.constant(input).is_some_and(is_read_as_it_is)
}

/// A packed constant right operand.
#[derive(Debug)]
pub(crate) enum PackedRight {
    /// In the type of the product.
    Whole(Packed),
    /// In a format that represents all its numbers.
    Halves(Packed, Half),
}

impl PackedRight {
    pub(crate) fn operand<T: Summand>(&self) -> RightOperand<'_, T> {
        match self {
            Self::Whole(b) => RightOperand::Packed(bytemuck::cast_slice(b.bytes())),
            Self::Halves(b, half) => RightOperand::Halves(bytemuck::cast_slice(b.bytes()), *half),
        }
    }
}

/// The formats in which a constant may be packed, best first: 16 bits for a large one in f32, such as weights of 16 bits
/// after a Cast, if they represent all its numbers, which is not known of a released one; `None` is its own type.
fn formats(isa: Isa, constant: &Tensor) -> impl Iterator<Item = Option<Half>> {
    let is_large = constant.dtype() == DType::F32 && constant.len() > RESIDENT;
    let halves = match constant.is_released() {
        _ if !is_large => [None; 2],
        true => [Some(Half::F16), Some(Half::Bf16)],
        false => {
            let constant = constant.materialized().ok();
            let elements = constant.as_ref().and_then(|constant| constant.as_slice().ok());
            [elements.and_then(|elements| Half::of(isa, elements)), None]
        }
    };
    halves.into_iter().flatten().map(Some).chain([None])
}

/// The constant at `input`, matrices `[…, k, n]` (`[…, n, k]` if transposed), each packed
/// as a right operand, one after the other. `None` if there is no such constant, or if it is a column,
/// which is read unpacked.
pub(crate) fn pack_right<T: Summand>(
    compiler: &Compiler<'_>,
    input: usize,
    is_transposed: bool,
) -> Option<PackedRight> {
    let isa = compiler.cpu.isa;
    let constant = compiler.constant(input)?;
    let &[.., rows, columns] = constant.shape() else { return None };
    let [k, n] = if is_transposed { [columns, rows] } else { [rows, columns] };
    let each = packed_b_len_of::<T>(isa, k, n);
    if constant.is_empty() || n == 1 {
        return None;
    }
    let recipe = |name, size| Recipe {
        name,
        parameters: vec![T::variant(isa).nr as u64, u64::from(is_transposed)],
        n_bytes: constant.len() / (k * n) * each * size,
    };
    let in_halves = |half| {
        let name = match half {
            Half::F16 => "gemm_f32/b_f16",
            Half::Bf16 => "gemm_f32/b_bf16",
        };
        let mut panel = filled(0.0, half_panel_len(isa, k)).ok()?;
        let pack = |data: &[f32], packed: &mut [u16]| {
            for (b, packed) in data.chunks_exact(k * n).zip(packed.chunks_exact_mut(each)) {
                let (b, packed) = (matrix(b, [k, n], is_transposed), (packed, &mut *panel));
                pack_halves_while((isa, half), &b, packed, || go_on().is_ok());
            }
        };
        let packed = compiler.pack_for_runs(input, &recipe(name, size_of::<u16>()), pack)?;
        Some(PackedRight::Halves(packed, half))
    };
    let whole = || {
        let pack = |data: &[T], packed: &mut [T]| {
            for (b, packed) in data.chunks_exact(k * n).zip(packed.chunks_exact_mut(each)) {
                let b = matrix(b, [k, n], is_transposed);
                pack_b_while(isa, &b, packed, || go_on().is_ok());
            }
        };
        let packed = compiler.pack_for_runs(input, &recipe(T::PACKED, size_of::<T>()), pack)?;
        Some(PackedRight::Whole(packed))
    };
    formats(isa, constant).find_map(|half| half.map_or_else(whole, in_halves))
}

/// A matrix `[k, n]`, stored as `[n, k]` if it is transposed.
fn matrix<T>(data: &[T], [k, n]: [usize; 2], is_transposed: bool) -> Matrix<'_, T> {
    match is_transposed {
        false => Matrix::row_major(data, k, n),
        true => Matrix::row_major(data, n, k).transposed(),
    }
}
