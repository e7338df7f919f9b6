//! Orders of axes, as the attribute `perm` of a Transpose gives them.

use ort_graph::{Attr, Attrs, Node};
use smallvec::SmallVec;

/// An order of axes: axis `i` of the result is axis `self[i]` of the source.
///
/// Where a value `v` is stored as `v'` with `v = Transpose(v', perm)`, axis `a` of `v` is axis
/// `self.axis(a)` of `v'`; that is how `perm` describes the layout of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Perm(SmallVec<[usize; 6]>);

impl Perm {
    /// The order that changes nothing.
    pub(super) fn identity(rank: usize) -> Self {
        Self((0..rank).collect())
    }

    /// What a Transpose of a tensor of this rank does.
    pub(super) fn of(node: &Node, rank: Option<usize>) -> Option<Self> {
        let Some(attr) = node.attrs.get("perm") else { return Some((0..rank?).rev().collect()) };
        let Attr::Ints(axes) = attr else { return None };
        axes.iter().map(|&axis| usize::try_from(axis).ok()).collect()
    }

    pub(super) fn rank(&self) -> usize {
        self.0.len()
    }

    /// Which axis becomes axis `axis`.
    pub(super) fn axis(&self, axis: usize) -> usize {
        self.0[axis]
    }

    pub(super) fn is_identity(&self) -> bool {
        self.keeps_order(0..self.rank())
    }

    /// The order that undoes this one.
    pub(super) fn inverse(&self) -> Self {
        let mut axes: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.rank());
        self.0.iter().enumerate().for_each(|(to, &from)| axes[from] = to);
        Self(axes)
    }

    /// This order and then another one.
    pub(super) fn then(&self, next: &Perm) -> Self {
        Self(next.of_list(&self.0).into())
    }

    /// Entries of the axes of the source, in the order of the result.
    pub(super) fn of_list<T: Clone>(&self, entries: &[T]) -> Vec<T> {
        self.0.iter().map(|&axis| entries[axis].clone()).collect()
    }

    /// Whether axes, given in ascending order, keep their order.
    pub(super) fn keeps_order(&self, axes: impl IntoIterator<Item = usize>) -> bool {
        axes.into_iter().map(|axis| self.0[axis]).is_sorted()
    }

    /// Whether all axes of more than one element (`is_one` of the source's axes) keep their order, so that no data
    /// moves.
    pub(super) fn moves_nothing(&self, is_one: impl Fn(usize) -> bool) -> bool {
        self.0.iter().filter(|&&axis| !is_one(axis)).is_sorted()
    }

    /// The order without these axes of the result, on both sides.
    pub(super) fn without(&self, gone: &[usize]) -> Self {
        let gone_before: SmallVec<[usize; 6]> = gone.iter().map(|&axis| self.0[axis]).collect();
        let rest = self.0.iter().enumerate().filter(|(axis, _)| !gone.contains(axis));
        let renumbered =
            rest.map(|(_, &from)| from - gone_before.iter().filter(|&&axis| axis < from).count());
        Self(renumbered.collect())
    }

    /// The order with these axes, in ascending order, added at the same positions on both sides.
    pub(super) fn with(&self, added: &[usize]) -> Self {
        let rank = self.rank() + added.len();
        let mut places = (0..rank).filter(|axis| !added.contains(axis));
        let places: SmallVec<[usize; 6]> = places.by_ref().collect();
        let mut old = self.0.iter();
        let axis = |axis| match added.contains(&axis) {
            true => axis,
            false => old.next().map_or(axis, |&from| places[from]),
        };
        Self((0..rank).map(axis).collect())
    }

    /// The order for a value with more leading axes, which do not move.
    pub(super) fn widened(&self, rank: usize) -> Self {
        self.with(&(0..rank.saturating_sub(self.rank())).collect::<Vec<_>>())
    }

    /// The order of the last axes alone, if they stay last.
    pub(super) fn narrowed(&self, rank: usize) -> Option<Self> {
        let front: Vec<usize> = (0..self.rank().checked_sub(rank)?).collect();
        let is_fixed = front.iter().all(|&axis| self.0[axis] < front.len());
        is_fixed.then(|| self.without(&front))
    }

    /// The attributes of a Transpose that does this.
    pub(super) fn attrs(&self) -> Attrs {
        Attrs::new().with("perm", Attr::Ints(self.ints()))
    }

    /// The axes as numbers of a tensor.
    pub(super) fn ints(&self) -> Vec<i64> {
        self.0.iter().filter_map(|&axis| i64::try_from(axis).ok()).collect()
    }
}

impl<const N: usize> From<[usize; N]> for Perm {
    fn from(axes: [usize; N]) -> Self {
        Self(axes.as_slice().into())
    }
}

impl FromIterator<usize> for Perm {
    fn from_iter<I: IntoIterator<Item = usize>>(axes: I) -> Self {
        Self(axes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_and_its_inverse_change_nothing() {
        let perm = Perm::from([2, 0, 3, 1]);
        assert_eq!(perm.inverse(), Perm::from([1, 3, 0, 2]));
        assert!(perm.then(&perm.inverse()).is_identity());
        assert_eq!(perm.of_list(&["a", "b", "c", "d"]), ["c", "a", "d", "b"]);
        assert_eq!(perm.then(&Perm::from([3, 2, 1, 0])), Perm::from([1, 3, 0, 2]));
    }

    #[test]
    fn axes_come_and_go_on_both_sides() {
        let perm = Perm::from([2, 0, 3, 1]);
        assert_eq!(perm.without(&[1]), Perm::from([1, 2, 0]));
        assert_eq!(perm.without(&[0, 2]), Perm::from([0, 1]));
        assert_eq!(Perm::from([1, 0]).with(&[1]), Perm::from([2, 1, 0]));
        for added in [&[0][..], &[2, 4], &[0, 1]] {
            assert_eq!(perm.with(added).without(added), perm);
        }
        assert_eq!(Perm::from([1, 0]).widened(3), Perm::from([0, 2, 1]));
        assert_eq!(Perm::from([1, 0, 3, 2]).narrowed(2), Some(Perm::from([1, 0])));
        assert_eq!(Perm::from([0, 2, 1]).narrowed(1), None);
    }

    #[test]
    fn axes_of_one_element_move_for_free() {
        let perm = Perm::from([0, 2, 3, 1]);
        assert!(perm.moves_nothing(|axis| axis == 1));
        assert!(perm.moves_nothing(|axis| axis >= 2));
        assert!(!perm.moves_nothing(|axis| axis == 2));
    }
}
