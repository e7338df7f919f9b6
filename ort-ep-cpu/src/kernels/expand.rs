//! Expand and Tile of elements of any width, on all threads: each copies some indices of the result's outermost axis.

use std::borrow::Cow;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_ops::ops::expand::Expand;
use ort_ops::ops::tile::{Tile, Tiled};
use ort_ops::strided;
use ort_tensor::{DType, Shape, Tensor, TensorError, TensorView, Word, broadcast_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::strided::StridedCopy;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of writing a byte, in multiply-adds: as [`Rows::ELEMENTS`](crate::pieces::Rows::ELEMENTS).
const BYTE: usize = 3;

#[derive(Debug)]
struct ExpandKernel {
    which: Which,
    /// Bytes per element.
    width: usize,
    /// Input 1, if it is constant.
    sizes: Option<Tensor>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Expand,
    Tile,
}

/// The copy for one signature of shapes and sizes.
#[derive(Clone, Debug)]
struct State {
    shape: Shape,
    copy: StridedCopy,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let width = compiler.fact(0).and_then(Fact::dtype).and_then(DType::word_bytes);
    let which = compiler.op::<Expand>().map(|_| Which::Expand);
    let which = which.or_else(|| compiler.op::<Tile>().map(|_| Which::Tile));
    let (Some(which), Some(width)) = (which, width) else { return Ok(None) };
    Ok(Some(Box::new(ExpandKernel { which, width, sizes: compiler.constant(1).cloned() })))
}

impl State {
    fn new(which: Which, x: &[usize], sizes: TensorView<'_>) -> Result<Self, KernelError> {
        let Tiled { shape, split, strides } = match which {
            Which::Tile => Tile::tiled(x, sizes)?,
            Which::Expand => {
                let shape = Expand::shape(x, sizes)?;
                let strides = broadcast_strides(x, &shape);
                Tiled { split: shape.clone(), shape, strides }
            }
        };
        Ok(Self { shape, copy: StridedCopy::new(&split, &strides) })
    }
}

impl Kernel for ExpandKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(TensorError::MissingInput { index: 0 }.into()) };
        let sizes = self.sizes.as_ref();
        let state = sizes.map(|sizes| State::new(self.which, x, sizes.view())).transpose()?;
        Ok(Prepared::new(state))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let state = match state {
            Some(state) => Cow::Borrowed(state),
            None => {
                let x = io.inputs.tensor(0)?;
                Cow::Owned(State::new(self.which, x.shape(), io.inputs.tensor(1)?)?)
            }
        };
        match self.width {
            1 => expand::<u8>(&state, io),
            2 => expand::<u16>(&state, io),
            4 => expand::<u32>(&state, io),
            8 => expand::<u64>(&state, io),
            _ => expand::<u128>(&state, io),
        }
    }

    fn variant(&self) -> &'static str {
        "expand"
    }
}

fn expand<W>(state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError>
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
