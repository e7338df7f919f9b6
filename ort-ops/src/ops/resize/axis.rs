//! One axis of Resize: its new length, and the elements that each new one is interpolated from.

use ort_graph::OpError;
use ort_tensor::{Number, Pace, Room, TensorError, with_room};

use super::{Coordinates, NearestMode, Resize, ResizeMode};

/// The resizing of one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisPlan {
    pub(super) n_inputs: usize,
    pub(super) n_outputs: usize,
    pub(super) scale: f32,
    /// Start and end of the region of interest, as fractions of the axis.
    pub(super) region: (f64, f64),
}

/// The elements that each output element of an axis is interpolated from, with their weights.
#[derive(Debug, Default)]
pub struct Table {
    taps: Vec<(usize, f64)>,
    ends: Vec<usize>,
}

impl Table {
    /// Elements and weights for each output element in turn; none for one that is extrapolated.
    pub fn rows(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.taps[start..end])
    }

    pub(super) fn n_outputs(&self) -> usize {
        self.ends.len()
    }
}

impl AxisPlan {
    pub(super) const fn unchanged(n: usize) -> Self {
        Self { n_inputs: n, n_outputs: n, scale: 1.0, region: (0.0, 1.0) }
    }

    pub(super) fn scaled(n: usize, scale: f32) -> Result<Self, OpError> {
        if scale.is_nan() || scale <= 0.0 {
            return Err(OpError::InputValue { index: 2, what: "a scale is not positive" });
        }
        let n_outputs = whole(n as f32 * scale)?;
        Ok(Self { n_outputs, scale, ..Self::unchanged(n) })
    }

    /// An axis of the length `size`, or, if all axes have a common scale, of the nearest length.
    pub(super) fn sized(n: usize, size: i64, common: Option<f32>) -> Result<Self, OpError> {
        let negative = OpError::InputValue { index: 3, what: "a size is negative" };
        let size = usize::try_from(size).map_err(|_| negative)?;
        match common {
            Some(scale) if n > 0 => {
                let n_outputs = whole(scale * n as f32 + 0.5)?;
                Ok(Self { n_outputs, scale, ..Self::unchanged(n) })
            }
            _ => {
                let scale = if n == size { 1.0 } else { size as f32 / n as f32 };
                Ok(Self { n_outputs: size, scale, ..Self::unchanged(n) })
            }
        }
    }

    /// The table of this axis; `None` if it does not change. The axis is not empty.
    ///
    /// # Errors
    /// If there is no memory for it, or the run was cancelled.
    pub(super) fn table(&self, resize: &Resize) -> Result<Option<Table>, OpError> {
        let is_cropped = resize.coordinates == Coordinates::TfCropAndResize
            && (self.region.0 != 0.0 || self.region.1 != 1.0);
        if self.n_inputs == self.n_outputs && self.scale == 1.0 && !is_cropped {
            return Ok(None);
        }
        let mut ends = with_room(self.n_outputs)?;
        let (mut taps, mut pace) = (Room::with_room(self.n_outputs)?, Pace::new());
        for o in 0..self.n_outputs {
            pace.go(16)?;
            let x = self.coordinate(o, resize.coordinates);
            let is_outside = !(0.0..=(self.n_inputs - 1) as f32).contains(&x);
            if !(is_outside && resize.coordinates == Coordinates::TfCropAndResize) {
                self.push_taps(resize, x, &mut taps, &mut pace)?;
            }
            ends.push(taps.len());
        }
        Ok(Some(Table { taps: taps.into_vec(), ends }))
    }

