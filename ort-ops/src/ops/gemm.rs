//! Gemm: `y[m,n] = activation(alpha · Σ a'[m,k]·b'[k,n] + beta · c[m,n])`.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, TensorView, broadcast, broadcast_strides, collected, with_dtype,
};

use crate::accumulate::{Accumulate, Sum, multiply_add, zeros};
use crate::activation::Activation;
use crate::infer::{broadcast_dims, known_dim, known_or_zero, matmul_dims, product_flops};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Gemm",
        versions: (1, 13),
        types: DType::is_number,
        build: Gemm::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "FusedGemm",
        versions: (1, 1),
        types: DType::is_number,
        build: Gemm::build_fused,
    },
];

/// Gemm: `y = activation(alpha·a'·b' + beta·c)`. `a`: `[m, k]`, or `[k, m]` if `is_a_transposed`;
/// `b`: `[k, n]`, or `[n, k]`; `c`: absent, or broadcasts to `[m, n]`. Any number type; integers
/// wrap, and are truncated where `alpha` or `beta` is not 1. With `beta` 0, `c` is not
/// read.
///
/// Source: ONNX operator set, Gemm-13; com.microsoft, FusedGemm-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of `c`.
    pub beta: f32,
    /// `a` is stored transposed.
    pub is_a_transposed: bool,
    /// `b` is stored transposed.
    pub is_b_transposed: bool,
    /// The activation.
    pub activation: Activation,
}

impl Gemm {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version < 7 {
            // Broadcasting of `c` follows from its shape.
            spec.ignore("broadcast");
        }
        Ok(Arc::new(Self::with_activation(spec, Activation::None)?))
    }

    fn build_fused(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self::with_activation(spec, Activation::of_gemm(spec)?)?))
    }

    fn with_activation(spec: &NodeSpec<'_>, activation: Activation) -> Result<Self, OpError> {
        Ok(Self {
            alpha: spec.float("alpha")?.unwrap_or(1.0),
            beta: spec.float("beta")?.unwrap_or(1.0),
            is_a_transposed: spec.flag("transA", false)?,
            is_b_transposed: spec.flag("transB", false)?,
            activation,
        })
    }

    fn compute<T: Accumulate>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (m, k) = matrix_shape(0, a, self.is_a_transposed)?;
        let (b_k, n) = matrix_shape(1, b, self.is_b_transposed)?;
        if k != b_k {
            let (left, right) = (a.shape().to_vec(), b.shape().to_vec());
            return Err(OpError::Shapes { what: "inner dimensions of Gemm", left, right });
        }
        let a = widened::<T>(a, self.is_a_transposed)?;
        let b = widened::<T>(b, self.is_b_transposed)?;
        let y = output.tensor(T::DTYPE, &[m, n])?.into_slice::<T>()?;
        let mut sums = zeros::<T::Sum>(y.len())?;
        multiply_add(&a, &b, &mut sums, n)?;
        sums.iter_mut().for_each(|sum| *sum = sum.scale(self.alpha));
        if let Some(c) = inputs.optional_tensor(2)?
            && self.beta != 0.0
        {
            self.add_c::<T>(c, &mut sums, &[m, n])?;
        }
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = T::narrow(self.activation.apply_to(sum));
        }
        Ok(())
    }

    fn add_c<T: Accumulate>(
        &self,
        c: TensorView<'_>,
        sums: &mut [T::Sum],
        shape: &[usize; 2],
    ) -> Result<(), OpError> {
        if broadcast(c.shape(), shape).as_deref() != Some(shape) {
            let (left, right) = (c.shape().to_vec(), shape.to_vec());
            return Err(OpError::Shapes { what: "bias of Gemm", left, right });
        }
        let strides = broadcast_strides(c.shape(), shape);
        let c = c.as_slice::<T>()?;
        let n = shape[1].max(1);
        for (i, row) in sums.chunks_exact_mut(n).enumerate() {
            for (j, sum) in row.iter_mut().enumerate() {
                let term = c[i * strides[0] + j * strides[1]].widen();
                *sum = sum.plus(term.scale(self.beta));
            }
        }
        Ok(())
    }
}

