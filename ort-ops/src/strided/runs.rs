//! The innermost two axes of a copy: consecutive runs, or columns that become rows.

use std::mem::needs_drop;

use ort_tensor::dispatch::Text;

use super::Axis;

/// Elements with a transpose of squares that suits their size.
pub trait Word: Clone {
    /// The side of those squares.
    const SIDE: usize = 8;

    /// `y[j·to + i] = x[i·from + j]` for `i` and `j` below [`Self::SIDE`].
    ///
    /// # Panics
    /// If one of the elements does not exist.
    fn transpose_square((x, from): (&[Self], usize), (y, to): (&mut [Self], usize)) {
        let columns: [&[Self; 8]; 8] = std::array::from_fn(|i| square_row(&x[i * from..]));
        for j in 0..8 {
            let row: &mut [Self; 8] = square_row_mut(&mut y[j * to..]);
            for i in 0..8 {
                row[i].clone_from(&columns[i][j]);
            }
        }
    }
}

impl Word for u32 {}
impl Word for u64 {}
impl Word for u128 {}
impl Word for f32 {}
impl Word for String {}
impl Word for Text {}

impl Word for u8 {
    /// As the bytes of eight words, whose halves, quarters and eighths are swapped.
    fn transpose_square((x, from): (&[Self], usize), (y, to): (&mut [Self], usize)) {
        let mut words: [_; 8] =
            std::array::from_fn(|i| u64::from_le_bytes(*square_row(&x[i * from..])));
        exchange(&mut words, 4, 0x0000_0000_ffff_ffff);
        exchange(&mut words, 2, 0x0000_ffff_0000_ffff);
        exchange(&mut words, 1, 0x00ff_00ff_00ff_00ff);
        for (j, word) in words.iter().enumerate() {
            *square_row_mut(&mut y[j * to..]) = word.to_le_bytes();
        }
    }
}

impl Word for u16 {
    const SIDE: usize = 4;

    fn transpose_square((x, from): (&[Self], usize), (y, to): (&mut [Self], usize)) {
        let mut words: [_; 4] = std::array::from_fn(|i| {
            let elements: [Self; 4] = *square_row(&x[i * from..]);
            elements.iter().rev().fold(0, |word, &element| word << 16 | u64::from(element))
        });
        exchange(&mut words, 2, 0x0000_0000_ffff_ffff);
        exchange(&mut words, 1, 0x0000_ffff_0000_ffff);
        for (j, word) in words.iter().enumerate() {
            *square_row_mut(&mut y[j * to..]) =
                [0, 16, 32, 48].map(|at| (word >> at & 0xffff) as Self);
        }
    }
}

fn square_row<T, const N: usize>(x: &[T]) -> &[T; N] {
    x.first_chunk().expect("the caller has as many elements")
}

fn square_row_mut<T, const N: usize>(y: &mut [T]) -> &mut [T; N] {
    y.first_chunk_mut().expect("the caller has as many elements")
}

/// Swaps the masked bits of each word with the other bits of the word `step` before.
fn exchange<const N: usize>(words: &mut [u64; N], step: usize, mask: u64) {
    let width = 64 / N * step;
    for i in (0..N).filter(|i| i & step == 0) {
        let differences = ((words[i] >> width) ^ words[i + step]) & mask;
        words[i + step] ^= differences;
        words[i] ^= differences << width;
    }
}

/// The bytes of a column in a tile: one cache line is read at once.
const LINE: usize = 64;
/// Columns of a tile: as many lines as a cache set holds, since the lines of a tile may all map to one set.
const TILE_COLUMNS: usize = 8;

/// `rows` are contiguous in the source, `columns` in the destination.
pub(super) fn copy_columns<T: Word>(
    rows: Axis,
    columns: Axis,
    (src, from): (&[T], usize),
    (dst, to): (&mut [T], usize),
) {
    let (Ok(next_from), Ok(next_to)) = (columns.from.try_into(), rows.to.try_into()) else {
        return copy_runs([Axis::ONE, rows], columns, (src, from), (dst, to));
    };
    let (src, dst) = (&src[from..], &mut dst[to..]);
    if next_to == columns.n {
        match columns.n {
            2 => return interleave::<T, 2>(rows.n, (src, next_from), dst),
            3 => return interleave::<T, 3>(rows.n, (src, next_from), dst),
            4 => return interleave::<T, 4>(rows.n, (src, next_from), dst),
            _ => {}
        }
    }
    let tile_rows = (LINE / size_of::<T>()).max(T::SIDE);
    let whole = |n: usize| n - n % T::SIDE;
    for first_row in (0..whole(rows.n)).step_by(tile_rows) {
        let end_row = whole(rows.n).min(first_row + tile_rows);
        for first_column in (0..whole(columns.n)).step_by(TILE_COLUMNS) {
            let end_column = whole(columns.n).min(first_column + TILE_COLUMNS);
            for row in (first_row..end_row).step_by(T::SIDE) {
                for column in (first_column..end_column).step_by(T::SIDE) {
                    let x = &src[column * next_from + row..];
                    T::transpose_square(
                        (x, next_from),
                        (&mut dst[row * next_to + column..], next_to),
                    );
                }
            }
        }
    }
    for row in 0..rows.n {
        let first = if row < whole(rows.n) { whole(columns.n) } else { 0 };
        for column in first..columns.n {
            dst[row * next_to + column].clone_from(&src[column * next_from + row]);
        }
    }
}

