//! The Reduce family: `y = end(combine over axes of map(x))`.

// collects are bounded: by the rank

#[cfg(test)]
mod tests;
mod wide;

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, Inputs, Number, Output, Shape, TensorError, bf16, f16, n_elements, with_dtype,
};

use self::wide::{LogSumExp, Reducible, Wide};
use crate::infer::{Axes, element_flops, normalize_axes, reduced_fact};
use crate::walk::Walk;

/// The family: name, newest version, version that made `axes` an input, and what it computes.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:literal $newest:literal $axes_input:literal => $form:ident;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: "",
            name: $name,
            versions: (1, $newest),
            types: Form::$form.allowed(),
            build: |spec| Reduce::build(spec, Form::$form, $axes_input),
        }),*];

        /// The reduction of elements `x`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Form {
            $($(#[$doc])* $form,)*
        }
    };
}

reductions! {
    /// `Σ |x|`; 0 if empty.
    "ReduceL1" 18 18 => L1;
    /// `√Σ x²`; 0 if empty.
    "ReduceL2" 18 18 => L2;
    /// `ln Σ x`; −∞ if empty.
    "ReduceLogSum" 28 18 => LogSum;
    /// `ln Σ exp(x)`, in range wherever `x` is; −∞ if empty.
    "ReduceLogSumExp" 28 18 => LogSumExp;
    /// The largest; if empty −∞, the smallest integer or false.
    "ReduceMax" 20 18 => Max;
    /// `Σ x / n`, integers rounded towards 0; 0 if empty, where the standard leaves it open.
    "ReduceMean" 18 18 => Mean;
    /// The smallest; if empty +∞, the largest integer or true.
    "ReduceMin" 20 18 => Min;
    /// `Π x`; 1 if empty.
    "ReduceProd" 18 18 => Prod;
    /// `Σ x`; 0 if empty.
    "ReduceSum" 13 13 => Sum;
    /// `Σ x²`; 0 if empty.
    "ReduceSumSquare" 18 18 => SumSquare;
}

/// An operator of the Reduce family, on floats and 32- or 64-bit integers; Max and Min also on
/// 8-bit integers and booleans. Floats accumulate in f64 and are rounded once; integers wrap; results that are not
/// integers are rounded towards 0 and saturate. Max and Min give NaN if any element is NaN.
///
/// Source: ONNX operator set, ReduceSum-13, ReduceMax-20, ReduceMin-20, ReduceLogSum-28,
/// ReduceLogSumExp-28 and Reduce…-18, with the integers that version 28 has removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// Which of the family.
    pub form: Form,
    /// The axes, where they are an attribute; else they are input 1.
    pub axes: Option<Vec<i64>>,
    /// Whether input 1 may be the axes.
    pub has_axes_input: bool,
    /// Whether a reduced dimension stays, as 1.
    pub keeps_dims: bool,
    /// Whether an empty list means no axes; else it means all.
    pub no_axes_is_none: bool,
}

impl Reduce {
    fn build(
        spec: &NodeSpec<'_>,
        form: Form,
        axes_input: i32,
    ) -> Result<Arc<dyn Operator>, OpError> {
        let has_axes_input = spec.since_version >= axes_input;
        let axes = if has_axes_input { None } else { spec.ints("axes")?.map(<[i64]>::to_vec) };
        let no_axes_is_none = has_axes_input && spec.flag("noop_with_empty_axes", false)?;
        let keeps_dims = spec.flag("keepdims", true)?;
        Ok(Arc::new(Self { form, axes, has_axes_input, keeps_dims, no_axes_is_none }))
    }

    /// The meaning of a list of axes.
    fn meaning<'a>(&self, axes: &'a [i64]) -> Axes<'a> {
        match axes {
            [] if !self.no_axes_is_none => Axes::All,
            axes => Axes::These(axes),
        }
    }

    /// For each dimension, whether it is reduced.
    ///
    /// # Errors
    /// If an axis is out of range or occurs twice.
    fn is_reduced(&self, inputs: Inputs<'_>, rank: usize) -> Result<Vec<bool>, OpError> {
        let axes = match inputs.optional_tensor(1)? {
            Some(axes) if self.has_axes_input => axes.as_slice::<i64>()?,
            _ => self.axes.as_deref().unwrap_or_default(),
        };
        // bounded: by the rank
        let Axes::These(axes) = self.meaning(axes) else { return Ok(vec![true; rank]) };
        let axes = normalize_axes(axes, rank)?;
        Ok((0..rank).map(|i| axes.binary_search(&i).is_ok()).collect())
    }
}

