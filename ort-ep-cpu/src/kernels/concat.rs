//! Concat of any element type of whole bytes, on all threads: each copies the operands that overlap its piece of the
//! result. QLinearConcat translates the bytes of each operand by a table of what its `eval` makes of them.

// collects are bounded: by the rank, the operands, and the 256 values of a byte

use std::sync::Arc;

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::concat::Concat;
use ort_ops::ops::microsoft::qlinear_concat::QLinearConcat;
use ort_tensor::{
    DType, Inputs, Output, Shape, Tensor, TensorViewMut, Value, ValueView, n_elements,
};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// With fewer bytes per part on average, the operator's `eval` copies them one by one.
const SHORT: usize = 256;
/// A cache line of the result, and the cost of copying one.
const LINES: Rows = Rows { len: 64, ..Rows::ELEMENTS };

#[derive(Debug)]
struct ConcatKernel {
    op: Arc<dyn Operator>,
    axis: i64,
    dtype: DType,
    /// The normalized axis, if the rank is known and input 0 may be extended in place.
    behind: Option<usize>,
    tables: Vec<Table>,
}

/// What the bytes of a quantized operand become.
#[derive(Debug)]
enum Table {
    Same,
    Each(Box<[u8; 256]>),
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// The bytes that each operand adds to a row of the result: to each index of the axes before
    /// the concatenated one.
    parts: SmallVec<[usize; 8]>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    if let (Some(&QLinearConcat { axis }), [id]) = (compiler.op(), &compiler.claim.nodes[..]) {
        let op = compiler.graph.node(*id).op.clone();
        let dtype = compiler.fact(1).and_then(Fact::dtype);
        let operands = (FIRST..compiler.claim.inputs.len()).step_by(STEP);
        let tables: Option<Vec<_>> = operands.map(|i| Table::of(compiler, &*op, i)).collect();
        let kernel = |(dtype, tables)| ConcatKernel { op, axis, dtype, behind: None, tables };
        return Ok(dtype.zip(tables).map(|both| Box::new(kernel(both)) as Box<dyn Kernel>));
    }
    let (Some(&Concat { axis }), [id]) = (compiler.op::<Concat>(), &compiler.claim.nodes[..])
    else {
        return Ok(None);
    };
    let dtype = compiler.dtype_of(0..compiler.claim.inputs.len());
    let Some(dtype) = dtype.filter(|dtype| dtype.word_bytes().is_some()) else { return Ok(None) };
    let op = compiler.graph.node(*id).op.clone();
    let rank = compiler.fact(0).and_then(Fact::rank).filter(|_| compiler.claim.inputs.len() > 1);
    let behind = rank.and_then(|rank| normalize_axis(axis, rank).ok());
    Ok(Some(Box::new(ConcatKernel { op, axis, dtype, behind, tables: Vec::new() })))
}

/// Where the operands of QLinearConcat begin, and how many inputs each has.
const FIRST: usize = 2;
const STEP: usize = 3;

impl Table {
    /// What `eval` makes of the operand at `index`; `None` if a scale or zero point is not constant.
    fn of(compiler: &Compiler<'_>, op: &dyn Operator, index: usize) -> Option<Self> {
        let dtype = compiler.fact(1)?.dtype()?;
        let values: Vec<u8> = (0..=u8::MAX).collect();
        // Every byte along any axis, from either end.
        let rank = compiler.fact(index)?.rank()?;
        // bounded: rank
        let mut shape = Shape::from_elem(1, rank);
        let axis = normalize_axis(compiler.op::<QLinearConcat>()?.axis, rank).ok()?;
        shape[axis] = values.len();
        let x = Tensor::from_bytes(dtype, &shape, values.clone().into()).ok()?;
        let constant = |input| Some(ValueView::Tensor(compiler.constant(input)?.view()));
        let inputs = [
            Some(constant(0)?),
            Some(constant(1)?),
            Some(ValueView::Tensor(x.view())),
            Some(constant(index + 1)?),
            Some(constant(index + 2)?),
        ];
        let mut outputs = [Output::free()];
        op.eval(Inputs::new(&inputs), &mut outputs).ok()?;
        let [output] = outputs;
        let Some(Value::Tensor(y)) = output.into_value() else { return None };
        let y: [u8; 256] = y.view().as_bytes()?.try_into().ok()?;
        Some(if y[..] == values { Self::Same } else { Self::Each(Box::new(y)) })
    }
}

/// Appends the other operands to each row of the result, which already holds the first operand.
fn append(
    state: &State,
    (dtype, axis): (DType, usize),
    io: &mut Io<'_, '_>,
) -> Result<(), KernelError> {
    let State { shape, parts } = state;
    let (y, _) = io.outputs[0].extended(dtype, shape)?;
    let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
    let n_rows = n_elements(&shape[..axis]).unwrap_or(0);
    let room = y.len().checked_div(n_rows).unwrap_or(0);
    let mut start = parts[0];
    for (i, &len) in parts.iter().enumerate().skip(1) {
        let x = io.inputs.tensor(i)?.as_bytes().ok_or(KernelError::ForeignState)?;
        let rows = y.chunks_exact_mut(room.max(1)).zip(x.chunks_exact(len.max(1)));
        rows.for_each(|(y, x)| y[start..start + len].copy_from_slice(x));
        start += len;
    }
    Ok(())
}

impl ConcatKernel {
    /// The input that is operand `i`.
    const fn input(&self, i: usize) -> usize {
        if self.tables.is_empty() { i } else { FIRST + STEP * i }
    }
}

