//! BranchwiseRMSNorm, HyperConnectionPreMix and HyperConnectionPostMix: operations on the streams of
//! hyper-connections.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, collected, filled, n_elements};

use crate::floats;
use crate::infer::tensor_fact;
use crate::ops::layer_normalization::standardize_rows;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("BranchwiseRMSNorm", |spec| {
        let epsilon = spec.float("epsilon")?.unwrap_or(1e-5);
        HyperConnection::build(spec, Step::Norm { epsilon })
    }),
    def("HyperConnectionPostMix", |spec| HyperConnection::build(spec, Step::PostMix)),
    def("HyperConnectionPreMix", |spec| {
        let scale = spec.float("reduction_scale")?.unwrap_or(1.0);
        HyperConnection::build(spec, Step::PreMix { scale })
    }),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types: DType::is_float, build }
}

/// A step of hyper-connections, of streams `x: […, C, H]`, or `[…, C·H]` if C is an attribute.
/// The other operands can be of another float type; everything is computed in f64 and rounded once.
///
/// Source: com.microsoft, BranchwiseRMSNorm-1, HyperConnectionPreMix-1, HyperConnectionPostMix-1
/// (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperConnection {
    /// The operation.
    pub step: Step,
    /// C, if the streams are flat.
    pub num_branches: Option<usize>,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// `y[c] = x[c] / √(mean(x[c]²) + epsilon) · scale[c]`, with a scale `[C·H]`, `[C, H]`, `[H]`, or
    /// none.
    Norm {
        /// What is added to the mean of squares.
        epsilon: f32,
    },
    /// `y = scale · Σ x[c] · mix[c]`, with a mix `[…, C]` or `[…, C, H]`.
    PreMix {
        /// The factor of the sum.
        scale: f32,
    },
    /// `y[k] = Σ matrix[c, k] · x[c] + mix[k] · output` with an output `[…, H]`, a mix `[…, C]` or
    /// `[…, C, H]`, and a matrix `[…, C, C]`, or absent for the identity.
    PostMix,
}

/// Rows of streams.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: usize,
    branches: usize,
    size: usize,
}

impl HyperConnection {
    fn build(spec: &NodeSpec<'_>, step: Step) -> Result<Arc<dyn Operator>, OpError> {
        let name = "num_branches";
        let n = spec.int(name)?.unwrap_or(0);
        let wrong = |_| OpError::AttributeValue { name, found: n.to_string() };
        let n = usize::try_from(n).map_err(wrong)?;
        Ok(Arc::new(Self { step, num_branches: (n > 0).then_some(n) }))
    }

    fn sizes(&self, shape: &[usize]) -> Result<(Shape, Sizes), OpError> {
        let wrong = || OpError::Shapes {
            what: "streams",
            left: shape.to_vec(),
            right: self.num_branches.into_iter().collect(),
        };
        let (leading, branches, size) = match (self.num_branches, shape) {
            (Some(n), [leading @ .., width]) if width % n == 0 => (leading, n, width / n),
            (None, [leading @ .., n, size]) => (leading, *n, *size),
            _ => return Err(wrong()),
        };
        let rows = n_elements(leading).ok_or(OpError::TooLarge)?;
        Ok((Shape::from_slice(leading), Sizes { rows, branches, size }))
    }

    /// The gates at `index` for each feature of each stream.
    fn gates(&self, inputs: Inputs<'_>, index: usize, sizes: Sizes) -> Result<Vec<f64>, OpError> {
        let Sizes { rows, branches, size } = sizes;
        let view = inputs.tensor(index)?;
        let gates = floats::read(view)?;
        let n = rows.checked_mul(branches).ok_or(OpError::TooLarge)?;
        match gates.len() {
            len if Some(len) == n.checked_mul(size) => Ok(gates),
            len if len == n => {
                let all = gates.into_iter().flat_map(|gate| std::iter::repeat_n(gate, size));
                Ok(collected(all)?)
            }
            _ => {
                let (left, right) = (view.shape().to_vec(), vec![rows, branches, size]);
                Err(OpError::Shapes { what: "the gates of streams", left, right })
            }
        }
    }

