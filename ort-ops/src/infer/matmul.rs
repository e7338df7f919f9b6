//! The dimensions of a matrix product with NumPy's rules.

// collects are bounded: by the rank

use ort_graph::{Dim, Dims, Fact, Facts, OpError};
use ort_tensor::Shape;

use crate::infer::{broadcast_dims, known_or_zero};

/// The dimensions of `a·b`: the last two are multiplied as matrices, those before broadcast; an
/// operand of rank 1 is a row on the left and a column on the right, and leaves no dimension.
///
/// # Errors
/// If an operand is a scalar, or the dimensions do not fit.
///
/// Source: ONNX operator set, MatMul-13.
pub fn matmul_dims(a: &[Dim], b: &[Dim]) -> Result<Dims, OpError> {
    for (index, rank) in [a.len(), b.len()].into_iter().enumerate() {
        if rank == 0 {
            return Err(OpError::InputRank { index, expected: "1 or more", found: 0 });
        }
    }
    let (a_batch, a_matrix) = a.split_at(a.len().saturating_sub(2));
    let (b_batch, b_matrix) = b.split_at(b.len().saturating_sub(2));
    let (rows, a_inner) = a_matrix.split_at(a_matrix.len() - 1);
    let (b_inner, columns) = b_matrix.split_at(1);
    if a_inner[0].unify(&b_inner[0]).is_none() {
        return Err(OpError::Shapes {
            what: "inner dimensions of a matrix product",
            left: known_or_zero(a),
            right: known_or_zero(b),
        });
    }
    let mut dims = broadcast_dims(a_batch, b_batch)?;
    dims.extend(rows.iter().chain(columns).cloned());
    Ok(dims)
}

/// The shape of `a·b`, as [`matmul_dims`].
///
/// # Errors
/// If an operand is a scalar, or the dimensions do not fit.
pub fn matmul_shape(a: &[usize], b: &[usize]) -> Result<Shape, OpError> {
    let dims = |shape: &[usize]| shape.iter().copied().map(Dim::Known).collect::<Dims>();
    let product = matmul_dims(&dims(a), &dims(b))?;
    Ok(product.iter().filter_map(Dim::known).collect())
}

/// Two operations for each of `k` terms of each element of the output.
pub(crate) fn product_flops(k: Option<usize>, output: Option<&Fact>) -> u64 {
    let n_elements = output.and_then(Fact::shape).and_then(|y| ort_tensor::n_elements(&y));
    let terms = n_elements.zip(k).map(|(n, k)| n.saturating_mul(k).saturating_mul(2));
    terms.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// So many operations for each element.
pub(crate) fn element_flops(n_operations: usize, fact: Option<&Fact>) -> u64 {
    product_flops(Some(n_operations), fact) / 2
}

/// The two products of attention: for each score as many terms as a key has elements, and as many
/// as a value has.
pub(crate) fn attention_flops(scores: &Fact, key: &Fact, value: &Fact) -> u64 {
    let size = |fact: &Fact| fact.dims().and_then(|dims| dims.last()?.known());
    let n_terms = size(key).zip(size(value)).and_then(|(k, v)| k.checked_add(v));
    product_flops(n_terms, Some(scores))
}

/// The number of elements of `axis` of the input at `index`, if it is known.
pub(crate) fn known_dim(inputs: &Facts<'_>, index: usize, axis: usize) -> Option<usize> {
    inputs.get(index)?.dims()?.get(axis)?.known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_rank_one_leave_no_dimension() {
        let cases: [(&[usize], &[usize], Option<&[usize]>); 8] = [
            (&[2, 3], &[3, 4], Some(&[2, 4])),
            (&[3], &[3], Some(&[])),
            (&[3], &[5, 3, 4], Some(&[5, 4])),
            (&[5, 2, 3], &[3], Some(&[5, 2])),
            (&[5, 1, 2, 3], &[6, 3, 4], Some(&[5, 6, 2, 4])),
            (&[2, 0], &[0, 4], Some(&[2, 4])),
            (&[2, 3], &[4, 3], None),
            (&[], &[3], None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(matmul_shape(a, b).ok().as_deref(), expected, "{a:?}·{b:?}");
        }
    }

    #[test]
    fn unknown_inner_dimensions_may_fit() {
        let symbol = |name: &str| Dim::Symbol(name.into());
        let dims = matmul_dims(&[symbol("n"), Dim::Unknown], &[symbol("k"), Dim::Known(2)]);
        assert_eq!(dims.unwrap().as_slice(), [symbol("n"), Dim::Known(2)]);
    }
}
