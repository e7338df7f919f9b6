//! Filters, biases and factors of channels, in the order and with the padding that blocks have.

use ort_graph::OpError;
use ort_ops::blocked::{FilterForm, blocked_filter};
use ort_tensor::{Tensor, TensorError};

use super::channels::Channels;

/// Filters `[O, I, KH, KW]` in blocks, with zeros where outputs are padding, and inputs if they are in
/// blocks.
///
/// # Errors
/// If they are not float32, or for other numbers of channels.
pub(super) fn filters(
    weights: &Tensor,
    outputs: &Channels,
    inputs: Option<&Channels>,
    block: usize,
) -> Result<Tensor, OpError> {
    let &[_, i, kh, kw] = weights.shape() else {
        let found = weights.shape().len();
        return Err(OpError::InputRank { index: 1, expected: "4", found });
    };
    let form = if inputs.is_some() { FilterForm::InputsAndOutputs } else { FilterForm::Outputs };
    if outputs.is_whole() && inputs.is_none_or(Channels::is_whole) {
        return blocked_filter(weights.view(), form, block);
    }
    let in_places = inputs.map_or_else(|| (0..i).collect(), Channels::places);
    let (n_rows, n_columns) = (outputs.n_padded(), inputs.map_or(i, Channels::n_padded));
    let taps = kh * kw;
    let mut padded = Tensor::zeros(weights.dtype(), &[n_rows, n_columns, kh, kw])?;
    if !weights.is_empty() {
        let (from, to) = (weights.as_slice::<f32>()?, padded.view_mut().into_slice::<f32>()?);
        let places = outputs.places();
        for (row, filter) in places.into_iter().zip(from.chunks_exact(i * taps)) {
            for (&column, weights) in in_places.iter().zip(filter.chunks_exact(taps)) {
                to[(row * n_columns + column) * taps..][..taps].copy_from_slice(weights);
            }
        }
    }
    blocked_filter(padded.view(), form, block)
}

/// One number a channel, with zeros in the padding.
///
/// # Errors
/// If the numbers are not float32.
pub(super) fn of_channels(numbers: &Tensor, channels: &Channels) -> Result<Tensor, TensorError> {
    let mut padded = vec![0.0; channels.n_padded()];
    for (place, number) in channels.places().into_iter().zip(numbers.as_slice::<f32>()?) {
        padded[place] = *number;
    }
    Tensor::from_slice(&[padded.len()], &padded)
}
