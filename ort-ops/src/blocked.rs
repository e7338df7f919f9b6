//! Memory in NCHWc, as com.microsoft.nchwc lays it out.
//!
//! ```text
//! activation  [N, C, H, W]     as  [N][C/B][H·W][B]
//! OIHWBo      [O, I, KH, KW]   as  [O/B][I·KH·KW][B]           an image whose planes are filters
//! OIHWBiBo    [O, I, KH, KW]   as  [O/B][I/B][KH·KW][Bi][Bo]   the same, and each filter in turn
//!                                                              an image in blocks of its inputs
//! ```
//!
//! A tensor in NCHWc keeps its plain shape, so only the operator implies its layout.
//! Source: ONNX Runtime 1.31, `com.microsoft.nchwc`.

mod placed;

use ort_graph::OpError;
use ort_tensor::{DType, Pace, Tensor, TensorError, TensorView, collected, n_elements};

pub use self::placed::{PlacedFilter, Places};

/// The sizes of images `[channels, plane]` whose channels are stored in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blocks {
    channels: usize,
    plane: usize,
    block: usize,
}

/// The form of a filter in NCHWc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// OIHWBo: for an input in NCHW, and for filters of one channel each.
    Outputs,
    /// OIHWBiBo: for an input in NCHWc.
    InputsAndOutputs,
}

impl FilterForm {
    /// The form of filters that read `n_inputs` channels, by which kernels choose it.
    pub const fn of(n_inputs: usize, block: usize) -> Self {
        if n_inputs < block { Self::Outputs } else { Self::InputsAndOutputs }
    }
}

impl Blocks {
    fn new(channels: usize, plane: usize, block: usize) -> Result<Self, OpError> {
        if block == 0 || !channels.is_multiple_of(block) {
            let (left, right) = (vec![channels], vec![block]);
            return Err(OpError::Shapes { what: "channels and blocks", left, right });
        }
        Ok(Self { channels, plane, block })
    }