impl Operator for Gemm {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_number)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, dtype)?;
        let a = matrix_dims(inputs, 0, self.is_a_transposed)?;
        let b = matrix_dims(inputs, 1, self.is_b_transposed)?;
        let dims = matmul_dims(&a, &b)?;
        if let Some(c) = inputs.get(2).and_then(Fact::dims) {
            let stretched = broadcast_dims(c, &dims)?;
            let grows = |(wide, dim): (&Dim, &Dim)| wide.unify(dim).is_none();
            if stretched.len() != 2 || stretched.iter().zip(&dims).any(grows) {
                let (left, right) = (known_or_zero(c), known_or_zero(&dims));
                return Err(OpError::Shapes { what: "bias of Gemm", left, right });
            }
        }
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let a = inputs.tensor(0)?;
        with_dtype!(a.dtype(), number, T => self.compute::<T>(inputs, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(a.dtype(), a.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let k = known_dim(inputs, 0, usize::from(!self.is_a_transposed));
        product_flops(k, outputs.first())
    }
}

/// The dimensions of the logical matrix at `index`; both unknown if the rank is.
pub(crate) fn matrix_dims(
    inputs: &Facts<'_>,
    index: usize,
    is_transposed: bool,
) -> Result<[Dim; 2], OpError> {
    match (inputs.fact(index)?.dims(), is_transposed) {
        (None, _) => Ok([Dim::Unknown, Dim::Unknown]),
        (Some([rows, columns]), false) => Ok([rows.clone(), columns.clone()]),
        (Some([columns, rows]), true) => Ok([rows.clone(), columns.clone()]),
        (Some(dims), _) => Err(OpError::InputRank { index, expected: "2", found: dims.len() }),
    }
}

/// Rows and columns of the logical matrix at `index`.
pub(crate) fn matrix_shape(
    index: usize,
    x: TensorView<'_>,
    is_transposed: bool,
) -> Result<(usize, usize), OpError> {
    match (x.shape(), is_transposed) {
        (&[rows, columns], false) | (&[columns, rows], true) => Ok((rows, columns)),
        _ => Err(OpError::InputRank { index, expected: "2", found: x.shape().len() }),
    }
}

/// The logical matrix in row-major order.
fn widened<T: Accumulate>(x: TensorView<'_>, is_transposed: bool) -> Result<Vec<T::Sum>, OpError> {
    let source = x.as_slice::<T>()?;
    if !is_transposed {
        return Ok(collected(source.iter().map(|x| x.widen()))?);
    }
    let n_rows = x.shape()[1];
    let column = |row: usize| source[row..].iter().step_by(n_rows).map(|x| x.widen());
    Ok(collected((0..if source.is_empty() { 0 } else { n_rows }).flat_map(column))?)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn a() -> Tensor {
        tensor(&[2, 3], &[0_f32, 1.0, 2.0, 3.0, 4.0, 5.0])
    }

    fn b() -> Tensor {
        tensor(&[3, 2], &[1_f32, 0.0, 0.0, 1.0, 1.0, 1.0])
    }

    #[test]
    fn the_bias_stretches_to_the_result() {
        let cases: [(&[usize], &[f32], &[f32]); 5] = [
            (&[], &[1.0], &[3.0, 4.0, 9.0, 10.0]),
            (&[2], &[1.0, 2.0], &[3.0, 5.0, 9.0, 11.0]),
            (&[1, 2], &[1.0, 2.0], &[3.0, 5.0, 9.0, 11.0]),
            (&[2, 1], &[1.0, 2.0], &[3.0, 4.0, 10.0, 11.0]),
            (&[2, 2], &[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 11.0, 13.0]),
        ];
        for (shape, c, expected) in cases {
            let y = Case::new("Gemm", 13).tensor(&[a(), b(), tensor(shape, c)]);
            assert_eq!(y, Ok(tensor(&[2, 2], expected)), "{shape:?}");
        }
        for shape in [&[3][..], &[1, 1, 1]] {
            let c = Tensor::zeros(ort_tensor::DType::F32, shape).unwrap();
            assert!(Case::new("Gemm", 13).tensor(&[a(), b(), c]).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn factors_scale_and_a_zero_beta_hides_nan() {
        let gemm = || Case::new("Gemm", 11).attr("alpha", Attr::Float(0.5));
        let nan = tensor(&[1], &[f32::NAN]);
        let y = gemm().attr("beta", Attr::Float(0.0)).tensor(&[a(), b(), nan]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[1_f32, 1.5, 4.0, 4.5])));
        let y = gemm().attr("beta", Attr::Float(2.0)).tensor(&[a(), b(), tensor(&[1], &[1_f32])]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[3_f32, 3.5, 6.0, 6.5])));
    }

    #[test]
    fn operands_may_be_stored_transposed() {
        let both = Case::new("Gemm", 7).attr("transA", Attr::Int(1)).attr("transB", Attr::Int(1));
        let a = tensor(&[3, 1], &[1_i32, 2, 3]);
        let b = tensor(&[2, 3], &[1_i32, 1, 1, 0, 1, 2]);
        assert_eq!(both.tensor(&[a, b]), Ok(tensor(&[1, 2], &[6_i32, 8])));
        let empty = [tensor::<f32>(&[0, 2], &[]), tensor::<f32>(&[1, 0], &[])];
        assert_eq!(both.tensor(&empty), Ok(tensor(&[2, 1], &[0_f32, 0.0])));
    }

    #[test]
    fn the_activation_comes_before_rounding() {
        let fused = Case::new("FusedGemm", 1)
            .domain("com.microsoft")
            .attr("activation", Attr::String("LeakyRelu".into()))
            .attr("activation_alpha", Attr::Float(0.5));
        let a = tensor(&[1, 1], &[f16::from_f32(-2.0)]);
        let b = tensor(&[1, 2], &[f16::from_f32(1.0), f16::from_f32(-1.0)]);
        let expected = tensor(&[1, 2], &[f16::from_f32(-1.0), f16::from_f32(2.0)]);
        assert_eq!(fused.tensor(&[a, b]), Ok(expected));
    }
}
