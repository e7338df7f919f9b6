//! BatchNormalization of images whose channels are the last dimension.

use super::{Body, Call};
use crate::pass::Refusal;

/// The operator of ai.onnx between two Transposes.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let rank = call.dims(0).map(<[_]>::len).filter(|&rank| rank > 1);
    let rank = rank.ok_or(Refusal("its rank is not known"))?;
    // bounded: by the rank
    let (mut first, mut last): (Vec<_>, Vec<_>) = ((0..rank).collect(), (0..rank).collect());
    first[1..].rotate_right(1);
    last[1..].rotate_left(1);
    let (version, attrs) = (call.node.since_version, call.attrs());
    let mut body = Body::new(&["x", "scale", "b", "mean", "variance"], &["y"]);
    body.add(format!(
        "first = Transpose-13 [perm: {first:?}] (x)
         normal = BatchNormalization-{version} {attrs} (first, scale, b, mean, variance)
         y = Transpose-13 [perm: {last:?}] (normal)"
    ));
    Ok(body)
}
