//! Reductions over any axes: sums, products and extremes, in the element type; integers wrap. For f32, only those over axes
//! that are not adjacent, at the end of [`super::reduce`]; 16-bit floats are widened.
//!
//! Adjacent axes that are both reduced or both kept are merged. If the last is reduced, each result is a
//! fold of rows; otherwise adjacent results are folds of columns.

// collects are bounded: by the rank

mod call;
mod sums;

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_kernels::vec::Block;
use ort_ops::ops::reduce::{Form, Reduce};
use ort_tensor::{DType, Shape};

use self::call::Call;
use self::sums::MAX_EXACT;
pub(super) use self::sums::{Greatest, Least, Sum, Summed};
use super::reduce::{Axes, reduced_shape};
use super::{Compiled, Compiler, KernelDef};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct FoldKernel {
    isa: Isa,
    form: Form,
    dtype: DType,
    axes: Axes,
    keeps_dims: bool,
    /// Computes reductions with more axes than are supported here, and of empty operands.
    op: Arc<dyn Operator>,
}

/// One or several merged axes: the number of elements, and their stride.
#[derive(Clone, Copy, Debug, Default)]
struct Axis {
    n: usize,
    stride: usize,
}

/// Prepared state for one shape signature.
#[derive(Debug)]
pub(super) struct State {
    /// The shape of the result.
    pub(super) shape: Shape,
    /// `None` if only `eval` supports it.
    pub(super) plan: Option<Plan>,
}

impl State {
    /// The state for an operand of shape `x`.
    pub(super) fn new(axes: &Axes, keeps_dims: bool, x: &[usize]) -> Result<Self, KernelError> {
        let is_reduced = axes.is_reduced(x.len())?;
        let shape = reduced_shape(x, &is_reduced, keeps_dims);
        Ok(Self { shape, plan: Plan::new(x, &is_reduced) })
    }
}

/// The merged axes, of which the last is contiguous.
#[derive(Debug)]
pub(super) struct Plan {
    /// The kept axes, without the last.
    kept: Vec<Axis>,
    /// The reduced axes, without the last.
    reduced: [Axis; 2],
    pub(super) last: usize,
    pub(super) is_last_reduced: bool,
    /// Elements per result.
    pub(super) n: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(op), Some(dtype)) = (compiler.op::<Reduce>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let takes = match (op.form, dtype) {
        (_, DType::F32 | DType::F16 | DType::Bf16) => false,
        (Form::Max | Form::Min, _) => true,
        (Form::Sum | Form::Prod | Form::SumSquare | Form::L1, DType::I8 | DType::U8) => false,
        (Form::Sum | Form::Prod | Form::SumSquare | Form::L1, dtype) => dtype.is_number(),
        (Form::Mean | Form::L2 | Form::LogSum, dtype) => {
            matches!(dtype, DType::F64 | DType::I32 | DType::I64)
        }
        _ => false,
    };
    let (Some(axes), true) = (Axes::of_reduce(compiler, op), takes) else { return Ok(None) };
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let (isa, form, keeps_dims) = (compiler.cpu.isa, op.form, op.keeps_dims);
    let op = compiler.graph.node(id).op.clone();
    Ok(Some(Box::new(FoldKernel { isa, form, dtype, axes, keeps_dims, op })))
}

impl Plan {
    /// `None` if there is nothing to reduce or no result, or there are too many axes.
    fn new(shape: &[usize], is_reduced: &[bool]) -> Option<Self> {
        // The size of a non-empty operand does not overflow.
        if shape.contains(&0) {
            return None;
        }
        let mut axes: Vec<(Axis, bool)> = Vec::new();
        let mut stride = 1;
        for (&n, &is_reduced) in shape.iter().zip(is_reduced).rev().filter(|(n, _)| **n != 1) {
            match axes.last_mut() {
                Some((axis, is)) if *is == is_reduced => axis.n *= n,
                _ => axes.push((Axis { n, stride }, is_reduced)),
            }
            stride *= n;
        }
        let mut axes = axes.into_iter();
        let (last, is_last_reduced) = axes.next().unwrap_or((Axis { n: 1, stride: 1 }, false));
        let (reduced, kept): (Vec<_>, Vec<_>) = axes.rev().partition(|(_, is)| *is);
        let mut reduced = reduced.into_iter().map(|(axis, _)| axis).rev();
        let one = || Axis { n: 1, stride: 0 };
        let (inner, outer) =
            (reduced.next().unwrap_or_else(one), reduced.next().unwrap_or_else(one));
        let n = inner.n * outer.n * if is_last_reduced { last.n } else { 1 };
        let kept = kept.into_iter().map(|(axis, _)| axis).collect();
        let is_small = reduced.next().is_none();
        is_small.then_some(Self { kept, reduced: [outer, inner], last: last.n, is_last_reduced, n })
    }

