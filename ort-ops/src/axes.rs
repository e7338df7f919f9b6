//! The axes of a box that several tensors share.

use smallvec::SmallVec;

/// The axes of more than one element, merged where they are contiguous in every tensor: each with its length and its
/// stride in each tensor, outermost first. A stride below zero is its two's complement.
pub fn merged<const N: usize>(
    axes: impl IntoIterator<Item = (usize, [usize; N])>,
) -> SmallVec<[(usize, [usize; N]); 6]> {
    let mut merged: SmallVec<[(usize, [usize; N]); 6]> = SmallVec::new();
    for (dim, strides) in axes.into_iter().filter(|&(dim, _)| dim != 1) {
        let span = strides.map(|stride| stride.wrapping_mul(dim));
        match merged.last_mut() {
            Some((outer, of_outer)) if *of_outer == span => {
                (*outer, *of_outer) = (outer.saturating_mul(dim), strides);
            }
            _ => merged.push((dim, strides)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn axes_that_continue_each_other_everywhere_are_one() {
        let axes = [(2, [12, 4]), (1, [99, 99]), (3, [4, 0]), (4, [1, 0])];
        assert_eq!(merged(axes)[..], [(2, [12, 4]), (12, [1, 0])]);
        let [three_back, back] = [-3, -1].map(isize::cast_unsigned);
        assert_eq!(merged([(2, [three_back]), (3, [back])])[..], [(6, [back])]);
        assert_eq!(merged([(1, [7])])[..], []);
    }
}
