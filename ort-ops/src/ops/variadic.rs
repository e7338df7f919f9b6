//! Functions of any number of operands, which broadcast against each other: Max, Mean, Min, Sum.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Element, Inputs, Number, Output, Shape, TensorView, collected, filled, with_dtype,
};

use crate::arithmetic::Arithmetic;
use crate::broadcast::{Operand, combine, common_shape, update};
use crate::elementwise::{dtype_of, ignore_consumed_inputs, only, unsupported};
use crate::infer::{broadcast_facts, element_flops, folded};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Max",
        versions: (1, 13),
        types: DType::is_number,
        build: |s| Variadic::Max.build(s),
    },
    OpDef {
        domain: "",
        name: "Mean",
        versions: (1, 13),
        types: DType::is_float,
        build: |s| Variadic::Mean.build(s),
    },
    OpDef {
        domain: "",
        name: "Min",
        versions: (1, 13),
        types: DType::is_number,
        build: |s| Variadic::Min.build(s),
    },
    OpDef {
        domain: "",
        name: "Sum",
        versions: (1, 13),
        types: DType::is_float,
        build: |s| Variadic::Sum.build(s),
    },
];

/// A function of one or more operands of one type, which broadcast against each other; the result
/// has the same type. NaN in any operand gives NaN. Can run in place of either of the first two.
///
/// Source: ONNX operator set, Max-13, Mean-13, Min-13, Sum-13. Before version 8 operands had to be
/// of one shape, which is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variadic {
    /// The largest; any number type.
    Max,
    /// `Σ xᵢ / n` of floats, summed in double precision and rounded once.
    Mean,
    /// The smallest; any number type.
    Min,
    /// `Σ xᵢ` of floats, summed in double precision and rounded once.
    Sum,
}

impl Variadic {
    fn build(self, spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        ignore_consumed_inputs(spec);
        if !spec.has_input(0) {
            return Err(OpError::InputCount { expected: "at least 1", found: 0 });
        }
        Ok(Arc::new(self))
    }

    fn allowed(self) -> fn(DType) -> bool {
        match self {
            Variadic::Max | Variadic::Min => DType::is_number,
            Variadic::Mean | Variadic::Sum => DType::is_float,
        }
    }
}

impl Operator for Variadic {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, self.allowed())?;
        for i in 1..inputs.len() {
            inputs.fact(i)?;
            inputs.expect_dtype(i, dtype)?;
        }
        let facts = vec![broadcast_facts(inputs, dtype)?];
        match self {
            Variadic::Max | Variadic::Min => Ok(folded(self, inputs, facts)),
            // Kernels may round sums differently.
            Variadic::Mean | Variadic::Sum => Ok(facts),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let dtype = match output.in_place_tensor() {
            Some((_, view)) => view.dtype(),
            None => dtype_of(0, inputs, output)?,
        };
        match self {
            Variadic::Max => with_dtype!(dtype, number,
                T => fold::<T>(inputs, output, |a, b| a.larger(*b)),
                else => Err(unsupported(0, dtype))),
            Variadic::Min => with_dtype!(dtype, number,
                T => fold::<T>(inputs, output, |a, b| a.smaller(*b)),
                else => Err(unsupported(0, dtype))),
            Variadic::Sum => with_dtype!(dtype, float,
                T => sum::<T>(inputs, output, 1.0),
                else => Err(unsupported(0, dtype))),
            Variadic::Mean => with_dtype!(dtype, float,
                T => sum::<T>(inputs, output, inputs.len().max(1) as f64),
                else => Err(unsupported(0, dtype))),
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0), (1, 0)], ..Behaviour::default() }
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        element_flops(inputs.len().saturating_sub(1), outputs.first())
    }
}

/// `y = f(… f(f(x₀, x₁), x₂) …)`.
fn fold<T: Element>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: impl Fn(&T, &T) -> T,
) -> Result<(), OpError> {
    if inputs.len() == 2 {
        return combine(inputs, output, &f);
    }
    let (shape, y) = destination::<T>(inputs, output)?;
    let is_in_place = (0..inputs.len()).any(|i| inputs.get(i).is_none());
    for (i, x) in operands(inputs).enumerate() {
        let x = Operand::new(x?)?;
        if i == 0 && !is_in_place {
            update((&shape, &mut *y), x, &|_, x| *x)?;
        } else {
            update((&shape, &mut *y), x, &f)?;
        }
    }
    Ok(())
}

