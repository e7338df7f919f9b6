//! CenterCropPad.

use ort_ops::ops::center_crop_pad::CenterCropPad;

use super::{Body, Call};
use crate::pass::Refusal;

/// The middle is cut out, and zeros are added around it.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let crop: &CenterCropPad = call.node.operator().ok_or(Refusal("it crops nothing"))?;
    let mut body = Body::new(&["x", "lengths"], &["y"]);
    body.add("dims = Shape-13 (x)");
    body.add(match &crop.axes {
        Some(axes) => format!(
            "axes = const int64[{}] {axes:?}
             n = Gather-13 (dims, axes)",
            axes.len()
        ),
        None => "n = Identity-13 (dims)".to_owned(),
    });
    body.add(
        "m = Cast-13 [to: 7] (lengths)
         two = const int64[1] [2]
         kept = Min-13 (n, m)
         spare = Sub-14 (n, kept)
         start = Div-14 (spare, two)
         end = Add-14 (start, kept)
         lacking = Sub-14 (m, kept)
         before = Div-14 (lacking, two)
         behind = Sub-14 (lacking, before)
         pads = Concat-13 [axis: 0] (before, behind)",
    );
    body.add(match crop.axes {
        Some(_) => {
            "middle = Slice-13 (x, start, end, axes)
             y = Pad-18 (middle, pads, _, axes)"
        }
        None => {
            "middle = Slice-13 (x, start, end)
             y = Pad-18 (middle, pads)"
        }
    });
    Ok(body)
}
