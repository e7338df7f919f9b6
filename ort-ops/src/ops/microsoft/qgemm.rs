//! QGemm: `y = alpha · a'·b' + c` of quantized matrices.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView, with_dtype};

use crate::broadcast::{Operand, update};
use crate::elementwise::{only, unsupported};
use crate::infer::{broadcast_dims, known_dim, known_or_zero, matmul_dims, product_flops};
use crate::integer::{multiply, transposed};
use crate::ops::gemm::{matrix_dims, matrix_shape};
use crate::quantized::{
    Along, Scheme, centered, expect_zero_point, per_channel, saturate, scale, scales,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QGemm",
    versions: (1, 1),
    types: DType::is_byte,
    build: QGemm::build,
}];

/// QGemm: `y = (Σ a'·b' + c) · alpha·a_scale·b_scale`, where `a'` and `b'` are quantized values minus zero
/// points. Inputs: `a` (`[m, k]`, or `[k, m]` if `is_a_transposed`), its scale and zero point, the
/// same of `b` (`[k, n]` or `[n, k]`), `c`: absent or int32 that broadcasts to `[m, n]`, then scale
/// and zero point of `y`. Scale and zero point of `b` are one value or one per column.
///
/// With a zero point for it, `y` is `saturate(round(y/y_scale) + y_zero_point)`, rounding half to
/// even; without, it is float. Sums are exact, the rest is float32.
///
/// Source: com.microsoft, QGemm-1 (ONNX Runtime 1.31, which leaves `y` unwritten where there are no
/// terms).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QGemm {
    /// The factor of the result.
    pub alpha: f32,
    /// `a` is stored transposed.
    pub is_a_transposed: bool,
    /// `b` is stored transposed.
    pub is_b_transposed: bool,
}

impl QGemm {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.has_input(8) && !spec.has_input(7) {
            return Err(ort_tensor::TensorError::MissingInput { index: 7 }.into());
        }
        Ok(Arc::new(Self {
            alpha: spec.float("alpha")?.unwrap_or(1.0),
            is_a_transposed: spec.flag("transA", false)?,
            is_b_transposed: spec.flag("transB", false)?,
        }))
    }

    /// The sums with `c`, row-major, of `[m, n]`.
    fn sums(&self, inputs: Inputs<'_>, [m, k, n]: [usize; 3]) -> Result<Vec<i64>, OpError> {
        let along = if self.is_b_transposed { Along::Rows } else { Along::Columns };
        let a = centered(inputs.tensor(0)?, inputs.optional_tensor(2)?, Along::Rows, [0, 2])?;
        let b = centered(inputs.tensor(3)?, inputs.optional_tensor(5)?, along, [3, 5])?;
        let a = if self.is_a_transposed { transposed(&a, k, m)? } else { a };
        let b = if self.is_b_transposed { b } else { transposed(&b, k, n)? };
        let n_sums = m.checked_mul(n).ok_or(OpError::TooLarge)?;
        let mut sums = crate::accumulate::zeros(n_sums)?;
        if k > 0 {
            multiply(&a, &b, k, |i, j, sum| sums[i * n + j] = sum)?;
        }
        if let Some(c) = inputs.optional_tensor(6)? {
            let add = |sum: &i64, c: &i32| sum + i64::from(*c);
            update((&[m, n], &mut sums), Operand::<i32>::new(c)?, &add)?;
        }
        Ok(sums)
    }

    /// The factor of each column's sums.
    fn factors(&self, inputs: Inputs<'_>, n: usize) -> Result<Vec<f32>, OpError> {
        let factor = self.alpha * Scheme::read(inputs, 1)?.scale;
        let mut factors = per_channel(4, &scales(4, inputs.tensor(4)?)?, n)?;
        factors.iter_mut().for_each(|scale| *scale *= factor);
        if let Some(y_scale) = inputs.optional_tensor(7)? {
            let y_scale = scale(7, y_scale)?;
            factors.iter_mut().for_each(|factor| *factor /= y_scale);
        }
        Ok(factors)
    }

    fn sizes(&self, a: TensorView<'_>, b: TensorView<'_>) -> Result<[usize; 3], OpError> {
        let (m, k) = matrix_shape(0, a, self.is_a_transposed)?;
        let (b_k, n) = matrix_shape(3, b, self.is_b_transposed)?;
        if k == b_k {
            return Ok([m, k, n]);
        }
        let (left, right) = (a.shape().to_vec(), b.shape().to_vec());
        Err(OpError::Shapes { what: "inner dimensions of QGemm", left, right })
    }
}

