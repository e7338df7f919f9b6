//! Gemm in f32, f64 and integers of 32 and 64 bits, and FusedGemm in f32.

// collects are bounded: by the rank

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::gemm::Start;
use ort_ops::activation::Activation;
use ort_ops::ops::gemm::Gemm;
use ort_tensor::{DType, Element, broadcast, broadcast_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::cut::Part;
use crate::product::{
    Operands, PackedRight, Product, RightOperand, pack_right, row_needs_no_packing,
};
use crate::summand::{Summand, is_factor, is_summand, with_summand};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One product; `b` is packed if it is constant.
#[derive(Debug)]
struct GemmKernel {
    cpu: Cpu,
    dtype: DType,
    op: Gemm,
    b: Option<PackedRight>,
}

/// Prepared state for one shape signature.
struct State {
    product: Product,
    bias: Bias,
}

/// The third operand.
enum Bias {
    None,
    /// `[n]`, used directly.
    ByColumn,
    /// `[m, 1]`, used directly.
    ByRow,
    /// Any other shape, or with a factor: element `(i, j)` is at `i·strides[0] + j·strides[1]`.
    Scaled {
        strides: [usize; 2],
    },
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Gemm>() else { return Ok(None) };
    let Some(dtype) = compiler.dtype_of(0..3).filter(|&dtype| is_summand(dtype)) else {
        return Ok(None);
    };
    let is_plain = dtype == DType::F32 || op.activation == Activation::None;
    if !is_plain || ![op.alpha, op.beta].into_iter().all(|factor| is_factor(dtype, factor)) {
        return Ok(None);
    }
    let row = usize::from(op.is_a_transposed);
    let m = compiler.fact(0).and_then(|a| a.dims()?.get(row)?.known());
    let is_left_alone = m == Some(1) && !op.is_b_transposed && row_needs_no_packing(compiler, 1);
    let pack = || with_summand!(dtype, (_S, T) => pack_right::<T>(compiler, 1, op.is_b_transposed));
    let b = if is_left_alone { None } else { pack() };
    Ok(Some(Box::new(GemmKernel { cpu: compiler.cpu, dtype, op, b })))
}

impl GemmKernel {
    fn product(&self, a: &[usize], b: &[usize]) -> Result<Product, KernelError> {
        let (&[a_rows, a_columns], &[b_rows, b_columns]) = (a, b) else {
            return Err(mismatch("operands of Gemm", a, b));
        };
        let oriented = |is_transposed, rows, columns| match is_transposed {
            false => ([rows, columns], [columns, 1]),
            true => ([columns, rows], [1, columns]),
        };
        let ([m, k], a_strides) = oriented(self.op.is_a_transposed, a_rows, a_columns);
        let ([b_k, n], b_strides) = oriented(self.op.is_b_transposed, b_rows, b_columns);
        if k != b_k {
            return Err(mismatch("inner dimensions of Gemm", a, b));
        }
        let mut product = Product {
            cpu: self.cpu,
            m,
            n,
            k,
            a: a_strides,
            b: b_strides,
            batch: [(1, 0, 0)].into_iter().collect(),
            is_exchanged: false,
        };
        product.exchange_column();
        Ok(product)
    }

    fn bias(&self, c: &[usize], shape: [usize; 2]) -> Result<Bias, KernelError> {
        if broadcast(c, &shape).as_deref() != Some(&shape[..]) {
            return Err(mismatch("bias of Gemm", c, &shape));
        }
        let strides = broadcast_strides(c, &shape);
        Ok(match (self.op.beta == 1.0, strides[0], strides[1]) {
            (true, 0, 1) => Bias::ByColumn,
            (true, 1, 0) => Bias::ByRow,
            (_, row, column) => Bias::Scaled { strides: [row, column] },
        })
    }

    /// Computes the product of tensors of `S` in `T`.
    fn multiply<S: Element + Pod, T: Summand>(
        &self,
        State { product, bias }: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let inputs = io.inputs;
        let c = inputs.optional_tensor(2)?.map(|c| c.as_slice::<S>()).transpose()?;
        let c: Option<&[T]> = c.map(cast_slice);
        let start = match (c, bias) {
            (None, _) | (_, Bias::None) => Start::Zero,
            (Some(c), Bias::ByColumn) => Start::ByColumn(c),
            (Some(c), Bias::ByRow) => Start::ByRow(c),
            (Some(_), Bias::Scaled { .. }) => Start::C,
        };
        let operands = Operands {
            a: cast_slice(inputs.tensor(0)?.as_slice::<S>()?),
            alpha: T::factor(self.op.alpha),
            b: match &self.b {
                Some(packed) => packed.operand(),
                None => RightOperand::Plain(cast_slice(inputs.tensor(1)?.as_slice::<S>()?)),
            },
            start,
            epilogue: T::epilogue_of(self.op.activation),
        };
        let y = io.outputs[0].tensor(S::DTYPE, &product.shape())?.into_slice::<S>()?;
        product.run(&operands, cast_slice_mut(y), (io.threads, io.scratch), |part| {
            if let (Some(c), &Bias::Scaled { strides: [row, column] }) = (c, bias) {
                let strides = if product.is_exchanged { [column, row] } else { [row, column] };
                write_scaled(T::factor(self.op.beta), c, strides, part);
            }
        });
        Ok(())
    }
}

impl Kernel for GemmKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b, ref rest @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let product = self.product(a, b)?;
        // An absent input and a scalar have the same shape; the run distinguishes them.
        let bias = match rest {
            [c, ..] if self.op.beta != 0.0 => self.bias(c, product.shape())?,
            _ => Bias::None,
        };
        let len = with_summand!(self.dtype, (_S, T) => product.scratch_len_of::<T>());
        let scratch_bytes = self.cpu.scratch_bytes(len);
        Ok(Prepared::new(State { product, bias }).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        with_summand!(self.dtype, (S, T) => self.multiply::<S, T>(state, io))
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.b.is_none()
    }

    fn variant(&self) -> &'static str {
        with_summand!(self.dtype, (_S, T) => T::variant_name(self.cpu.isa))
    }
}