/// `y = Σ xᵢ / divisor`, rounded once.
fn sum<T: Number>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    divisor: f64,
) -> Result<(), OpError> {
    if inputs.len() == 2 {
        return combine(inputs, output, &|a: &T, b: &T| {
            T::from_f64((a.to_f64() + b.to_f64()) / divisor)
        });
    }
    let is_in_place = output.in_place_tensor().is_some();
    let (shape, y) = destination::<T>(inputs, output)?;
    let mut sums: Vec<f64> = match is_in_place {
        true => collected(y.iter().map(|y| y.to_f64()))?,
        false => filled(0.0, y.len())?,
    };
    for x in operands(inputs) {
        update((&shape, &mut sums), Operand::<T>::new(x?)?, &|sum, x| sum + x.to_f64())?;
    }
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = T::from_f64(sum / divisor);
    }
    Ok(())
}

/// The operands, except the one whose memory the output shares.
fn operands<'a>(inputs: Inputs<'a>) -> impl Iterator<Item = Result<TensorView<'a>, OpError>> {
    let present = (0..inputs.len()).filter(move |&i| inputs.get(i).is_some());
    present.map(move |i| Ok(inputs.tensor(i)?))
}

/// Shape and memory of the result.
fn destination<'o, T: Element>(
    inputs: Inputs<'_>,
    output: &'o mut Output<'_>,
) -> Result<(Shape, &'o mut [T]), OpError> {
    let shape = match output.in_place_tensor() {
        Some((_, view)) => Shape::from_slice(view.shape()),
        None => {
            let shapes: Result<Vec<_>, _> =
                operands(inputs).map(|x| x.map(|x| x.shape())).collect();
            common_shape(shapes?)?
        }
    };
    let y = output.tensor(T::DTYPE, &shape)?.into_slice()?;
    Ok((shape, y))
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_tensor::{Tensor, f16};

    #[test]
    fn one_two_or_more_operands_are_folded() {
        let (a, b, c) = (
            tensor(&[3], &[3.0_f32, 2.0, 1.0]),
            tensor(&[3], &[1.0_f32, 4.0, f32::NAN]),
            tensor(&[2, 1], &[2.0_f32, 5.0]),
        );
        let nan = f32::NAN;
        let cases = [
            ("Max", [3.0, 4.0, nan, 5.0, 5.0, nan]),
            ("Min", [1.0, 2.0, nan, 1.0, 2.0, nan]),
            ("Sum", [6.0, 8.0, nan, 9.0, 11.0, nan]),
            ("Mean", [2.0, 8.0 / 3.0, nan, 3.0, 11.0 / 3.0, nan]),
        ];
        for (op, y) in cases {
            let case = Case::new(op, 13);
            let made = case.tensor(&[a.clone(), b.clone(), c.clone()]).unwrap();
            assert_eq!(made.shape(), [2, 3]);
            for (made, y) in made.as_slice::<f32>().unwrap().iter().zip(y) {
                assert!(*made == y || made.is_nan() && y.is_nan(), "{op}: {made}, not {y}");
            }
            assert_eq!(case.tensor(std::slice::from_ref(&a)), Ok(a.clone()), "{op} of one");
            let pair = case.tensor(&[a.clone(), a.clone()]).unwrap();
            let y = if op == "Sum" { tensor(&[3], &[6.0_f32, 4.0, 2.0]) } else { a.clone() };
            assert_eq!(pair, y, "{op} of two");
            let full = tensor(&[2, 3], &[1.0_f32; 6]);
            assert!(case.tensor(&[full.clone(), a.clone(), full]).is_ok(), "{op} in place");
        }
    }

    #[test]
    fn sums_of_half_floats_are_rounded_once() {
        let x = |x| Tensor::scalar(f16::from_f32(x));
        let y = Case::new("Sum", 13).tensor(&[x(2048.0), x(1.0), x(1.0)]);
        assert_eq!(y, Ok(x(2050.0)));
        let mean = Case::new("Mean", 13).tensor(&[x(65504.0), x(65504.0)]);
        assert_eq!(mean, Ok(x(65504.0)));
    }

    #[test]
    fn integers_have_a_largest_but_no_sum() {
        let x = || [tensor(&[2], &[1_u64, u64::MAX]), tensor(&[1], &[2_u64])];
        assert_eq!(Case::new("Max", 12).tensor(&x()), Ok(tensor(&[2], &[2, u64::MAX])));
        assert!(Case::new("Sum", 13).tensor(&x()).is_err());
        assert!(Case::new("Max", 13).tensor(&[]).is_err());
    }
}