    /// Copies images in NCHWc to images in NCHW.
    fn unblock(self, from: &[f32], to: &mut [f32]) -> Result<(), TensorError> {
        let Self { channels, plane, block } = self;
        let mut pace = Pace::new();
        let images = from.chunks_exact((channels * plane).max(1));
        for (from, to) in images.zip(to.chunks_exact_mut((channels * plane).max(1))) {
            let strips = from.chunks_exact(plane * block);
            for (from, to) in strips.zip(to.chunks_exact_mut(plane * block)) {
                for (at, len) in pieces(plane) {
                    pace.go(len * block)?;
                    for (lane, to) in to.chunks_exact_mut(plane).enumerate() {
                        let lane = from[at * block + lane..].iter().step_by(block);
                        to[at..at + len].iter_mut().zip(lane).for_each(|(to, &from)| *to = from);
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies images in NCHW to images in NCHWc.
    fn block(self, from: &[f32], to: &mut [f32]) -> Result<(), TensorError> {
        let Self { channels, plane, block } = self;
        let mut pace = Pace::new();
        let images = from.chunks_exact((channels * plane).max(1));
        for (from, to) in images.zip(to.chunks_exact_mut((channels * plane).max(1))) {
            let strips = from.chunks_exact(plane * block);
            for (from, to) in strips.zip(to.chunks_exact_mut(plane * block)) {
                for (at, len) in pieces(plane) {
                    pace.go(len * block)?;
                    for (lane, from) in from.chunks_exact(plane).enumerate() {
                        let lane = to[at * block + lane..].iter_mut().step_by(block);
                        lane.zip(&from[at..at + len]).for_each(|(to, &from)| *to = from);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Pieces of a plane, as (start, length), so short that a block of channels stays in the L1 cache while its channels
/// are copied.
fn pieces(plane: usize) -> impl Iterator<Item = (usize, usize)> {
    const LEN: usize = 128;
    (0..plane).step_by(LEN).map(move |at| (at, LEN.min(plane - at)))
}

/// The same activation in NCHW. `x`: `[N, C, …]` f32, in NCHWc.
///
/// # Errors
/// If it has no channels, or they are not a multiple of `block`.
pub fn unblocked(x: TensorView<'_>, block: usize) -> Result<Tensor, OpError> {
    reordered(x, activation(x, block)?, Blocks::unblock)
}

/// The same activation in NCHWc. `x`: `[N, C, …]` f32, in NCHW.
///
/// # Errors
/// If it has no channels, or they are not a multiple of `block`.
pub fn blocked(x: TensorView<'_>, block: usize) -> Result<Tensor, OpError> {
    reordered(x, activation(x, block)?, Blocks::block)
}

/// The same filters, row-major. `w`: `[O, I, …]` f32, in NCHWc.
///
/// # Errors
/// If the output channels, or the input channels where the form blocks them, are no
/// multiple of `block`.
pub fn unblocked_filter(
    w: TensorView<'_>,
    form: FilterForm,
    block: usize,
) -> Result<Tensor, OpError> {
    let (outputs, inputs) = filter(w, form, block)?;
    let rows = reordered(w, outputs, Blocks::unblock)?;
    inputs.map_or(Ok(rows.clone()), |inputs| reordered(rows.view(), inputs, Blocks::unblock))
}

/// The same filters in NCHWc. `w`: `[O, I, …]` f32, row-major.
///
/// # Errors
/// As [`unblocked_filter`].
pub fn blocked_filter(
    w: TensorView<'_>,
    form: FilterForm,
    block: usize,
) -> Result<Tensor, OpError> {
    let [outputs, inputs, ..] = *w.shape() else { return Err(wrong_rank(w)) };
    if w.as_slice::<f32>()?.is_empty() {
        // Without elements, a file may state any number of channels, too many to allocate a place for each.
        filter(w, form, block)?;
        return Ok(Tensor::lasting_zeros(DType::F32, w.shape())?);
    }
    let in_order = collected(0..outputs.max(inputs))?;
    let places = |n| Places { of_channels: &in_order[..n], n };
    let inputs = (form == FilterForm::InputsAndOutputs).then(|| places(inputs));
    let filter = PlacedFilter::new(w, places(outputs), inputs, block)?;
    let mut to = Tensor::lasting_zeros(DType::F32, filter.shape())?;
    filter.fill(0, to.view_mut().into_slice::<f32>()?);
    Ok(to)
}

fn activation(x: TensorView<'_>, block: usize) -> Result<Blocks, OpError> {
    let [_, channels, plane @ ..] = x.shape() else { return Err(wrong_rank(x)) };
    Blocks::new(*channels, n_elements(plane).ok_or(OpError::TooLarge)?, block)
}

/// The layout of the filters, and of each of them.
fn filter(
    w: TensorView<'_>,
    form: FilterForm,
    block: usize,
) -> Result<(Blocks, Option<Blocks>), OpError> {
    let [outputs, inputs, taps @ ..] = w.shape() else { return Err(wrong_rank(w)) };
    let taps = n_elements(taps).ok_or(OpError::TooLarge)?;
    let n_terms = inputs.checked_mul(taps).ok_or(OpError::TooLarge)?;
    let each = match form {
        FilterForm::Outputs => None,
        FilterForm::InputsAndOutputs => Some(Blocks::new(*inputs, taps, block)?),
    };
    Ok((Blocks::new(*outputs, n_terms, block)?, each))
}

fn reordered(
    from: TensorView<'_>,
    blocks: Blocks,
    reorder: fn(Blocks, &[f32], &mut [f32]) -> Result<(), TensorError>,
) -> Result<Tensor, OpError> {
    let mut to = Tensor::lasting_zeros(DType::F32, from.shape())?;
    if !to.is_empty() {
        reorder(blocks, from.as_slice::<f32>()?, to.view_mut().into_slice::<f32>()?)?;
    }
    Ok(to)
}

fn wrong_rank(x: TensorView<'_>) -> OpError {
    OpError::InputRank { index: 0, expected: "2 or more", found: x.shape().len() }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::case::once_cancelled;
    use crate::case::tensor;

    fn counted(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        tensor(shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>())
    }

    #[test]
    fn filters_without_elements_have_any_number_of_channels() {
        for (shape, form, is_fine) in [
            ([0, 1 << 54, 1], FilterForm::InputsAndOutputs, true),
            ([0, 1 << 54, 1], FilterForm::Outputs, true),
            ([1 << 54, 0, 1], FilterForm::InputsAndOutputs, true),
            ([1 << 54, 4, 0], FilterForm::InputsAndOutputs, true),
            ([0, 6, 1], FilterForm::InputsAndOutputs, false),
            ([6, 0, 1], FilterForm::Outputs, false),
        ] {
            let w = Tensor::from_slice::<f32>(&shape, &[]).unwrap();
            let blocks = blocked_filter(w.view(), form, 4);
            assert_eq!(blocks.is_ok(), is_fine, "{shape:?} {form:?}");
            assert!(blocks.is_err() || blocks == Ok(w), "{shape:?} {form:?}");
        }
    }

    #[test]
    fn abandoned_copies_stop() {
        let x = counted(&[1, 16, Pace::STEP / 8]);
        for copy in [blocked, unblocked] {
            let copied = once_cancelled(|| copy(x.view(), 16));
            assert_eq!(copied, Err(TensorError::Ended.into()));
        }
    }

    #[test]
    fn channels_of_a_block_lie_side_by_side() {
        let x = counted(&[1, 4, 3]);
        let y = blocked(x.view(), 2).unwrap();
        let expected = [0_f32, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0];
        assert_eq!(y, tensor(&[1, 4, 3], &expected));
        assert_eq!(unblocked(y.view(), 2), Ok(x));
    }

    #[test]
    fn filters_are_blocked_by_output_then_by_input() {
        // Element (o, i, k) of [2, 2, 2] is 4·o + 2·i + k.
        let w = counted(&[2, 2, 2]);
        let outputs = [0_f32, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0];
        let both = [0_f32, 4.0, 2.0, 6.0, 1.0, 5.0, 3.0, 7.0];
        for (form, expected) in
            [(FilterForm::Outputs, outputs), (FilterForm::InputsAndOutputs, both)]
        {
            let blocked = blocked_filter(w.view(), form, 2).unwrap();
            assert_eq!(blocked, tensor(&[2, 2, 2], &expected), "{form:?}");
            assert_eq!(unblocked_filter(blocked.view(), form, 2).as_ref(), Ok(&w), "{form:?}");
        }
    }

    #[test]
    fn partial_blocks_are_rejected_and_empty_tensors_accepted() {
        assert!(blocked(counted(&[1, 3, 2]).view(), 2).is_err());
        assert!(blocked(counted(&[3]).view(), 1).is_err());
        assert!(unblocked(counted(&[1, 4]).view(), 0).is_err());
        let w = counted(&[2, 3, 1]);
        assert!(blocked_filter(w.view(), FilterForm::InputsAndOutputs, 2).is_err());
        for shape in [[0, 4, 3], [2, 0, 3], [2, 4, 0]] {
            assert_eq!(blocked(counted(&shape).view(), 2), Ok(counted(&shape)));
        }
    }
}