/// Writes the part of `beta·C` with these strides.
fn write_scaled<T: Summand>(beta: T, c: &[T], [row, column]: [usize; 2], part: &mut Part<'_, T>) {
    let first = part.columns.start * column;
    part.for_each_row(|i, y| {
        let c = &c[i * row + first..];
        match column {
            0 => y.fill(beta.times(c[0])),
            1 => y.iter_mut().zip(c).for_each(|(y, c)| *y = beta.times(*c)),
            _ => y.iter_mut().zip(c.iter().step_by(column)).for_each(|(y, c)| *y = beta.times(*c)),
        }
    });
}

fn mismatch(what: &'static str, left: &[usize], right: &[usize]) -> KernelError {
    OpError::Shapes { what, left: left.to_vec(), right: right.to_vec() }.into()
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use ort_tensor::DType;

    use crate::case::{Case, exact, integers, ulps};
    use crate::product::TERMS;
    use crate::summand::of_type;

    fn case(name: &'static str) -> Case {
        let version = if name == "Gemm" { 13 } else { 1 };
        let domain = if name == "Gemm" { "" } else { "com.microsoft" };
        Case::new(name, version).domain(domain)
    }

    #[test]
    fn products_of_small_integers_are_exact() {
        let shapes = [
            [1, 1, 1],
            [1, 300, 65],
            [3, 5, 7],
            [15, 33, 31],
            [128, 64, 96],
            [0, 3, 4],
            [3, 0, 4],
            [3, 4, 0],
        ];
        for [m, k, n] in shapes {
            for transposed in 0..4 {
                let (a, b) = (transposed & 1, transposed >> 1);
                let swap = |is: i64, [x, y]: [usize; 2]| if is == 1 { [y, x] } else { [x, y] };
                let case = case("Gemm").attr("transA", Attr::Int(a)).attr("transB", Attr::Int(b));
                case.input(integers(&swap(a, [m, k])))
                    .weight(integers(&swap(b, [k, n])))
                    .weight(integers(&[n]))
                    .check(exact);
            }
        }
    }

    #[test]
    fn long_sums_are_computed_in_steps() {
        let k = TERMS + 5;
        for ([m, n], c) in
            [([2, 3], [1, 3]), ([20, 1], [20, 1]), ([1, 40], [1, 40]), ([9, 9], [9, 9])]
        {
            for transposed in 0..4 {
                let (a, b) = (transposed & 1, transposed >> 1);
                let swap = |is: i64, [x, y]: [usize; 2]| if is == 1 { [y, x] } else { [x, y] };
                let case = || {
                    let case = case("Gemm").attr("transA", Attr::Int(a));
                    case.attr("transB", Attr::Int(b)).input(integers(&swap(a, [m, k])))
                };
                let b = integers(&swap(b, [k, n]));
                case().input(b.clone()).input(integers(&c)).check(exact);
                case().weight(b).input(integers(&c)).check(exact);
            }
        }
        // The activation is applied to whole sums.
        case("FusedGemm")
            .attr("activation", Attr::String("Relu".into()))
            .input(integers(&[9, k]))
            .input(integers(&[k, 9]))
            .input(integers(&[9]))
            .check(exact);
    }

    #[test]
    fn the_bias_is_broadcast_and_scaled() {
        let shapes: [&[usize]; 6] = [&[], &[1], &[33], &[1, 33], &[20, 1], &[20, 33]];
        for shape in shapes {
            for (alpha, beta) in [(1.0, 1.0), (2.0, -3.0), (0.5, 0.0)] {
                case("Gemm")
                    .attr("alpha", Attr::Float(alpha))
                    .attr("beta", Attr::Float(beta))
                    .input(integers(&[20, 8]))
                    .weight(integers(&[8, 33]))
                    .input(integers(shape))
                    .check(exact);
            }
        }
        case("Gemm").input(integers(&[20, 8])).input(integers(&[8, 33])).check(exact);
    }

    #[test]
    fn every_type_is_multiplied_exactly() {
        for dtype in [DType::F64, DType::I32, DType::U32, DType::I64, DType::U64] {
            let some = |shape: &[usize]| of_type(dtype, shape);
            for (beta, c) in [(1.0, [1, 45]), (1.0, [37, 1]), (0.0, [37, 45]), (1.0, [37, 45])] {
                case("Gemm")
                    .attr("transA", Attr::Int(1))
                    .attr("transB", Attr::Int(1))
                    .attr("beta", Attr::Float(beta))
                    .input(some(&[70, 37]))
                    .weight(some(&[45, 70]))
                    .input(some(&c))
                    .check(exact);
            }
        }
        let some = |shape: &[usize]| of_type(DType::F64, shape);
        let case = case("Gemm").attr("alpha", Attr::Float(0.5)).attr("beta", Attr::Float(-3.0));
        case.input(some(&[30, 5])).input(some(&[5, 130])).input(some(&[130])).check(exact);
    }

    #[test]
    fn activations_are_applied_to_the_sums() {
        for name in ["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSwish", "Elu", "Softplus"] {
            // The sums are exact, so only the function rounds: hard swish three times.
            case("FusedGemm")
                .attr("activation", Attr::String(name.into()))
                .input(integers(&[40, 70]))
                .weight(integers(&[70, 50]))
                .weight(integers(&[50]))
                .check(ulps(4));
        }
    }
}