impl Kernel for ConcatKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let first = shapes.get(self.input(0)).copied().unwrap_or_default();
        let axis = normalize_axis(self.axis, first.len())?;
        let mut shape = Shape::from_slice(first);
        shape[axis] = 0;
        let operands = shapes.iter().skip(self.input(0)).step_by(self.input(1) - self.input(0));
        for x in operands.clone() {
            let fits = |(i, (a, b)): (usize, (&usize, &usize))| i == axis || a == b;
            if x.len() != shape.len() || !x.iter().zip(&shape).enumerate().all(fits) {
                let (left, right) = (shape.to_vec(), x.to_vec());
                return Err(OpError::Shapes { what: "concatenation", left, right }.into());
            }
            shape[axis] = shape[axis].checked_add(x[axis]).ok_or(OpError::TooLarge)?;
        }
        let n_bytes = |x: &&[usize]| {
            let n_bytes = n_elements(&x[axis..]).and_then(|n| self.dtype.n_bytes(n));
            n_bytes.ok_or(OpError::TooLarge)
        };
        let parts = operands.map(n_bytes).collect::<Result<_, _>>()?;
        Ok(Prepared::new(State { shape, parts }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        if let Some(axis) = self.behind.filter(|_| io.outputs[0].to_extend().is_some()) {
            return append(state, (self.dtype, axis), io);
        }
        let State { shape, parts } = state;
        let row: usize = parts.iter().sum();
        let is_short = row < SHORT * parts.len() && self.tables.is_empty();
        if is_short || io.outputs[0].takes().is_some() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        let operand =
            |i| io.inputs.tensor(self.input(i))?.as_bytes().ok_or(KernelError::ForeignState);
        let operands = (0..parts.len()).map(operand);
        let operands = operands.collect::<Result<SmallVec<[&[u8]; 8]>, KernelError>>()?;
        let y = io.outputs[0].tensor(self.dtype, shape)?;
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        LINES.for_each(io.threads, y, |mut at, mut y| {
            while !y.is_empty() {
                let (index, mut skipped) = (at / row, at % row);
                for (i, (x, &len)) in operands.iter().zip(parts).enumerate() {
                    let n = len.saturating_sub(skipped).min(y.len());
                    let (piece, rest) = y.split_at_mut(n);
                    let start = index * len + skipped.min(len);
                    let x = &x[start..start + n];
                    match self.tables.get(i) {
                        None | Some(Table::Same) => piece.copy_from_slice(x),
                        Some(Table::Each(table)) => {
                            let pairs = piece.iter_mut().zip(x);
                            pairs.for_each(|(y, &x)| *y = table[usize::from(x)]);
                        }
                    }
                    skipped = skipped.saturating_sub(len);
                    (at, y) = (at + n, rest);
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "concat"
    }

    fn takes(&self) -> &'static [(usize, usize)] {
        self.op.behaviour().takes
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        self.behind.map(|axis| Extension { input: 0, output: 0, axis }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn parts_follow_each_other_along_the_axis() {
        let cases: [(&[&[usize]], i64); 8] = [
            (&[&[2, 100], &[2, 30]], 1),
            (&[&[3, 100]], 0),
            (&[&[2, 3, 40], &[2, 0, 40], &[2, 5, 40]], 1),
            (&[&[2, 1], &[2, 3]], -1),
            (&[&[0, 70], &[0, 80]], 1),
            (&[&[100], &[200], &[0]], 0),
            // Large enough for several threads.
            (&[&[2, 3, 201, 203], &[2, 1, 201, 203], &[2, 4, 201, 203]], 1),
            (&[&[300, 640], &[300, 321]], -1),
        ];
        for (shapes, axis) in cases {
            let of_width: [fn(&[usize]) -> Tensor; 4] = [
                |shape| bytes(shape, |byte| byte),
                |shape| bytes(shape, f16::from),
                floats,
                |shape| bytes(shape, i64::from),
            ];
            for x in of_width {
                let case = Case::new("Concat", 13).attr("axis", Attr::Int(axis));
                shapes.iter().fold(case, |case, shape| case.input(x(shape))).check(exact);
            }
        }
    }

    #[test]
    fn quantized_parts_have_schemes_of_their_own() {
        let cases: [(&[&[usize]], i64); 5] = [
            (&[&[2, 100], &[2, 30]], 1),
            (&[&[2, 3, 4], &[2, 0, 4], &[2, 5, 4]], -2),
            (&[&[2, 1], &[2, 3]], -1),
            (&[&[0, 70], &[0, 80]], 1),
            // Large enough for several threads.
            (&[&[2, 3, 201, 203], &[2, 1, 201, 203]], 1),
        ];
        let schemes = [(0.5_f32, 3_u8), (1.0, 128), (0.0625, 0)];
        for (shapes, axis) in cases {
            let case = |is_signed: bool| {
                let scheme = |case: Case, (scale, zero): (f32, u8)| {
                    let case = case.constant(Tensor::scalar(scale));
                    case.constant(match is_signed {
                        true => Tensor::scalar(zero.cast_signed()),
                        false => Tensor::scalar(zero),
                    })
                };
                let part = |case: Case, (i, shape): (usize, &&[usize])| {
                    let x = match is_signed {
                        true => bytes(shape, u8::cast_signed),
                        false => bytes(shape, |byte| byte),
                    };
                    scheme(case.input(x), schemes[i])
                };
                let case = Case::new("QLinearConcat", 1).domain("com.microsoft");
                let case = scheme(case.attr("axis", Attr::Int(axis)), schemes[1]);
                shapes.iter().enumerate().fold(case, part)
            };
            case(true).check(exact);
            case(false).check(exact);
        }
    }
}
