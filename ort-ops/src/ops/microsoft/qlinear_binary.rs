//! QLinearAdd and QLinearMul: `c = f(a, b)` of quantized operands, which broadcast.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_dtype};

use crate::broadcast::{Operand, common_shape, zip};
use crate::elementwise::{only, unsupported};
use crate::infer::broadcast_dims;
use crate::quantized::{Scheme, saturate};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("QLinearAdd", |_| Ok(Arc::new(QLinearBinary::Add))),
    def("QLinearMul", |_| Ok(Arc::new(QLinearBinary::Mul))),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types: DType::is_byte, build }
}

/// `c = saturate(round(f(a, b)/c_scale + c_zero_point))`, where `a` and `b` are `scale · (q −
/// zero_point)`. Inputs: `a`, its scale and zero point, the same of `b`, then scale and zero point
/// of `c`; zero points may be absent. Quantized values are all int8 or all uint8, scales float.
///
/// Computed in float32 in ONNX Runtime's order on x86, rounding half to even after the zero point
/// was added; other orders may differ by one.
///
/// Source: com.microsoft, QLinearAdd-1 and QLinearMul-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QLinearBinary {
    /// `a + b`.
    Add,
    /// `a · b`.
    Mul,
}

impl QLinearBinary {
    /// The quantized value, not yet rounded, from those of `a` and `b`.
    fn function(self, a: Scheme, b: Scheme, c: Scheme) -> impl Fn(f32, f32) -> f32 {
        let ratios = (a.scale / c.scale, b.scale / c.scale);
        let fixed = c.zero_point - (ratios.0 * a.zero_point + ratios.1 * b.zero_point);
        let factor = a.scale * b.scale / c.scale;
        move |x, y| match self {
            Self::Add => x.mul_add(ratios.0, y.mul_add(ratios.1, fixed)),
            Self::Mul => (x - a.zero_point) * (y - b.zero_point) * factor + c.zero_point,
        }
    }
}

impl Operator for QLinearBinary {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_byte)?;
        inputs.fact(3)?;
        inputs.expect_dtype(3, dtype)?;
        [1, 4, 6].iter().try_for_each(|&i| Scheme::expect(inputs, i, dtype))?;
        match (inputs.fact(0)?.dims(), inputs.fact(3)?.dims()) {
            (Some(a), Some(b)) => Ok(vec![Fact::tensor(dtype, broadcast_dims(a, b)?)]),
            _ => Ok(vec![Fact::unranked(dtype)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let scheme = |index| Scheme::read(inputs, index);
        let f = self.function(scheme(1)?, scheme(4)?, scheme(6)?);
        let shape = common_shape([a.shape(), b.shape()])?;
        let y = only(outputs)?.tensor(a.dtype(), &shape)?;
        with_dtype!(a.dtype(), [i8, u8], T => {
            let (a, b) = (Operand::<T>::new(a)?, Operand::<T>::new(b)?);
            zip((&shape, y.into_slice::<T>()?), a, b, &|&a, &b| {
                saturate(f(f32::from(a), f32::from(b)).round_ties_even())
            })
        }, else => Err(unsupported(0, a.dtype())))
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Element, Tensor};

    use crate::case::{Case, tensor};

    /// Operands with their scales and zero points, and those of the result.
    fn inputs<T: Element>(
        (a, a_zero): (Tensor, T),
        (b, b_zero): (Tensor, T),
        c_zero: T,
    ) -> Vec<Tensor> {
        let (half, one) = (Tensor::scalar(0.5_f32), Tensor::scalar(1_f32));
        let zeros = [a_zero, b_zero, c_zero].map(Tensor::scalar);
        let [a_zero, b_zero, c_zero] = zeros;
        vec![a, half.clone(), a_zero, b, one, b_zero, half, c_zero]
    }

    fn run(name: &'static str, inputs: &[Tensor]) -> Result<Tensor, String> {
        Case::new(name, 1).domain("com.microsoft").tensor(inputs)
    }

    #[test]
    fn results_saturate_and_broadcast() {
        // c = a' + 2·b', or a'·b'.
        let a = tensor(&[2, 2], &[1_u8, 2, 200, 255]);
        let b = tensor(&[2], &[3_u8, 90]);
        let inputs = inputs((a, 2_u8), (b, 1), 10);
        let y = run("QLinearAdd", &inputs);
        assert_eq!(y, Ok(tensor(&[2, 2], &[13_u8, 188, 212, 255])));
        let y = run("QLinearMul", &inputs);
        assert_eq!(y, Ok(tensor(&[2, 2], &[8_u8, 10, 255, 255])));
    }

    #[test]
    fn halves_are_rounded_to_even_after_the_zero_point() {
        let a = || tensor(&[4], &[1_i8, 3, -1, -3]);
        let zero = || tensor(&[], &[0_i8]);
        for (c_zero, expected) in [(0_i8, [0_i8, 2, 0, -2]), (1, [2, 2, 0, 0])] {
            let mut inputs = inputs((a(), 0), (zero(), 0), c_zero);
            inputs[6] = Tensor::scalar(1_f32);
            assert_eq!(run("QLinearAdd", &inputs), Ok(tensor(&[4], &expected)));
        }
    }

    #[test]
    fn zero_points_may_be_absent_and_types_may_not_differ() {
        let one = || tensor(&[1], &[1_u8]);
        let given = inputs((one(), 0_u8), (one(), 0), 0);
        let mut absent: Vec<_> = given.iter().cloned().map(Some).collect();
        [2, 5, 7].iter().for_each(|&i| absent[i] = None);
        let case = Case::new("QLinearAdd", 1).domain("com.microsoft");
        let y = case.run_optional(&absent).unwrap();
        assert_eq!(y[0].as_tensor(), Ok(&tensor(&[1], &[3_u8])));
        let mut wrong = given;
        wrong[3] = tensor(&[1], &[1_i8]);
        assert!(case.run(&wrong).is_err());
    }
}