impl Operator for Reduce {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, self.form.allowed())?;
        let known;
        let axes = match inputs.get(1).filter(|_| self.has_axes_input) {
            None => self.meaning(self.axes.as_deref().unwrap_or_default()),
            Some(fact) => {
                inputs.expect_dtype(1, DType::I64)?;
                known = fact.ints();
                match (&known, fact.shape().as_deref()) {
                    (Some(axes), _) => self.meaning(axes),
                    (None, Some([0])) => self.meaning(&[]),
                    (None, Some([n])) => Axes::Unknown(Some(*n)),
                    _ => Axes::Unknown(None),
                }
            }
        };
        Ok(vec![reduced_fact(inputs.fact(0)?, dtype, axes, self.keeps_dims)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let is_reduced = self.is_reduced(inputs, x.shape().len())?;
        let axes = || x.shape().iter().copied().zip(is_reduced.iter().copied());
        let shape: Shape = axes()
            .filter(|&(_, is_reduced)| self.keeps_dims || !is_reduced)
            .map(|(dim, is_reduced)| if is_reduced { 1 } else { dim })
            .collect();
        let joined: Shape = axes().filter(|axis| axis.1).map(|axis| axis.0).collect();
        // Where the product overflows, another dimension is zero and there is nothing to divide.
        let n = n_elements(&joined).unwrap_or(0);
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        let walk = Walk::new(x.shape(), &is_reduced);
        let other = || OpError::Unsupported { what: "a reduction of this element type" };
        match self.form {
            Form::Max | Form::Min => with_dtype!(x.dtype(),
                [f32, f64, f16, bf16, i8, i32, i64, u8, u32, u64, Bool],
                T => extreme::<T>(self.form, &walk, x.as_slice()?, y.into_slice()?)?,
                else => return Err(other())),
            form => with_dtype!(x.dtype(), [f32, f64, f16, bf16, i32, i64, u32, u64],
                T => arithmetic::<T>(form, &walk, n, x.as_slice()?, y.into_slice()?)?,
                else => return Err(other())),
        }
        Ok(())
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        element_flops(1, inputs.get(0))
    }
}

impl Form {
    const fn allowed(self) -> fn(DType) -> bool {
        match self {
            Form::Max | Form::Min => is_ordered,
            _ => is_summable,
        }
    }
}

fn is_summable(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

fn is_ordered(dtype: DType) -> bool {
    is_summable(dtype) || matches!(dtype, DType::I8 | DType::U8 | DType::Bool)
}

/// The smallest or the largest.
fn extreme<T: Reducible>(form: Form, walk: &Walk, x: &[T], y: &mut [T]) -> Result<(), TensorError> {
    let results = match form {
        Form::Min => walk.fold(x, T::HIGHEST, T::widen, Wide::smaller)?,
        _ => walk.fold(x, T::LOWEST, T::widen, Wide::larger)?,
    };
    write(y, results, T::narrow);
    Ok(())
}

/// All except the extremes: the map, the combination, and the final step. `n` elements are reduced to each result.
fn arithmetic<T: Reducible + Number>(
    form: Form,
    walk: &Walk,
    n: usize,
    x: &[T],
    y: &mut [T],
) -> Result<(), TensorError> {
    let zero = T::Wide::ZERO;
    let sum = || walk.fold(x, zero, T::widen, Wide::plus);
    let sum_square = || walk.fold(x, zero, |x| x.widen().times(x.widen()), Wide::plus);
    let rounded = |end: fn(f64) -> f64| move |sum: T::Wide| T::from_f64(end(sum.to_f64()));
    match form {
        Form::Sum => write(y, sum()?, T::narrow),
        Form::Mean => write(y, sum()?, |sum| T::narrow(sum.over(n))),
        Form::LogSum => write(y, sum()?, rounded(f64::ln)),
        Form::SumSquare => write(y, sum_square()?, T::narrow),
        Form::L2 => write(y, sum_square()?, rounded(f64::sqrt)),
        Form::L1 => {
            write(y, walk.fold(x, zero, |x| x.widen().magnitude(), Wide::plus)?, T::narrow);
        }
        Form::Prod => write(y, walk.fold(x, T::Wide::ONE, T::widen, Wide::times)?, T::narrow),
        Form::LogSumExp => {
            let one = |x: T| LogSumExp::one(x.to_f64());
            let results = walk.fold(x, LogSumExp::EMPTY, one, LogSumExp::combine)?;
            write(y, results, |result| T::from_f64(result.value()));
        }
        Form::Max | Form::Min => extreme(form, walk, x, y)?,
    }
    Ok(())
}

fn write<T, A>(y: &mut [T], results: Vec<A>, end: impl Fn(A) -> T) {
    y.iter_mut().zip(results).for_each(|(y, result)| *y = end(result));
}
