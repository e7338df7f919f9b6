//! Operators with a number per axis: lists in the order of the axes.

use ort_graph::Attr;
use ort_ops::infer::normalize_axes;

use super::axes::axes_operand;
use super::broadcast::broadcast;
use super::form::{Operand, Place, Side, TransposedNode};
use super::perm::Perm;

const FIRST: fn(usize) -> bool = |input| input == 0;

/// The stored positions of the axes in a list.
fn stored(perm: &Perm, axes: &[i64]) -> Option<Vec<i64>> {
    let axes = normalize_axes(axes, perm.rank()).ok()?;
    axes.into_iter().map(|axis| i64::try_from(perm.axis(axis)).ok()).collect()
}

/// The entries of a list by axis in the stored order, for `n` concatenated lists.
fn picked(perm: &Perm, n: usize) -> Operand {
    let entry = |of: usize, axis: usize| i64::try_from(of * perm.rank() + axis).ok();
    let inverse = perm.inverse();
    let axes = (0..n).flat_map(|of| (0..perm.rank()).map(move |axis| (of, axis)));
    Operand::Picked(axes.filter_map(|(of, axis)| entry(of, inverse.axis(axis))).collect())
}

/// An input that is a list by axis, or is absent or empty.
fn picks(
    form: TransposedNode,
    place: &Place<'_>,
    index: usize,
    n: usize,
) -> Option<TransposedNode> {
    let Some(fact) = place.fact(index) else { return Some(form) };
    match fact.dims()? {
        [len] if len.known() == Some(0) => Some(form),
        [len] if len.known() == Some(n * place.perm.rank()) => {
            Some(form.reads(index, picked(place.perm, n)))
        }
        _ => None,
    }
}

/// One list by axis: input `index`.
pub(super) fn by_axis(place: &Place<'_>, index: usize) -> Option<TransposedNode> {
    picks(place.alike(FIRST)?, place, index, 1)
}

/// Slice: without axes its lists are for the first of them.
pub(super) fn slice(place: &Place<'_>) -> Option<TransposedNode> {
    let form = place.alike(FIRST)?;
    let axes = |n: usize| (0..).take(n).collect::<Vec<i64>>();
    if place.node.since_version < 10 {
        let n = place.list("starts", 1)??.len();
        let axes = place.list("axes", 3)?.unwrap_or_else(|| axes(n));
        return Some(form.attr("axes", Attr::Ints(stored(place.perm, &axes)?)));
    }
    let n = place.fact(1)?.dims()?.first()?.known()?;
    let axes = place.list("axes", 3)?.unwrap_or_else(|| axes(n));
    Some(form.reads(3, axes_operand(place, 1, &stored(place.perm, &axes)?)?))
}

/// Pad: the padding before each axis, and then after each.
pub(super) fn pad(place: &Place<'_>) -> Option<TransposedNode> {
    let form = place.alike(FIRST)?;
    if place.node.since_version < 11 {
        let Some(Attr::Ints(pads)) = place.node.attrs.get("pads") else { return None };
        let inverse = place.perm.inverse();
        let (before, behind) = pads.split_at_checked(inverse.rank())?;
        let pads = (behind.len() == inverse.rank()).then_some([before, behind])?;
        let pads = pads.map(|pads| inverse.of_list(pads)).concat();
        return Some(form.attr("pads", Attr::Ints(pads)));
    }
    match place.list("axes", 3)? {
        Some(axes) => Some(form.reads(3, axes_operand(place, 3, &stored(place.perm, &axes)?)?)),
        None => picks(form, place, 1, 2),
    }
}

/// Expand: to a shape of as many axes, or of more.
pub(super) fn expand(place: &Place<'_>) -> Option<TransposedNode> {
    let rank = place.output(0)?.rank()?;
    (place.fact(1)?.dims()?.first()?.known()? == rank).then_some(())?;
    let form = broadcast(place, FIRST)?;
    let to = form.outputs.first()?.clone();
    Some(form.reads(1, picked(&to, 1)))
}

/// Resize and Upsample: results stay the same if the order of the resized axes does, and it is only fast for the last
/// ones.
pub(super) fn resize(place: &Place<'_>) -> Option<TransposedNode> {
    let (from, to) = (place.fact(0)?.dims()?, place.output(0)?.dims()?);
    let rank = place.perm.rank();
    let changes =
        |axis: &usize| from.get(*axis).zip(to.get(*axis)).is_none_or(|(a, b)| !a.equals(b));
    let changed: Vec<usize> = (0..rank).filter(changes).collect();
    place.perm.keeps_order(changed.iter().copied()).then_some(())?;
    let form = place.alike(FIRST)?;
    let is_last = |axis: &usize| place.perm.axis(*axis) + 2 >= rank;
    let form = form.slower_if(place, !changed.iter().all(is_last));
    if let Some(Attr::Ints(axes)) = place.node.attrs.get("axes") {
        return Some(form.attr("axes", Attr::Ints(stored(place.perm, axes)?)));
    }
    match (&*place.node.op_type, place.node.since_version) {
        ("Upsample", ..9) => {
            let Some(Attr::Floats(scales)) = place.node.attrs.get("scales") else { return None };
            let scales = (scales.len() == rank).then(|| place.perm.inverse().of_list(scales))?;
            Some(form.attr("scales", Attr::Floats(scales)))
        }
        ("Upsample", _) | (_, ..11) => picks(form, place, 1, 1),
        _ => picks(picks(picks(form, place, 1, 2)?, place, 2, 1)?, place, 3, 1),
    }
}

/// Shape: the requested entries of the stored shape.
pub(super) fn shape(place: &Place<'_>) -> Option<TransposedNode> {
    let Side::Input(_) = place.side else { return None };
    let ints = place.perm.ints();
    let rank = i64::try_from(ints.len()).ok()?;
    let bound = |name, default| {
        let bound = place.int(name, default)?;
        usize::try_from((if bound < 0 { bound + rank } else { bound }).clamp(0, rank)).ok()
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let mut form = place.changing_rank(FIRST, place.perm, &Perm::identity(1))?;
    form.attrs = ort_graph::Attrs::new();
    form.picks = Some(ints.get(start..end.max(start))?.to_vec());
    Some(form)
}
