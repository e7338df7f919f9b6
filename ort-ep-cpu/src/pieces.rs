//! Results that threads share row by row, where a row depends only on its index.

use ort_ep::{KernelError, Threads};
use ort_kernels::vec;
use ort_tensor::{Element, Inputs, Output, TensorError, TensorView, TensorViewMut, go_on};

use crate::cpu::{Team, cancellable_parts, n_parts, per_part};

/// The rows of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// Elements per row.
    pub(crate) len: usize,
    /// The cost of a row, in multiply-adds.
    pub(crate) cost: usize,
}

impl Rows {
    /// Element-wise results, as cache lines, of which the last may be shorter. Reading
    /// and writing one in the second-level cache takes 2 ns, the time of 192 multiply-adds in a product.
    pub(crate) const ELEMENTS: Self = Self { len: 16, cost: 192 };

    /// Calls `work(start, piece)` for pieces of `y`, on any thread. Each starts at element `start`
    /// and is a number of whole rows, except the end of the last.
    pub(crate) fn for_each<T: Send>(
        self,
        threads: &dyn Threads,
        y: &mut [T],
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        self.for_each_with(threads, (&mut [], 0), y, |start, y, _| work(start, y));
    }

    /// [`Rows::for_each`] with `len` elements of `scratch`, whose size is
    /// [`Cpu::scratch_bytes`](crate::cpu::Cpu::scratch_bytes), for each thread.
    pub(crate) fn for_each_with<T: Send>(
        self,
        threads: &dyn Threads,
        (scratch, scratch_len): (&mut [u8], usize),
        y: &mut [T],
        work: impl Fn(usize, &mut [T], &mut [f32]) + Sync,
    ) {
        let piece_len = self.piece_len(threads, y.len());
        let team = Team::new(threads, y.len().div_ceil(piece_len));
        let team = team.with_scratch(scratch, scratch_len);
        team.run(y.chunks_mut(piece_len).enumerate(), |(i, y), scratch| {
            work(i * piece_len, y, scratch);
        });
    }

    /// Elements per piece of a result of `len` elements; at least 1.
    pub(crate) fn piece_len(self, threads: &dyn Threads, len: usize) -> usize {
        let row_len = self.len.max(1);
        let n_rows = len.div_ceil(row_len);
        // A row of any cost takes time.
        let by_rows = cancellable_parts(n_rows, MAX_ROWS);
        let n_parts = n_parts(threads, n_rows.saturating_mul(self.cost)).max(by_rows);
        per_part(threads, n_rows, n_parts) * row_len
    }
}

/// The elements reinterpreted as another type of the same width.
pub(crate) fn elements_as<T: Element>(x: TensorView<'_>) -> Result<&[T], TensorError> {
    let wrong = TensorError::DType { expected: T::DTYPE, found: x.dtype() };
    let is_alike = x.dtype().word_bytes() == Some(size_of::<T>());
    let bytes = x.as_bytes().filter(|_| is_alike);
    match bytes.map(bytemuck::try_cast_slice) {
        Some(Ok(elements)) => Ok(elements),
        // An empty slice may have any address.
        Some(_) if x.is_empty() => Ok(&[]),
        _ if x.is_released() => x.as_slice(),
        _ => Err(wrong),
    }
}

/// [`elements_as`] for writing.
pub(crate) fn elements_of<T: Element>(y: TensorViewMut<'_>) -> Result<&mut [T], TensorError> {
    let wrong = TensorError::DType { expected: T::DTYPE, found: y.dtype() };
    let is_alike = y.dtype().word_bytes() == Some(size_of::<T>());
    match y.into_bytes().filter(|_| is_alike) {
        Some([]) => Ok(&mut []),
        Some(bytes) => bytemuck::try_cast_slice_mut(bytes).map_err(|_| wrong),
        None => Err(wrong),
    }
}

/// The cost of copying a byte, in multiply-adds: as [`Rows::ELEMENTS`].
pub(crate) const BYTE: usize = 3;

/// Longer rows are processed in pieces of [`PIECE`].
pub(crate) const LONG: usize = 1 << 20;
/// Elements per piece of a long row.
pub(crate) const PIECE: usize = 1 << 16;

/// Rows of at most this number are between two checks for cancellation.
const MAX_ROWS: usize = 1 << 20;

/// Yields the items until the run is cancelled.
pub(crate) fn wanted<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.take_while(|_| go_on().is_ok())
}

/// The elements of input 0, unless the output aliases it, and the output, which
/// has its shape.
pub(crate) fn first_and_output<'i, 'o, T: Element>(
    inputs: Inputs<'i>,
    output: &'o mut Output<'_>,
) -> Result<(Option<&'i [T]>, &'o mut [T]), KernelError> {
    if output.in_place_of() == Some(0) {
        let (_, y) = output.in_place_tensor().ok_or(KernelError::ForeignState)?;
        return Ok((None, TensorViewMut::into_slice(y)?));
    }
    let x = inputs.tensor(0)?;
    Ok((Some(x.as_slice()?), output.tensor(T::DTYPE, x.shape())?.into_slice()?))
}

/// `y = f(x)` if there is an `x`, else `y = f(y)`, for an element-wise `f`, which is called with
/// the start of a piece and the piece.
pub(crate) fn map(x: Option<&[f32]>, y: &mut [f32], mut f: impl FnMut(usize, &mut [f32])) {
    match x {
        Some(x) => vec::map(x, y, f),
        None => f(0, y),
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{DType, TensorView, TensorViewMut};

    use super::{elements_as, elements_of};

    #[test]
    fn an_empty_tensor_may_have_any_address() {
        let (mut bytes, shape) = ([0; 8], [0, 3]);
        for at in 0..8 {
            let x = TensorView::from_bytes(DType::F32, &shape, &bytes[at..at]).unwrap();
            assert_eq!(elements_as::<f32>(x).unwrap(), [0.0; 0]);
            let y = TensorViewMut::from_bytes(DType::I64, &shape, &mut bytes[at..at]).unwrap();
            assert_eq!(elements_of::<i64>(y).unwrap(), [0; 0]);
        }
    }
}
