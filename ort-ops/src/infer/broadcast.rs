//! Multidirectional broadcasting of possibly unknown dimensions.

// collects are bounded: by the rank

use ort_graph::{Dim, Dims, Fact, Facts, OpError};
use ort_tensor::DType;

/// The common dimensions of `a` and `b`, aligned at the last.
///
/// # Errors
/// If two known dimensions differ and neither is 1.
pub fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Dims, OpError> {
    let rank = a.len().max(b.len());
    let dim = |dims: &[Dim], i: usize| match (i + dims.len()).checked_sub(rank) {
        Some(i) => dims[i].clone(),
        None => Dim::Known(1),
    };
    let pair = |i| match (dim(a, i), dim(b, i)) {
        (x, y) if x.equals(&y) => Some(x),
        (Dim::Known(1), y) => Some(y),
        (x, Dim::Known(1)) => Some(x),
        (Dim::Known(_), Dim::Known(_)) => None,
        // An unknown dimension is either 1 or the same.
        (Dim::Known(n), _) | (_, Dim::Known(n)) => Some(Dim::Known(n)),
        _ => Some(Dim::Unknown),
    };
    (0..rank).map(pair).collect::<Option<Dims>>().ok_or_else(|| OpError::Shapes {
        what: "broadcasting",
        left: known_or_zero(a),
        right: known_or_zero(b),
    })
}

/// The fact of a result of type `dtype` that all inputs broadcast to.
///
/// # Errors
/// If they do not broadcast.
pub fn broadcast_facts(inputs: &Facts<'_>, dtype: DType) -> Result<Fact, OpError> {
    let mut common: Option<Dims> = Some(Dims::new());
    for i in 0..inputs.len() {
        common = match (common, inputs.fact(i)?.dims()) {
            (Some(common), Some(dims)) => Some(broadcast_dims(&common, dims)?),
            _ => None,
        };
    }
    Ok(common.map_or_else(|| Fact::unranked(dtype), |dims| Fact::tensor(dtype, dims)))
}

/// The dimensions for a message: 0 where one is not known.
pub(crate) fn known_or_zero(dims: &[Dim]) -> Vec<usize> {
    dims.iter().map(|dim| dim.known().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_dimensions_stretch_only_to_what_must_be() {
        let symbol = || Dim::Symbol("n".into());
        let cases = [
            (vec![symbol()], vec![Dim::Known(3)], Some(vec![Dim::Known(3)])),
            (vec![symbol()], vec![symbol()], Some(vec![symbol()])),
            (vec![symbol()], vec![Dim::Known(1)], Some(vec![symbol()])),
            (vec![symbol()], vec![Dim::Unknown], Some(vec![Dim::Unknown])),
            (vec![Dim::Known(2)], vec![Dim::Known(3)], None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(broadcast_dims(&a, &b).ok().map(|dims| dims.to_vec()), expected);
        }
    }
}