/// All of the columns that are contiguous in the destination.
fn interleave<T: Word, const N: usize>(n: usize, (src, next): (&[T], usize), dst: &mut [T]) {
    let columns: [&[T]; N] = std::array::from_fn(|i| &src[i * next..][..n]);
    let (groups, _) = dst[..n * N].as_chunks_mut::<N>();
    for (row, group) in groups.iter_mut().enumerate() {
        for i in 0..N {
            group[i].clone_from(&columns[i][row]);
        }
    }
}

/// From this many bytes on, a call of the copy routine pays off.
const LONG: usize = 512;
/// The longest steps along a run for which the compiler uses shuffles.
pub(super) const MOST_STEPS: usize = 4;

/// Consecutive runs, along two axes.
pub(super) fn copy_runs<T: Word>(
    axes: [Axis; 2],
    run: Axis,
    (src, from): (&[T], usize),
    (dst, to): (&mut [T], usize),
) {
    let n = run.n;
    let starts = Starts { axes, from, to };
    match (run.from, run.to) {
        (1, 1) if n * size_of::<T>() > LONG || needs_drop::<T>() => starts.for_each(|from, to| {
            dst[to..to + n].clone_from_slice(&src[from..from + n]);
        }),
        (1, 1) if n == 2 => {
            starts.for_each(|from, to| copy_array::<T, 2>(&src[from..], &mut dst[to..]))
        }
        (1, 1) if n == 4 => {
            starts.for_each(|from, to| copy_array::<T, 4>(&src[from..], &mut dst[to..]))
        }
        (1, 1) if n == 8 => {
            starts.for_each(|from, to| copy_array::<T, 8>(&src[from..], &mut dst[to..]))
        }
        (1, 1) if n == 16 => {
            starts.for_each(|from, to| copy_array::<T, 16>(&src[from..], &mut dst[to..]))
        }
        (1, 1) if n == 32 => {
            starts.for_each(|from, to| copy_array::<T, 32>(&src[from..], &mut dst[to..]))
        }
        (1, 1) => {
            starts.for_each(|from, to| copy_short(&src[from..from + n], &mut dst[to..to + n]));
        }
        (0, 1) => starts.for_each(|from, to| dst[to..to + n].fill(src[from].clone())),
        (2, 1) => starts.for_each(|from, to| pick::<T, 2>(&src[from..], &mut dst[to..to + n])),
        (3, 1) => starts.for_each(|from, to| pick::<T, 3>(&src[from..], &mut dst[to..to + n])),
        (4, 1) => starts.for_each(|from, to| pick::<T, 4>(&src[from..], &mut dst[to..to + n])),
        _ => starts.for_each(|from, to| {
            Starts { axes: [Axis::ONE, run], from, to }
                .for_each(|from, to| dst[to].clone_from(&src[from]));
        }),
    }
}

/// The starts of runs: two axes, the outer first.
struct Starts {
    axes: [Axis; 2],
    from: usize,
    to: usize,
}

impl Starts {
    #[inline]
    fn for_each(self, mut copy: impl FnMut(usize, usize)) {
        let Self { axes: [planes, rows], from: mut first_from, to: mut first_to } = self;
        for _ in 0..planes.n {
            let (mut from, mut to) = (first_from, first_to);
            for _ in 0..rows.n {
                copy(from, to);
                from = from.wrapping_add_signed(rows.from);
                to = to.wrapping_add_signed(rows.to);
            }
            first_from = first_from.wrapping_add_signed(planes.from);
            first_to = first_to.wrapping_add_signed(planes.to);
        }
    }
}

/// Bytes that are repeated at a time: they stay in the L1 cache.
const REPEATED: usize = 1 << 13;

/// Repeats the first `n` elements.
pub(super) fn repeat<T: Word>(n: usize, dst: &mut [T]) {
    let most = (REPEATED / (size_of::<T>() * n)).max(1) * n;
    let mut done = n;
    while done < dst.len() {
        let (first, rest) = dst.split_at_mut(done);
        let more = done.min(most).min(rest.len());
        rest[..more].clone_from_slice(&first[..more]);
        done += more;
    }
}

/// A copy of `N` elements.
#[inline]
fn copy_array<T: Word, const N: usize>(src: &[T], dst: &mut [T]) {
    if let (Some(to), Some(from)) = (dst.first_chunk_mut::<N>(), src.first_chunk::<N>()) {
        to.clone_from(from);
    }
}

/// A copy without a call, in blocks of which the last may cover elements of the one before.
#[inline]
fn copy_short<T: Word>(src: &[T], dst: &mut [T]) {
    match src.len() {
        0..4 => dst.iter_mut().zip(src).for_each(|(to, from)| to.clone_from(from)),
        4..16 => copy_blocks::<T, 4>(src, dst),
        _ => copy_blocks::<T, 16>(src, dst),
    }
}

#[inline]
fn copy_blocks<T: Word, const N: usize>(src: &[T], dst: &mut [T]) {
    for (to, from) in dst.as_chunks_mut::<N>().0.iter_mut().zip(src.as_chunks::<N>().0) {
        to.clone_from(from);
    }
    if let (Some(to), Some(from)) = (dst.last_chunk_mut::<N>(), src.last_chunk::<N>()) {
        to.clone_from(from);
    }
}

/// Every `N`th element.
#[inline]
fn pick<T: Word, const N: usize>(src: &[T], dst: &mut [T]) {
    let (groups, last) = src[..N * (dst.len() - 1) + 1].as_chunks::<N>();
    let (dst, end) = dst.split_at_mut(groups.len());
    dst.iter_mut().zip(groups).for_each(|(to, group)| to.clone_from(&group[0]));
    end.clone_from_slice(last);
}
