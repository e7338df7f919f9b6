//! Expand, Tile, Slice, DepthToSpace and SpaceToDepth of elements of any width, on all threads: each copies some
//! indices of the result's outermost axis.

use std::borrow::Cow;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_ops::ops::depth_to_space::DepthToSpace;
use ort_ops::ops::expand::Expand;
use ort_ops::ops::slice::Slice;
use ort_ops::ops::tile::Tile;
use ort_ops::strided::{self, StridedView};
use ort_tensor::{DType, Inputs, Shape, TensorError, Word};

use super::{Compiled, Compiler, KernelDef};
use crate::parameters::Parameters;
use crate::pieces::BYTE;
use crate::strided::StridedCopy;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct StridedViewKernel {
    op: Op,
    /// Bytes per element.
    width: usize,
    /// The other inputs, if they are constant.
    parameters: Option<Parameters>,
}

/// The operator.
#[derive(Clone, Debug)]
enum Op {
    Expand,
    Tile,
    Slice(Slice),
    DepthToSpace(DepthToSpace),
}

/// The copy for one signature of shapes and parameters.
#[derive(Clone, Debug)]
struct State {
    shape: Shape,
    copy: StridedCopy,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let width = compiler.fact(0).and_then(Fact::dtype).and_then(DType::word_bytes);
    let (Some(op), Some(width)) = (Op::of(compiler), width) else { return Ok(None) };
    let parameters = Parameters::of(compiler);
    Ok(Some(Box::new(StridedViewKernel { op, width, parameters })))
}

impl Op {
    fn of(compiler: &Compiler<'_>) -> Option<Self> {
        None.or_else(|| compiler.op::<Expand>().map(|_| Self::Expand))
            .or_else(|| compiler.op::<Tile>().map(|_| Self::Tile))
            .or_else(|| compiler.op::<Slice>().cloned().map(Self::Slice))
            .or_else(|| compiler.op::<DepthToSpace>().copied().map(Self::DepthToSpace))
    }

    /// The result for an `x` of a shape and the contents of the other inputs.
    fn view(&self, x: &[usize], inputs: Inputs<'_>) -> Result<StridedView, OpError> {
        match self {
            Self::Expand => Expand::view(x, inputs.tensor(1)?),
            Self::Tile => Tile::view(x, inputs.tensor(1)?),
            Self::Slice(op) => op.view(x, inputs),
            Self::DepthToSpace(op) => op.view(x),
        }
    }

    fn state(&self, x: &[usize], inputs: Inputs<'_>) -> Result<State, KernelError> {
        let StridedView { shape, axes, from } = self.view(x, inputs)?;
        Ok(State { shape, copy: StridedCopy::new(&axes, &from) })
    }
}

impl Kernel for StridedViewKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(TensorError::MissingInput { index: 0 }.into()) };
        let state = |parameters: &Parameters| parameters.with(|inputs| self.op.state(x, inputs));
        Ok(Prepared::new(self.parameters.as_ref().map(state).transpose()?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let state = match state {
            Some(state) => Cow::Borrowed(state),
            None => Cow::Owned(self.op.state(io.inputs.tensor(0)?.shape(), io.inputs)?),
        };
        match self.width {
            1 => write::<u8>(&state, io),
            2 => write::<u16>(&state, io),
            4 => write::<u32>(&state, io),
            8 => write::<u64>(&state, io),
            _ => write::<u128>(&state, io),
        }
    }

    fn variant(&self) -> &'static str {
        "strided_view"
    }
}

