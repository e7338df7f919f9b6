//! DFT: `y[k] = Σ x[n] · exp(−2πi · k·n / N)` along one axis, or its inverse.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{Complex, DType, Inputs, Output, Pace, Room, Shape, filled, n_elements};

use crate::floats;
use crate::fourier::Fourier;
use crate::infer::{known_scalar, normalize_axis, read_scalar};
use crate::lanes::Lanes;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "DFT",
    versions: (17, 20),
    types: DType::is_float,
    build: Dft::build,
}];

/// DFT of `x: […, 1 or 2]`, whose last dimension holds a number or real and imaginary part. The signal is truncated,
/// or padded with zeros, to `dft_length` (input 1, optional). Computed in f64 and rounded once.
///
/// One-sided, a real signal gives the first `N/2 + 1` values; inverse and one-sided, such values
/// give a real signal, of `2 · (n − 1)` elements by default.
///
/// Source: ONNX operator set, DFT-20 and DFT-17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dft {
    /// The axis where it is an attribute (before version 20); else it is input 2, by default −2.
    pub axis: Option<i64>,
    /// Whether the transform is the inverse, divided by N.
    pub is_inverse: bool,
    /// Whether only the first half of the frequencies is present.
    pub is_onesided: bool,
}

impl Dft {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis =
            if spec.since_version < 20 { Some(spec.int("axis")?.unwrap_or(1)) } else { None };
        let is_inverse = spec.flag("inverse", false)?;
        Ok(Arc::new(Self { axis, is_inverse, is_onesided: spec.flag("onesided", false)? }))
    }

    /// The axis, which cannot be the last.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn axis(&self, found: Option<i64>, rank: usize) -> Result<usize, OpError> {
        let axis = self.axis.or(found).unwrap_or(-2);
        let normalized = normalize_axis(axis, rank)?;
        if normalized + 1 < rank { Ok(normalized) } else { Err(OpError::Axis { axis, rank }) }
    }

    /// The default N for a signal of `n` elements.
    pub const fn default_len(&self, n: usize) -> usize {
        if self.is_inverse && self.is_onesided { n.saturating_sub(1).saturating_mul(2) } else { n }
    }

    /// The elements of a result, for N.
    pub const fn result_len(&self, len: usize) -> usize {
        if self.is_onesided && !self.is_inverse { len / 2 + 1 } else { len }
    }

    /// The parts of a result: one if it is real.
    pub const fn result_parts(&self) -> usize {
        if self.is_onesided && self.is_inverse { 1 } else { 2 }
    }

    /// Transforms a lane that has its final length.
    fn transform(
        &self,
        fourier: &Fourier,
        lane: &mut [Complex<f64>],
    ) -> Result<Room<Complex<f64>>, OpError> {
        let n = lane.len();
        if self.is_inverse && self.is_onesided {
            for k in n / 2 + 1..n {
                lane[k] = Complex::new(lane[n - k].re(), -lane[n - k].im());
            }
        }
        let mut y = fourier.transform(lane)?;
        if self.is_inverse {
            let n = n as f64;
            y.iter_mut().for_each(|y| *y = Complex::new(y.re() / n, y.im() / n));
        }
        Ok(y)
    }
}

impl Operator for Dft {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        check_parts(dims.last().cloned().unwrap_or(Dim::Unknown), self.needs_parts())?;
        let parts = Dim::Known(self.result_parts());
        let axis = match inputs.get(2).filter(|_| self.axis.is_none()) {
            None => None,
            Some(_) => match known_scalar(inputs, 2)? {
                None => {
                    // bounded: rank
                    let unknown = vec![Dim::Unknown; dims.len().saturating_sub(1)];
                    return Ok(vec![Fact::tensor(dtype, unknown.into_iter().chain([parts]))]);
                }
                axis => axis,
            },
        };
        let axis = self.axis(axis, dims.len())?;
        let len = match (inputs.get(1), known_scalar(inputs, 1)?) {
            (None, _) => dims[axis].map(|n| Some(self.default_len(n))),
            (_, Some(len)) => Dim::Known(length(len)?),
            (_, None) => Dim::Unknown,
        };
        let mut dims: Dims = dims.iter().cloned().collect();
        let is_whole = !self.is_onesided && inputs.get(1).is_none();
        if !is_whole {
            dims[axis] = len.map(|len| Some(self.result_len(len)));
        }
        let last = dims.len() - 1;
        dims[last] = parts;
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axis = self.axis(read_scalar(inputs, 2)?, x.shape().len())?;
        let Some((&parts, signal)) = x.shape().split_last() else {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found: 0 });
        };
        check_parts(Dim::Known(parts), self.needs_parts())?;
        let lanes = Lanes::along(signal, axis);
        let len = match read_scalar(inputs, 1)? {
            Some(len) => length(len)?,
            None => self.default_len(lanes.len),
        };
        let (y_len, y_parts) = (self.result_len(len), self.result_parts());
        let mut shape = Shape::from_slice(x.shape());
        (shape[axis], shape[signal.len()]) = (y_len, y_parts);
        let values = floats::read(x)?;
        let mut y = filled(0.0, n_elements(&shape).ok_or(OpError::TooLarge)?)?;
        if !y.is_empty() {
            let fourier = Fourier::new(len, self.is_inverse)?;
            let mut lane = filled(Complex::default(), len)?;
            let mut pace = Pace::new();
            for i in 0..lanes.outer * lanes.inner {
                let (outer, inner) = (i / lanes.inner, i % lanes.inner);
                let at = |n: usize, len: usize| (outer * len + n) * lanes.inner + inner;
                lane.fill(Complex::default());
                for (n, value) in lane.iter_mut().enumerate().take(lanes.len) {
                    pace.go(1)?;
                    let value_at = &values[at(n, lanes.len) * parts..][..parts];
                    *value = Complex::new(value_at[0], value_at.get(1).copied().unwrap_or(0.0));
                }
                let result = self.transform(&fourier, &mut lane)?;
                for (k, value) in result.iter().enumerate().take(y_len) {
                    pace.go(1)?;
                    let both = [value.re(), value.im()];
                    y[at(k, y_len) * y_parts..][..y_parts].copy_from_slice(&both[..y_parts]);
                }
            }
        }
        floats::write(outputs, 0, x.dtype(), &shape, &y)
    }
}

