//! LpPool: `y[n, c, q] = (Σ |x[n, c, q·stride + k·dilation − pad]|ᵖ)^(1/p)`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorView, with_dtype};

use crate::infer::WindowAttrs;
use crate::pool::{Pool, pool_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "LpPool",
    versions: (1, 22),
    types: DType::is_float,
    build: LpPool::build,
}];

/// LpPool: the p-norm of each window, padding as 0. `x`: `[N, C, D₁, …]`, float.
///
/// Source: ONNX operator set, LpPool-22.
#[derive(Clone, Debug, PartialEq)]
pub struct LpPool {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// The exponent, greater than 0.
    pub p: f64,
}

impl LpPool {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let mut window = match spec.since_version {
            ..18 => WindowAttrs::read_undilated(spec)?,
            _ => WindowAttrs::read(spec)?,
        };
        if window.kernel.is_none() {
            return Err(OpError::MissingAttribute { name: "kernel_shape" });
        }
        window.is_ceil = spec.since_version >= 18 && spec.flag("ceil_mode", false)?;
        Ok(Arc::new(Self { window, p: read_exponent(spec)? }))
    }

    fn compute<T: Number>(
        &self,
        x: TensorView<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let pool = Pool::new(&self.window, x.shape())?;
        let x = x.as_slice::<T>()?;
        let y = output.tensor(T::DTYPE, &pool.shape)?.into_slice::<T>()?;
        pool.for_each(|seen| {
            let plane = &x[seen.plane * pool.n_plane..];
            y[seen.output] = T::from_f64(norm(self.p, seen.taps.iter().map(|&at| plane[at])));
        })?;
        Ok(())
    }
}

impl Operator for LpPool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        Ok(vec![pool_fact(&self.window, inputs.fact(0)?, dtype)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(x, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }
}

/// The attribute `p`: a float in the first version, an integer since the second; 2 by default.
pub(crate) fn read_exponent(spec: &NodeSpec<'_>) -> Result<f64, OpError> {
    let p = match spec.since_version {
        ..2 => spec.float("p")?.map_or(2.0, f64::from),
        _ => spec.int("p")?.map_or(2.0, |p| p as f64),
    };
    if p > 0.0 { Ok(p) } else { Err(OpError::AttributeValue { name: "p", found: p.to_string() }) }
}

/// `(Σ |x|ᵖ)^(1/p)`; 0 without elements.
pub(crate) fn norm<T: Number>(p: f64, x: impl Iterator<Item = T>) -> f64 {
    root(p, x.fold(0.0, |sum, x| sum + power(p, x.to_f64())))
}

/// `|x|ᵖ`.
pub(crate) fn power(p: f64, x: f64) -> f64 {
    match p {
        1.0 => x.abs(),
        2.0 => x * x,
        _ => x.abs().powf(p),
    }
}

/// `sum^(1/p)`.
pub(crate) fn root(p: f64, sum: f64) -> f64 {
    match p {
        1.0 => sum,
        2.0 => sum.sqrt(),
        _ => sum.powf(p.recip()),
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn the_exponent_is_two_unless_given() {
        let pool = |version| Case::new("LpPool", version).attr("kernel_shape", Attr::Ints(vec![2]));
        let cases = [
            (pool(22), 5_f32),
            (pool(22).attr("p", Attr::Int(1)), 7.0),
            (pool(1).attr("p", Attr::Float(1.0)), 7.0),
        ];
        for (case, expected) in cases {
            let y = case.tensor(&[tensor(&[1, 1, 2], &[3_f32, -4.0])]);
            assert_eq!(y, Ok(tensor(&[1, 1, 1], &[expected])));
        }
        let y = pool(11).attr("p", Attr::Int(0)).tensor(&[tensor(&[1, 1, 2], &[3_f32, -4.0])]);
        assert!(y.is_err());
    }

    #[test]
    fn padding_adds_nothing() {
        let case = Case::new("LpPool", 18)
            .attr("kernel_shape", Attr::Ints(vec![2]))
            .attr("pads", Attr::Ints(vec![1, 1]));
        let y = case.tensor(&[tensor(&[1, 1, 1], &[-3_f64])]);
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[3_f64, 3.0])));
    }
}
