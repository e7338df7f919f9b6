//! Packing of operands into panels: `[k][rows]` of A and `[k][nr]` of B, each read sequentially.

use super::{Element, Half};
use crate::Isa;
use std::fmt::Debug;
use std::ops::Range;

/// A strided view: element `(i, j)` is `data[i·row_stride + j·column_stride]`.
///
/// A transposed operand is the same view with rows and columns exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T = f32> {
    /// The elements.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A contiguous row-major matrix.
    #[must_use]
    pub fn row_major(data: &'a [T], rows: usize, columns: usize) -> Self {
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The same elements with rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// The submatrix starting at row `i` and column `j`.
    #[must_use]
    pub fn part(&self, i: usize, j: usize) -> Self {
        Self { data: self.from(i, j), rows: self.rows - i, columns: self.columns - j, ..*self }
    }

    /// The elements starting at `(i, j)`.
    pub(super) fn from(&self, i: usize, j: usize) -> &'a [T] {
        &self.data[(i * self.row_stride + j * self.column_stride).min(self.data.len())..]
    }
}

/// The left operand.
#[derive(Clone, Copy, Debug)]
pub enum Lhs<'a, T = f32> {
    /// Any strides; packed into scratch and multiplied by `alpha`.
    Strided {
        /// A: [m, k].
        a: Matrix<'a, T>,
        /// The factor α.
        alpha: T,
    },
    /// Written by [`pack_a`] for the same instruction set, all `m` rows.
    Packed(&'a [T]),
}

/// Adjacent panels of B for a range of `k`.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The instruction set that determines panels.
    pub isa: Isa,
    /// The rows of B.
    pub k: Range<usize>,
    /// The first column of the first panel.
    pub column: usize,
    /// Columns per panel.
    pub nr: usize,
}

/// Calls `$write::<NR>` for the columns of a panel: with a constant width, copying a row compiles to a few
/// registers and no call.
macro_rules! by_width {
    ($slice:ident => $write:ident $(of $element:ident)? ($($arg:expr),+)) => {
        match $slice.nr {
            8 => by_width!(@call $write [$($element,)? 8] ($($arg),+)),
            16 => by_width!(@call $write [$($element,)? 16] ($($arg),+)),
            32 => by_width!(@call $write [$($element,)? 32] ($($arg),+)),
            nr => unreachable!("invariant: no variant has panels of {nr} columns"),
        }
    };
    (@call $write:ident [$($parameter:tt)+] ($($arg:expr),+)) => {
        $write::<$($parameter)+>($($arg),+)
    };
}
pub(crate) use by_width;

/// The elements of stored panels.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a, T> {
    /// Elements of the product.
    Whole(&'a [T]),
    /// 16-bit floats.
    Halves(&'a [u16], Half),
}

impl<'a, T> Stored<'a, T> {
    /// Those of the product's own type.
    pub(super) fn whole(self) -> Option<&'a [T]> {
        match self {
            Self::Whole(panel) => Some(panel),
            Self::Halves(..) => None,
        }
    }

    pub(super) fn bytes(self) -> &'a [u8]
    where
        T: Element,
    {
        match self {
            Self::Whole(panel) => bytemuck::cast_slice(panel),
            Self::Halves(panel, _) => bytemuck::cast_slice(panel),
        }
    }
}

/// A right operand that is read in panels of `nr` columns.
pub trait Panels<T = f32> {
    /// Whether B is stored in panels.
    fn is_stored(&self) -> bool {
        false
    }

    /// The stored first panel of `slice`, if B is stored in panels.
    fn stored(&self, slice: &Slice) -> Option<Stored<'_, T>> {
        let _ = slice;
        None
    }

    /// The stored panels of `columns`, contiguous and with all rows, if B is
    /// stored in panels.
    fn stored_whole(&self, isa: Isa, columns: &Range<usize>) -> Option<Stored<'_, T>> {
        let _ = (isa, columns);
        None
    }

    /// The unpacked operand, if its rows are contiguous.
    fn as_rows(&self) -> Option<Matrix<'_, T>> {
        None
    }

    /// The unpacked operand, if its columns are contiguous and its rows are not.
    fn as_columns(&self) -> Option<Matrix<'_, T>> {
        None
    }

    /// Writes as many panels as `panels` holds, each `[k][nr]`, zero beyond the columns of B.
    fn write(&self, slice: &Slice, panels: &mut [T]);
}

/// The output of [`pack_b`]: consecutive panels, each `[k][nr]`, the last padded with zeros.
#[derive(Clone, Copy, Debug)]
pub struct PackedB<'a, T = f32> {
    /// The panels.
    pub data: &'a [T],
    /// Rows of B.
    pub k: usize,
}

