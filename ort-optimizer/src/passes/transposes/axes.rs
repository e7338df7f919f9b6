//! Operators along axes that they name.

use ort_graph::Attr;
use ort_ops::infer::{normalize_axes, normalize_axis};
use ort_tensor::DType;

use super::form::{Operand, Place, Side, TransposedNode, numbers};
use super::perm::Perm;

const FIRST: fn(usize) -> bool = |input| input == 0;

/// The stored position of an axis, as a number.
fn stored(perm: &Perm, axis: usize) -> Option<i64> {
    i64::try_from(perm.axis(axis)).ok()
}

/// Along the one axis of the attribute.
pub(super) fn along(
    place: &Place<'_>,
    is_data: fn(usize) -> bool,
    default: i64,
) -> Option<TransposedNode> {
    let axis = normalize_axis(place.int("axis", default)?, place.perm.rank()).ok()?;
    Some(place.alike(is_data)?.attr("axis", Attr::Int(stored(place.perm, axis)?)))
}

/// The same for operators that read whole lanes: these should be contiguous.
pub(super) fn lanes(place: &Place<'_>, default: i64) -> Option<TransposedNode> {
    let last = place.perm.rank().checked_sub(1)?;
    let axis = normalize_axis(place.int("axis", default)?, place.perm.rank()).ok()?;
    let is_strided = axis == last && place.perm.axis(last) != last;
    Some(along(place, FIRST, default)?.slower_if(place, is_strided))
}

/// QuantizeLinear and DequantizeLinear, with one scale, or one for each index of an axis.
pub(super) fn quantize(place: &Place<'_>) -> Option<TransposedNode> {
    if place.int("block_size", 0)? != 0 {
        return None;
    }
    match place.rank(1)? {
        0 => place.alike(FIRST),
        1 if place.is_single(1) => place.alike(FIRST),
        1 => along(place, FIRST, 1),
        _ => None,
    }
}

/// Orders for an operator that removes these axes of its operand.
fn removing(place: &Place<'_>, axes: &[usize]) -> Option<(Perm, Perm)> {
    match place.side {
        // The operand of a known order may be the list of axes.
        Side::Input(_) if place.rank(0)? != place.perm.rank() => None,
        Side::Input(_) => Some((place.perm.clone(), place.perm.without(axes))),
        Side::Output(_) => Some((place.perm.with(axes), place.perm.clone())),
    }
}

/// ArgMax and ArgMin.
pub(super) fn arg(place: &Place<'_>) -> Option<TransposedNode> {
    let rank = place.rank(0)?;
    let axis = normalize_axis(place.int("axis", 0)?, rank).ok()?;
    let (from, to) = match place.int("keepdims", 1)? {
        0 => removing(place, &[axis])?,
        _ => (place.perm.clone(), place.perm.clone()),
    };
    (from.rank() == rank).then_some(())?;
    let is_strided = axis + 1 == rank && from.axis(axis) != axis;
    let form = place.changing_rank(FIRST, &from, &to)?;
    Some(form.attr("axis", Attr::Int(stored(&from, axis)?)).slower_if(place, is_strided))
}

/// Whether a Reduce gives the same bits in any order of elements.
pub(super) fn is_order_free(place: &Place<'_>) -> bool {
    place.fact(0).and_then(ort_graph::Fact::dtype).is_some_and(|dtype| dtype.is_integer())
}

/// Whether the order of additions shows: plain evaluation adds adjacent elements in another order than distant ones. It
/// accumulates narrower floats in f64, and rounds once.
fn shows_order(place: &Place<'_>) -> bool {
    place.fact(0).and_then(ort_graph::Fact::dtype) == Some(DType::F64)
}

/// The Reduce family. Unless the order of the elements is free, the order of the axes must not change; and adjacent
/// axes should remain adjacent.
pub(super) fn reduce(place: &Place<'_>, is_free: fn(&Place<'_>) -> bool) -> Option<TransposedNode> {
    let rank = place.rank(0)?;
    let given = place.list("axes", 1)?.filter(|axes| !axes.is_empty());
    let axes = match &given {
        Some(axes) => normalize_axes(axes, rank).ok()?,
        None if place.int("noop_with_empty_axes", 0)? != 0 => return place.alike(FIRST),
        None => (0..rank).collect(),
    };
    let (from, to) = match place.int("keepdims", 1)? {
        0 => removing(place, &axes)?,
        _ => (place.perm.clone(), place.perm.clone()),
    };
    (from.rank() == rank).then_some(())?;
    let mut moved: Vec<usize> = axes.iter().map(|&axis| from.axis(axis)).collect();
    let mut before = axes;
    before.sort_unstable();
    let keeps_order = from.keeps_order(before.iter().copied()) && !shows_order(place);
    if !is_free(place) && !keeps_order {
        return None;
    }
    let mut form = place.changing_rank(FIRST, &from, &to)?;
    if given.is_some() {
        let axes: Option<Vec<i64>> = moved.iter().map(|&axis| i64::try_from(axis).ok()).collect();
        form = form.list(place, "axes", 1, &axes?)?;
    }
    moved.sort_unstable();
    let are_neighbours = |axes: &[usize]| axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    Some(form.slower_if(place, are_neighbours(&before) && !are_neighbours(&moved)))
}

