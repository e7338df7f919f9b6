//! Axes count from the front, or with a minus sign from the back.

use ort_graph::{Fact, Facts, OpError};
use ort_tensor::DType;

/// The axis counted from the front: `axis + rank` where it is negative.
///
/// # Errors
/// If it is not in `-rank..rank`.
pub fn normalize_axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    let from_front =
        if axis < 0 { i64::try_from(rank).ok().map(|rank| axis + rank) } else { Some(axis) };
    let found = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    found.ok_or(OpError::Axis { axis, rank })
}

/// The fact of a result of the type and shape of input 0, floats, that is computed along `axis`.
///
/// # Errors
/// If the input has no floats, or not that axis.
pub fn float_along(inputs: &Facts<'_>, axis: i64) -> Result<Fact, OpError> {
    inputs.dtype(0, DType::is_float)?;
    let fact = inputs.fact(0)?;
    if let Some(rank) = fact.rank() {
        normalize_axis(axis, rank)?;
    }
    Ok(fact.ty.clone().into())
}

/// The axes counted from the front, in ascending order, each once.
///
/// # Errors
/// If one is not in `-rank..rank`, or occurs twice.
pub fn normalize_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
    // A list longer than the rank has a repeated or invalid axis.
    let axes = &axes[..axes.len().min(rank.saturating_add(1))];
    // bounded: by the rank
    let mut normalized = Vec::with_capacity(axes.len());
    for &axis in axes {
        normalized.push(normalize_axis(axis, rank)?);
    }
    normalized.sort_unstable();
    match normalized.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(_) => Err(OpError::Unsupported { what: "a repeated axis" }),
        None => Ok(normalized),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_axes_count_from_the_back() {
        for (axis, rank, expected) in [(0, 2, Some(0)), (-1, 2, Some(1)), (-2, 2, Some(0))] {
            assert_eq!(normalize_axis(axis, rank).ok(), expected);
        }
        for (axis, rank) in [(2, 2), (-3, 2), (0, 0), (i64::MIN, 3)] {
            assert_eq!(normalize_axis(axis, rank), Err(OpError::Axis { axis, rank }));
        }
        assert!(normalize_axes(&[0, -2], 2).is_err());
        assert_eq!(normalize_axes(&[-1, 0], 3), Ok(vec![0, 2]));
    }
}
