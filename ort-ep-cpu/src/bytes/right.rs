//! The right operand of a product of bytes: a constant, packed once.

use ort_ep::{Packed, Recipe};
use ort_kernels::gemm_i8::{Bytes, Zeros, column_sums_while, pack_b_while, packed_b_len, variant};
use ort_tensor::{collected, filled, go_on};

use super::{flip_to_signed, quantized_values};
use crate::kernels::Compiler;

/// A constant right operand `[k, n]` of int8 or uint8, with its zero points.
#[derive(Debug)]
pub(crate) struct Right {
    panels: Packed,
    /// The sum of each column, flipped like the panels, as i32.
    sums: Packed,
    /// The zero point of each column, flipped likewise.
    zeros: Vec<i32>,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl Right {
    /// The constant at `input`, `[k, n]` or stored transposed, with the zero points at `zero_input`:
    /// absent, one, or one per column. `None` if either is not such a constant.
    pub(crate) fn compile(
        compiler: &Compiler<'_>,
        input: usize,
        zero_input: usize,
        is_transposed: bool,
    ) -> Option<Self> {
        let constant = compiler.constant(input)?;
        let &[rows, columns] = constant.shape() else { return None };
        let (k, n) = if is_transposed { (columns, rows) } else { (rows, columns) };
        let flip = flip_to_signed(constant.dtype())?;
        let zeros = match compiler.fact(zero_input) {
            None => vec![i32::from(flip.cast_signed())],
            Some(_) => quantized_values(compiler.constant(zero_input)?, flip)?,
        };
        Stored { input, first: 0, k, n, flip, is_transposed }.pack(compiler, &zeros)
    }

    /// Matrix `d` of the constant at `input`, `[matrices, k, n]`, with the zero points at
    /// `zero_input`: `[matrices]` or `[matrices, n]`. `None` if either is not such a constant.
    pub(crate) fn compile_one(
        compiler: &Compiler<'_>,
        input: usize,
        zero_input: usize,
        d: usize,
    ) -> Option<Self> {
        let constant = compiler.constant(input)?;
        let &[n_matrices, k, n] = constant.shape() else { return None };
        let flip = flip_to_signed(constant.dtype())?;
        let zeros = quantized_values(compiler.constant(zero_input)?, flip)?;
        let zeros = zeros.chunks_exact((zeros.len() / n_matrices.max(1)).max(1)).nth(d)?;
        let stored = Stored { input, first: d * k * n, k, n, flip, is_transposed: false };
        stored.pack(compiler, zeros)
    }

    /// The operand of a product.
    pub(crate) fn view(&self) -> RightView<'_> {
        RightView {
            panels: self.panels.bytes(),
            sums: bytemuck::cast_slice(self.sums.bytes()),
            zeros: &self.zeros,
            k: self.k,
            n: self.n,
        }
    }

    /// The sum of each column minus `k` times its zero point: the factor of the left operand's zero point.
    /// `None` if the allocation fails.
    pub(crate) fn less(&self) -> Option<Vec<i32>> {
        collected(self.view().starts(1).map(i32::wrapping_neg)).ok()
    }
}

/// A right operand `[k, n]`, packed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RightView<'a> {
    /// What [`pack_b`] wrote.
    pub(crate) panels: &'a [u8],
    /// The sum of each column, flipped like the panels.
    pub(crate) sums: &'a [i32],
    /// The zero point of each column, flipped likewise.
    pub(crate) zeros: &'a [i32],
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl RightView<'_> {
    /// The initial sum of each column, for left operands with zero point `a_zero`.
    pub(super) fn starts(&self, a_zero: i32) -> impl Iterator<Item = i32> {
        let columns = self.zeros.iter().zip(self.sums);
        columns.map(move |(&b, &sum)| Zeros { a: a_zero, b }.by_column(self.k, sum))
    }
}

/// The location of a matrix in a constant of bytes.
#[derive(Clone, Copy, Debug)]
struct Stored {
    input: usize,
    /// Index of its first byte.
    first: usize,
    k: usize,
    n: usize,
    flip: u8,
    is_transposed: bool,
}

impl Stored {
    /// Packs the matrix as a right operand with these zero points, one or one per column.
    fn pack(self, compiler: &Compiler<'_>, zeros: &[i32]) -> Option<Right> {
        let Self { input, first, k, n, flip, is_transposed } = self;
        let strides = if is_transposed { [1, k] } else { [n, 1] };
        let zeros = match *zeros {
            [zero] => filled(zero, n).ok()?,
            _ if zeros.len() == n => collected(zeros.iter().copied()).ok()?,
            _ => return None,
        };
        let isa = compiler.cpu.isa;
        let recipe = Recipe {
            name: "gemm_i8/b",
            parameters: vec![variant(isa, k).layout(), u64::from(is_transposed), first as u64],
            n_bytes: packed_b_len(isa, k, n),
        };
        let panels = compiler.pack_for_runs(input, &recipe, |data: &[u8], packed| {
            let b = Bytes { data: &data[first..], k, n, strides };
            pack_b_while(isa, &b, flip, packed, || go_on().is_ok());
        })?;
        let recipe = Recipe {
            name: "gemm_i8/column_sums",
            parameters: vec![u64::from(is_transposed), first as u64],
            n_bytes: n * size_of::<i32>(),
        };
        let sums = compiler.pack(input, &recipe, |data: &[u8], sums: &mut [u8]| {
            let data = &data[first..];
            let b = Bytes { data, k, n, strides };
            let sums = bytemuck::cast_slice_mut(sums);
            column_sums_while(isa, &b, flip, sums, || go_on().is_ok());
        })?;
        Some(Right { panels, sums, zeros, k, n })
    }
}
