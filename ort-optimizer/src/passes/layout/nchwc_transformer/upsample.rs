//! Resizing by whole factors, which is all that Upsample in NCHWc supports.

use ort_graph::{Attr, Attrs, Graph, Node};
use ort_ops::ops::resize::{AspectRatio, Coordinates, NearestMode, Resize, ResizeMode};

/// The factor of each of four axes, if all are whole numbers and known before a run.
pub(super) fn scales(graph: &Graph, node: &Node) -> Option<[i64; 4]> {
    let resize = node.operator::<Resize>()?;
    let given = |index: usize| {
        let constant = graph.constant((*node.inputs.get(index)?)?)?;
        Some(constant.as_slice::<f32>().ok()?.to_vec()).filter(|scales| !scales.is_empty())
    };
    let scales = match node.attrs.get("scales") {
        Some(Attr::Floats(scales)) => Some(scales.clone()),
        _ if node.since_version < 11 => given(1),
        _ => given(2),
    };
    let scales: Vec<f32> = match scales {
        Some(scales) => scales,
        None => ratios(graph, node, resize.aspect_ratio)?,
    };
    let mut all = [1; 4];
    let axes = resize.axes.clone().unwrap_or_else(|| (0..4).collect());
    if axes.len() != scales.len() {
        return None;
    }
    for (axis, scale) in axes.into_iter().zip(scales) {
        let axis = usize::try_from(if axis < 0 { axis + 4 } else { axis }).ok()?;
        let is_whole = (1.0..=1024.0).contains(&scale) && scale.fract() == 0.0;
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number up to 1024")]
        let factor = is_whole.then_some(scale as i64)?;
        *all.get_mut(axis)? = factor;
    }
    Some(all)
}

/// Sizes of the result by those of the input, if all are known.
fn ratios(graph: &Graph, node: &Node, aspect_ratio: AspectRatio) -> Option<Vec<f32>> {
    let [Some(x), ..] = *node.inputs else { return None };
    let [Some(y), ..] = *node.outputs else { return None };
    let (x, y) = (graph.fact(x).shape()?, graph.fact(y).shape()?);
    let is_whole = x.iter().zip(&y).all(|(&n, &m)| n > 0 && m.is_multiple_of(n));
    let is_plain = aspect_ratio == AspectRatio::Stretch && node.inputs.len() == 4 && x.len() == 4;
    let has_axes = node.attrs.get("axes").is_some();
    (is_whole && is_plain && !has_axes)
        .then(|| x.iter().zip(&y).map(|(&n, &m)| (m / n) as f32).collect())
}

/// The attributes of the equivalent Upsample in NCHWc, with these factors.
pub(super) fn attrs(node: &Node, scales: [i64; 4]) -> Option<Attrs> {
    let resize = node.operator::<Resize>()?;
    let is_plain = !resize.has_antialias && !resize.excludes_outside;
    if !is_plain || scales[0] != 1 || scales[1] != 1 {
        return None;
    }
    let (mode, coordinates) = match resize.mode {
        ResizeMode::Nearest(nearest) if is_floor(nearest, resize.coordinates, scales) => {
            ("nearest", "asymmetric")
        }
        ResizeMode::Linear => match resize.coordinates {
            Coordinates::Asymmetric => ("linear", "asymmetric"),
            Coordinates::AlignCorners => ("linear", "align_corners"),
            Coordinates::HalfPixel => ("linear", "half_pixel"),
            _ => return None,
        },
        _ => return None,
    };
    let text = |text: &str| Attr::String(text.to_owned());
    Some(
        Attrs::new()
            .with("scales", Attr::Ints(scales.to_vec()))
            .with("mode", text(mode))
            .with("coordinate_transformation_mode", text(coordinates)),
    )
}

/// Whether output element `o` is always input element `⌊o/s⌋`. With half a pixel, `(o + ½)/s − ½` is
/// less than half away from that, and never halfway between two.
fn is_floor(nearest: NearestMode, coordinates: Coordinates, scales: [i64; 4]) -> bool {
    match (coordinates, nearest) {
        (Coordinates::Asymmetric, NearestMode::Floor | NearestMode::Simple) => true,
        // At most halves.
        (Coordinates::Asymmetric, NearestMode::RoundPreferFloor) => {
            scales.iter().all(|&scale| scale <= 2)
        }
        (Coordinates::HalfPixel, NearestMode::RoundPreferFloor | NearestMode::RoundPreferCeil) => {
            true
        }
        _ => false,
    }
}
