//! What the dimensions of an input must be.

// collects are bounded: by the rank

use ort_graph::{Dim, Facts, OpError};

/// Checks that the tensor at `index`, if present and its rank is known, can have these dimensions.
///
/// # Errors
/// If it has another rank, or a known dimension differs.
pub fn expect_dims(inputs: &Facts<'_>, index: usize, expected: &[Dim]) -> Result<(), OpError> {
    let Some(found) = inputs.get(index).and_then(|fact| fact.dims()) else { return Ok(()) };
    let mut pairs = found.iter().zip(expected);
    if found.len() == expected.len() && pairs.all(|(a, b)| a.unify(b).is_some()) {
        return Ok(());
    }
    let shape = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    let what = "the dimensions of an input";
    Err(OpError::Shapes { what, left: shape(found), right: shape(expected) })
}

#[cfg(test)]
mod tests {
    use ort_graph::Fact;
    use ort_tensor::DType;

    use super::*;

    #[test]
    fn only_what_is_known_can_contradict() {
        let n = || Dim::Symbol("n".into());
        let fact = Fact::tensor(DType::F32, [n(), Dim::Known(2)]);
        let inputs = [Some(&fact), None];
        let fits = |dims: &[Dim]| expect_dims(&Facts::new(&inputs), 0, dims).is_ok();
        assert!(fits(&[Dim::Known(7), Dim::Unknown]) && fits(&[n(), Dim::Known(2)]));
        assert!(!fits(&[n(), Dim::Known(3)]) && !fits(&[n()]));
        assert!(expect_dims(&Facts::new(&inputs), 1, &[]).is_ok());
    }
}
