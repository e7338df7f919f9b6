//! Operators whose operands broadcast to the shape of the result.

use super::form::{Operand, Place, Side, TransposedNode};
use super::perm::Perm;

/// The operands that `is_data` accepts broadcast. One of fewer axes than the result has its last axes: it is
/// transposed like those, if they stay together, or else expanded to all axes.
pub(super) fn broadcast(place: &Place<'_>, is_data: fn(usize) -> bool) -> Option<TransposedNode> {
    let rank = place.output(0)?.rank()?;
    let perm = match place.side {
        Side::Input(_) => place.perm.widened(rank),
        Side::Output(_) => place.perm.clone(),
    };
    let operand = |index| {
        if !is_data(index) || place.input(index).is_none() || place.is_single(index) {
            return Some(Operand::Same);
        }
        Some(match perm.narrowed(place.rank(index)?) {
            None => Operand::Spread(perm.clone()),
            Some(narrow) if narrow.is_identity() => Operand::Same,
            Some(narrow) => Operand::Transposed(narrow),
        })
    };
    place.transposed(operand, &perm)
}

/// How an operand of fewer axes is expanded to the result's: the order of its own axes, and then the positions of the
/// axes that it lacks.
pub(super) fn spread(rank: usize, perm: &Perm) -> (Perm, Vec<i64>) {
    let missing = perm.rank() - rank;
    let inverse = perm.inverse();
    let is_own = |axis: &usize| inverse.axis(*axis) >= missing;
    let order = (0..perm.rank()).filter(is_own).map(|axis| inverse.axis(axis) - missing).collect();
    let places = (0..perm.rank()).filter(|axis| !is_own(axis));
    (order, places.filter_map(|axis| i64::try_from(axis).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_of_channels_gets_axes_for_the_image() {
        assert_eq!(spread(1, &Perm::from([0, 2, 3, 1])), (Perm::from([0]), vec![0, 2, 3]));
        assert_eq!(spread(2, &Perm::from([1, 2, 0])), (Perm::from([1, 0]), vec![1]));
    }
}
