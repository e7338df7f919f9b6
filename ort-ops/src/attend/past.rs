//! Keys and values of earlier steps.

use ort_graph::OpError;
use ort_tensor::{TensorError, TensorView, collected};

use super::heads::append;
use crate::floats;

/// Keys `[heads, capacity, D]` and values `[heads, capacity, E]`, of which the first `used` rows of each head are
/// valid. Empty without a past.
#[derive(Debug, Default)]
pub(crate) struct Past {
    buffers: [Vec<f64>; 2],
    used: usize,
    /// Whether new rows are written into the buffers.
    is_shared: bool,
}

impl Past {
    /// All of both tensors, unless `used` limits shared buffers.
    pub(crate) fn read(
        buffers: [TensorView<'_>; 2],
        capacity: usize,
        used: Option<usize>,
    ) -> Result<Self, OpError> {
        let [k, v] = buffers;
        let buffers = [floats::read(k)?, floats::read(v)?];
        Ok(Self { buffers, used: used.unwrap_or(capacity), is_shared: used.is_some() })
    }

    /// Keys and values in order: the valid ones, then the new ones, for each of `heads`.
    pub(crate) fn join(
        &self,
        new: [Vec<f64>; 2],
        heads: usize,
        sizes: [usize; 2],
    ) -> Result<[Vec<f64>; 2], OpError> {
        let join = |i: usize| -> Result<Vec<f64>, OpError> {
            let n = self.used.checked_mul(sizes[i]).ok_or(OpError::TooLarge)?;
            match self.is_shared {
                false => append(&self.buffers[i], &new[i], heads),
                true => append(&first_of_each(&self.buffers[i], heads, n)?, &new[i], heads),
            }
        };
        Ok([join(0)?, join(1)?])
    }

    /// What is kept for the next step: the joined rows, in the buffers if they are shared.
    pub(crate) fn present(
        self,
        joined: [Vec<f64>; 2],
        heads: usize,
    ) -> Result<[Vec<f64>; 2], OpError> {
        if !self.is_shared {
            return Ok(joined);
        }
        let [mut k, mut v] = self.buffers;
        overlay(&mut k, &joined[0], heads)?;
        overlay(&mut v, &joined[1], heads)?;
        Ok([k, v])
    }
}

/// The first `n` elements of each head of a buffer `[heads, …]`.
fn first_of_each(buffer: &[f64], heads: usize, n: usize) -> Result<Vec<f64>, TensorError> {
    let chunk = buffer.len().checked_div(heads).unwrap_or(0).max(1);
    collected(buffer.chunks_exact(chunk).flat_map(|head| head.iter().take(n)).copied())
}

/// Writes the rows of each head over the first ones of a buffer.
fn overlay(buffer: &mut [f64], rows: &[f64], heads: usize) -> Result<(), OpError> {
    if rows.len() > buffer.len() {
        let (left, right) = (vec![rows.len()], vec![buffer.len()]);
        return Err(OpError::Shapes { what: "the buffer of the past is full", left, right });
    }
    let [chunk, n] = [buffer.len(), rows.len()].map(|len| (len / heads.max(1)).max(1));
    for (buffer, rows) in buffer.chunks_exact_mut(chunk).zip(rows.chunks_exact(n)) {
        buffer[..n].copy_from_slice(rows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_filled_from_the_front() {
        let buffers = || [vec![1., 2., 3., 4., 5., 6.], vec![]];
        let new = || [vec![7., 8.], vec![]];
        let past = Past { buffers: buffers(), used: 1, is_shared: true };
        let joined = past.join(new(), 2, [1, 0]).unwrap();
        assert_eq!(joined[0], [1., 7., 4., 8.]);
        assert_eq!(past.present(joined, 2).unwrap()[0], [1., 7., 3., 4., 8., 6.]);
        let past = Past { buffers: buffers(), used: 3, is_shared: true };
        let joined = past.join(new(), 2, [1, 0]).unwrap();
        assert!(past.present(joined, 2).is_err());
        let joined = Past::default().join(new(), 2, [1, 0]).unwrap();
        assert_eq!(joined, new());
    }
}
