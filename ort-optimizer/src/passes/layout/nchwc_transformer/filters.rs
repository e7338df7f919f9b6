//! Filters, biases and channel factors, in the order and with the padding of NCHWc.

use ort_graph::OpError;
use ort_ops::blocked::{PlacedFilter, Places};
use ort_tensor::{DType, Tensor, TensorError, TensorViewMut};

use super::channels::Channels;

/// Filters `[O, I, KH, KW]` in NCHWc, with zeros where outputs are padding, and where inputs in NCHWc are. They are written
/// when they are read: kernels may only need them in another form.
///
/// # Errors
/// If they are not float32, or for other numbers of channels.
pub(super) fn filters(
    weights: &Tensor,
    outputs: &Channels,
    inputs: Option<&Channels>,
    block: usize,
) -> Result<Tensor, OpError> {
    let of = Filters {
        weights: weights.clone(),
        outputs: (outputs.places(), outputs.n_padded()),
        inputs: inputs.map(|inputs| (inputs.places(), inputs.n_padded())),
        block,
    };
    let shape = of.placed()?.shape().to_vec();
    Ok(Tensor::deferred(DType::F32, &shape, move |to| of.write(to))?)
}

/// Filters and where they are placed.
struct Filters {
    weights: Tensor,
    /// The places of channels, and how many places there are.
    outputs: (Vec<usize>, usize),
    inputs: Option<(Vec<usize>, usize)>,
    block: usize,
}

impl Filters {
    fn placed(&self) -> Result<PlacedFilter<'_>, OpError> {
        fn places((of_channels, n): &(Vec<usize>, usize)) -> Places<'_> {
            Places { of_channels, n: *n }
        }
        let inputs = self.inputs.as_ref().map(places);
        PlacedFilter::new(self.weights.unaligned_view(), places(&self.outputs), inputs, self.block)
    }

    fn write(&self, to: &mut [u8]) {
        let filter = self.placed().expect("invariant: they were placed before");
        let to = TensorViewMut::from_bytes(DType::F32, filter.shape(), to);
        let to = to.and_then(TensorViewMut::into_slice::<f32>);
        filter.fill(0, to.expect("invariant: these are the bytes of a tensor of this shape"));
    }
}

/// One number per channel, with zeros in the padding.
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

#[cfg(test)]
mod tests {
    use ort_ops::blocked::{FilterForm, blocked_filter};

    use super::*;

    #[test]
    fn filters_are_written_when_they_are_read() {
        let weights: Vec<f32> = (0..64 * 32 * 49).map(|i| i as f32).collect();
        let weights = Tensor::from_slice(&[64, 32, 7, 7], &weights).unwrap();
        let (outputs, inputs) = (Channels::padded(64, 16), Channels::padded(32, 16));
        let found = filters(&weights, &outputs, Some(&inputs), 16).unwrap();
        assert!(found.is_deferred());
        let expected = blocked_filter(weights.view(), FilterForm::InputsAndOutputs, 16).unwrap();
        assert_eq!(found, expected);
        assert!(filters(&weights, &inputs, None, 16).is_err());
    }
}
