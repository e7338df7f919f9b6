//! Reshape, if the axes that it merges stay together; those that it splits may move anywhere.

use std::ops::Range;

use ort_graph::{Attrs, Dim};
use ort_tensor::DType;

use super::form::{Operand, Place, Side, TransposedNode, numbers};
use super::perm::Perm;
use super::versions;

/// Axes before and after the Reshape that cover the same elements.
type Group = [Range<usize>; 2];

/// Reshape, and Flatten, which becomes one.
pub(super) fn reshape(place: &Place<'_>) -> Option<TransposedNode> {
    let (from, to) = (place.fact(0)?.dims()?, place.output(0)?.dims()?);
    let is_flatten = place.node.op_type == "Flatten";
    if !is_flatten {
        place.since(5)?;
    }
    // The operand of a known order may be the shape.
    let rank = if matches!(place.side, Side::Input(_)) { from.len() } else { to.len() };
    (rank == place.perm.rank()).then_some(())?;
    let groups = groups(from, to)?;
    let (before, after) = match place.side {
        Side::Input(_) => (place.perm.clone(), across((place.perm, from), &groups, [0, 1])?),
        Side::Output(_) => (across((place.perm, to), &groups, [1, 0])?, place.perm.clone()),
    };
    let may_copy = place.int("allowzero", 0)? == 0;
    let stored = |dims: &[Dim], perm: &Perm| perm.inverse().of_list(dims);
    let shape = target(&stored(from, &before), &stored(to, &after), may_copy)?;
    let mut form = place.changing_rank(|input| input == 0, &before, &after)?;
    if is_flatten {
        form.attrs = Attrs::new();
        form.operator = Some(("", "Reshape", versions::reshape(place.node.since_version)));
    }
    Some(form.reads(1, Operand::Constant(numbers(DType::I64, &shape)?)))
}

/// The shape operand that turns `from` into `to`: one dimension may be inferred, other unknown ones must keep their
/// position. None of them may be 0.
pub(super) fn target(from: &[Dim], to: &[Dim], may_copy: bool) -> Option<Vec<i64>> {
    let mut is_inferred = false;
    let entry = |(axis, dim): (usize, &Dim)| match dim.known() {
        Some(0) => None,
        Some(n) => i64::try_from(n).ok(),
        None if may_copy && from.get(axis).is_some_and(|before| before.equals(dim)) => Some(0),
        None => (!std::mem::replace(&mut is_inferred, true)).then_some(-1),
    };
    to.iter().enumerate().map(entry).collect()
}

/// The smallest groups, each with axes on both sides.
fn groups(from: &[Dim], to: &[Dim]) -> Option<Vec<Group>> {
    let (mut groups, mut ends) = (Vec::new(), [0, 0]);
    while ends[0] < from.len() && ends[1] < to.len() {
        let starts = ends;
        ends = [starts[0] + 1, starts[1] + 1];
        if !from[starts[0]].equals(&to[starts[1]]) {
            let (mut before, mut after) = (from[starts[0]].known()?, to[starts[1]].known()?);
            while before != after {
                let (product, dims, end) = match before < after {
                    true => (&mut before, from, &mut ends[0]),
                    false => (&mut after, to, &mut ends[1]),
                };
                *product = product.checked_mul(dims.get(*end)?.known()?)?;
                *end += 1;
            }
        }
        groups.push([starts[0]..ends[0], starts[1]..ends[1]]);
    }
    let rest = from[ends[0]..].iter().chain(&to[ends[1]..]);
    rest.clone().all(|dim| *dim == Dim::Known(1)).then_some(())?;
    let [before, after] = groups.last_mut()?;
    (before.end, after.end) = (from.len(), to.len());
    Some(groups)
}

/// The order on the other side: the groups are in the order of `perm`. The axes of each must stay together in order;
/// those of one element do not matter.
fn across(
    (perm, dims): (&Perm, &[Dim]),
    groups: &[Group],
    [near, far]: [usize; 2],
) -> Option<Perm> {
    // For each group the positions of its axes of more than one element.
    let places = groups.iter().map(|group| {
        let several = group[near].clone().filter(|&axis| dims[axis] != Dim::Known(1));
        let places: Vec<usize> = several.map(|axis| perm.axis(axis)).collect();
        (places.first().copied().unwrap_or(perm.axis(group[near].start)), places, group)
    });
    let mut places: Vec<_> = places.collect();
    let inverse = perm.inverse();
    let is_one = |place: usize| dims[inverse.axis(place)] == Dim::Known(1);
    let is_together = |places: &[usize]| {
        places.windows(2).all(|pair| pair[0] < pair[1] && (pair[0] + 1..pair[1]).all(is_one))
    };
    places.iter().all(|(_, places, _)| is_together(places)).then_some(())?;
    places.sort_by_key(|(first, ..)| *first);
    let axes: Perm = places.into_iter().flat_map(|(_, _, group)| group[far].clone()).collect();
    Some(axes.inverse())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims<const N: usize>(dims: [&str; N]) -> Vec<Dim> {
        let dim = |word: &str| word.parse().map_or(Dim::Symbol(word.into()), Dim::Known);
        dims.into_iter().map(dim).collect()
    }

    #[test]
    fn axes_are_grouped_as_far_as_they_are_known() {
        let found = |from: &[Dim], to: &[Dim]| groups(from, to);
        let (a, b) = (dims(["n", "4", "6"]), dims(["n", "2", "2", "6"]));
        assert_eq!(found(&a, &b), Some(vec![[0..1, 0..1], [1..2, 1..3], [2..3, 3..4]]));
        assert_eq!(found(&b, &a), Some(vec![[0..1, 0..1], [1..3, 1..2], [3..4, 2..3]]));
        let (a, b) = (dims(["4", "6", "1"]), dims(["1", "3", "8"]));
        assert_eq!(found(&a, &b), Some(vec![[0..3, 0..3]]));
        for (from, to) in [(["n", "4"], ["m", "4"]), (["2", "3"], ["2", "4"])] {
            assert_eq!(found(&dims(from), &dims(to)), None);
        }
    }

    #[test]
    fn groups_move_as_a_whole() {
        let groups = [[0..1, 0..2], [1..3, 2..3]];
        let (perm, dims) = (Perm::from([2, 0, 1]), dims(["2", "2", "2"]));
        assert_eq!(across((&perm, &dims), &groups, [0, 1]), Some(Perm::from([1, 2, 0])));
        assert_eq!(across((&Perm::from([1, 2, 0]), &dims), &groups, [1, 0]), Some(perm));
        assert_eq!(across((&Perm::from([0, 2, 1]), &dims), &groups, [0, 1]), None);
    }

    #[test]
    fn one_dimension_is_inferred_and_others_copied() {
        let (from, to) = (dims(["n", "m", "6"]), dims(["n", "2", "3", "m"]));
        assert_eq!(target(&from, &to, true), Some(vec![0, 2, 3, -1]));
        assert_eq!(target(&from, &to, false), None);
    }
}
