//! The distance of two tensors: whether any element exceeds a tolerance, and the largest distances.

use ort_tensor::{TensorView, row_major_strides, with_dtype};

use super::distance::{Distance, Packed};
use super::{Difference, Tolerance};

/// The distance of two tensors of the same type and shape.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Deviation {
    /// The number of elements of each.
    pub n_elements: usize,
    /// The number of elements beyond the tolerance.
    pub n_beyond: usize,
    /// The largest `|found − expected|`; infinite where one is not a number, or where non-numeric elements differ.
    pub max_abs: f64,
    /// The largest `|found − expected| / |expected|` of elements with a non-zero expected value.
    ///
    /// Source: numpy 2, `numpy.testing.assert_allclose`.
    pub max_rel: f64,
    /// The largest `|found − expected|` of an element beyond the tolerance; 0 if there is none.
    pub max_beyond: f64,
    /// The first element beyond the tolerance.
    pub first: Option<Beyond>,
}

/// An element beyond the tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beyond {
    /// Its index.
    pub index: Vec<usize>,
    /// The expected element.
    pub expected: String,
    /// The actual element.
    pub found: String,
}

/// The deviation of `found` from `expected`; elements are compared as by [`compare`](super::compare).
///
/// # Errors
/// If element types or shapes differ.
pub fn deviation(
    expected: TensorView<'_>,
    found: TensorView<'_>,
    tolerance: Tolerance,
) -> Result<Deviation, Difference> {
    if expected.dtype() != found.dtype() {
        return Err(Difference::DType { expected: expected.dtype(), found: found.dtype() });
    }
    if expected.shape() != found.shape() {
        return Err(Difference::Shape {
            expected: expected.shape().to_vec(),
            found: found.shape().to_vec(),
        });
    }
    let shape = expected.shape();
    let deviation = with_dtype!(expected.dtype(), plain, T => {
        let slices = (expected.as_slice::<T>(), found.as_slice::<T>());
        of_elements(shape, slices.0.unwrap_or_default(), slices.1.unwrap_or_default(), tolerance)
    }, else => match (expected.as_strings(), found.as_strings()) {
        (Ok(x), Ok(y)) => of_elements(shape, x, y, tolerance),
        _ => of_elements(shape, &packed(expected), &packed(found), tolerance),
    });
    Ok(deviation)
}

fn packed(view: TensorView<'_>) -> Vec<Packed> {
    let codes = view.unpacked().unwrap_or_default();
    codes.into_iter().map(|code| Packed { dtype: view.dtype(), code }).collect()
}

fn of_elements<T: Distance>(
    shape: &[usize],
    expected: &[T],
    found: &[T],
    tolerance: Tolerance,
) -> Deviation {
    let mut deviation = Deviation { n_elements: expected.len(), ..Deviation::default() };
    let mut first = None;
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        let (error, magnitude) = (found.distance(expected), expected.magnitude());
        if error == 0.0 {
            continue;
        }
        deviation.max_abs = deviation.max_abs.max(error);
        if magnitude > 0.0 {
            deviation.max_rel = deviation.max_rel.max(error / magnitude);
        }
        if !tolerance.accepts(error, magnitude) {
            first = first.or(Some((i, expected, found)));
            deviation.n_beyond += 1;
            deviation.max_beyond = deviation.max_beyond.max(error);
        }
    }
    deviation.first = first.map(|(i, expected, found)| Beyond {
        index: index_of(i, shape),
        expected: format!("{expected:?}"),
        found: format!("{found:?}"),
    });
    deviation
}

/// The index of an element from its row-major position.
fn index_of(place: usize, shape: &[usize]) -> Vec<usize> {
    let strides = row_major_strides(shape);
    shape.iter().zip(&strides).map(|(dim, stride)| place / stride % dim).collect()
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use super::*;

    fn of(expected: &[f32], found: &[f32], tolerance: Tolerance) -> Deviation {
        let tensor = |data: &[f32]| Tensor::from_slice(&[data.len() / 2, 2], data).unwrap();
        deviation(tensor(expected).view(), tensor(found).view(), tolerance).unwrap()
    }

    #[test]
    fn the_largest_distances_count_whether_or_not_they_are_beyond() {
        let tolerance = Tolerance { rtol: 0.0, atol: 0.25 };
        let found = of(&[1.0, 0.0, 4.0, -2.0], &[1.25, 0.125, 5.0, -1.5], tolerance);
        assert_eq!((found.n_elements, found.n_beyond), (4, 2));
        // An expected zero has no relative distance.
        assert_eq!((found.max_abs, found.max_rel, found.max_beyond), (1.0, 0.25, 1.0));
        let first = Beyond { index: vec![1, 0], expected: "4.0".into(), found: "5.0".into() };
        assert_eq!(found.first, Some(first));
        let within = of(&[1.0, 2.0], &[1.25, 2.0], tolerance);
        assert_eq!((within.n_beyond, within.max_abs, within.max_beyond), (0, 0.25, 0.0));
        assert_eq!(within.first, None);
    }

    #[test]
    fn nan_is_infinitely_far_from_a_number() {
        let found = of(&[f32::NAN, 1.0], &[f32::NAN, f32::NAN], Tolerance::default());
        assert_eq!((found.n_beyond, found.max_abs), (1, f64::INFINITY));
        assert_eq!(of(&[], &[], Tolerance::EXACT), Deviation::default());
    }

    #[test]
    fn types_and_shapes_must_agree() {
        let floats = Tensor::from_slice(&[2], &[1_f32, 2.0]).unwrap();
        let column = Tensor::from_slice(&[2, 1], &[1_f32, 2.0]).unwrap();
        let integers = Tensor::from_slice(&[2], &[1_i32, 2]).unwrap();
        let of = |found: &Tensor| deviation(floats.view(), found.view(), Tolerance::EXACT);
        assert!(matches!(of(&column), Err(Difference::Shape { .. })));
        assert!(matches!(of(&integers), Err(Difference::DType { .. })));
        let same = Deviation { n_elements: 2, ..Deviation::default() };
        assert_eq!(of(&floats.clone()), Ok(same));
    }
}
