//! What pools share: the shape of the result, and the elements of each window.

// collects are bounded: by the rank

use ort_graph::{Dims, Fact, OpError};
use ort_tensor::{DType, Pace, Room, Shape, TensorError, n_elements};

use crate::infer::{PADDING, Window, WindowAttrs, element_flops};

/// The fact of a pool over `x`.
pub(crate) fn pool_fact(attrs: &WindowAttrs, x: &Fact, dtype: DType) -> Result<Fact, OpError> {
    let Some(dims) = x.dims() else { return Ok(Fact::unranked(dtype)) };
    let kernel: Dims = kernel(attrs)?.iter().copied().map(Into::into).collect();
    expect_axes(dims.len(), kernel.len())?;
    let spatial = attrs.output_dims(&dims[2..], &kernel)?;
    Ok(Fact::tensor(dtype, dims[..2].iter().cloned().chain(spatial)))
}

/// One operation for each element of a window, padding included.
pub(crate) fn pool_flops(attrs: &WindowAttrs, y: Option<&Fact>) -> u64 {
    let n_taps = attrs.kernel.as_ref().and_then(|kernel| n_elements(kernel));
    n_taps.map_or(0, |n_taps| element_flops(n_taps, y))
}

/// The windows of one pool, over the planes of `[N, C, …]`.
pub(crate) struct Pool {
    /// The shape of the result.
    pub(crate) shape: Shape,
    /// The placement of the windows in each plane.
    pub(crate) window: Window,
    /// How many elements a plane of the input has.
    pub(crate) n_plane: usize,
}

/// The elements of one window of a plane.
pub(crate) struct Seen<'a> {
    /// The element of the result.
    pub(crate) output: usize,
    /// The index of the plane.
    pub(crate) plane: usize,
    /// The index of the window in its plane.
    pub(crate) window: usize,
    /// The elements of the plane, in row-major order, without padding.
    pub(crate) taps: &'a [usize],
}

impl Pool {
    pub(crate) fn new(attrs: &WindowAttrs, x: &[usize]) -> Result<Self, OpError> {
        let kernel = kernel(attrs)?;
        expect_axes(x.len(), kernel.len())?;
        let window = attrs.window(&x[2..], kernel)?;
        let shape = x[..2].iter().chain(&window.output).copied().collect();
        let n_plane = n_elements(&x[2..]).ok_or(OpError::TooLarge)?;
        Ok(Self { shape, window, n_plane })
    }

    /// Calls `f` for each window of each plane, once.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub(crate) fn for_each(&self, mut f: impl FnMut(Seen<'_>)) -> Result<(), TensorError> {
        if self.shape.contains(&0) {
            return Ok(());
        }
        let mut pace = Pace::new();
        let n_outputs = self.window.n_outputs();
        let (mut taps, mut ends) = (Room::new(), Room::new());
        for run in self.window.runs() {
            let offsets = self.window.offsets(run.clone())?;
            taps.clear();
            ends.clear();
            for column in 0..run.len() {
                let seen = offsets[column..].iter().step_by(run.len());
                taps.extend(seen.copied().filter(|&at| at != PADDING))?;
                ends.push(taps.len())?;
            }
            for plane in 0..self.shape[0] * self.shape[1] {
                let mut start = 0;
                for (window, &end) in run.clone().zip(&ends) {
                    let output = plane * n_outputs + window;
                    pace.go(end - start + 1)?;
                    f(Seen { output, plane, window, taps: &taps[start..end] });
                    start = end;
                }
            }
        }
        Ok(())
    }
}

fn kernel(attrs: &WindowAttrs) -> Result<&Shape, OpError> {
    attrs.kernel.as_ref().ok_or(OpError::MissingAttribute { name: "kernel_shape" })
}

fn expect_axes(rank: usize, n_axes: usize) -> Result<(), OpError> {
    if rank == n_axes.saturating_add(2) {
        return Ok(());
    }
    Err(OpError::InputRank { index: 0, expected: "2 more than `kernel_shape`", found: rank })
}
