//! HannWindow, HammingWindow and BlackmanWindow: weights that fade at both ends.

use std::f64::consts::TAU;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, with_dtype};

use crate::infer::{known_scalar, read_scalar};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("BlackmanWindow", |spec| Window::build(spec, [0.42, 0.5, 0.08])),
    // 25/46 and 21/46 cancel the first side lobe exactly.
    def("HammingWindow", |spec| Window::build(spec, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    def("HannWindow", |spec| Window::build(spec, [0.5, 0.5, 0.0])),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "", name, versions: (17, 17), types: DType::is_index, build }
}

/// A window `y[n] = c₀ − c₁·cos(2πn/N) + c₂·cos(4πn/N)` whose length is the input, an integer. N is that length, or
/// one less if the window is not periodic; a single value is 1, where the formula is undefined. Computed in f64;
/// integers are rounded towards 0.
///
/// Source: ONNX operator set, HannWindow-17, HammingWindow-17, BlackmanWindow-17.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// `c`.
    pub coefficients: [f64; 3],
    /// Whether the window is periodic.
    pub is_periodic: bool,
    /// The type of the result, any number.
    pub dtype: DType,
}

impl Window {
    fn build(spec: &NodeSpec<'_>, coefficients: [f64; 3]) -> Result<Arc<dyn Operator>, OpError> {
        let is_periodic = spec.flag("periodic", true)?;
        Ok(Arc::new(Self { coefficients, is_periodic, dtype: output_dtype(spec)? }))
    }

    /// The length of the result.
    ///
    /// # Errors
    /// If it is missing, or negative.
    pub fn size(inputs: Inputs<'_>) -> Result<usize, OpError> {
        let size = read_scalar(inputs, 0)?;
        length(size.ok_or(OpError::InputValue { index: 0, what: "is missing" })?)
    }

    /// `2πn/N` for value `n` of `size`; `None` if the only value is 1.
    #[must_use]
    pub fn angle(&self, n: usize, size: usize) -> Option<f64> {
        let period = if self.is_periodic { size } else { size - 1 };
        (period > 0).then(|| TAU * n as f64 / period as f64)
    }

    fn value(&self, n: usize, size: usize) -> f64 {
        let Some(angle) = self.angle(n, size) else { return 1.0 };
        let [c0, c1, c2] = self.coefficients;
        c0 - c1 * angle.cos() + c2 * (2.0 * angle).cos()
    }
}

impl Operator for Window {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dim = match known_scalar(inputs, 0)? {
            Some(size) => Dim::Known(length(size)?),
            None => Dim::Unknown,
        };
        Ok(vec![Fact::tensor(self.dtype, [dim])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let size = Self::size(inputs)?;
        let y = outputs[0].tensor(self.dtype, &[size])?;
        with_dtype!(self.dtype, number, T => {
            let mut pace = Pace::new();
            for (n, y) in y.into_slice::<T>()?.iter_mut().enumerate() {
                pace.go(1)?;
                *y = Number::from_f64(self.value(n, size));
            }
            Ok(())
        }, else => Err(OpError::Unsupported { what: "a window of other types than numbers" }))
    }
}

/// The attribute `output_datatype`, which must be a number; f32 by default.
pub(crate) fn output_dtype(spec: &NodeSpec<'_>) -> Result<DType, OpError> {
    const NAME: &str = "output_datatype";
    let found = spec.int(NAME)?.unwrap_or(1);
    let dtype = i32::try_from(found).ok().and_then(DType::from_onnx);
    dtype
        .filter(|dtype| dtype.is_number())
        .ok_or_else(|| OpError::AttributeValue { name: NAME, found: found.to_string() })
}

fn length(size: i64) -> Result<usize, OpError> {
    usize::try_from(size).map_err(|_| OpError::InputValue { index: 0, what: "a negative length" })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn case(name: &'static str, periodic: i64) -> Case {
        Case::new(name, 17).attr("periodic", Attr::Int(periodic))
    }

    #[test]
    fn each_window_follows_its_formula() {
        let ends = 25.0 / 46.0 - 21.0 / 46.0;
        let cases: [(_, i64, i64, &[f64]); 6] = [
            ("HannWindow", 1, 4, &[0.0, 0.5, 1.0, 0.5]),
            ("HannWindow", 0, 3, &[0.0, 1.0, 0.0]),
            ("HammingWindow", 1, 2, &[ends, 1.0]),
            ("BlackmanWindow", 0, 3, &[0.0, 1.0, 0.0]),
            ("BlackmanWindow", 0, 1, &[1.0]),
            ("HannWindow", 1, 0, &[]),
        ];
        for (name, periodic, size, expected) in cases {
            let case = case(name, periodic).attr("output_datatype", Attr::Int(11));
            let y = case.tensor(&[Tensor::scalar(size)]).unwrap();
            assert_eq!(y.len(), expected.len());
            for (found, expected) in y.as_slice::<f64>().unwrap().iter().zip(expected) {
                // Angles and sums of at most 4 roundings, of values not above 1.
                assert!((found - expected).abs() <= 4.0 * f64::EPSILON, "{name} {found}");
            }
        }
    }

    #[test]
    fn the_size_and_the_result_can_be_other_numbers() {
        let y = case("HannWindow", 1).attr("output_datatype", Attr::Int(2));
        assert_eq!(y.tensor(&[tensor(&[1], &[4_i32])]), Ok(tensor(&[4], &[0_u8, 0, 1, 0])));
        assert!(case("HannWindow", 1).tensor(&[Tensor::scalar(-1_i64)]).is_err());
        assert!(case("HannWindow", 1).tensor(&[Tensor::scalar(1_f32)]).is_err());
        let bool = case("HannWindow", 1).attr("output_datatype", Attr::Int(9));
        assert!(bool.tensor(&[Tensor::scalar(1_i64)]).is_err());
    }
}
