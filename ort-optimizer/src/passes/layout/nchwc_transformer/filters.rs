//! Filters, biases and channel factors, in the order and with the padding of NCHWc.

use std::sync::{Mutex, PoisonError};

use ort_graph::OpError;
use ort_ops::blocked::{PlacedFilter, Places};
use ort_tensor::{DType, Tensor, TensorError};

use super::channels::Channels;
use crate::eval::ConstEval;

/// A part of this many weights (256 KiB) takes longer to write than a thread takes to start.
const PART_LEN: usize = 1 << 16;

/// Filters `[O, I, KH, KW]` in NCHWc, with zeros where outputs are padding, and where inputs in NCHWc are.
///
/// # Errors
/// If they are not float32, or for other numbers of channels.
pub(super) fn filters(
    weights: &Tensor,
    outputs: &Channels,
    inputs: Option<&Channels>,
    (block, eval): (usize, &dyn ConstEval),
) -> Result<Tensor, OpError> {
    let (output_places, input_places) = (outputs.places(), inputs.map(Channels::places));
    let places = |of_channels, channels: &Channels| Places { of_channels, n: channels.n_padded() };
    let inputs =
        inputs.zip(input_places.as_deref()).map(|(it, of_channels)| places(of_channels, it));
    let outputs = places(&output_places, outputs);
    let filter = PlacedFilter::new(weights.unaligned_view(), outputs, inputs, block)?;
    let mut tensor = Tensor::lasting_zeros(DType::F32, filter.shape())?;
    let to = tensor.view_mut().into_slice::<f32>()?;
    let n_strips = PART_LEN.div_ceil(filter.strip_len());
    let parts = to.chunks_mut(n_strips * filter.strip_len()).enumerate();
    let parts: Vec<_> = parts.map(|(i, part)| Mutex::new((i * n_strips, part))).collect();
    eval.for_each(parts.len(), &|i| {
        let mut part = parts[i].lock().unwrap_or_else(PoisonError::into_inner);
        let (first, to) = &mut *part;
        filter.fill(*first, to);
    });
    drop(parts);
    Ok(tensor)
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
    use ort_graph::{Graph, Node};
    use ort_ops::blocked::{FilterForm, blocked_filter};

    use super::*;
    use crate::eval::{EvalError, Reference};

    /// All parts at once.
    struct ManyThreads;

    impl ConstEval for ManyThreads {
        fn eval(
            &self,
            graph: &Graph,
            node: &Node,
            inputs: &[Option<Tensor>],
        ) -> Result<Vec<Tensor>, EvalError> {
            Reference.eval(graph, node, inputs)
        }

        fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
            assert!(n > 1, "there is something to share");
            std::thread::scope(|scope| (0..n).for_each(|i| drop(scope.spawn(move || part(i)))));
        }
    }

    #[test]
    fn threads_change_nothing() {
        let weights: Vec<f32> = (0..64 * 32 * 49).map(|i| i as f32).collect();
        let weights = Tensor::from_slice(&[64, 32, 7, 7], &weights).unwrap();
        let (outputs, inputs) = (Channels::padded(64, 16), Channels::padded(32, 16));
        let with = |eval| filters(&weights, &outputs, Some(&inputs), (16, eval)).unwrap();
        let expected = blocked_filter(weights.view(), FilterForm::InputsAndOutputs, 16).unwrap();
        assert_eq!(with(&Reference), expected);
        assert_eq!(with(&ManyThreads), expected);
    }
}
