//! Products of quantized matrices whose right operand is constant: MatMulInteger,
//! MatMulIntegerToFloat, DynamicQuantizeMatMul, QLinearMatMul and QGemm.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Fact, OpError};
use ort_kernels::quantize::{Requantize, Scales, quantize_u8, scale_sums};
use ort_ops::infer::matmul_shape;
use ort_ops::ops::matmul_integer::MatMulInteger;
use ort_ops::ops::microsoft::matmul_integer_to_float::{
    DynamicQuantizeMatMul, MatMulIntegerToFloat,
};
use ort_ops::ops::microsoft::qgemm::QGemm;
use ort_ops::ops::qlinear_matmul::QLinearMatMul;
use ort_tensor::{DType, Inputs, Shape, TensorView};

use super::{Compiled, Compiler, KernelDef};
use crate::bytes::{ByteProduct, FLIP, Left, Right, split_floats, variant_name, zero_point};
use crate::cpu::Cpu;
use crate::scheme::{Scheme, is_scale, scale_at, scaled_factors};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The indices of the inputs; the left operand is input 0.
#[derive(Clone, Copy, Debug, Default)]
struct Roles {
    a_scale: Option<usize>,
    a_zero: Option<usize>,
    b: usize,
    b_scale: Option<usize>,
    b_zero: usize,
    is_a_transposed: bool,
    is_b_transposed: bool,
    /// Added to the sums, int32.
    sum_bias: Option<usize>,
    /// Added to the results, float.
    bias: Option<usize>,
    y_scale: Option<usize>,
    y_zero: Option<usize>,
    /// A constant factor.
    alpha: f32,
}

/// One product, with a packed right operand.
#[derive(Debug)]
struct ByteMatMul {
    cpu: Cpu,
    roles: Roles,
    right: Right,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    m: usize,
    shape: Shape,
}

/// The roles of the inputs, if the claim's node is one of these operators.
fn roles(compiler: &Compiler<'_>) -> Option<Roles> {
    let one = Roles { alpha: 1.0, ..Roles::default() };
    if compiler.op::<MatMulInteger>().is_some() {
        return Some(Roles { a_zero: Some(2), b: 1, b_zero: 3, ..one });
    }
    if compiler.op::<MatMulIntegerToFloat>().is_some() {
        let (a_scale, b_scale, bias) = (Some(2), Some(3), Some(6));
        return Some(Roles { a_scale, b_scale, a_zero: Some(4), b: 1, b_zero: 5, bias, ..one });
    }
    if compiler.op::<DynamicQuantizeMatMul>().is_some() {
        return Some(Roles { b: 1, b_scale: Some(2), b_zero: 3, bias: Some(4), ..one });
    }
    let linear = Roles {
        a_scale: Some(1),
        a_zero: Some(2),
        b: 3,
        b_scale: Some(4),
        b_zero: 5,
        y_scale: Some(6),
        y_zero: Some(7),
        ..one
    };
    if compiler.op::<QLinearMatMul>().is_some() {
        return Some(linear);
    }
    let &QGemm { alpha, is_a_transposed, is_b_transposed } = compiler.op()?;
    let (y_scale, y_zero) = (Some(7), Some(8));
    let transposed = Roles { is_a_transposed, is_b_transposed, ..linear };
    Some(Roles { alpha, sum_bias: Some(6), y_scale, y_zero, ..transposed })
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(roles) = roles(compiler) else { return Ok(None) };
    let Some(right) = Right::compile(compiler, roles.b, roles.b_zero, roles.is_b_transposed) else {
        return Ok(None);
    };
    let fact = |input: Option<usize>| input.and_then(|input| compiler.fact(input));
    let is_one = |input: Option<usize>| input.is_none_or(|input| compiler.is_one_or_none(input));
    let is_row = |input| {
        let fits = |fact: &Fact| matches!(n_elements(fact), Some(n) if n == right.n);
        fact(input).is_none_or(fits)
    };
    // Quantized results do not determine the type of their scales.
    let is_float = |dtype| dtype == DType::F32 || roles.y_scale.is_some() && is_scale(dtype);
    let is_float = |input| fact(input).is_none_or(|fact| fact.dtype().is_some_and(is_float));
    let are_single =
        [roles.a_scale, roles.a_zero, roles.y_scale, roles.y_zero].into_iter().all(is_one);
    let is_scaled = is_one(roles.b_scale) || is_row(roles.b_scale);
    let are_rows = is_row(roles.sum_bias) && is_row(roles.bias);
    let scales = [roles.a_scale, roles.b_scale, roles.y_scale, roles.bias];
    let is_left = match compiler.fact(0).and_then(Fact::dtype) {
        Some(DType::U8 | DType::I8) => true,
        Some(DType::F32) => roles.a_scale.is_none(),
        _ => false,
    };
    let dtype = match (fact(roles.y_zero), roles.b_scale) {
        (Some(zero), _) => zero.dtype().filter(|dtype| dtype.is_byte()),
        (None, Some(_)) => Some(DType::F32),
        (None, None) => Some(DType::I32),
    };
    let Some(dtype) = dtype else { return Ok(None) };
    if !(are_single && is_scaled && are_rows && is_left && scales.into_iter().all(is_float)) {
        return Ok(None);
    }
    Ok(Some(Box::new(ByteMatMul { cpu: compiler.cpu, roles, right, dtype })))
}

