//! Requests as one batch: their inputs are concatenated along the first dimension, and the outputs split again.

use std::time::Duration;

use ort_session::{DType, Tensor, TensorError};

use crate::failure::Failure;
use crate::raw;
use crate::request::{Outputs, Request};

/// When requests run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    /// The maximum first dimension.
    pub(crate) max_rows: usize,
    /// How long the first request of a batch waits for others.
    pub(crate) max_delay: Duration,
}

/// A batch waits no longer, whatever the configuration says.
const MAX_DELAY: Duration = Duration::from_secs(3600);

impl Batching {
    pub(crate) fn new(max_rows: usize, max_delay: Duration) -> Self {
        Self { max_rows, max_delay: max_delay.min(MAX_DELAY) }
    }
}

/// The first dimension of all inputs; `None` if they differ.
pub(super) fn rows(request: &Request) -> Option<usize> {
    let mut rows = request.inputs.iter().map(|(_, tensor)| tensor.shape().first().copied());
    let first = rows.next()??;
    rows.all(|n| n == Some(first)).then_some(first)
}

/// Whether the inputs of two requests can be concatenated, and the same outputs are requested.
pub(super) fn fit(a: &Request, b: &Request) -> bool {
    a.outputs == b.outputs
        && a.inputs.len() == b.inputs.len()
        && a.inputs.iter().all(|(name, tensor)| {
            let other = b.inputs.iter().find(|(other, _)| other == name);
            other.is_some_and(|(_, other)| {
                tensor.dtype() == other.dtype() && tensor.shape().get(1..) == other.shape().get(1..)
            })
        })
}

/// The inputs of requests that fit each other.
///
/// # Errors
/// If there is no memory.
pub(super) fn concatenated(requests: &[&Request]) -> Result<Vec<(String, Tensor)>, TensorError> {
    let Some(first) = requests.first() else { return Ok(Vec::new()) };
    let joined = first.inputs.iter().map(|(name, _)| {
        let of_name = |request: &&Request| {
            let found = { request.inputs.iter() }.find(|(other, _)| other == name);
            found.map(|(_, tensor)| tensor.clone())
        };
        let parts: Vec<_> = requests.iter().filter_map(of_name).collect();
        Ok((name.clone(), joined(&parts)?))
    });
    joined.collect()
}

fn joined(parts: &[Tensor]) -> Result<Tensor, TensorError> {
    let Some(first) = parts.first() else { return Tensor::zeros(DType::F32, &[0]) };
    let mut shape = first.shape().to_vec();
    if let Some(rows) = shape.first_mut() {
        *rows = parts.iter().filter_map(|part| part.shape().first()).sum();
    }
    if first.dtype() == DType::String {
        let mut strings = Vec::new();
        for part in parts {
            strings.extend_from_slice(part.view().as_strings()?);
        }
        return Tensor::from_strings(&shape, strings);
    }
    let mut joined = Tensor::zeros(first.dtype(), &shape)?;
    let mut rest = joined.view_mut().into_bytes().unwrap_or_default();
    for part in parts {
        let view = part.view();
        let bytes = view.as_bytes().unwrap_or_default();
        let (head, tail) = rest.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        rest = tail;
    }
    Ok(joined)
}

/// The outputs of each request, which have `rows` rows; slices of those of the batch where alignment allows.
///
/// # Errors
/// If the first dimension of an output is not the sum of `rows`.
pub(super) fn split(outputs: &Outputs, rows: &[usize]) -> Result<Vec<Outputs>, Failure> {
    let mut split: Vec<Outputs> = rows.iter().map(|_| Vec::with_capacity(outputs.len())).collect();
    let n_rows: usize = rows.iter().sum();
    for (name, tensor) in outputs {
        if tensor.shape().first() != Some(&n_rows) || n_rows == 0 {
            return Err(Failure::output(name, format!("it does not have {n_rows} rows")));
        }
        let row_len = tensor.len() / n_rows;
        let mut start = 0;
        for (&n, outputs) in rows.iter().zip(&mut split) {
            let part = part(name, tensor, start * row_len, n * row_len);
            let mut shape = tensor.shape().to_vec();
            shape[0] = n;
            outputs.push((
                name.clone(),
                part?.reshaped(&shape).map_err(crate::failure::in_output(name))?,
            ));
            start += n;
        }
    }
    Ok(split)
}

/// The elements from `start` on, in one dimension.
fn part(name: &str, tensor: &Tensor, start: usize, len: usize) -> Result<Tensor, Failure> {
    let in_output = crate::failure::in_output(name);
    if tensor.dtype() == DType::String {
        let view = tensor.view();
        let strings = view.as_strings().map(|strings| strings[start..start + len].to_vec());
        return strings.and_then(|part| Tensor::from_strings(&[len], part)).map_err(in_output);
    }
    let bytes = raw::encode(name, tensor)?;
    let element = tensor.dtype().bits() / 8;
    let part = bytes.slice(start * element..(start + len) * element);
    Tensor::from_bytes(tensor.dtype(), &[len], part).map_err(in_output)
}
