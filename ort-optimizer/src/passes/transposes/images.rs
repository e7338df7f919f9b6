//! Operators on images, in NCHW or NHWC.

use ort_graph::{Attr, Fact};
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_tensor::DType;

use super::cost::n_bytes;
use super::form::{Place, TransposedNode};
use super::perm::Perm;

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
pub(super) fn pool(place: &Place<'_>) -> Option<TransposedNode> {
    let last = channels_last(place.perm.rank());
    let (is_last, expected) = match place.int("channels_last", 0)? {
        0 => (1, last),
        _ => (0, last.inverse()),
    };
    let form = (*place.perm == expected).then(|| place.alike(FIRST))??;
    Some(form.attr("channels_last", Attr::Int(is_last)))
}

/// How many products of bytes an NHWC convolution saves in the time in which a Transpose moves a byte: it computes
/// 160 per nanosecond (AVX-512 VNNI), an NCHW one 90.
const PRODUCTS_A_BYTE: u64 = 256;

/// The bytes that a Transpose moves in the time which a depthwise NHWC convolution saves, for each byte of its result: 7
/// for 3×3 taps of 56×56 pixels with 48 channels (115 µs in NCHW, 29 µs in NHWC, and 12 µs to move the result; AVX-512
/// VNNI), and more for smaller images. Those of one tap gain nothing.
const DEPTHWISE_GAIN: u64 = 2;

/// Whether a node may be NHWC.
fn may_be_nhwc(place: &Place<'_>) -> bool {
    place.may_use_nhwc && *place.perm == channels_last(place.perm.rank())
}

/// Whether a node should be NHWC without an adjacent Transpose.
fn should_be_nhwc(place: &Place<'_>) -> bool {
    may_be_nhwc(place) && place.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte)
}

/// QLinearConv of one group, or of one channel per filter. With other groups, each product is small, and NCHW is
/// faster.
pub(super) fn conv(place: &Place<'_>) -> Option<TransposedNode> {
    let weights = place.graph.constant(place.input(3)?)?.shape();
    let filters = i64::try_from(*weights.first()?).ok()?;
    let is_depthwise = |group| group == filters && weights.get(1) == Some(&1);
    let group = place.int("group", 1)?;
    let is_suited = group == 1 || is_depthwise(group);
    let is_first = place.int("channels_last", 0)? == 0;
    (is_suited && is_first && should_be_nhwc(place)).then_some(())?;
    let mut form = place.alike(FIRST)?.attr("channels_last", Attr::Int(1));
    form.operator = Some(("com.microsoft", "QLinearConv", 1));
    let products = u64::try_from(weights.get(1..)?.iter().product::<usize>()).ok()?;
    let n_bytes = n_bytes(place.output(0)?);
    form.gain = match group {
        1 => n_bytes.saturating_mul(products) / PRODUCTS_A_BYTE,
        _ if products == 1 => 0,
        _ => n_bytes.saturating_mul(DEPTHWISE_GAIN),
    };
    Some(form)
}

/// MaxPool of bytes becomes NhwcMaxPool, which processes all channels of a pixel at once: that saves about as much as
/// moving them costs.
pub(super) fn max_pool(place: &Place<'_>) -> Option<TransposedNode> {
    let has_indices = place.node.outputs.iter().skip(1).any(Option::is_some);
    (should_be_nhwc(place) && !has_indices).then_some(())?;
    let mut form = place.alike(FIRST)?;
    let attrs = place.node.attrs.iter().filter(|(name, _)| *name != "storage_order");
    form.attrs = attrs.map(|(name, attr)| (name.to_owned(), attr.clone())).collect();
    form.operator = Some(("com.microsoft", "NhwcMaxPool", 1));
    form.gain = n_bytes(place.fact(0)?);
    Some(form)
}

/// BatchNormalization that is not training: as fast in either order.
pub(super) fn batch_norm(place: &Place<'_>) -> Option<TransposedNode> {
    let norm = place.node.operator::<BatchNormalization>()?;
    let is_given = !norm.is_training && place.node.outputs.len() == 1;
    (is_given && may_be_nhwc(place)).then_some(())?;
    let mut form = place.since(9)?.alike(FIRST)?;
    form.operator = Some(("com.ms.internal.nhwc", "BatchNormalization", place.node.since_version));
    Some(form)
}