/// The number of elements, if it is known.
fn n_elements(fact: &Fact) -> Option<usize> {
    fact.dims()?.iter().try_fold(1_usize, |n, dim| n.checked_mul(Dim::known(dim)?))
}

impl ByteMatMul {
    fn product(&self, m: usize) -> ByteProduct<'_> {
        ByteProduct { cpu: self.cpu, m, right: self.right.view() }
    }

    /// The left operand, and the scale it is quantized with if it is float.
    fn left<'a>(
        &self,
        a: TensorView<'a>,
        zero: Option<TensorView<'_>>,
        room: &'a mut [u8],
    ) -> Result<(f32, Left<'a>), KernelError> {
        if a.dtype() == DType::F32 {
            let a = a.as_slice::<f32>()?;
            let Scheme { scale, zero } = Scheme::of_floats(self.cpu.isa, a);
            quantize_u8(self.cpu.isa, a, scale, zero, room);
            #[expect(clippy::cast_possible_truncation, reason = "0 to 255")]
            return Ok((scale, Left { bytes: room, zero: zero as i32 }));
        }
        if !self.roles.is_a_transposed {
            return Ok((1.0, Left::of(a, zero, room)));
        }
        let flip = if a.dtype() == DType::I8 { FLIP } else { 0 };
        transpose(a.as_bytes().unwrap_or_default(), self.right.k, flip, room);
        let Left { zero, .. } = Left::of(a, zero, &mut []);
        Ok((1.0, Left { bytes: room, zero }))
    }

    /// The factors of sums, one per column.
    fn factors(
        &self,
        inputs: Inputs<'_>,
        scale: f32,
        factors: &mut [f32],
    ) -> Result<(), KernelError> {
        let one = |input: Option<usize>| -> Result<Option<f32>, KernelError> {
            let Some(input) = input else { return Ok(None) };
            inputs.optional_tensor(input)?.map(|scales| scale_at(scales, 0)).transpose()
        };
        let a = self.roles.alpha * one(self.roles.a_scale)?.unwrap_or(scale);
        if let Some(input) = self.roles.b_scale {
            scaled_factors(inputs.tensor(input)?, a, factors)?;
        }
        if let Some(y) = one(self.roles.y_scale)? {
            factors.iter_mut().for_each(|factor| *factor /= y);
        }
        Ok(())
    }
}

/// `to[i, p] = from[p, i]`, flipped, for `k` rows of `from`: in squares whose rows are a cache line.
fn transpose(from: &[u8], k: usize, flip: u8, to: &mut [u8]) {
    const SIDE: usize = 64;
    let m = from.len() / k.max(1);
    for first in (0..k).step_by(SIDE) {
        let end = k.min(first + SIDE);
        for (i, to) in to.chunks_exact_mut(k.max(1)).enumerate().take(m) {
            let column = from[first * m + i..].iter().step_by(m.max(1));
            to[first..end].iter_mut().zip(column).for_each(|(to, from)| *to = from ^ flip);
        }
    }
}

