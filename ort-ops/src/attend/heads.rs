//! Queries, keys and values by head, from any input form.

// collects are bounded: into checked allocations

use crate::floats;
use ort_graph::OpError;
use ort_tensor::{Pace, Room, collected, n_elements, with_room};

/// `[B, H, S, D]` from a shape `[B, S, H, D]`, or, with S for H, the inverse.
pub(crate) fn swap_heads(
    x: &[f64],
    [batch, len, heads, size]: [usize; 4],
) -> Result<Vec<f64>, OpError> {
    if n_elements(&[batch, len, heads, size]) != Some(x.len()) {
        let (left, right) = (vec![x.len()], vec![batch, len, heads, size]);
        return Err(OpError::Shapes { what: "heads", left, right });
    }
    if x.is_empty() {
        return Ok(Vec::new());
    }
    let (mut y, mut pace) = (with_room(x.len())?, Pace::new());
    for b in 0..batch {
        for h in 0..heads {
            for s in 0..len {
                pace.go(size)?;
                y.extend_from_slice(&x[((b * len + s) * heads + h) * size..][..size]);
            }
        }
    }
    Ok(y)
}

/// `[B, H, S, D]` from `[B, S, H·D]` and its bias `[H·D]`, or none.
pub(crate) fn split_heads(
    mut x: Vec<f64>,
    shape: [usize; 4],
    bias: &[f64],
) -> Result<Vec<f64>, OpError> {
    floats::with_period(&mut x, bias, |x, bias| *x += bias)?;
    swap_heads(&x, shape)
}

/// The past and the new rows of each head: `[heads, P, D]` and `[heads, S, D]` to `[heads, P + S, D]`.
pub(crate) fn append(past: &[f64], new: &[f64], heads: usize) -> Result<Vec<f64>, OpError> {
    if past.is_empty() || heads == 0 {
        return Ok(collected(new.iter().copied())?);
    }
    let (mut all, mut pace) = (Room::with_room(past.len() + new.len())?, Pace::new());
    let (past_len, new_len) = (past.len() / heads, new.len() / heads);
    for head in 0..heads {
        pace.go(past_len + new_len)?;
        all.extend(past[head * past_len..][..past_len].iter().copied())?;
        all.extend(new[head * new_len..][..new_len].iter().copied())?;
    }
    Ok(all.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_swap_and_the_past_comes_first() {
        let x = [0., 1., 2., 3., 4., 5.];
        let swapped = swap_heads(&x, [1, 3, 2, 1]).unwrap();
        assert_eq!(swapped, [0., 2., 4., 1., 3., 5.]);
        assert_eq!(swap_heads(&swapped, [1, 2, 3, 1]).unwrap(), x);
        assert_eq!(append(&[7., 8.], &[1., 2., 3., 4.], 2).unwrap(), [7., 1., 2., 8., 3., 4.]);
        assert_eq!(append(&[], &[1.], 1).unwrap(), [1.]);
    }
}