    fn norm(
        &self,
        x: &mut [f64],
        inputs: Inputs<'_>,
        sizes: Sizes,
        epsilon: f32,
    ) -> Result<(), OpError> {
        standardize_rows(x, sizes.size, epsilon, false)?;
        let Some(scale) = inputs.optional_tensor(1)? else { return Ok(()) };
        let len = scale.len();
        if len != sizes.size && Some(len) != sizes.size.checked_mul(sizes.branches) {
            let (left, right) = (scale.shape().to_vec(), vec![sizes.branches, sizes.size]);
            return Err(OpError::Shapes { what: "the scale of streams", left, right });
        }
        floats::with_period(x, &floats::read(scale)?, |x, scale| *x *= scale)?;
        Ok(())
    }

    fn post_mix(&self, x: &[f64], inputs: Inputs<'_>, sizes: Sizes) -> Result<Vec<f64>, OpError> {
        let Sizes { rows, branches, size } = sizes;
        let n = |dims: &[usize]| n_elements(dims).ok_or(OpError::TooLarge);
        let output = floats::read_parameter(inputs, 1, n(&[rows, size])?)?;
        let mut y = self.gates(inputs, 2, sizes)?;
        let of_row = branches.checked_mul(size).ok_or(OpError::TooLarge)?.max(1);
        for (y, output) in y.chunks_exact_mut(of_row).zip(output.chunks_exact(size.max(1))) {
            floats::with_period(y, output, |gate, output| *gate *= output)?;
        }
        if inputs.get(3).is_none() {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
            return Ok(y);
        }
        let matrix = floats::read_parameter(inputs, 3, n(&[rows, branches, branches])?)?;
        let matrices = matrix.chunks_exact((branches * branches).max(1));
        for ((y, x), matrix) in y.chunks_exact_mut(of_row).zip(x.chunks_exact(of_row)).zip(matrices)
        {
            for (i, &weight) in matrix.iter().enumerate() {
                let (from, to) = (&x[i / branches * size..], &mut y[i % branches * size..][..size]);
                to.iter_mut().zip(from).for_each(|(y, x)| *y += weight * x);
            }
        }
        Ok(y)
    }
}