impl Dft {
    /// How many parts an element of `x` must have, if only one number is valid.
    const fn needs_parts(&self) -> Option<usize> {
        match (self.is_onesided, self.is_inverse) {
            (true, false) => Some(1),
            (true, true) => Some(2),
            _ => None,
        }
    }
}

/// Checks that the last dimension is 1 or 2, and equals `needed`.
pub(crate) fn check_parts(found: Dim, needed: Option<usize>) -> Result<(), OpError> {
    match found.known() {
        Some(parts) if !matches!(parts, 1 | 2) || needed.is_some_and(|needed| needed != parts) => {
            let right = needed.map_or_else(|| vec![1, 2], |needed| vec![needed]);
            Err(OpError::Shapes { what: "the parts of a number", left: vec![parts], right })
        }
        _ => Ok(()),
    }
}

fn length(len: i64) -> Result<usize, OpError> {
    let len = usize::try_from(len).ok().filter(|&len| len > 0);
    len.ok_or(OpError::InputValue { index: 1, what: "a length that is not positive" })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn case(inverse: i64, onesided: i64) -> Case {
        let case = Case::new("DFT", 20).attr("inverse", Attr::Int(inverse));
        case.attr("onesided", Attr::Int(onesided))
    }

    #[test]
    fn a_signal_becomes_frequencies_and_comes_back() {
        // Powers of i need no rounding: all results are exact except for the angles.
        let x = tensor(&[1, 4, 1], &[1_f32, 2.0, 3.0, 4.0]);
        let y = [10_f32, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0];
        let full = case(0, 0).tensor(std::slice::from_ref(&x)).unwrap();
        assert_eq!(rounded(&full), y);
        let half = case(0, 1).tensor(std::slice::from_ref(&x)).unwrap();
        assert_eq!((half.shape(), &rounded(&half)[..]), (&[1, 3, 2][..], &y[..6]));
        let back = case(1, 0).tensor(&[full]).unwrap();
        assert_eq!(rounded(&back), [1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0]);
        let back = case(1, 1).tensor(&[half]).unwrap();
        assert_eq!((back.shape(), &rounded(&back)[..]), (&[1, 4, 1][..], &[1., 2., 3., 4.][..]));
    }

    /// Rounded, since the angles' roundings leave errors below 10⁻⁶.
    fn rounded(x: &Tensor) -> Vec<f32> {
        x.as_slice::<f32>().unwrap().iter().map(|x| (x * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn the_length_cuts_or_fills_and_the_axis_can_be_chosen() {
        let x = tensor(&[2, 2, 1], &[1_f32, 2.0, 3.0, 4.0]);
        let none = None;
        let length = |n: i64| Some(Tensor::scalar(n));
        let axis = Some(Tensor::scalar(0_i64));
        let run = |inputs: Vec<Option<Tensor>>| {
            let y = case(0, 0).run_optional(&inputs).unwrap();
            let y = y[0].as_tensor().unwrap().clone();
            (y.shape().to_vec(), rounded(&y))
        };
        let found = run(vec![Some(x.clone()), length(1)]);
        assert_eq!(found, (vec![2, 1, 2], vec![1.0, 0.0, 3.0, 0.0]));
        let found = run(vec![Some(x.clone()), none, axis]);
        assert_eq!(found, (vec![2, 2, 2], vec![4.0, 0.0, 6.0, 0.0, -2.0, 0.0, -2.0, 0.0]));
        let found = run(vec![Some(x.reshaped(&[4, 1]).unwrap()), length(8), None]);
        assert_eq!((found.0, &found.1[..2]), (vec![8, 2], &[10.0, 0.0][..]));
        let old = Case::new("DFT", 17).tensor(&[x]).unwrap();
        assert_eq!(rounded(&old), [3.0, 0.0, -1.0, 0.0, 7.0, 0.0, -1.0, 0.0]);
    }

    #[test]
    fn half_floats_are_accepted_and_mismatches_rejected() {
        let x = tensor(&[2, 1], &[f16::ONE; 2]);
        let y = [2.0, 0.0, 0.0, 0.0].map(f16::from_f32);
        assert_eq!(case(0, 0).tensor(&[x]), Ok(tensor(&[2, 2], &y)));
        let zeros = |shape: &[usize]| Tensor::zeros(ort_tensor::DType::F32, shape).unwrap();
        assert!(case(0, 0).tensor(&[zeros(&[0, 3, 1])]).is_ok());
        assert!(case(0, 1).tensor(&[zeros(&[3, 2])]).is_err());
        assert!(case(1, 1).tensor(&[zeros(&[3, 1])]).is_err());
        for shape in [&[3, 3][..], &[3], &[]] {
            assert!(case(0, 0).tensor(&[zeros(shape)]).is_err(), "{shape:?}");
        }
        for len in [0_i64, -1] {
            assert!(case(0, 0).tensor(&[zeros(&[3, 1]), Tensor::scalar(len)]).is_err());
        }
    }
}
