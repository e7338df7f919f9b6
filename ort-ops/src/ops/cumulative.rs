//! CumSum and CumProd: running sums and products.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, TensorError, filled, n_elements, with_dtype};

use crate::accumulate::{Accumulate, Sum};
use crate::elementwise::{like_first, only, unsupported};
use crate::infer::{folded, int_values, normalize_axis};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "CumProd",
        versions: (26, 26),
        types: is_allowed,
        build: |spec| Cumulative::build(spec, Fold::Product),
    },
    OpDef {
        domain: "",
        name: "CumSum",
        versions: (11, 14),
        types: is_allowed,
        build: |spec| Cumulative::build(spec, Fold::Sum),
    },
];

/// `y[.., k, ..] = Σ x[.., j, ..]` or `Π` over all `j ≤ k` along the axis in input 1 (a scalar of
/// int32 or int64). `x`: floats, which are accumulated in double precision and rounded once, or
/// integers of 32 and 64 bits, which wrap.
///
/// Source: ONNX operator set, CumSum-14, CumProd-26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cumulative {
    /// What is accumulated.
    pub fold: Fold,
    /// Whether only `j < k` are accumulated.
    pub exclusive: bool,
    /// Whether the axis is walked from its end.
    pub reverse: bool,
}

/// How elements are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// From 0 by addition.
    Sum,
    /// From 1 by multiplication.
    Product,
}

impl Cumulative {
    fn build(spec: &NodeSpec<'_>, fold: Fold) -> Result<Arc<dyn Operator>, OpError> {
        let exclusive = spec.flag("exclusive", false)?;
        let reverse = spec.flag("reverse", false)?;
        Ok(Arc::new(Self { fold, exclusive, reverse }))
    }

    /// `x` and `y` are `[outer, n, inner]`.
    fn run<T: Accumulate>(
        self,
        (n, inner): (usize, usize),
        x: &[T],
        y: &mut [T],
    ) -> Result<(), TensorError> {
        let slice = n.saturating_mul(inner);
        if slice == 0 {
            return Ok(());
        }
        let zero = T::Sum::default();
        let identity = if self.fold == Fold::Sum { zero } else { T::from_f64(1.0).widen() };
        let (mut totals, mut pace) = (filled(identity, inner)?, Pace::new());
        for (x, y) in x.chunks_exact(slice).zip(y.chunks_exact_mut(slice)) {
            totals.fill(identity);
            for k in 0..n {
                pace.go(inner)?;
                let k = if self.reverse { n - 1 - k } else { k };
                let row = k * inner..(k + 1) * inner;
                for ((total, x), y) in totals.iter_mut().zip(&x[row.clone()]).zip(&mut y[row]) {
                    let before = *total;
                    *total = match self.fold {
                        Fold::Sum => before.plus(x.widen()),
                        Fold::Product => zero.multiply_add(before, x.widen()),
                    };
                    *y = T::narrow(if self.exclusive { before } else { *total });
                }
            }
        }
        Ok(())
    }
}

impl Operator for Cumulative {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, is_allowed)?;
        inputs.dtype(1, DType::is_index)?;
        if let (Some(&[axis]), Some(rank)) =
            (inputs.fact(1)?.ints().as_deref(), inputs.fact(0)?.rank())
        {
            normalize_axis(axis, rank)?;
        }
        Ok(folded(self, inputs, facts))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, axis) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = int_values(axis)?.first().copied();
        let axis = axis.ok_or(OpError::InputValue { index: 1, what: "no axis" })?;
        let axis = normalize_axis(axis, x.shape().len())?;
        let inner = n_elements(&x.shape()[axis + 1..]).ok_or(OpError::TooLarge)?;
        let dims = (x.shape()[axis], inner);
        let y = only(outputs)?.tensor(x.dtype(), x.shape())?;
        with_dtype!(x.dtype(), number,
            T => self.run(dims, x.as_slice::<T>()?, y.into_slice()?)?,
            else => return Err(unsupported(0, x.dtype())));
        Ok(())
    }
}

const fn is_allowed(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    #[test]
    fn each_direction_with_and_without_the_element_itself() {
        let x = || tensor(&[3], &[2_i32, 3, 4]);
        let cases = [
            (0, 0, [2, 5, 9], [2, 6, 24]),
            (1, 0, [0, 2, 5], [1, 2, 6]),
            (0, 1, [9, 7, 4], [24, 12, 4]),
            (1, 1, [7, 4, 0], [12, 4, 1]),
        ];
        for (exclusive, reverse, sums, products) in cases {
            for (op, version, y) in [("CumSum", 14, sums), ("CumProd", 26, products)] {
                let case = Case::new(op, version).attr("exclusive", Attr::Int(exclusive));
                let case = case.attr("reverse", Attr::Int(reverse));
                assert_eq!(case.tensor(&[x(), Tensor::scalar(0_i64)]), Ok(tensor(&[3], &y)));
            }
        }
    }

    #[test]
    fn the_axis_may_be_any_and_count_from_the_back() {
        let run = |x: &Tensor, axis: i32| {
            Case::new("CumSum", 11).tensor(&[x.clone(), Tensor::scalar(axis)])
        };
        let x = tensor(&[2, 3], &[1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(run(&x, 0), Ok(tensor(&[2, 3], &[1.0_f64, 2.0, 3.0, 5.0, 7.0, 9.0])));
        assert_eq!(run(&x, -1), Ok(tensor(&[2, 3], &[1.0_f64, 3.0, 6.0, 4.0, 9.0, 15.0])));
        assert!(run(&x, 2).is_err());
        assert!(run(&Tensor::scalar(1.0_f32), 0).is_err());
        let empty = Tensor::zeros(ort_tensor::DType::F32, &[2, 0]).unwrap();
        assert_eq!(run(&empty, 1), Ok(empty));
    }

    #[test]
    fn half_floats_do_not_lose_small_steps() {
        let x = [2048.0, 1.0, 1.0].map(f16::from_f32);
        let y = Case::new("CumSum", 14).tensor(&[tensor(&[3], &x), Tensor::scalar(0_i32)]);
        assert_eq!(y, Ok(tensor(&[3], &[2048.0, 2048.0, 2050.0].map(f16::from_f32))));
    }
}
