//! QLinearReduceMean: means of quantized numbers along some axes.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Shape, n_elements, with_dtype};

use crate::elementwise::{only, unsupported};
use crate::infer::{Axes, normalize_axes, reduced_fact};
use crate::quantized::Scheme;
use crate::walk::Walk;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QLinearReduceMean",
    versions: (1, 1),
    types: DType::is_byte,
    build: QLinearReduceMean::build,
}];

/// QLinearReduceMean: `y = saturate(round(mean/y_scale) + y_zero_point)` of the mean along the axes
/// of the values `x_scale · (q − x_zero_point)`, rounding half to even. Inputs: `x`, its scale
/// and zero point, those of `y`; zero points may be absent. Quantized values are int8 or uint8, scales float.
/// The mean of no elements is 0.
///
/// Source: com.microsoft, QLinearReduceMean-1 (ONNX Runtime 1.31, which has no kernel for it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QLinearReduceMean {
    /// The axes, negative ones from the back; an empty list means all.
    pub axes: Vec<i64>,
    /// Whether a reduced dimension stays, as 1.
    pub keeps_dims: bool,
}

impl QLinearReduceMean {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axes = spec.ints("axes")?.unwrap_or_default().to_vec();
        Ok(Arc::new(Self { axes, keeps_dims: spec.flag("keepdims", true)? }))
    }
}

impl Operator for QLinearReduceMean {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = Scheme::expect_pair(inputs)?;
        let axes = if self.axes.is_empty() { Axes::All } else { Axes::These(&self.axes) };
        Ok(vec![reduced_fact(inputs.fact(0)?, dtype, axes, self.keeps_dims)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let [from, to] = Scheme::read_pair(inputs)?;
        let axes = normalize_axes(&self.axes, x.shape().len())?;
        let is_reduced = |i: usize| axes.is_empty() || axes.binary_search(&i).is_ok();
        let reduced: Vec<_> = (0..x.shape().len()).map(is_reduced).collect();
        let dims = || x.shape().iter().copied().zip(reduced.iter().copied());
        let shape: Shape = dims()
            .filter(|&(_, is_reduced)| self.keeps_dims || !is_reduced)
            .map(|(dim, is_reduced)| if is_reduced { 1 } else { dim })
            .collect();
        let joined: Shape = dims().filter(|dim| dim.1).map(|dim| dim.0).collect();
        // Where the product overflows, another dimension is zero and there is nothing to divide.
        let n = n_elements(&joined).unwrap_or(0).max(1) as f64;
        let walk = Walk::new(x.shape(), &reduced);
        let y = only(outputs)?.tensor(x.dtype(), &shape)?;
        with_dtype!(x.dtype(), [i8, u8], T => {
            let centered = |q: T| f64::from(q) - f64::from(from.zero_point);
            let sums = walk.fold(x.as_slice::<T>()?, 0.0, centered, |a, b| a + b)?;
            for (y, sum) in y.into_slice::<T>()?.iter_mut().zip(sums) {
                *y = to.quantize(f32::from_f64(sum / n * f64::from(from.scale)));
            }
            Ok(())
        }, else => Err(unsupported(0, x.dtype())))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn means_run_along_some_axes_or_all() {
        let mean = |axes: &[i64], keeps: i64| {
            let case = Case::new("QLinearReduceMean", 1).domain("com.microsoft");
            case.attr("axes", Attr::Ints(axes.to_vec())).attr("keepdims", Attr::Int(keeps))
        };
        let inputs = |x: Tensor| {
            let [from, to] = [2_f32, 1.0].map(Tensor::scalar);
            [x, from, Tensor::scalar(-1_i8), to, Tensor::scalar(1_i8)]
        };
        let x = inputs(tensor(&[2, 2], &[-1_i8, 0, 3, 126]));
        // The values are 0, 2, 8 and 254.
        assert_eq!(mean(&[-1], 1).tensor(&x), Ok(tensor(&[2, 1], &[2_i8, 127])));
        assert_eq!(mean(&[0], 0).tensor(&x), Ok(tensor(&[2], &[5_i8, 127])));
        assert_eq!(mean(&[], 0).tensor(&x), Ok(tensor(&[], &[67_i8])));
        let nothing = inputs(tensor::<i8>(&[2, 0], &[]));
        assert_eq!(mean(&[1], 0).tensor(&nothing), Ok(tensor(&[2], &[1_i8, 1])));
    }
}