impl<T> PackedB<'_, T> {
    fn panel(&self, Slice { k, column, nr, .. }: &Slice) -> &[T] {
        assert_eq!(column % nr, 0, "a packed panel is read from its first column");
        &self.data[column * self.k + k.start * nr..column * self.k + k.end * nr]
    }
}

impl<T: Element> Panels<T> for PackedB<'_, T> {
    fn is_stored(&self) -> bool {
        true
    }

    fn stored(&self, slice: &Slice) -> Option<Stored<'_, T>> {
        Some(Stored::Whole(self.panel(slice)))
    }

    fn stored_whole(&self, isa: Isa, columns: &Range<usize>) -> Option<Stored<'_, T>> {
        let nr = T::variant(isa).nr;
        assert_eq!(columns.start % nr, 0, "a packed panel is read from its first column");
        let n = columns.len().next_multiple_of(nr);
        Some(Stored::Whole(&self.data[columns.start * self.k..][..n * self.k]))
    }

    fn write(&self, slice: &Slice, panels: &mut [T]) {
        each_panel(slice, panels, |slice, panel| panel.copy_from_slice(self.panel(slice)));
    }
}

impl<T: Element> Panels<T> for Matrix<'_, T> {
    fn as_rows(&self) -> Option<Matrix<'_, T>> {
        (self.column_stride == 1).then_some(*self)
    }

    fn as_columns(&self) -> Option<Matrix<'_, T>> {
        (self.row_stride == 1 && self.column_stride != 1).then_some(*self)
    }

    fn write(&self, slice: &Slice, panels: &mut [T]) {
        by_width!(slice => write_panels of T (self, slice, panels));
    }
}

/// Calls `write` for each panel of `panels` with its slice.
pub(crate) fn each_panel<T>(
    slice: &Slice,
    panels: &mut [T],
    mut write: impl FnMut(&Slice, &mut [T]),
) {
    if slice.k.is_empty() {
        return;
    }
    for (i, panel) in panels.chunks_exact_mut(slice.k.len() * slice.nr).enumerate() {
        let column = slice.column + i * slice.nr;
        write(&Slice { column, ..slice.clone() }, panel);
    }
}

/// If rows are contiguous, writes all full panels at once: reading one long run per row is faster than a
/// short one per row and panel.
fn write_panels<T: Element, const NR: usize>(b: &Matrix<'_, T>, slice: &Slice, panels: &mut [T]) {
    let panel_len = slice.k.len() * NR;
    let full = match b.column_stride {
        1 => ((b.columns - slice.column) / NR * panel_len).min(panels.len()),
        _ => 0,
    };
    let (wide, rest) = panels.split_at_mut(full);
    for (i, row) in slice.k.clone().enumerate() {
        let source = b.from(row, slice.column).as_chunks::<NR>().0;
        let out = wide.as_chunks_mut::<NR>().0.iter_mut().skip(i).step_by(slice.k.len());
        out.zip(source).for_each(|(to, from)| *to = *from);
    }
    let column = slice.column + full / panel_len.max(1) * NR;
    let slice = Slice { column, ..slice.clone() };
    each_panel(&slice, rest, |slice, panel| write_panel::<T, NR>(b, slice, panel));
}

/// Writes one panel, for any strides and any number of columns.
fn write_panel<T: Element, const NR: usize>(b: &Matrix<'_, T>, slice: &Slice, panel: &mut [T]) {
    let width = (b.columns - slice.column).min(NR);
    let rows = panel.as_chunks_mut::<NR>().0;
    if width < NR {
        rows.iter_mut().for_each(|row| row[width..].fill(T::zeroed()));
    }
    if b.row_stride == 1 {
        let columns = (b.from(slice.k.start, slice.column), b.column_stride);
        return T::transpose(slice.isa, [width, slice.k.len()], columns, (panel, NR));
    }
    for (row, out) in slice.k.clone().zip(rows) {
        let elements = b.from(row, slice.column).iter().step_by(b.column_stride.max(1));
        out[..width].iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
    }
}

/// The number of elements that [`pack_b`] writes for a B of `[k, n]`.
#[must_use]
pub fn packed_b_len(isa: Isa, k: usize, n: usize) -> usize {
    packed_b_len_of::<f32>(isa, k, n)
}

/// [`packed_b_len`] for another element type.
#[must_use]
pub fn packed_b_len_of<T: Element>(isa: Isa, k: usize, n: usize) -> usize {
    n.next_multiple_of(T::variant(isa).nr) * k
}

