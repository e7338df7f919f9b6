//! `y[j, i] = x[i, j]` in f32, tile by tile in registers; and for elements of other widths.

#[cfg(target_arch = "x86_64")]
mod avx2_words;
mod pixels;
mod words;

pub use pixels::MAX_CHANNELS;
pub use words::Transposed;

/// A register tile: its name and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// Rows and columns.
    pub size: usize,
}

ladder! {
    fn tiles(size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize));
    Avx512 => avx512_16x16, Avx2 => avx2_8x8; generic
}

/// `y[j·y_stride + i] = x[i·x_stride + j]` for every row `i` and column `j` of `size`; the rest of
/// `y` is unchanged.
///
/// Fastest if one dimension is a multiple of the tile, and the other is long.
///
/// # Panics
/// If `x` or `y` is too short.
pub fn transpose(
    isa: crate::Isa,
    size: [usize; 2],
    (x, x_stride): (&[f32], usize),
    (y, y_stride): (&mut [f32], usize),
) {
    let [rows, columns] = size;
    if (rows == 1 && y_stride == 1) || (columns == 1 && x_stride == 1) {
        let n = rows * columns;
        y[..n].copy_from_slice(&x[..n]);
    } else if !pixels::transpose(isa, size, (x, x_stride), (y, y_stride)) {
        tiles(isa, size, (x, x_stride), (y, y_stride));
    }
}

/// Describes the tile that serves `isa`.
#[must_use]
pub fn variant(isa: crate::Isa) -> Variant {
    best(isa)
}

/// Where tiles of `tile` rows start so that they cover `n`: only if there are fewer is a tile not whole, and the last may
/// cover rows of the one before.
#[inline(always)]
fn starts(tile: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).step_by(tile).map(move |start| start.min(n.saturating_sub(tile)))
}

/// Columns that are transposed before the next: a cache line of each row; half of one if rows of the result are whole
/// pages apart, because the lines that are written then share a set of the first-level cache.
#[inline(always)]
fn group<T>(y_stride: usize) -> usize {
    let n_bytes = if (y_stride * size_of::<T>()).is_multiple_of(4096) { 32 } else { 64 };
    n_bytes / size_of::<T>()
}

/// Calls `f` with the first row and column of every tile: those of `group` columns, whole tiles, before the next.
#[inline(always)]
fn each_corner(
    [tall, wide]: [usize; 2],
    [rows, columns]: [usize; 2],
    group: usize,
    mut f: impl FnMut(usize, usize),
) {
    let (group, last) = (group.max(wide), columns.saturating_sub(wide));
    for first in (0..columns).step_by(group) {
        let end = columns.min(first + group);
        for i in starts(tall, rows) {
            for j in (first..end).step_by(wide) {
                f(i, j.min(last));
            }
        }
    }
}

/// Calls `tile` with the size and the first elements of every tile, at most `T` by `T`.
#[inline(always)]
fn each_tile<const T: usize>(
    [rows, columns]: [usize; 2],
    (x, x_stride): (&[f32], usize),
    (y, y_stride): (&mut [f32], usize),
    tile: impl Fn([usize; 2], &[f32], &mut [f32]),
) {
    let size = [T.min(rows), T.min(columns)];
    each_corner([T; 2], [rows, columns], group::<f32>(y_stride), |i, j| {
        tile(size, &x[i * x_stride + j..], &mut y[j * y_stride + i..]);
    });
}

#[cfg(test)]
mod tests {
    use super::{all, transpose};
    use crate::Isa;

    /// No row, one, a few, a tile in either dimension, one less and one more; strides longer than a row.
    pub(super) fn agrees_with_generic(isa: Isa) {
        let sizes = [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40];
        for (rows, columns) in sizes.iter().flat_map(|&i| sizes.map(|j| (i, j))) {
            for room in [[0, 0], [5, 5], [0, 5], [5, 0]] {
                let (from, to) = (columns + room[0], rows + room[1]);
                let x: Vec<f32> = (0..rows * from).map(|i| i as f32).collect();
                let mut y = vec![-1.0; columns * to];
                transpose(isa, [rows, columns], (&x, from), (&mut y, to));
                for (at, &found) in y.iter().enumerate() {
                    let (j, i) = (at / to, at % to);
                    let expected = if i < rows { x[i * from + j] } else { -1.0 };
                    assert_eq!(found, expected, "{isa:?}: [{i}, {j}] of [{rows}, {columns}]");
                }
            }
        }
    }

    #[test]
    fn rows_become_columns_whatever_the_size() {
        all().filter_map(|(_, isa)| isa).for_each(agrees_with_generic);
    }
}