/// The stored positions of all axes.
fn all_stored(perm: &Perm, axes: &[usize]) -> Option<Vec<i64>> {
    axes.iter().map(|&axis| stored(perm, axis)).collect()
}

/// Squeeze: without a list, every axis of one element is removed, so that all must be known.
pub(super) fn squeeze(place: &Place<'_>) -> Option<TransposedNode> {
    let dims = place.fact(0)?.dims()?;
    let given = place.list("axes", 1)?;
    let axes = match &given {
        Some(axes) => normalize_axes(axes, dims.len()).ok()?,
        None => {
            let known: Option<Vec<usize>> = dims.iter().map(|dim| dim.known()).collect();
            let known = known?.into_iter().enumerate();
            known.filter(|&(_, n)| n == 1).map(|(axis, _)| axis).collect()
        }
    };
    let (from, to) = removing(place, &axes)?;
    let form = place.changing_rank(FIRST, &from, &to)?;
    match given {
        Some(_) => form.list(place, "axes", 1, &all_stored(&from, &axes)?),
        None => Some(form),
    }
}

pub(super) fn unsqueeze(place: &Place<'_>) -> Option<TransposedNode> {
    let given = place.list("axes", 1)??;
    let axes = normalize_axes(&given, place.rank(0)? + given.len()).ok()?;
    let mut rising = axes.clone();
    rising.sort_unstable();
    let (from, to) = match place.side {
        Side::Input(_) => (place.perm.clone(), place.perm.with(&rising)),
        Side::Output(_) if rising.last().is_none_or(|&last| last < place.perm.rank()) => {
            (place.perm.without(&rising), place.perm.clone())
        }
        Side::Output(_) => return None,
    };
    let form = place.changing_rank(FIRST, &from, &to)?;
    form.list(place, "axes", 1, &all_stored(&to, &axes)?)
}

/// Gather by a scalar, which removes the axis, or by a list.
pub(super) fn gather(place: &Place<'_>) -> Option<TransposedNode> {
    let axis = normalize_axis(place.int("axis", 0)?, place.rank(0)?).ok()?;
    let (from, to) = match place.rank(1)? {
        0 => removing(place, &[axis])?,
        1 => (place.perm.clone(), place.perm.clone()),
        _ => return None,
    };
    let form = place.changing_rank(FIRST, &from, &to)?;
    Some(form.attr("axis", Attr::Int(stored(&from, axis)?)))
}

/// Operators of all axes from `axis` on: those must not move.
pub(super) fn trailing(place: &Place<'_>, axis: i64) -> Option<TransposedNode> {
    let axis = normalize_axis(axis, place.perm.rank()).ok()?;
    let is_fixed = (axis..place.perm.rank()).all(|axis| place.perm.axis(axis) == axis);
    let is_single =
        place.node.outputs.iter().skip(1).flatten().all(|&output| !place.graph.is_used(output));
    (is_fixed && is_single).then(|| place.alike(FIRST))?
}

/// The same for operators whose further operands are broadcast: these must have no axes before `axis`.
pub(super) fn trailing_operands(place: &Place<'_>, axis: i64) -> Option<TransposedNode> {
    let rank = place.perm.rank();
    let n_trailing = rank - normalize_axis(axis, rank).ok()?;
    let mut others = (1..place.node.inputs.len()).filter(|&input| place.input(input).is_some());
    let are_within = others.all(|input| place.rank(input).is_some_and(|rank| rank <= n_trailing));
    are_within.then(|| trailing(place, axis))?
}

/// MatMul with a matrix: the rows of the first operand are independent.
pub(super) fn rows(place: &Place<'_>) -> Option<TransposedNode> {
    (place.rank(1)? == 2).then(|| trailing(place, -1))?
}

/// A list of axes as input `index`, int64 or int32.
pub(super) fn axes_operand(place: &Place<'_>, like: usize, axes: &[i64]) -> Option<Operand> {
    Some(Operand::Constant(numbers(place.fact(like)?.dtype()?, axes)?))
}
