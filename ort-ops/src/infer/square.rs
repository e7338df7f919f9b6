//! Batches of square matrices.

use ort_graph::{Dim, OpError};

/// The batch and `n` of matrices `[…, n, n]`.
///
/// # Errors
/// If the rank is below 2, or rows and columns differ.
pub fn square_matrices(shape: &[usize]) -> Result<(&[usize], usize), OpError> {
    let [batch @ .., m, n] = shape else { return Err(no_matrix(shape.len())) };
    if m == n { Ok((batch, *n)) } else { Err(not_square(*m, *n)) }
}

/// The batch of matrices `[…, n, n]`.
///
/// # Errors
/// If the rank is below 2, or rows and columns are known to differ.
pub(crate) fn square_dims(dims: &[Dim]) -> Result<&[Dim], OpError> {
    match dims {
        [.., Dim::Known(m), Dim::Known(n)] if m != n => Err(not_square(*m, *n)),
        [batch @ .., _, _] => Ok(batch),
        _ => Err(no_matrix(dims.len())),
    }
}

fn no_matrix(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "at least 2", found }
}

fn not_square(m: usize, n: usize) -> OpError {
    OpError::Shapes { what: "rows and columns of a square matrix", left: vec![m], right: vec![n] }
}