    /// Whether the elements of each result are a row, and rows are contiguous.
    pub(super) fn has_rows(&self) -> bool {
        self.is_last_reduced && self.reduced.iter().all(|axis| axis.n == 1)
    }

    /// The offset of the elements of kept index `index`.
    pub(super) fn start(&self, mut index: usize) -> usize {
        let mut start = 0;
        for axis in self.kept.iter().rev() {
            start += index % axis.n * axis.stride;
            index /= axis.n;
        }
        start
    }

    /// The reduced rows of `len` elements, the first of which begins at `start`.
    pub(super) fn block<'a, T>(&self, x: &'a [T], start: usize, len: usize) -> Block<'a, T> {
        let [outer, inner] = self.reduced;
        let (n, strides) = ([outer.n, inner.n], [outer.stride, inner.stride]);
        Block { x: &x[start..], n, strides, len }
    }

    /// Calls `f` with pieces of results `y` that begin at `start`, of at most `n` columns, and the offset of
    /// each piece's elements; for a kept last axis.
    pub(super) fn for_each_piece<T>(
        &self,
        start: usize,
        y: &mut [T],
        n: usize,
        mut f: impl FnMut(usize, &mut [T]),
    ) {
        let (mut at, mut rest) = (start, y);
        while !rest.is_empty() {
            let (index, column) = (at / self.last, at % self.last);
            let len = rest.len().min(n).min(self.last - column);
            let (y, after) = rest.split_at_mut(len);
            f(self.start(index) + column, y);
            at += len;
            rest = after;
        }
    }
}

/// A reduction in f32. Errors if it needs `eval`.
pub(super) fn run_f32(
    isa: Isa,
    form: Form,
    State { shape, plan }: &State,
    io: &mut Io<'_, '_>,
) -> Result<(), KernelError> {
    let plan = plan.as_ref().ok_or(KernelError::ForeignState)?;
    Call { isa, shape, plan }.float::<f32>(form, io)
}

