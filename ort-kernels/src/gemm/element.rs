//! The element types of products: f32, f64, i32 and i64. Integers wrap, so unsigned ones
//! have the same bits.

use std::fmt::Debug;

use bytemuck::Pod;

use super::rows::Target;
use super::{Gemm, Half, Matrix, Panels, Region, Rows, Start, Stored, Variant};
use crate::Isa;

/// The operands of a register tile, with elements `B` of B.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T = f32, B = T> {
    pub(super) a: Left<'a, T>,
    /// `[k][nr]`
    pub(super) b: &'a [B],
    /// Prefetched meanwhile: a line for each row of B, `apart` bytes apart.
    pub(super) next: &'a [u8],
    pub(super) apart: usize,
    pub(super) start: Start<'a, T>,
    /// The bounds that results are clamped to.
    pub(super) clamp: Option<(T, T)>,
}

/// The rows of A of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left<'a, T = f32> {
    /// `[k][rows]`
    Packed(&'a [T]),
    /// Rows of `k` elements, and the row stride.
    Rows(&'a [T], usize),
}

/// `y += x·panels`; the arguments are the instruction set, x, the panels and y.
pub type RowTimesPanels<T> = fn(Isa, &[T], Stored<'_, T>, &mut [T]);

/// An element type of products, with its kernels.
pub trait Element: Pod + PartialOrd + Debug + Send + Sync {
    /// The activation of a product.
    type Activation: Copy + Debug + Send + Sync;
    /// One.
    const ONE: Self;
    /// Bounds that exclude nothing but NaN.
    const EVERYTHING: (Self, Self);
    /// The kernel for a single row and packed panels, if it is not the tile.
    const ROW_TIMES_PANELS: Option<RowTimesPanels<Self>> = None;

    /// `self·factor`.
    #[must_use]
    fn times(self, factor: Self) -> Self;

    /// `a·b + c`: for floats rounded once if `FMA`, else twice.
    #[must_use]
    fn mul_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self;

    /// Describes the register tile that serves `isa`.
    #[must_use]
    fn variant(isa: Isa) -> Variant;

    /// Computes a register tile.
    fn tile(isa: Isa, tile: &Tile<'_, Self>, c: &mut Target<'_, Self>);

    /// The same for a B of 16-bit floats, which only products in f32 have.
    fn tile_of_halves(isa: Isa, half: Half, tile: &Tile<'_, Self, u16>, c: &mut Target<'_, Self>) {
        let _ = (isa, c);
        unreachable!("invariant: a product in f32 has no operand of {half:?}: {tile:?}")
    }

    /// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for the rows of `c`, of equal length; B has column
    /// stride 1. `left` is A and alpha.
    fn add_products(
        isa: Isa,
        left: (&Matrix<'_, Self>, Self),
        b: &Matrix<'_, Self>,
        c: &mut [&mut [Self]],
    );

    /// The same for at most four rows, with column stride 1 of A and row stride 1 of B.
    fn add_dots(
        isa: Isa,
        left: (&Matrix<'_, Self>, Self),
        b: &Matrix<'_, Self>,
        c: &mut [&mut [Self]],
    );

    /// `y[j·y_stride + i] = x[i·x_stride + j]` for every row `i` and column `j` of `size`.
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
        let (_, [rows, columns]) = (isa, size);
        for j in 0..if rows == 0 { 0 } else { columns } {
            let column = x.0[j..].iter().step_by(x.1.max(1));
            y.0[j * y.1..][..rows].iter_mut().zip(column).for_each(|(y, x)| *y = *x);
        }
    }

    /// The bounds of a function that only clamps.
    #[must_use]
    fn as_clamp(activation: Self::Activation) -> Option<(Self, Self)>;

    /// Applies an activation to finished results.
    fn activate(activation: Self::Activation, isa: Isa, row: &mut [Self]);

    /// Whether matrix tiles compute a product.
    #[must_use]
    fn is_tiled<B: Panels<Self>>(_: &Gemm<'_, B, Self>) -> bool {
        false
    }

    /// Elements of scratch on matrix tiles for a region of `rows` rows.
    #[must_use]
    fn tiled_scratch_len<B: Panels<Self>>(_: &Gemm<'_, B, Self>, _: usize) -> usize {
        0
    }

    /// Computes a region on matrix tiles, if they are used for the product.
    fn run_on_tiles<B: Panels<Self>>(
        gemm: &Gemm<'_, B, Self>,
        region: &Region,
        c: &mut (impl Rows<Self> + ?Sized),
        scratch: &mut [Self],
    ) {
        let _ = (gemm, region, c, scratch);
    }
}

/// Implements [`Element`] for a type that has a ladder of tiles in the same module, two functions in `vector`, and no
/// activation.
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

/// Elements per cache line.
pub(super) const fn line_len<T>() -> usize {
    64 / size_of::<T>()
}
