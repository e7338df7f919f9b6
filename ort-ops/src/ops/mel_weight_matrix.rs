//! MelWeightMatrix: triangles over the bins of a spectrum, evenly spaced on the mel scale.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, collected, with_dtype};

use super::window::output_dtype;
use crate::floats;
use crate::infer::{known_scalar, read_scalar};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "MelWeightMatrix",
    versions: (17, 17),
    types: DType::is_number,
    build: MelWeightMatrix::build,
}];

/// MelWeightMatrix: `y: [dft_length / 2 + 1, num_mel_bins]`; column `m` rises from mel point `m` to
/// `m + 1` and falls to `m + 2`, where the points are between the edges, `(upper − lower) /
/// (num_mel_bins + 2)` mel apart, each rounded down to a bin.
///
/// Inputs, each one number: `num_mel_bins`, `dft_length` and `sample_rate` (integers), lower and
/// upper edge in Hz (floats). Computed in f64; integers are rounded towards 0.
///
/// Source: ONNX operator set, MelWeightMatrix-17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MelWeightMatrix {
    /// The type of the result, any number.
    pub dtype: DType,
}

impl MelWeightMatrix {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { dtype: output_dtype(spec)? }))
    }
}

impl Operator for MelWeightMatrix {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        known_scalar(inputs, 2)?;
        inputs.dtype(3, DType::is_float)?;
        inputs.dtype(4, DType::is_float)?;
        let dim = |index| -> Result<Dim, OpError> {
            let n = known_scalar(inputs, index)?.map(|n| count(index, n)).transpose()?;
            Ok(n.map_or(Dim::Unknown, Dim::Known))
        };
        let (mels, length) = (dim(0)?, dim(1)?);
        Ok(vec![Fact::tensor(self.dtype, [length.map(|n| Some(n / 2 + 1)), mels])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let missing = |index| OpError::InputValue { index, what: "is missing" };
        let integer = |index| read_scalar(inputs, index)?.ok_or_else(|| missing(index));
        let edge = |index| Ok::<_, OpError>(floats::read_parameter(inputs, index, 1)?[0]);
        let (mels, length) = (count(0, integer(0)?)?, count(1, integer(1)?)?);
        let bins = length / 2 + 1;
        let y = outputs[0].tensor(self.dtype, &[bins, mels])?;
        let points = points(mels, length, integer(2)?, [edge(3)?, edge(4)?])?;
        let out_of_range = || OpError::InputValue { index: 4, what: "an edge beyond all bins" };
        let end = i64::try_from(bins).map_err(|_| OpError::TooLarge)?;
        with_dtype!(self.dtype, number, T => {
            let y = y.into_slice::<T>()?;
            y.fill(T::default());
            let mut pace = Pace::new();
            for (m, corners) in points.windows(3).enumerate() {
                let &[left, center, right] = corners else { continue };
                if corners.iter().any(|corner| !(0..=end).contains(corner)) {
                    return Err(out_of_range());
                }
                for bin in left..right.max(center + 1) {
                    pace.go(1)?;
                    let row = usize::try_from(bin).ok().filter(|&row| row < bins);
                    let at = row.ok_or_else(out_of_range)? * mels + m;
                    y[at] = Number::from_f64(weight(bin, left, center, right));
                }
            }
            Ok(())
        }, else => Err(OpError::Unsupported { what: "weights of other types than numbers" }))
    }
}

/// The bins of the `mels + 2` mel points.
fn points(mels: usize, length: usize, rate: i64, edges: [f64; 2]) -> Result<Vec<i64>, OpError> {
    if rate <= 0 {
        return Err(OpError::InputValue { index: 2, what: "a rate that is not positive" });
    }
    let n = mels.checked_add(2).ok_or(OpError::TooLarge)?;
    let [lower, upper] = edges.map(|hertz| 2595.0 * (hertz / 700.0).ln_1p() / 10_f64.ln());
    let step = (upper - lower) / n as f64;
    let point = |i: usize| {
        let mel = i as f64 * step + lower;
        let hertz = 700.0 * (mel / 2595.0 * 10_f64.ln()).exp_m1();
        i64::from_f64(((length + 1) as f64 * hertz / rate as f64).floor())
    };
    Ok(collected((0..n).map(point))?)
}

/// The height at `bin` of the triangle with these corners; 1 at the center.
fn weight(bin: i64, left: i64, center: i64, right: i64) -> f64 {
    let share = |part: i64, whole: i64| part as f64 / whole as f64;
    match bin {
        _ if bin < center => share(bin - left, center - left),
        _ if bin > center => share(right - bin, right - center),
        _ => 1.0,
    }
}

fn count(index: usize, n: i64) -> Result<usize, OpError> {
    usize::try_from(n).map_err(|_| OpError::InputValue { index, what: "a negative number" })
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn run(mels: i64, length: i64, rate: i64, edges: [f32; 2]) -> Result<Tensor, String> {
        let [mels, length, rate] = [mels, length, rate].map(Tensor::scalar);
        let [lower, upper] = edges.map(Tensor::scalar);
        Case::new("MelWeightMatrix", 17).tensor(&[mels, length, rate, lower, upper])
    }

    #[test]
    fn triangles_meet_at_their_corners() {
        // The points are bins 0, 0, 1, 3 and 5.
        let y = run(3, 16, 8192, [0.0, 4096.0]).unwrap();
        let mut expected = [[0_f32; 3]; 9];
        expected[0] = [1.0, 0.0, 0.0];
        expected[1] = [0.0, 1.0, 0.0];
        expected[2] = [0.0, 0.5, 0.5];
        expected[3] = [0.0, 0.0, 1.0];
        expected[4] = [0.0, 0.0, 0.5];
        assert_eq!(y, tensor(&[9, 3], expected.as_flattened()));
    }

    #[test]
    fn zero_mels_are_accepted_and_bad_values_rejected() {
        assert_eq!(run(0, 4, 8000, [0.0, 4000.0]), Ok(tensor::<f32>(&[3, 0], &[])));
        for (mels, length, rate, edges) in [
            (-1, 4, 8000, [0.0, 4000.0]),
            (2, -4, 8000, [0.0, 4000.0]),
            (2, 4, 0, [0.0, 4000.0]),
            (2, 4, 8000, [0.0, 1e9]),
            (2, 4, 8000, [-600.0, 4000.0]),
            (2, 4, 8000, [0.0, f32::INFINITY]),
        ] {
            assert!(run(mels, length, rate, edges).is_err(), "{mels} {length} {rate} {edges:?}");
        }
        let half = Tensor::scalar(f16::ONE);
        let int = Tensor::scalar(4_i64);
        let case = Case::new("MelWeightMatrix", 17);
        assert!(case.tensor(&[int.clone(), int.clone(), int, half.clone(), half]).is_ok());
    }
}
