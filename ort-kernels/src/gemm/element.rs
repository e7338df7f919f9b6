//! What products are computed in: f32, f64, i32 and i64. Integers wrap, so that those without a sign
//! have the same bits.

use std::fmt::Debug;

use bytemuck::Pod;

use super::rows::Target;
use super::{Gemm, Matrix, Panels, Region, Rows, Start, Variant};
use crate::Isa;

/// What a register tile is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T = f32> {
    pub(super) a: Left<'a, T>,
    /// `[k][nr]`
    pub(super) b: &'a [T],
    /// What is fetched meanwhile: a line for each row of B, so many elements apart.
    pub(super) next: &'a [T],
    pub(super) apart: usize,
    pub(super) start: Start<'a, T>,
    /// The range results are clamped to.
    pub(super) clamp: Option<(T, T)>,
}

/// The rows of A that a tile is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left<'a, T = f32> {
    /// `[k][rows]`
    Packed(&'a [T]),
    /// `k` elements to a row, and as many as this from row to row.
    Rows(&'a [T], usize),
}

/// `y += x·panels`: of an instruction set, x, the panels and y.
pub type RowTimesPanels<T> = fn(Isa, &[T], &[T], &mut [T]);

/// A number that products are computed in, with its kernels.
pub trait Element: Pod + PartialOrd + Debug + Send + Sync {
    /// The function at the end of a product.
    type Activation: Copy + Debug + Send + Sync;
    /// The neutral factor.
    const ONE: Self;
    /// The range that has all but NaN.
    const EVERYTHING: (Self, Self);

    /// `self·factor`.
    #[must_use]
    fn times(self, factor: Self) -> Self;

    /// `a·b + c`: of floats rounded once if `FMA`, else twice.
    #[must_use]
    fn mul_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self;

    /// Describes the register tile that serves `isa`.
    #[must_use]
    fn variant(isa: Isa) -> Variant;

    /// The register tile.
    fn tile(isa: Isa, tile: &Tile<'_, Self>, c: &mut Target<'_, Self>);

    /// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for the rows of `c`, of one length; B of column
    /// stride 1. `left` is A and alpha.
    fn add_products(
        isa: Isa,
        left: (&Matrix<'_, Self>, Self),
        b: &Matrix<'_, Self>,
        c: &mut [&mut [Self]],
    );

    /// The same for at most four rows, of an A of column stride 1 and a B of row stride 1.
    fn add_dots(
        isa: Isa,
        left: (&Matrix<'_, Self>, Self),
        b: &Matrix<'_, Self>,
        c: &mut [&mut [Self]],
    );

    /// How a single row passes packed panels, if not as a tile.
    #[must_use]
    fn row_times_panels(_: Isa) -> Option<RowTimesPanels<Self>> {
        None
    }

    /// `y[j·y_stride + i] = x[i·x_stride + j]` for every row `i` and column `j` of `size`.
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
        let (_, [rows, columns]) = (isa, size);
        for j in 0..if rows == 0 { 0 } else { columns } {
            let column = x.0[j..].iter().step_by(x.1.max(1));
            y.0[j * y.1..][..rows].iter_mut().zip(column).for_each(|(y, x)| *y = *x);
        }
    }

    /// The range that a function clamps to, if it does nothing else.
    #[must_use]
    fn as_clamp(activation: Self::Activation) -> Option<(Self, Self)>;

    /// Applies a function to finished results.
    fn activate(activation: Self::Activation, isa: Isa, row: &mut [Self]);

    /// Whether matrix tiles compute a product.
    #[must_use]
    fn is_tiled<B: Panels<Self>>(_: &Gemm<'_, B, Self>) -> bool {
        false
    }

    /// The elements of scratch that takes for a region of so many rows.
    #[must_use]
    fn tiled_scratch_len<B: Panels<Self>>(_: &Gemm<'_, B, Self>, _: usize) -> usize {
        0
    }

    /// Computes a region on matrix tiles, if they compute the product.
    fn run_on_tiles<B: Panels<Self>>(
        gemm: &Gemm<'_, B, Self>,
        region: &Region,
        c: &mut (impl Rows<Self> + ?Sized),
        scratch: &mut [Self],
    ) {
        let _ = (gemm, region, c, scratch);
    }
}

/// Implements [`Element`] for a number that has a ladder of tiles beside this, two functions in `vector`, and no
/// function at the end of its products.
macro_rules! plain_element {
    ($T:ident: $one:literal, $everything:expr,
     times: |$x:ident, $factor:ident| $times:expr,
     mul_add::<$FMA:ident>: |$a:ident, $b:ident, $c:ident| $mul_add:expr,
     rows: $add_products:ident, columns: $add_dots:ident
     $(, $own:item)?) => {
        impl Element for $T {
            type Activation = ();
            const ONE: Self = $one;
            const EVERYTHING: ($T, $T) = $everything;

            #[inline(always)]
            fn times(self, $factor: Self) -> Self {
                let $x = self;
                $times
            }

            #[inline(always)]
            fn mul_add<const $FMA: bool>($a: Self, $b: Self, $c: Self) -> Self {
                $mul_add
            }

            fn variant(isa: Isa) -> Variant {
                best(isa)
            }

            fn tile(isa: Isa, of: &Tile<'_, $T>, c: &mut Target<'_, $T>) {
                tile(isa, of, c);
            }

            fn add_products(
                isa: Isa,
                left: (&Matrix<'_, $T>, $T),
                b: &Matrix<'_, $T>,
                c: &mut [&mut [$T]],
            ) {
                vector::$add_products(isa, left, b, c);
            }

            fn add_dots(
                isa: Isa,
                left: (&Matrix<'_, $T>, $T),
                b: &Matrix<'_, $T>,
                c: &mut [&mut [$T]],
            ) {
                vector::$add_dots(isa, left, b, c);
            }

            $($own)?

            fn as_clamp((): ()) -> Option<($T, $T)> {
                Some(Self::EVERYTHING)
            }

            fn activate((): (), _: Isa, _: &mut [$T]) {}
        }
    };
}
pub(super) use plain_element;

/// Elements of a cache line.
pub(super) const fn line_len<T>() -> usize {
    64 / size_of::<T>()
}
