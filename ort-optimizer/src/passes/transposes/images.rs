//! Operators on images, whose channels stand before or behind the pixels.

use ort_graph::{Attr, Fact};
use ort_tensor::DType;

use super::perm::Perm;
use super::turn::{Place, Turn};

/// The order in which images `[N, C, …]` are stored as `[N, …, C]`.
pub(super) fn channels_last(rank: usize) -> Perm {
    let axis = |axis: usize| match axis {
        0 => 0,
        1 => rank - 1,
        axis => axis - 1,
    };
    (0..rank).map(axis).collect()
}

const FIRST: fn(usize) -> bool = |input| input == 0;

/// QLinearAveragePool and QLinearGlobalAveragePool have both forms.
pub(super) fn pool(place: &Place<'_>) -> Option<Turn> {
    let last = channels_last(place.perm.rank());
    let (is_last, expected) = match place.int("channels_last", 0)? {
        0 => (1, last),
        _ => (0, last.inverse()),
    };
    let turn = (*place.perm == expected).then(|| place.alike(FIRST))??;
    Some(turn.attr("channels_last", Attr::Int(is_last)))
}

/// MaxPool of bytes becomes NhwcMaxPool, where operators of com.microsoft may come in.
pub(super) fn max_pool(place: &Place<'_>) -> Option<Turn> {
    let is_byte = place.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte);
    let has_indices = place.node.outputs.iter().skip(1).any(Option::is_some);
    let is_image = *place.perm == channels_last(place.perm.rank());
    if !(place.is_layout_phase && is_byte && is_image) || has_indices {
        return None;
    }
    let mut turn = place.alike(FIRST)?;
    let attrs = place.node.attrs.iter().filter(|(name, _)| *name != "storage_order");
    turn.attrs = attrs.map(|(name, attr)| (name.to_owned(), attr.clone())).collect();
    turn.operator = Some(("com.microsoft", "NhwcMaxPool", 1));
    Some(turn)
}