fn write<W>(state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError>
where
    W: Word + strided::Word + Send + Sync,
{
    let State { shape, copy } = state;
    let x = io.inputs.tensor(0)?;
    let y = io.outputs[0].tensor(x.dtype(), shape)?.into_words::<W>()?;
    let x = x.as_words::<W>()?;
    let rows = copy.rows(BYTE * size_of::<W>());
    rows.for_each(io.threads, y, |start, y| copy.write(x, (start, y)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Complex, Tensor, f16};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn results_equal_eval() {
        let cases: [(&[usize], &[i64]); 11] = [
            (&[], &[]),
            (&[], &[5]),
            (&[1], &[300_001]),
            (&[3, 1], &[1, 4]),
            (&[1, 7, 1, 9], &[2, 7, 5, 9]),
            (&[4], &[3, 2, 4]),
            (&[2, 1], &[2]),
            (&[0, 1], &[1, 6]),
            (&[3, 1], &[3, 0]),
            // Large enough for several threads.
            (&[301, 1, 17], &[301, 77, 17]),
            (&[1, 1, 700], &[2, 901, 700]),
        ];
        for (x, shape) in cases {
            let wide = |byte: u8| Complex::new(f64::from(byte), -f64::from(byte));
            for x in [
                bytes(x, |byte| byte),
                bytes(x, f16::from),
                floats(x),
                bytes(x, i64::from),
                bytes(x, wide),
            ] {
                let shape = Tensor::from_slice(&[shape.len()], shape).unwrap();
                Case::new("Expand", 13).input(x.clone()).constant(shape.clone()).check(exact);
                Case::new("Expand", 13).input(x).input(shape).check(exact);
            }
        }
    }

    #[test]
    fn slices_equal_eval_with_constant_and_other_ranges() {
        // Shape, and for some axes: start, end, step.
        let cases: [(&[usize], &[[i64; 4]]); 8] = [
            (&[7], &[[0, 2, 5, 1]]),
            (&[7], &[[0, -1, i64::MIN, -2]]),
            (&[3, 4, 5], &[[1, 1, 3, 1], [2, 0, -1, 2]]),
            (&[3, 4, 5], &[[-1, 9, 1, -1], [0, -1, i64::MIN, -1]]),
            (&[1, 6, 8, 8], &[[1, 2, 5, 1]]),
            (&[2, 3], &[[1, 3, 3, 1]]),
            (&[0, 3], &[[1, 1, 2, 1]]),
            // Large enough for several threads.
            (&[301, 70, 17], &[[0, 300, 1, -1], [1, 0, i64::MAX, 2]]),
        ];
        for (x, ranges) in cases {
            let column = |i: usize| {
                let column: Vec<i64> = ranges.iter().map(|range| range[i]).collect();
                Tensor::from_slice(&[column.len()], &column).unwrap()
            };
            let [axes, starts, ends, steps] = [0, 1, 2, 3].map(column);
            let parameters = || [starts.clone(), ends.clone(), axes.clone(), steps.clone()];
            for x in [bytes(x, |byte| byte), bytes(x, f16::from), floats(x), bytes(x, i64::from)] {
                let case = || Case::new("Slice", 13).input(x.clone());
                parameters().into_iter().fold(case(), Case::constant).check(exact);
                parameters().into_iter().fold(case(), Case::input).check(exact);
            }
        }
    }

    #[test]
    fn blocks_of_pixels_equal_eval() {
        for (op_type, shape) in [("DepthToSpace", [2, 12, 5, 7]), ("SpaceToDepth", [2, 3, 10, 14])]
        {
            for mode in ["DCR", "CRD"] {
                for scale in [1, 9] {
                    let x = [shape[0], shape[1], shape[2] * scale, shape[3] * scale];
                    for x in [bytes(&x, |byte| byte), floats(&x), bytes(&x, i64::from)] {
                        let case = Case::new(op_type, 28).attr("blocksize", Attr::Int(2));
                        case.attr("mode", Attr::String(mode.into())).input(x).check(exact);
                    }
                }
            }
        }
    }

    #[test]
    fn every_axis_repeats() {
        let cases: [(&[usize], &[i64]); 8] = [
            (&[], &[]),
            (&[2, 3], &[1, 2]),
            (&[2, 3], &[3, 1]),
            (&[2, 3, 5], &[2, 3, 4]),
            (&[2, 3], &[0, 2]),
            (&[0, 3], &[2, 2]),
            (&[1, 16, 9, 16], &[1, 1, 1, 2]),
            // Large enough for several threads.
            (&[30, 70, 11], &[3, 2, 5]),
        ];
        for (x, repeats) in cases {
            let repeats = Tensor::from_slice(&[repeats.len()], repeats).unwrap();
            for x in [bytes(x, |byte| byte), floats(x), bytes(x, i64::from)] {
                Case::new("Tile", 13).input(x).weight(repeats.clone()).check(exact);
            }
        }
        let repeats = Tensor::from_slice(&[1], &[-1_i64]).unwrap();
        let error = Case::new("Tile", 13).input(floats(&[3])).input(repeats).error();
        assert!(error.to_string().contains("repeat"), "{error}");
    }

    #[test]
    fn a_mismatched_shape_is_an_error() {
        let shape = Tensor::from_slice(&[1], &[4_i64]).unwrap();
        let error = Case::new("Expand", 13).input(floats(&[3])).input(shape).error();
        assert!(error.to_string().contains('3'), "{error}");
    }
}