    /// The input coordinate of output element `o`, in float32.
    fn coordinate(&self, o: usize, coordinates: Coordinates) -> f32 {
        let (n, m, o) = (self.n_inputs as f32, self.n_outputs as f32, o as f32);
        let scale = self.scale;
        let length = n * scale;
        match coordinates {
            Coordinates::HalfPixel => (o + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                n / 2.0 * (1.0 - m / length) + (o + 0.5) / scale - 0.5
            }
            Coordinates::PytorchHalfPixel if m > 1.0 => (o + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if m > 1.0 => o * (n - 1.0) / (length - 1.0),
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => o / scale,
            Coordinates::TfHalfPixelForNn => (o + 0.5) / scale,
            Coordinates::TfCropAndResize => {
                let (start, end) = (f32::from_f64(self.region.0), f32::from_f64(self.region.1));
                if m > 1.0 {
                    start * (n - 1.0) + o * (end - start) * (n - 1.0) / (m - 1.0)
                } else {
                    0.5 * (start + end) * (n - 1.0)
                }
            }
        }
    }

    /// Adds the elements that the one at `x` is interpolated from.
    fn push_taps(
        &self,
        resize: &Resize,
        x: f32,
        taps: &mut Room<(usize, f64)>,
        pace: &mut Pace,
    ) -> Result<(), TensorError> {
        let first = taps.len();
        match resize.mode {
            ResizeMode::Nearest(mode) => taps.push((self.inside(self.nearest(x, mode)), 1.0))?,
            _ => self.push_filtered(resize, x, taps, pace)?,
        }
        let sum: f64 = taps[first..].iter().map(|(_, weight)| weight).sum();
        if sum == 0.0 {
            taps.truncate(first);
            taps.push((self.inside(f64::from(x).round()), 1.0))?;
        } else if resize.has_antialias || resize.excludes_outside {
            taps[first..].iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        Ok(())
    }

    /// Adds the elements within the radius of the filter around `x`, weighted by the filter of their distance; both
    /// are widened for antialiasing.
    fn push_filtered(
        &self,
        resize: &Resize,
        x: f32,
        taps: &mut Room<(usize, f64)>,
        pace: &mut Pace,
    ) -> Result<(), TensorError> {
        let (x, radius) = (f64::from(x), radius(resize.mode));
        let stretch = if resize.has_antialias { f64::from(self.scale.min(1.0)) } else { 1.0 };
        let before = i64::from_f64((-f64::from(radius) / stretch).floor()).saturating_add(1);
        for step in before..=1_i64.saturating_sub(before) {
            pace.go(1)?;
            let position = x.floor() + step.to_f64();
            let is_outside = position < 0.0 || position >= self.n_inputs as f64;
            if !(is_outside && resize.excludes_outside) {
                let weight = weight(resize.mode, (position - x) * stretch);
                taps.push((self.inside(position), weight))?;
            }
        }
        Ok(())
    }

    /// The element nearest to `x`, which may be beyond the border.
    fn nearest(&self, x: f32, mode: NearestMode) -> f64 {
        let x = f64::from(x);
        match mode {
            NearestMode::RoundPreferFloor => (x - 0.5).ceil(),
            NearestMode::RoundPreferCeil => (x + 0.5).floor(),
            NearestMode::Simple if self.scale < 1.0 => x.ceil(),
            NearestMode::Floor | NearestMode::Simple => x.floor(),
            NearestMode::Ceil => x.ceil(),
        }
    }

    /// The element at `position`, clamped to the border.
    fn inside(&self, position: f64) -> usize {
        let position = usize::try_from(u64::from_f64(position)).unwrap_or(usize::MAX);
        position.min(self.n_inputs - 1)
    }
}

/// The length of an axis, truncated to an integer.
fn whole(length: f32) -> Result<usize, OpError> {
    // A float32 of 2^63 or more saturates, and is not a valid length anyway.
    let length = i64::from_f64(f64::from(length));
    usize::try_from(length).ok().filter(|_| length < i64::MAX).ok_or(OpError::TooLarge)
}

/// How far away elements have a weight.
const fn radius(mode: ResizeMode) -> u8 {
    if matches!(mode, ResizeMode::Cubic { .. }) { 2 } else { 1 }
}

/// The weight of an element at distance `t`.
fn weight(mode: ResizeMode, t: f64) -> f64 {
    match mode {
        ResizeMode::Cubic { a } => cubic(t, f64::from(a)),
        _ => (1.0 - t.abs()).max(0.0),
    }
}

/// Keys' cubic convolution with the coefficient `a`.
fn cubic(t: f64, a: f64) -> f64 {
    let t = t.abs();
    if t <= 1.0 {
        ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
    } else {
        0.0
    }
}