impl Kernel for FoldKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(State::new(&self.axes, self.keeps_dims, x)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, plan } = prepared.state()?;
        let plan = plan.as_ref().filter(|plan| self.dtype.is_float() || plan.n <= MAX_EXACT);
        let Some(plan) = plan else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        let call = Call { isa: self.isa, shape, plan };
        // Wrapping results have the same bits for signed and unsigned types.
        let dtype = match self.form {
            Form::Sum | Form::Prod | Form::SumSquare => self.dtype.unsigned(),
            _ => self.dtype,
        };
        match dtype {
            DType::F64 => call.float::<f64>(self.form, io),
            DType::I8 => call.extreme::<i8>(self.form, io),
            DType::I32 => call.words(self.form, io),
            DType::I64 => call.long_words(self.form, io),
            DType::U8 => call.extreme::<u8>(self.form, io),
            DType::U32 => call.integer::<u32>(self.form, io),
            DType::U64 => call.integer::<u64>(self.form, io),
            DType::Bool => call.flags(self.form, io),
            _ => Ok(self.op.eval(io.inputs, io.outputs)?),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "folds")
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, exact, relative};

    const SHAPES: [&[usize]; 6] = [
        &[3, 4, 5, 6],
        &[1, 7, 1, 130],
        &[2, 3, 70, 2],
        &[5, 40, 33, 2],
        &[2, 0, 3, 1],
        &[3, 1, 2, 401],
    ];
    const AXES: [&[i64]; 9] =
        [&[0], &[1], &[3], &[-1, 1], &[0, 2], &[0, 1], &[0, 1, 2, 3], &[2, 3], &[]];

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| (i * 7919 % 13) as f64 - 6.0;
        Tensor::from_slice(shape, &(0..n).map(|i| T::from_f64(number(i))).collect::<Vec<_>>())
            .unwrap()
    }

    fn of(dtype: DType, shape: &[usize]) -> Tensor {
        with_dtype!(dtype, number, T => numbers::<T>(shape), else => {
            let flags = (0..n_elements(shape).unwrap()).map(|i| Bool::from(i % 7 != 0));
            Tensor::from_slice(shape, &flags.collect::<Vec<_>>()).unwrap()
        })
    }

    fn check(name: &'static str, dtype: DType, error: f32) {
        for (shape, axes) in SHAPES.iter().flat_map(|shape| AXES.map(|axes| (shape, axes))) {
            let axes = Tensor::from_slice(&[axes.len()], axes).unwrap();
            let version = match name {
                "ReduceSum" => 13,
                "ReduceMax" | "ReduceMin" => 20,
                _ => 18,
            };
            let case = Case::new(name, version).input(of(dtype, shape)).constant(axes);
            if error == 0.0 { case.check(exact) } else { case.check(relative(error)) }
        }
    }

    #[test]
    fn integers_and_booleans_are_exact() {
        for dtype in [DType::I32, DType::I64, DType::U32, DType::U64] {
            for name in ["ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"] {
                check(name, dtype, 0.0);
            }
        }
        for dtype in [DType::I32, DType::I64] {
            for name in ["ReduceMean", "ReduceL2", "ReduceLogSum"] {
                check(name, dtype, 0.0);
            }
        }
        let bytes = [DType::I8, DType::U8, DType::Bool];
        for dtype in bytes.into_iter().chain([DType::I32, DType::I64, DType::U32, DType::U64]) {
            check("ReduceMax", dtype, 0.0);
            check("ReduceMin", dtype, 0.0);
        }
    }

    #[test]
    fn floats_are_close() {
        for (dtype, error) in [(DType::F64, 1e-13), (DType::F16, 1e-3), (DType::Bf16, 8e-3)] {
            for name in ["ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceMean", "ReduceL2"] {
                check(name, dtype, error);
            }
            check("ReduceMax", dtype, 0.0);
            check("ReduceMin", dtype, 0.0);
        }
    }

    #[test]
    fn sums_of_extreme_integers_are_exact() {
        fn check<T: Number>(extremes: [T; 2]) {
            let x: Vec<T> = (0..6 * 40).map(|i| extremes[usize::from(i % 7 == 0)]).collect();
            for name in ["ReduceMean", "ReduceL2", "ReduceLogSum"] {
                for shape in [&[6, 40][..], &[60, 4], &[2, 120]] {
                    for axis in [0_i64, 1] {
                        let axes = Tensor::from_slice(&[1], &[axis]).unwrap();
                        let x = Tensor::from_slice(shape, &x).unwrap();
                        Case::new(name, 18).input(x).constant(axes).check(exact);
                    }
                }
            }
        }
        check([i32::MIN, i32::MAX]);
        check([i32::MAX, i32::MAX - 1]);
        check([i64::MIN, i64::MAX]);
        check([i64::MAX, i64::MAX - 1]);
        check([-1_i64, 2]);
    }

    #[test]
    fn an_empty_tensor_may_have_huge_dimensions() {
        let x = of(DType::F64, &[0, 1 << 28, 1 << 28]);
        let axes = Tensor::from_slice(&[2], &[1_i64, 2]).unwrap();
        Case::new("ReduceSum", 13).input(x).constant(axes).check(exact);
    }

    #[test]
    fn nan_is_the_extreme_at_any_position() {
        let x = |at: usize| {
            let mut x = vec![1.0_f64; 150];
            x[at] = f64::NAN;
            Tensor::from_slice(&[1, 150], &x).unwrap()
        };
        for at in [0, 70, 149] {
            Case::new("ReduceMax", 20).input(x(at)).check(exact);
            Case::new("ReduceMin", 20).input(x(at)).check(exact);
        }
    }
}
