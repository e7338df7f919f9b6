//! Upsample in NCHWc: images are enlarged by whole factors.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use super::detour;
use crate::ops::resize::{Coordinates, NearestMode, Resize, ResizeMode};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft.nchwc",
    name: "Upsample",
    versions: (1, 1),
    types: is_allowed,
    build: Upsample::build,
}];

/// Upsample in NCHWc. `x`: `[N, C, H, W]` f32, in NCHWc; `y`: `[N, C, H·s, W·t]` likewise. The
/// nearest element is the lower one.
///
/// Source: com.microsoft.nchwc, Upsample-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq)]
pub struct Upsample {
    /// The same operator in NCHW.
    pub plain: Resize,
    /// The block size, if stated.
    pub block_size: Option<usize>,
}

impl Upsample {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (mode, coordinates) = (read_mode(spec)?, read_coordinates(spec)?);
        let plain = Resize::by(read_scales(spec)?, mode, coordinates);
        Ok(Arc::new(Self { plain, block_size: detour::read_block_size(spec)? }))
    }
}

/// One factor per axis, those of images and channels 1.
fn read_scales(spec: &NodeSpec<'_>) -> Result<Vec<f32>, OpError> {
    // bounded: a constant
    let Some(scales) = spec.ints("scales")? else { return Ok(vec![1.0; 4]) };
    match *scales {
        // Exact in float32 up to 2²⁴.
        [1, 1, s, t] if [s, t].iter().all(|scale| (1..1 << 24).contains(scale)) => {
            Ok(vec![1.0, 1.0, s as f32, t as f32])
        }
        _ => Err(OpError::AttributeValue { name: "scales", found: format!("{scales:?}") }),
    }
}

fn read_mode(spec: &NodeSpec<'_>) -> Result<ResizeMode, OpError> {
    match spec.string("mode")? {
        None | Some("nearest") => Ok(ResizeMode::Nearest(NearestMode::Floor)),
        Some("linear") => Ok(ResizeMode::Linear),
        Some(found) => Err(OpError::AttributeValue { name: "mode", found: found.to_owned() }),
    }
}

fn read_coordinates(spec: &NodeSpec<'_>) -> Result<Coordinates, OpError> {
    const NAME: &str = "coordinate_transformation_mode";
    match spec.string(NAME)? {
        None | Some("asymmetric") => Ok(Coordinates::Asymmetric),
        Some("align_corners") => Ok(Coordinates::AlignCorners),
        Some("half_pixel") => Ok(Coordinates::HalfPixel),
        Some(found) => Err(OpError::AttributeValue { name: NAME, found: found.to_owned() }),
    }
}

impl Operator for Upsample {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        self.plain.infer(inputs)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        detour::compute(&self.plain, self.block_size, inputs, &mut outputs[0])
    }
}

fn is_allowed(dtype: DType) -> bool {
    dtype == DType::F32
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::blocked::blocked;
    use crate::case::{Case, tensor};

    fn upsample(mode: &str, coordinates: &str) -> Case {
        let text = |text: &str| Attr::String(text.to_owned());
        let case = Case::new("Upsample", 1).domain("com.microsoft.nchwc");
        let case = case.attr("scales", Attr::Ints(vec![1, 1, 2, 3]));
        let case = case.attr("coordinate_transformation_mode", text(coordinates));
        case.attr("mode", text(mode)).attr("block_size", Attr::Int(2))
    }

    #[test]
    fn every_mode_gives_what_resize_gives() {
        let x: Vec<f32> = (0..2 * 3 * 4).map(|i| (i * 5 % 11) as f32).collect();
        let x = tensor(&[1, 2, 3, 4], &x);
        let scales = tensor(&[4], &[1_f32, 1.0, 2.0, 3.0]);
        for mode in ["nearest", "linear"] {
            for coordinates in ["asymmetric", "align_corners", "half_pixel"] {
                let text = |text: &str| Attr::String(text.to_owned());
                let plain = Case::new("Resize", 13).attr("mode", text(mode));
                let plain = plain.attr("nearest_mode", text("floor"));
                let plain = plain.attr("coordinate_transformation_mode", text(coordinates));
                let y = plain.run_optional(&[Some(x.clone()), None, Some(scales.clone())]);
                let y = y.unwrap()[0].as_tensor().unwrap().clone();
                let in_blocks = |x: &Tensor| blocked(x.view(), 2).unwrap();
                let found = upsample(mode, coordinates).tensor(&[in_blocks(&x)]);
                assert_eq!(found, Ok(in_blocks(&y)), "{mode} {coordinates}");
            }
        }
    }

    #[test]
    fn other_factors_and_modes_are_refused() {
        let x = [tensor(&[1, 2, 1, 1], &[1_f32, 2.0])];
        for scales in [vec![1, 2, 1, 1], vec![1, 1, 0, 1], vec![2, 2]] {
            let case = upsample("linear", "half_pixel").attr("scales", Attr::Ints(scales));
            assert!(case.tensor(&x).is_err());
        }
        assert!(upsample("cubic", "half_pixel").tensor(&x).is_err());
        assert!(upsample("linear", "tf_crop_and_resize").tensor(&x).is_err());
    }
}
