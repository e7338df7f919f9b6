//! The attributes of Resize and how they are read.

use ort_graph::{NodeSpec, OpError};

use super::{Resize, Scales};

/// The interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResizeMode {
    /// The nearest element.
    Nearest(NearestMode),
    /// A mean of two, weighted by their distance.
    Linear,
    /// A sum of four, weighted by a cubic function of their distance.
    Cubic {
        /// The coefficient of the function.
        a: f32,
    },
}

/// Which neighbour is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestMode {
    /// The nearest, the lower of two.
    RoundPreferFloor,
    /// The nearest, the higher of two.
    RoundPreferCeil,
    /// The lower.
    Floor,
    /// The higher.
    Ceil,
    /// The lower when the axis grows, the higher when it shrinks (before version 11).
    Simple,
}

/// The input coordinate of output element `o` of an axis: `n` elements become `m`, `l = n·scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `(o + ½)/scale − ½`.
    HalfPixel,
    /// `(o + ½)/scale − ½ + n/2·(1 − m/l)`.
    HalfPixelSymmetric,
    /// As half a pixel, but 0 if there is one element.
    PytorchHalfPixel,
    /// `o·(n − 1)/(l − 1)`.
    AlignCorners,
    /// `o/scale`.
    Asymmetric,
    /// `(o + ½)/scale`.
    TfHalfPixelForNn,
    /// `start·(n − 1) + o·(end − start)·(n − 1)/(m − 1)`.
    TfCropAndResize,
}

/// The interpretation of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AspectRatio {
    /// As stated.
    Stretch,
    /// All axes by the smallest scale.
    NotLarger,
    /// All axes by the largest scale.
    NotSmaller,
}

impl AspectRatio {
    /// The scale of all axes, if there is a common one, from lengths and sizes.
    pub(super) fn scale<'a>(self, axes: impl Iterator<Item = (usize, &'a i64)>) -> Option<f32> {
        let scales = axes.map(|(n, &size)| size as f32 / n as f32);
        match self {
            Self::Stretch => None,
            Self::NotLarger => scales.reduce(f32::min),
            Self::NotSmaller => scales.reduce(f32::max),
        }
    }
}

pub(super) fn read(spec: &NodeSpec<'_>, scales: Scales) -> Result<Resize, OpError> {
    let is_old = scales != Scales::Third;
    let mut resize = Resize {
        mode: read_mode(spec, is_old)?,
        coordinates: if is_old { Coordinates::Asymmetric } else { read_coordinates(spec)? },
        axes: None,
        has_antialias: false,
        excludes_outside: false,
        extrapolation_value: 0.0,
        aspect_ratio: AspectRatio::Stretch,
        scales,
    };
    if !is_old {
        resize.excludes_outside = spec.flag("exclude_outside", false)?;
        resize.extrapolation_value = spec.float("extrapolation_value")?.unwrap_or(0.0);
    }
    if spec.since_version >= 18 {
        resize.axes = spec.ints("axes")?.filter(|axes| !axes.is_empty()).map(<[i64]>::to_vec);
        resize.has_antialias = spec.flag("antialias", false)?;
        resize.aspect_ratio = read_aspect_ratio(spec)?;
    }
    if resize.has_antialias && matches!(resize.mode, ResizeMode::Nearest(_)) {
        return Err(OpError::Unsupported { what: "antialias with nearest" });
    }
    Ok(resize)
}

fn read_mode(spec: &NodeSpec<'_>, is_old: bool) -> Result<ResizeMode, OpError> {
    let (nearest, a) = if is_old {
        (NearestMode::Simple, -0.75)
    } else {
        (read_nearest(spec)?, spec.float("cubic_coeff_a")?.unwrap_or(-0.75))
    };
    match spec.string("mode")? {
        None | Some("nearest") => Ok(ResizeMode::Nearest(nearest)),
        Some("linear" | "bilinear") => Ok(ResizeMode::Linear),
        Some("cubic") if !is_old => Ok(ResizeMode::Cubic { a }),
        Some(found) => Err(OpError::AttributeValue { name: "mode", found: found.to_owned() }),
    }
}

fn read_nearest(spec: &NodeSpec<'_>) -> Result<NearestMode, OpError> {
    const NAME: &str = "nearest_mode";
    match spec.string(NAME)? {
        None | Some("round_prefer_floor") => Ok(NearestMode::RoundPreferFloor),
        Some("round_prefer_ceil") => Ok(NearestMode::RoundPreferCeil),
        Some("floor") => Ok(NearestMode::Floor),
        Some("ceil") => Ok(NearestMode::Ceil),
        Some(found) => Err(OpError::AttributeValue { name: NAME, found: found.to_owned() }),
    }
}

fn read_coordinates(spec: &NodeSpec<'_>) -> Result<Coordinates, OpError> {
    const NAME: &str = "coordinate_transformation_mode";
    match spec.string(NAME)? {
        None | Some("half_pixel") => Ok(Coordinates::HalfPixel),
        Some("half_pixel_symmetric") => Ok(Coordinates::HalfPixelSymmetric),
        Some("pytorch_half_pixel") => Ok(Coordinates::PytorchHalfPixel),
        Some("align_corners") => Ok(Coordinates::AlignCorners),
        Some("asymmetric") => Ok(Coordinates::Asymmetric),
        Some("tf_half_pixel_for_nn") => Ok(Coordinates::TfHalfPixelForNn),
        Some("tf_crop_and_resize") => Ok(Coordinates::TfCropAndResize),
        Some(found) => Err(OpError::AttributeValue { name: NAME, found: found.to_owned() }),
    }
}

fn read_aspect_ratio(spec: &NodeSpec<'_>) -> Result<AspectRatio, OpError> {
    const NAME: &str = "keep_aspect_ratio_policy";
    match spec.string(NAME)? {
        None | Some("stretch") => Ok(AspectRatio::Stretch),
        Some("not_larger") => Ok(AspectRatio::NotLarger),
        Some("not_smaller") => Ok(AspectRatio::NotSmaller),
        Some(found) => Err(OpError::AttributeValue { name: NAME, found: found.to_owned() }),
    }
}