impl Kernel for ByteMatMul {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&a) = shapes.first() else { return Err(KernelError::ForeignState) };
        let a = match *a {
            [k, m] if self.roles.is_a_transposed => &[m, k][..],
            _ if self.roles.is_a_transposed => {
                let found = a.len();
                return Err(OpError::InputRank { index: 0, expected: "2", found }.into());
            }
            _ => a,
        };
        let shape = matmul_shape(a, &[self.right.k, self.right.n]).map_err(KernelError::Op)?;
        let m = a.split_last().map_or(1, |(_, rows)| rows.iter().product());
        let factors = (self.right.n * size_of::<f32>()).next_multiple_of(64);
        let scratch = factors + self.product(m).scratch_bytes();
        Ok(Prepared::new(State { m, shape }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { m, shape } = prepared.state()?;
        let (isa, inputs, product) = (self.cpu.isa, io.inputs, self.product(*m));
        let optional = |input: Option<usize>| match input {
            Some(input) => inputs.optional_tensor(input),
            None => Ok(None),
        };
        let (factors, scratch) = split_floats(io.scratch, self.right.n);
        let (room, scratch) = product.room(scratch);
        let (scale, left) = self.left(inputs.tensor(0)?, optional(self.roles.a_zero)?, room)?;
        self.factors(inputs, scale, factors)?;
        let sum_bias = optional(self.roles.sum_bias)?.map(|b| b.as_slice::<i32>()).transpose()?;
        let bias = optional(self.roles.bias)?.map(|b| b.as_slice::<f32>()).transpose()?;
        let factors = &*factors;
        let y = io.outputs[0].tensor(self.dtype, shape)?;
        let rest = (io.threads, scratch);
        match self.dtype {
            DType::I32 => product.run((left, sum_bias), y.into_slice()?, rest, |_, sums, y| {
                y.copy_from_slice(sums);
            }),
            DType::U8 | DType::I8 => {
                let zero = self.roles.y_zero.map_or(Ok(0), |index| zero_point(inputs, index));
                let (factors, zero_point) = (Scales::ByColumn(factors), zero?);
                let requantize =
                    Requantize { factors, zero_point, is_signed: self.dtype == DType::I8 };
                product.run_quantized(
                    (left, sum_bias),
                    y.into_bytes().unwrap_or_default(),
                    rest,
                    &requantize,
                );
            }
            _ => product.run((left, sum_bias), y.into_slice()?, rest, |columns, sums, y| {
                let bias = bias.map(|bias| &bias[columns.clone()]);
                scale_sums(isa, sums, &factors[columns], bias, y);
            }),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != self.roles.b
    }

    fn variant(&self) -> &'static str {
        variant_name(self.cpu.isa, self.right.k)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor, bf16, f16};

    use crate::case::{Case, bytes, exact, floats, integers};

    fn unsigned(shape: &[usize]) -> Tensor {
        bytes(shape, |bits| bits)
    }

    fn signed(shape: &[usize]) -> Tensor {
        bytes(shape, u8::cast_signed)
    }

    fn scale(value: f32) -> Tensor {
        Tensor::scalar(value)
    }

    const SIZES: [[usize; 3]; 6] =
        [[1, 1, 1], [3, 5, 7], [1, 300, 65], [50, 33, 31], [130, 64, 96], [3, 0, 4]];

    #[test]
    fn integers_equal_eval() {
        for [m, k, n] in SIZES {
            let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger", 10).input(a).constant(b);
            let (a, b) = ([m, k], [k, n]);
            case(unsigned(&a), signed(&b)).check(exact);
            case(signed(&a), unsigned(&b)).check(exact);
            case(unsigned(&[2, m, k]), unsigned(&b))
                .input(Tensor::scalar(7_u8))
                .constant(unsigned(&[n]))
                .check(exact);
            let case = case(signed(&a), signed(&b));
            case.input(Tensor::scalar(-7_i8)).constant(Tensor::scalar(100_i8)).check(exact);
        }
    }

    #[test]
    fn floats_equal_eval() {
        for [m, k, n] in SIZES {
            let case = |name| Case::new(name, 1).domain("com.microsoft");
            case("MatMulIntegerToFloat")
                .input(unsigned(&[m, k]))
                .constant(signed(&[k, n]))
                .input(scale(0.5))
                .constant(floats(&[n]))
                .input(Tensor::scalar(3_u8))
                .constant(signed(&[n]))
                .constant(integers(&[n]))
                .check(exact);
            case("DynamicQuantizeMatMul")
                .input(floats(&[2, m, k]))
                .constant(unsigned(&[k, n]))
                .constant(scale(0.01))
                .constant(Tensor::scalar(120_u8))
                .check(exact);
        }
    }

    #[test]
    fn quantized_results_equal_eval() {
        for [m, k, n] in SIZES {
            let linear = |name, version, domain| {
                Case::new(name, version)
                    .domain(domain)
                    .input(unsigned(&[m, k]))
                    .input(scale(0.05))
                    .input(Tensor::scalar(3_u8))
                    .constant(signed(&[k, n]))
                    .constant(floats(&[n]))
                    .constant(signed(&[n]))
            };
            let case = linear("QLinearMatMul", 21, "");
            case.input(scale(3.0)).input(Tensor::scalar(-5_i8)).check(exact);
            let half = |x: f32| Tensor::scalar(f16::from_f32(x));
            let halves = Case::new("QLinearMatMul", 21).input(unsigned(&[m, k])).input(half(0.05));
            let halves = halves.input(Tensor::scalar(3_u8)).constant(signed(&[k, n]));
            let halves =
                halves.constant(bytes(&[n], |bits| bf16::from_f32(f32::from(bits) * 0.01)));
            let halves = halves.constant(signed(&[n])).input(half(3.0));
            halves.input(Tensor::scalar(130_u8)).check(exact);
            let case = linear("QGemm", 1, "com.microsoft").attr("alpha", Attr::Float(0.5));
            let bias = bytes(&[n], |bits| i32::from(bits) * 100);
            let case = case.constant(bias);
            case.clone().input(scale(3.0)).input(Tensor::scalar(130_u8)).check(exact);
            case.check(exact);
        }
    }

    #[test]
    fn a_left_operand_may_be_transposed() {
        for [m, k, n] in SIZES {
            for a in [unsigned(&[k, m]), signed(&[k, m])] {
                let zero = match a.dtype() {
                    DType::U8 => Tensor::scalar(3_u8),
                    _ => Tensor::scalar(-3_i8),
                };
                Case::new("QGemm", 1)
                    .domain("com.microsoft")
                    .attr("transA", Attr::Int(1))
                    .attr("transB", Attr::Int(1))
                    .input(a)
                    .input(scale(0.05))
                    .input(zero)
                    .constant(signed(&[n, k]))
                    .constant(floats(&[n]))
                    .constant(Tensor::scalar(0_i8))
                    .check(exact);
            }
        }
    }
}
