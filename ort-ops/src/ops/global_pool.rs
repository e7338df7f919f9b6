//! GlobalAveragePool, GlobalMaxPool and GlobalLpPool: one value per plane, `y[n, c] = f(x[n, c,
//! …])`.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Shape, TensorError, TensorView, go_on, n_elements,
    with_dtype,
};

use crate::infer::element_flops;
use crate::ops::lp_pool::{power, read_exponent, root};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "GlobalAveragePool",
        versions: (1, 22),
        types: DType::is_float,
        build: build_average,
    },
    OpDef {
        domain: "",
        name: "GlobalMaxPool",
        versions: (1, 22),
        types: DType::is_float,
        build: build_max,
    },
    OpDef {
        domain: "",
        name: "GlobalLpPool",
        versions: (1, 22),
        types: DType::is_float,
        build: build_lp,
    },
];

/// A pool whose window is the whole plane. `x`: `[N, C, D₁, …]`, float; `y`: `[N, C, 1, …]`.
///
/// Source: ONNX operator set, GlobalAveragePool-22, GlobalMaxPool-22 and GlobalLpPool-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GlobalPool {
    /// The mean; NaN for an empty plane.
    Average,
    /// The largest element, NaN if there is one; −∞ for an empty plane.
    Max,
    /// `(Σ |x|ᵖ)^(1/p)`; 0 for an empty plane.
    Lp {
        /// The exponent, greater than 0.
        p: f64,
    },
}

fn build_average(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(GlobalPool::Average))
}

fn build_max(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(GlobalPool::Max))
}

fn build_lp(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(GlobalPool::Lp { p: read_exponent(spec)? }))
}

impl GlobalPool {
    fn compute<T: Number>(self, x: TensorView<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
        let mut shape = Shape::from_slice(x.shape());
        if shape.len() < 2 {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found: shape.len() });
        }
        let n_plane = n_elements(&shape[2..]).ok_or(OpError::TooLarge)?;
        shape[2..].fill(1);
        let x = x.as_slice::<T>()?;
        let y = output.tensor(T::DTYPE, &shape)?.into_slice::<T>()?;
        for (i, y) in y.iter_mut().enumerate() {
            *y = T::from_f64(self.of(&x[i * n_plane..(i + 1) * n_plane])?);
        }
        Ok(())
    }

    fn of<T: Number>(self, plane: &[T]) -> Result<f64, TensorError> {
        let larger = |best, x: f64| if x > best || x.is_nan() { x } else { best };
        match self {
            Self::Average => Ok(fold(plane, 0.0, |sum, x| sum + x)? / plane.len() as f64),
            Self::Max => fold(plane, f64::NEG_INFINITY, larger),
            Self::Lp { p } => {
                let sum = fold(plane, 0.0, |sum, x| sum + power(p, x))?;
                Ok(root(p, sum))
            }
        }
    }
}

/// Folds the elements of a plane in order.
fn fold<T: Number>(
    plane: &[T],
    first: f64,
    f: impl Fn(f64, f64) -> f64,
) -> Result<f64, TensorError> {
    let mut result = first;
    for piece in plane.chunks(Pace::STEP) {
        result = piece.iter().fold(result, |result, x| f(result, x.to_f64()));
        go_on()?;
    }
    Ok(result)
}

impl Operator for GlobalPool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        if dims.len() < 2 {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found: dims.len() });
        }
        let ones = dims[2..].iter().map(|_| Dim::Known(1));
        Ok(vec![Fact::tensor(dtype, dims[..2].iter().cloned().chain(ones))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(x, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        element_flops(1, inputs.get(0))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    #[test]
    fn every_plane_becomes_one_value() {
        let x = tensor(&[1, 2, 2, 1], &[1_f32, 3.0, -4.0, 3.0]);
        let cases = [
            (Case::new("GlobalAveragePool", 1), [2_f32, -0.5]),
            (Case::new("GlobalMaxPool", 22), [3.0, 3.0]),
            (Case::new("GlobalLpPool", 2).attr("p", Attr::Int(1)), [4.0, 7.0]),
        ];
        for (case, expected) in cases {
            let y = case.tensor(std::slice::from_ref(&x));
            assert_eq!(y, Ok(tensor(&[1, 2, 1, 1], &expected)));
        }
    }

    #[test]
    fn nan_and_nothing_are_what_the_formula_says() {
        let x = tensor(&[1, 1, 2], &[f16::NAN, f16::ONE]);
        let y = Case::new("GlobalMaxPool", 22).tensor(&[x]).unwrap();
        assert!(y.as_slice::<f16>().unwrap()[0].is_nan());
        let nothing = Tensor::zeros(ort_tensor::DType::F32, &[1, 1, 0]).unwrap();
        let y = Case::new("GlobalMaxPool", 22).tensor(&[nothing]);
        assert_eq!(y, Ok(tensor(&[1, 1, 1], &[f32::NEG_INFINITY])));
        assert!(Case::new("GlobalMaxPool", 22).tensor(&[tensor(&[1], &[1_f32])]).is_err());
    }
}