impl Operator for QGemm {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in [0, 3] {
            inputs.dtype(index, DType::is_byte)?;
            inputs.fact(index + 1)?;
            inputs.expect_dtype(index + 1, DType::F32)?;
            expect_zero_point(inputs, index + 2, index)?;
        }
        inputs.expect_dtype(6, DType::I32)?;
        inputs.expect_dtype(7, DType::F32)?;
        let dtype = match inputs.get(8) {
            Some(_) => inputs.dtype(8, DType::is_byte)?,
            None => DType::F32,
        };
        let [m, a_k] = matrix_dims(inputs, 0, self.is_a_transposed)?;
        let [b_k, n] = matrix_dims(inputs, 3, self.is_b_transposed)?;
        let dims = matmul_dims(&[m, a_k], &[b_k, n])?;
        if let Some(c) = inputs.get(6).and_then(Fact::dims) {
            let stretches = c.len() <= 2
                && broadcast_dims(c, &dims)?.iter().zip(&dims).all(|(a, b)| a.unify(b).is_some());
            if !stretches {
                let (left, right) = (known_or_zero(c), known_or_zero(&dims));
                return Err(OpError::Shapes { what: "bias of QGemm", left, right });
            }
        }
        Ok(vec![Fact::tensor(dtype, dims.into_iter().collect::<Vec<Dim>>())])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let sizes = self.sizes(inputs.tensor(0)?, inputs.tensor(3)?)?;
        let [m, _, n] = sizes;
        let sums = self.sums(inputs, sizes)?;
        // A matrix without rows does not limit the number of columns.
        let factors = if sums.is_empty() { Vec::new() } else { self.factors(inputs, n)? };
        let values = sums.iter().zip(factors.iter().cycle()).map(|(&sum, f)| sum as f32 * f);
        let output = only(outputs)?;
        let Some(zero_point) = inputs.optional_tensor(8)? else {
            let y = output.tensor(DType::F32, &[m, n])?.into_slice::<f32>()?;
            y.iter_mut().zip(values).for_each(|(y, value)| *y = value);
            return Ok(());
        };
        let dtype = zero_point.dtype();
        let zero_point = Scheme::zero_point(8, Some(zero_point))?;
        let y = output.tensor(dtype, &[m, n])?;
        with_dtype!(dtype, [i8, u8], T => {
            let y = y.into_slice::<T>()?.iter_mut();
            y.zip(values).for_each(|(y, v)| *y = saturate(v.round_ties_even() + zero_point));
            Ok(())
        }, else => Err(unsupported(8, dtype)))
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let k = known_dim(inputs, 0, usize::from(!self.is_a_transposed));
        product_flops(k, outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    fn case() -> Case {
        Case::new("QGemm", 1).domain("com.microsoft")
    }

    /// Two by two matrices whose product, less zero points, is `[[5, 2], [−3, −2]]`.
    fn inputs() -> Vec<Option<Tensor>> {
        let inputs = [
            tensor(&[2, 2], &[3_u8, 2, 1, 0]),
            Tensor::scalar(2_f32),
            Tensor::scalar(1_u8),
            tensor(&[2, 2], &[1_i8, 2, 3, 4]),
            tensor(&[2], &[0.5_f32, 1.0]),
            tensor(&[2], &[0_i8, 2]),
            tensor(&[2], &[1_i32, -1]),
        ];
        inputs.map(Some).to_vec()
    }

    fn run(case: &Case, inputs: &[Option<Tensor>]) -> Tensor {
        case.run_optional(inputs).unwrap()[0].as_tensor().unwrap().clone()
    }

    #[test]
    fn without_a_zero_point_the_result_is_float() {
        let mut inputs = inputs();
        assert_eq!(run(&case(), &inputs), tensor(&[2, 2], &[6_f32, 2.0, -2.0, -6.0]));
        inputs[6] = None;
        let half = case().attr("alpha", Attr::Float(0.5));
        assert_eq!(run(&half, &inputs), tensor(&[2, 2], &[2.5_f32, 2.0, -1.5, -2.0]));
        inputs.extend([Some(Tensor::scalar(0.5_f32)), None]);
        assert_eq!(run(&half, &inputs), tensor(&[2, 2], &[5_f32, 4.0, -3.0, -4.0]));
    }

    #[test]
    fn with_a_zero_point_the_result_is_quantized() {
        let mut inputs = inputs();
        inputs.extend([Some(Tensor::scalar(4_f32)), Some(Tensor::scalar(1_u8))]);
        // 1.5, 0.5, −0.5 and −1.5 round to 2, 0, 0 and −2.
        assert_eq!(run(&case(), &inputs), tensor(&[2, 2], &[3_u8, 1, 1, 0]));
        inputs[7] = None;
        assert!(case().run_optional(&inputs).is_err());
    }

    #[test]
    fn operands_may_be_stored_transposed() {
        let mut inputs = inputs();
        inputs[0] = Some(tensor(&[2, 2], &[3_u8, 1, 2, 0]));
        inputs[3] = Some(tensor(&[2, 2], &[1_i8, 3, 2, 4]));
        let both = case().attr("transA", Attr::Int(1)).attr("transB", Attr::Int(1));
        assert_eq!(run(&both, &inputs), tensor(&[2, 2], &[6_f32, 2.0, -2.0, -6.0]));
    }

    #[test]
    fn without_terms_the_bias_is_left() {
        let mut inputs = inputs();
        inputs[0] = Some(tensor::<u8>(&[1, 0], &[]));
        inputs[3] = Some(tensor::<i8>(&[0, 2], &[]));
        assert_eq!(run(&case(), &inputs), tensor(&[1, 2], &[1_f32, -2.0]));
        let nothing = |dtype, shape: &[usize]| Some(Tensor::zeros(dtype, shape).unwrap());
        let mut empty = inputs[..6].to_vec();
        (empty[4], empty[5]) = (Some(Tensor::scalar(1_f32)), Some(Tensor::scalar(0_i8)));
        empty[0] = nothing(DType::U8, &[0, 0]);
        empty[3] = nothing(DType::I8, &[0, 1 << 54]);
        assert_eq!(Some(run(&case(), &empty)), nothing(DType::F32, &[0, 1 << 54]));
        inputs[3] = Some(tensor(&[1, 2], &[1_i8, 1]));
        assert!(case().run_optional(&inputs).is_err());
    }
}
