//! Attributes that are a list or a tensor.

// collects are bounded: as long as the file's lists

use ort_graph::{NodeSpec, OpError};

use crate::floats;

/// The floats of the attribute `name` or of the tensor `as_tensor`; empty if both are absent.
///
/// # Errors
/// If both are present, or they are not floats.
pub(super) fn floats(
    spec: &NodeSpec<'_>,
    name: &'static str,
    as_tensor: &'static str,
) -> Result<Vec<f64>, OpError> {
    let list = spec.floats(name)?.unwrap_or_default();
    match (list, tensor(spec, as_tensor)?) {
        (list, None) => Ok(list.iter().copied().map(f64::from).collect()),
        ([], Some(values)) => Ok(values),
        (_, Some(_)) => {
            let found = format!("floats in addition to `{name}`");
            Err(OpError::AttributeValue { name: as_tensor, found })
        }
    }
}

/// The floats of the tensor `name`, if present.
///
/// # Errors
/// If it does not contain floats.
pub(super) fn tensor(spec: &NodeSpec<'_>, name: &'static str) -> Result<Option<Vec<f64>>, OpError> {
    spec.tensor(name)?.map(|tensor| floats::read(tensor.view())).transpose()
}

/// The base values: none, or as many as `allowed` accepts.
///
/// # Errors
/// If there is another number of them.
pub(crate) fn read_base(
    spec: &NodeSpec<'_>,
    allowed: impl Fn(usize) -> bool,
) -> Result<Vec<f64>, OpError> {
    let base = floats(spec, "base_values", "base_values_as_tensor")?;
    if base.is_empty() || allowed(base.len()) {
        return Ok(base);
    }
    let found = format!("{} values", base.len());
    Err(OpError::AttributeValue { name: "base_values", found })
}

/// Checks that two parallel attributes have the same length.
///
/// # Errors
/// If they are not.
pub(super) fn expect_len(name: &'static str, found: usize, expected: usize) -> Result<(), OpError> {
    if found == expected {
        return Ok(());
    }
    let found = format!("{found} values where there are {expected}");
    Err(OpError::AttributeValue { name, found })
}

/// The attribute `name`: a list of as many integers as expected.
///
/// # Errors
/// If there is another number of them.
pub(super) fn ints<'a>(
    spec: &NodeSpec<'a>,
    name: &'static str,
    expected: usize,
) -> Result<&'a [i64], OpError> {
    let found = spec.ints(name)?.unwrap_or_default();
    expect_len(name, found.len(), expected)?;
    Ok(found)
}

/// For each node, whether a missing value passes its test; false where it is not stated.
///
/// # Errors
/// If the attribute is of another type, or longer than the list of nodes.
pub(super) fn missing_tracks(spec: &NodeSpec<'_>, n: usize) -> Result<Vec<bool>, OpError> {
    let name = "nodes_missing_value_tracks_true";
    let given = spec.ints(name)?.unwrap_or_default();
    if given.len() > n {
        expect_len(name, given.len(), n)?;
    }
    let mut tracks: Vec<bool> = given.iter().map(|&track| track == 1).collect();
    // bounded: as long as an attribute
    tracks.resize(n, false);
    Ok(tracks)
}

/// A feature, a target or a leaf: an index that is not negative.
///
/// # Errors
/// If it is negative, or larger than a model can be.
pub(super) fn index(name: &'static str, value: i64) -> Result<u32, OpError> {
    let wrong = |_| OpError::AttributeValue { name, found: value.to_string() };
    u32::try_from(value).map_err(wrong)
}

/// The number of targets in `n_targets`.
///
/// # Errors
/// If it is absent or not positive.
pub(crate) fn read_n_targets(spec: &NodeSpec<'_>) -> Result<usize, OpError> {
    let name = "n_targets";
    let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(OpError::AttributeValue { name, found: n.to_string() }),
    }
}
