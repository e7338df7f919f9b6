//! AveragePool: `y[n, c, p] = Σ x[n, c, p·stride + k·dilation − pad] / count`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorView, with_dtype};

use crate::infer::{WindowAttrs, unravel};
use crate::pool::{Pool, pool_fact, pool_flops};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "AveragePool",
    versions: (1, 22),
    types: DType::is_float,
    build: AveragePool::build,
}];

/// AveragePool: the mean of each window. `x`: `[N, C, D₁, …]`, float. The sum is divided by the number of elements in
/// the window: with `counts_padding` that includes the padding, but nothing beyond. An empty window has the mean 0.
///
/// Source: ONNX operator set, AveragePool-22.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AveragePool {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// Whether padding counts as elements.
    pub counts_padding: bool,
}

impl AveragePool {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let version = spec.since_version;
        let mut window = match version {
            ..19 => WindowAttrs::read_undilated(spec)?,
            _ => WindowAttrs::read(spec)?,
        };
        if window.kernel.is_none() {
            return Err(OpError::MissingAttribute { name: "kernel_shape" });
        }
        window.is_ceil = version >= 10 && spec.flag("ceil_mode", false)?;
        let counts_padding = version >= 7 && spec.flag("count_include_pad", false)?;
        Ok(Arc::new(Self { window, counts_padding }))
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
            // Not `sum`, which gives −0 for no elements.
            let sum = seen.taps.iter().fold(0.0, |sum, &at| sum + plane[at].to_f64());
            let count = if self.counts_padding {
                pool.window.n_taps_within_padding(&unravel(seen.window, &pool.window.output))
            } else {
                seen.taps.len()
            };
            // An empty sum is 0, whatever it is divided by.
            y[seen.output] = T::from_f64(sum / count.max(1) as f64);
        })?;
        Ok(())
    }
}

impl Operator for AveragePool {
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

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        pool_flops(&self.window, outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::bf16;

    use crate::case::{Case, tensor};

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    fn pool(kernel: i64) -> Case {
        Case::new("AveragePool", 22).attr("kernel_shape", ints(&[kernel]))
    }

    #[test]
    fn padding_counts_only_when_asked_for_and_what_is_behind_it_never() {
        let padded = |count: i64| {
            let case = pool(2).attr("count_include_pad", Attr::Int(count));
            let case = case.attr("pads", ints(&[1, 0])).attr("strides", ints(&[2]));
            case.attr("ceil_mode", Attr::Int(1))
        };
        let cases: [(Case, &[f32]); 4] = [
            (pool(2), &[3.0, 5.0, 7.0]),
            (pool(2).attr("dilations", ints(&[2])), &[4.0, 6.0]),
            (padded(0), &[2.0, 5.0, 8.0]),
            (padded(1), &[1.0, 5.0, 8.0]),
        ];
        for (case, expected) in cases {
            let y = case.tensor(&[tensor(&[1, 1, 4], &[2_f32, 4.0, 6.0, 8.0])]);
            assert_eq!(y, Ok(tensor(&[1, 1, expected.len()], expected)));
        }
    }

    #[test]
    fn a_window_that_sees_nothing_has_the_mean_zero() {
        let case = pool(1).attr("pads", ints(&[1, 1]));
        let y = case.tensor(&[tensor(&[1, 1, 1], &[bf16::ONE])]);
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[bf16::ZERO, bf16::ONE, bf16::ZERO])));
    }

    #[test]
    fn attributes_of_later_versions_are_unknown_to_earlier_ones() {
        let case = Case::new("AveragePool", 7).attr("kernel_shape", ints(&[1]));
        let x = tensor(&[1, 1, 1], &[1_f32]);
        let error = case.attr("ceil_mode", Attr::Int(1)).tensor(&[x]).unwrap_err();
        assert_eq!(error, "unknown attribute `ceil_mode`");
    }
}
