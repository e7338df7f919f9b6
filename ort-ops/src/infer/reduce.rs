//! Dimensions after a reduction over some axes.

// collects are bounded: by the rank

use ort_graph::{Dim, Dims, Fact, OpError};
use ort_tensor::DType;

use super::normalize_axes;

/// The axes over which a reduction runs, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes<'a> {
    /// All of them.
    All,
    /// These, negative ones counted from the back, in any order, each once.
    These(&'a [i64]),
    /// This many, or an unknown number.
    Unknown(Option<usize>),
}

/// The dimensions that are left: a reduced one is 1 if it is kept, else removed. `None` if not even
/// their number is known.
///
/// # Errors
/// If an axis is out of range or occurs twice, or there are more axes than dimensions.
pub fn reduced_dims(
    dims: &[Dim],
    axes: Axes<'_>,
    keeps_dims: bool,
) -> Result<Option<Dims>, OpError> {
    let axes = match axes {
        Axes::All => (0..dims.len()).collect(),
        Axes::These(axes) => normalize_axes(axes, dims.len())?,
        Axes::Unknown(_) if keeps_dims => {
            // Each is reduced to 1 or kept, so a dimension of 1 is known.
            let either = |dim: &Dim| if *dim == Dim::Known(1) { dim.clone() } else { Dim::Unknown };
            return Ok(Some(dims.iter().map(either).collect()));
        }
        Axes::Unknown(None) => return Ok(None),
        Axes::Unknown(Some(n)) => {
            let too_many = || OpError::InputRank {
                index: 0,
                expected: "at least one per axis",
                found: dims.len(),
            };
            let left = dims.len().checked_sub(n).ok_or_else(too_many)?;
            // bounded: rank
            return Ok(Some(Dims::from_elem(Dim::Unknown, left)));
        }
    };
    let dim = |(i, dim): (usize, &Dim)| match (axes.binary_search(&i), keeps_dims) {
        (Err(_), _) => Some(dim.clone()),
        (Ok(_), true) => Some(Dim::Known(1)),
        (Ok(_), false) => None,
    };
    Ok(Some(dims.iter().enumerate().filter_map(dim).collect()))
}

/// The fact of a result of type `dtype`, reduced from `input`.
///
/// # Errors
/// As [`reduced_dims`].
pub fn reduced_fact(
    input: &Fact,
    dtype: DType,
    axes: Axes<'_>,
    keeps_dims: bool,
) -> Result<Fact, OpError> {
    let dims = match input.dims() {
        Some(dims) => reduced_dims(dims, axes, keeps_dims)?,
        None => None,
    };
    Ok(dims.map_or_else(|| Fact::unranked(dtype), |dims| Fact::tensor(dtype, dims)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_known_as_far_as_the_axes_are() {
        let n = || Dim::Symbol("n".into());
        let dims = [n(), Dim::Known(3), Dim::Known(1)];
        let (one, unknown) = (Dim::Known(1), Dim::Unknown);
        let cases = [
            (Axes::All, true, Some(vec![one.clone(); 3])),
            (Axes::All, false, Some(vec![])),
            (Axes::These(&[-2]), true, Some(vec![n(), one.clone(), one.clone()])),
            (Axes::These(&[2, 1]), false, Some(vec![n()])),
            (Axes::These(&[]), false, Some(dims.to_vec())),
            (Axes::Unknown(None), true, Some(vec![unknown.clone(), unknown.clone(), one])),
            (Axes::Unknown(Some(2)), false, Some(vec![unknown])),
            (Axes::Unknown(None), false, None),
        ];
        for (axes, keeps_dims, expected) in cases {
            let found = reduced_dims(&dims, axes, keeps_dims).unwrap();
            assert_eq!(found.map(Dims::into_vec), expected, "{axes:?} {keeps_dims}");
        }
    }

    #[test]
    fn impossible_axes_are_rejected() {
        let dims = [Dim::Unknown];
        for axes in [Axes::These(&[1]), Axes::These(&[0, -1]), Axes::Unknown(Some(2))] {
            assert!(reduced_dims(&dims, axes, false).is_err(), "{axes:?}");
        }
    }
}