/// Packs B: [k, n] for reuse by any number of products; a pure function of B and the variant of
/// `isa`.
///
/// Columns starting at a multiple of `nr` are packed the same whether alone or with the rest, so
/// callers may split B into such ranges.
///
/// # Panics
/// If `packed` does not hold `packed_b_len(isa, k, n)` elements.
pub fn pack_b<T: Element>(isa: Isa, b: &Matrix<'_, T>, packed: &mut [T]) {
    pack_b_while(isa, b, packed, || true);
}

/// The same, unless `may_continue`, which is called every few milliseconds, returns false.
///
/// # Panics
/// As [`pack_b`].
pub fn pack_b_while<T: Element>(
    isa: Isa,
    b: &Matrix<'_, T>,
    packed: &mut [T],
    may_continue: impl Fn() -> bool,
) {
    /// Elements written at once.
    const PIECE: usize = 1 << 20;
    assert_eq!(packed.len(), packed_b_len_of::<T>(isa, b.rows, b.columns), "length of packed B");
    let nr = T::variant(isa).nr;
    let panel_len = (b.rows * nr).max(1);
    let n_panels = (PIECE / panel_len).max(1);
    // All rows of some panels, or some rows of one.
    let n_rows = if n_panels > 1 { b.rows.max(1) } else { PIECE / nr };
    for (i, panels) in packed.chunks_mut(n_panels * panel_len).enumerate() {
        let column = i * n_panels * nr;
        for first in (0..b.rows).step_by(n_rows) {
            if !may_continue() {
                return;
            }
            let k = first..b.rows.min(first + n_rows);
            let part = if n_panels > 1 { 0..panels.len() } else { k.start * nr..k.end * nr };
            b.write(&Slice { isa, k, column, nr }, &mut panels[part]);
        }
    }
}

/// The rows of each panel of an A with `rows` rows: as few panels as `mr` allows, of nearly equal
/// size.
///
/// If A is packed, a range of rows passed to one thread starts and ends at panels.
pub fn row_panels(isa: Isa, rows: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let panels = RowPanels::new::<f32>(isa, &(0..rows));
    (0..panels.count).map(move |i| panels.get(i))
}

/// A range of rows split into panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPanels {
    first: usize,
    total: usize,
    count: usize,
}

impl RowPanels {
    pub(super) fn new<T: Element>(isa: Isa, rows: &Range<usize>) -> Self {
        let mr = T::variant(isa).mr;
        Self { first: rows.start, total: rows.len(), count: rows.len().div_ceil(mr) }
    }

    /// The rows of panel `i`.
    pub(super) fn get(&self, i: usize) -> Range<usize> {
        let boundary = |i| self.first + i * self.total / self.count;
        boundary(i)..boundary(i + 1)
    }

    /// The panels that make up `rows`.
    pub(super) fn within(&self, rows: &Range<usize>) -> Range<usize> {
        if rows.is_empty() {
            return 0..0;
        }
        let index = |row: usize| ((row - self.first) * self.count).div_ceil(self.total);
        let panels = index(rows.start)..index(rows.end);
        let covered = self.get(panels.start).start..self.get(panels.end - 1).end;
        assert_eq!(covered, *rows, "rows of a packed A start and end at panels");
        panels
    }
}

/// Packs `alpha·A`, A: [m, k], into `m·k` elements: consecutive panels of [`row_panels`], each
/// `[k][rows of the panel]`.
///
/// # Panics
/// If `packed` does not hold `m·k` elements.
pub fn pack_a(isa: Isa, a: &Matrix<'_>, alpha: f32, packed: &mut [f32]) {
    assert_eq!(packed.len(), a.rows * a.columns, "length of packed A");
    for rows in row_panels(isa, a.rows) {
        let panel = &mut packed[rows.start * a.columns..rows.end * a.columns];
        pack_panel(isa, a, rows, alpha, panel);
    }
}

/// Packs the panel of `rows`.
pub(super) fn pack_panel<T: Element>(
    isa: Isa,
    a: &Matrix<'_, T>,
    rows: Range<usize>,
    alpha: T,
    panel: &mut [T],
) {
    if a.columns == 0 {
        return;
    }
    if a.column_stride == 1 {
        let (size, stride) = ([rows.len(), a.columns], rows.len());
        T::transpose(isa, size, (a.from(rows.start, 0), a.row_stride), (&mut *panel, stride));
        if alpha != T::ONE {
            panel.iter_mut().for_each(|x| *x = alpha.times(*x));
        }
        return;
    }
    for (k, out) in panel.chunks_exact_mut(rows.len()).enumerate() {
        let elements = a.from(rows.start, k).iter().step_by(a.row_stride.max(1));
        out.iter_mut().zip(elements).for_each(|(to, from)| *to = alpha.times(*from));
    }
}