impl Operator for HyperConnection {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        if self.step == Step::PostMix {
            inputs.expect_dtype(1, dtype)?;
        }
        for i in (1..4).filter(|&i| inputs.get(i).is_some()) {
            inputs.dtype(i, DType::is_float)?;
        }
        let fact = inputs.fact(0)?;
        if !matches!(self.step, Step::PreMix { .. }) {
            return Ok(vec![fact.ty.clone().into()]);
        }
        let dims = match (fact.dims(), self.num_branches) {
            (Some([leading @ .., width]), Some(n)) => {
                let size = width.map(|width| (width % n == 0).then_some(width / n));
                Some(leading.iter().cloned().chain([size]).collect::<Dims>())
            }
            (Some([leading @ .., _, size]), None) => {
                Some(leading.iter().chain([size]).map(Dim::clone).collect())
            }
            (Some(dims), _) => {
                let (expected, found) = ("that of streams", dims.len());
                return Err(OpError::InputRank { index: 0, expected, found });
            }
            (None, _) => None,
        };
        Ok(vec![tensor_fact(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let view = inputs.tensor(0)?;
        let (mut shape, sizes) = self.sizes(view.shape())?;
        let mut x = floats::read(view)?;
        match self.step {
            Step::Norm { epsilon } => self.norm(&mut x, inputs, sizes, epsilon)?,
            Step::PostMix => x = self.post_mix(&x, inputs, sizes)?,
            Step::PreMix { scale } => {
                let gates = self.gates(inputs, 1, sizes)?;
                x.iter_mut().zip(gates).for_each(|(x, gate)| *x *= gate);
                let n = sizes.rows.checked_mul(sizes.size).ok_or(OpError::TooLarge)?;
                let mut y = filled(0.0, n)?;
                let rows = x.chunks_exact((sizes.branches * sizes.size).max(1));
                for (y, x) in y.chunks_exact_mut(sizes.size.max(1)).zip(rows) {
                    for x in x.chunks_exact(sizes.size) {
                        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
                    }
                    y.iter_mut().for_each(|y| *y *= f64::from(scale));
                }
                shape.push(sizes.size);
                return floats::write(outputs, 0, view.dtype(), &shape, &y);
            }
        }
        floats::write(outputs, 0, view.dtype(), view.shape(), &x)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor, f16};

    use crate::case::{Case, tensor};

    fn case(name: &'static str) -> Case {
        Case::new(name, 1).domain("com.microsoft")
    }

    /// Two streams of two features each, 1, 2 and 3, 4.
    fn streams(shape: &[usize]) -> Tensor {
        tensor(shape, &[1_f32, 2.0, 3.0, 4.0])
    }

    #[test]
    fn streams_are_summed_with_gates() {
        let flat = || case("HyperConnectionPreMix").attr("num_branches", Attr::Int(2));
        let gates = tensor(&[1, 2], &[2.0, -1.0].map(f16::from_f32));
        let y = tensor(&[1, 2], &[-1_f32, 0.0]);
        assert_eq!(flat().tensor(&[streams(&[1, 4]), gates.clone()]), Ok(y.clone()));
        let grouped = case("HyperConnectionPreMix").attr("reduction_scale", Attr::Float(3.0));
        let each = tensor(&[1, 2, 2], &[2_f32, 2.0, -1.0, -1.0]);
        let y = tensor(&[1, 2], &[-3_f32, 0.0]);
        assert_eq!(grouped.tensor(&[streams(&[1, 2, 2]), each]), Ok(y));
        assert!(flat().tensor(&[streams(&[1, 2, 2]), tensor(&[1], &[1_f32])]).is_err());
        assert!(case("HyperConnectionPreMix").tensor(&[streams(&[4]), gates]).is_err());
        let empty = Tensor::zeros(DType::F32, &[2, 0, 3]).unwrap();
        let none = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
        let zeros = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
        assert_eq!(case("HyperConnectionPreMix").tensor(&[empty, none]), Ok(zeros));
    }

    #[test]
    fn streams_are_mixed_and_take_an_output() {
        let case = || case("HyperConnectionPostMix");
        let inputs =
            |x: Tensor| [x, tensor(&[1, 2], &[10_f32, 20.0]), tensor(&[1, 2], &[1_f32, 0.5])];
        let y = tensor(&[1, 2, 2], &[11_f32, 22.0, 8.0, 14.0]);
        assert_eq!(case().tensor(&inputs(streams(&[1, 2, 2]))), Ok(y));
        let matrix = tensor(&[1, 2, 2], &[0_f32, 1.0, 2.0, 0.0]);
        let all = [&inputs(streams(&[1, 4]))[..], &[matrix]].concat();
        let y = tensor(&[1, 4], &[16_f32, 28.0, 6.0, 12.0]);
        assert_eq!(case().attr("num_branches", Attr::Int(2)).tensor(&all), Ok(y));
    }

    #[test]
    fn each_stream_has_its_norm() {
        let case = || case("BranchwiseRMSNorm").attr("epsilon", Attr::Float(0.0));
        let x = tensor(&[2, 2], &[1_f32, -1.0, 5.0, 5.0]);
        let y = tensor(&[2, 2], &[1_f32, -1.0, 1.0, 1.0]);
        assert_eq!(case().tensor(std::slice::from_ref(&x)), Ok(y));
        let y = tensor(&[2, 2], &[2_f32, -3.0, 2.0, 3.0]);
        assert_eq!(case().tensor(&[x.clone(), tensor(&[2], &[2_f32, 3.0])]), Ok(y));
        let y = tensor(&[2, 2], &[2_f32, -3.0, 4.0, 5.0]);
        assert_eq!(case().tensor(&[x.clone(), tensor(&[2, 2], &[2_f32, 3.0, 4.0, 5.0])]), Ok(y));
        assert!(case().tensor(&[x, tensor(&[3], &[1_f32; 3])]).is_err());
    }
}
