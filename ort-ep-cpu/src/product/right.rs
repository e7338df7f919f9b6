//! The right operands of products: strided, packed, or packed in 16 bits.

use std::ops::Range;

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::gemm::halves::{Half, PackedHalves, pack_halves_while, piece_len};
use ort_kernels::gemm::{Matrix, PackedB, Panels, Slice, Stored, pack_b_while, packed_b_len_of};
use ort_tensor::{DType, Tensor, filled, go_on};

use crate::kernels::Compiler;
use crate::summand::Summand;

/// The right operands of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RightOperand<'a, T: Summand = f32> {
    Plain(&'a [T]),
    /// Packed by [`pack_right`], or in the same way.
    Packed(&'a [T]),
    /// Packed by [`pack_right`] from 16-bit floats; only of products in f32.
    Halves(&'a [u16], Half),
}

impl<T: Summand> RightOperand<'_, T> {
    /// The elements of some of the batch.
    pub(crate) fn part(self, elements: Range<usize>) -> Option<Self> {
        Some(match self {
            Self::Plain(b) => Self::Plain(b.get(elements)?),
            Self::Packed(b) => Self::Packed(b.get(elements)?),
            Self::Halves(b, half) => Self::Halves(b.get(elements)?, half),
        })
    }
}

/// A right operand, or some rows of a packed one.
#[derive(Clone, Debug)]
pub(super) enum Right<'a, T> {
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

    fn stored_whole(&self, isa: Isa, columns: &Range<usize>) -> Option<Stored<'_, T>> {
        match self {
            Self::Packed(b, rows) if rows.len() == b.k => b.stored_whole(isa, columns),
            Self::Halves(b, rows) if rows.len() == b.k => b.stored_whole(isa, columns),
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
        false if !may_be_narrow(isa, constant) => [None; 2],
        false => {
            let constant = constant.materialized().ok();
            let elements = constant.as_ref().and_then(|constant| constant.as_slice().ok());
            [elements.and_then(|elements| format(isa, elements)), None]
        }
    };
    halves.into_iter().flatten().map(Some).chain([None])
}

/// Whether the first elements are numbers of 16 bits, if they are there: most weights are not copied to find out.
fn may_be_narrow(isa: Isa, constant: &Tensor) -> bool {
    const FIRST: usize = 1024;
    if constant.is_uncomputed() {
        return true;
    }
    let (view, mut first) = (constant.unaligned_view(), [0.0_f32; FIRST]);
    let bytes = view.as_bytes().unwrap_or_default();
    let n = bytes.len().min(size_of_val(&first));
    bytemuck::cast_slice_mut(&mut first)[..n].copy_from_slice(&bytes[..n]);
    format(isa, &first).is_some()
}

/// The format that represents all numbers, unless a load ends meanwhile.
fn format(isa: Isa, x: &[f32]) -> Option<Half> {
    const PIECE: usize = 1 << 20;
    let is_of = |half: &Half| x.chunks(PIECE).all(|x| go_on().is_ok() && half.represents(isa, x));
    Half::ALL.into_iter().find(is_of)
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
        let mut piece = filled(0.0, piece_len(isa, k)).ok()?;
        let pack = |data: &[f32], packed: &mut [u16]| {
            for (b, packed) in data.chunks_exact(k * n).zip(packed.chunks_exact_mut(each)) {
                let (b, packed) = (matrix(b, [k, n], is_transposed), (packed, &mut *piece));
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
