//! STFT: the Fourier transforms of sliding windows of a signal.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{Complex, DType, Inputs, Output, filled, go_on, n_elements, with_room};

use super::dft::check_parts;
use crate::floats;
use crate::fourier::Fourier;
use crate::infer::{expect_dims, known_scalar, read_scalar};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "STFT",
    versions: (17, 17),
    types: DType::is_float,
    build: Stft::build,
}];

/// STFT: `y[b, f, k] = Σ window[n] · x[b, f·frame_step + n] · exp(−2πi · k·n / N)`.
///
/// `x: [B, L, 1 or 2]`, a number or real and imaginary part; `frame_step`, an integer; optional
/// `window: [N]` and `frame_length`, N. Without both, N is L. Output: `[B, (L − N) / frame_step + 1,
/// N or N/2 + 1, 2]`. Computed in f64 and rounded once.
///
/// Source: ONNX operator set, STFT-17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stft {
    /// Whether only the first `N/2 + 1` values of a real signal are returned.
    pub is_onesided: bool,
}

impl Stft {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { is_onesided: spec.flag("onesided", true)? }))
    }

    /// How many numbers the transform of a frame has.
    pub fn n_bins(self, len: usize) -> usize {
        if self.is_onesided { len / 2 + 1 } else { len }
    }

    /// How many parts a number of the signal must have, if only one is valid.
    fn needs_parts(self) -> Option<usize> {
        self.is_onesided.then_some(1)
    }
}

impl Operator for Stft {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(2, dtype)?;
        expect_dims(inputs, 2, &[Dim::Unknown])?;
        let [batch, signal, parts] = match inputs.fact(0)?.dims() {
            Some([batch, signal, parts]) => [batch, signal, parts].map(Clone::clone),
            Some(dims) => return Err(wrong_rank(dims.len())),
            None => [const { Dim::Unknown }; 3],
        };
        check_parts(parts, self.needs_parts())?;
        let step = known_scalar(inputs, 1)?.map(|step| positive(1, step)).transpose()?;
        let window = inputs.get(2).map(|fact| match fact.dims() {
            Some([len]) => len.clone(),
            _ => Dim::Unknown,
        });
        let len = match (known_scalar(inputs, 3)?, inputs.get(3), window) {
            (Some(len), ..) => Dim::Known(positive(3, len)?),
            (None, Some(_), _) => Dim::Unknown,
            (None, None, Some(window)) => window,
            (None, None, None) => signal.clone(),
        };
        if let (Dim::Known(signal), Dim::Known(len)) = (&signal, &len) {
            n_frames(*signal, *len, step.unwrap_or(1))?;
        }
        let frames = signal.zip(&len, |signal, len| n_frames(signal, len, step?).ok());
        let bins = len.map(|len| Some(self.n_bins(len)));
        Ok(vec![Fact::tensor(dtype, [batch, frames, bins, Dim::Known(2)])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[batch, signal, parts] = x.shape() else { return Err(wrong_rank(x.shape().len())) };
        check_parts(Dim::Known(parts), self.needs_parts())?;
        let missing = OpError::InputValue { index: 1, what: "takes one integer" };
        let step = positive(1, read_scalar(inputs, 1)?.ok_or(missing)?)?;
        let window = inputs.optional_tensor(2)?.map(floats::read).transpose()?;
        let len = match (read_scalar(inputs, 3)?, &window) {
            (Some(len), _) => positive(3, len)?,
            (None, Some(window)) => window.len(),
            (None, None) => signal,
        };
        let frames = n_frames(signal, len, step)?;
        if let Some(window) = window.as_ref().filter(|window| window.len() != len) {
            let (left, right) = (vec![window.len()], vec![len]);
            return Err(OpError::Shapes { what: "window and frame length", left, right });
        }
        let shape = [batch, frames, self.n_bins(len), 2];
        let mut y = with_room(n_elements(&shape).ok_or(OpError::TooLarge)?)?;
        let x_values = floats::read(x)?;
        let fourier = Fourier::new(len, false)?;
        let mut frame = filled(Complex::default(), len)?;
        for row in 0..batch.checked_mul(frames).ok_or(OpError::TooLarge)? {
            go_on()?;
            let start = row / frames * signal + row % frames * step;
            for (n, value) in frame.iter_mut().enumerate() {
                let weight = window.as_ref().map_or(1.0, |window| window[n]);
                let at = &x_values[(start + n) * parts..][..parts];
                let im = at.get(1).copied().unwrap_or(0.0);
                *value = Complex::new(weight * at[0], weight * im);
            }
            let bins = fourier.transform(&frame)?;
            y.extend(bins.iter().take(shape[2]).flat_map(|bin| [bin.re(), bin.im()]));
        }
        floats::write(outputs, 0, x.dtype(), &shape, &y)
    }
}

/// How many frames of `len` numbers a signal has; `step` is positive.
///
/// # Errors
/// If there is none, or they are empty.
pub fn n_frames(signal: usize, len: usize, step: usize) -> Result<usize, OpError> {
    match signal.checked_sub(len) {
        Some(rest) if len > 0 => Ok(rest / step + 1),
        _ => {
            Err(OpError::InputValue { index: 3, what: "a frame longer than the signal, or empty" })
        }
    }
}

fn positive(index: usize, n: i64) -> Result<usize, OpError> {
    let found = usize::try_from(n).ok().filter(|&n| n > 0);
    found.ok_or(OpError::InputValue { index, what: "a length that is not positive" })
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "3", found }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn run(onesided: i64, inputs: &[Option<Tensor>]) -> Result<Tensor, String> {
        let case = Case::new("STFT", 17).attr("onesided", Attr::Int(onesided));
        let values = case.run_optional(inputs)?;
        Ok(values[0].as_tensor().unwrap().clone())
    }

