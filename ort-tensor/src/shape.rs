//! Concrete dimensions, broadcasting and strides. All counts are in elements.

use smallvec::SmallVec;

/// The dimensions of a tensor, outermost first; up to six without an allocation.
pub type Shape = SmallVec<[usize; 6]>;

/// Dimensions next to a dimension of 0 have at most this product, so that the bytes of any part of them are a number.
const MAX_BESIDES_ZERO: usize = usize::MAX >> 6;

/// `Π shape`, 1 for a scalar; `None` if it overflows. A dimension of 0 does not hide that the others overflow: the product
/// of some of the dimensions is a number if that of all is.
pub fn n_elements(shape: &[usize]) -> Option<usize> {
    let others = shape.iter().filter(|&&dim| dim != 0);
    let n = others.clone().try_fold(1_usize, |n, &dim| n.checked_mul(dim))?;
    match others.count() == shape.len() {
        true => Some(n),
        false => (n <= MAX_BESIDES_ZERO).then_some(0),
    }
}

/// The strides of a contiguous row-major tensor: `stride[i] = Π shape[i+1..]`.
pub fn row_major_strides(shape: &[usize]) -> Shape {
    let mut strides = Shape::from_elem(0, shape.len());
    let mut stride = 1_usize;
    for (i, &dim) in shape.iter().enumerate().rev() {
        strides[i] = stride;
        stride = stride.saturating_mul(dim);
    }
    strides
}

/// The common shape of `a` and `b`, aligned at the last dimension; a dimension of 1 is repeated.
/// `None` where two dimensions differ and neither is 1.
///
/// Source: ONNX "Broadcasting in ONNX", multidirectional.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Shape> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[usize], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(i) => shape[i],
        None => 1,
    };
    (0..rank)
        .map(|i| match (dim(a, i), dim(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// The strides with which a contiguous tensor of `shape` is read as if it had the shape `target`:
/// 0 along each repeated or added dimension. `shape` must broadcast to `target`.
pub fn broadcast_strides(shape: &[usize], target: &[usize]) -> Shape {
    let own = row_major_strides(shape);
    let added = target.len().saturating_sub(shape.len());
    let stride = |i: usize| match i.checked_sub(added) {
        Some(i) if shape[i] != 1 => own[i],
        _ => 0,
    };
    (0..target.len()).map(stride).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broadcasting_follows_the_standard() {
        let cases: [(&[usize], &[usize], Option<&[usize]>); 6] = [
            (&[2, 3], &[3], Some(&[2, 3])),
            (&[2, 1], &[1, 4], Some(&[2, 4])),
            (&[], &[5], Some(&[5])),
            (&[0], &[1], Some(&[0])),
            (&[2], &[3], None),
            (&[0], &[3], None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(broadcast(a, b).as_deref(), expected, "{a:?} with {b:?}");
        }
    }

    #[test]
    fn a_zero_dimension_does_not_hide_an_overflow() {
        assert_eq!(n_elements(&[usize::MAX, 2, 0]), None);
        assert_eq!(n_elements(&[usize::MAX, 0]), None);
        assert_eq!(n_elements(&[1 << 20, 0, 3]), Some(0));
        assert_eq!(n_elements(&[usize::MAX, 2]), None);
        assert_eq!(n_elements(&[]), Some(1));
    }

    proptest! {
        #[test]
        fn a_shape_broadcasts_with_itself_unchanged(
            shape in prop::collection::vec(0_usize..5, 0..6)
        ) {
            let stretched = broadcast(&shape, &shape);
            prop_assert_eq!(stretched.as_deref(), Some(&shape[..]));
        }

        #[test]
        fn broadcasting_is_symmetric(
            a in prop::collection::vec(0_usize..4, 0..5), b in prop::collection::vec(0_usize..4, 0..5)
        ) {
            prop_assert_eq!(broadcast(&a, &b), broadcast(&b, &a));
        }
    }
}