    fn signal() -> Option<Tensor> {
        Some(tensor(&[1, 5, 1], &[1_f64, 2.0, 3.0, 4.0, 5.0]))
    }

    #[test]
    fn windows_slide_by_the_step() {
        let step = Some(Tensor::scalar(2_i64));
        let window = Some(tensor(&[2], &[1_f64, 3.0]));
        let length = Some(Tensor::scalar(2_i32));
        // For two values, the sum and the difference; the error from π is below 10⁻¹².
        let cases = [
            (vec![signal(), step.clone(), None, length], [3.0, -1.0, 7.0, -1.0]),
            (vec![signal(), step, window], [7.0, -5.0, 15.0, -9.0]),
        ];
        for (inputs, expected) in cases {
            let y = run(1, &inputs).unwrap();
            assert_eq!(y.shape(), [1, 2, 2, 2]);
            for (found, expected) in y.as_slice::<f64>().unwrap().chunks(2).zip(expected) {
                assert!((found[0] - expected).hypot(found[1]) <= 1e-12, "{found:?} {expected}");
            }
        }
    }

    #[test]
    fn without_window_and_length_the_signal_is_one_frame() {
        let step = Some(Tensor::scalar(1_i64));
        for (onesided, bins) in [(1, 3), (0, 5)] {
            let y = run(onesided, &[signal(), step.clone()]).unwrap();
            assert_eq!((y.shape(), y.as_slice::<f64>().unwrap()[0]), (&[1, 1, bins, 2][..], 15.0));
        }
    }

    #[test]
    fn a_frame_longer_than_the_signal_is_refused_before_the_run() {
        let window = Some(tensor(&[6], &[1_f64; 6]));
        let inputs = [signal(), Some(Tensor::scalar(1_i64)), window];
        let inputs = inputs.map(|input| input.map(Value::Tensor));
        let error = Case::new("STFT", 17).infer(&inputs).unwrap_err();
        assert!(error.contains("a frame longer than the signal"), "{error}");
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        let int = |n: i64| Some(Tensor::scalar(n));
        let window = Some(tensor(&[2], &[1_f64; 2]));
        for rest in [
            vec![int(0)],
            vec![int(-1)],
            vec![int(1), None, int(6)],
            vec![int(1), None, int(0)],
            vec![int(1), window, int(3)],
        ] {
            let inputs: Vec<_> = std::iter::once(signal()).chain(rest.clone()).collect();
            assert!(run(1, &inputs).is_err(), "{rest:?}");
        }
        assert!(run(1, &[Some(tensor(&[1, 1, 2], &[0_f64; 2])), int(1)]).is_err());
    }
}
