//! Transpose of elements of any width, on all threads: each computes some indices of the result's first axis. Matrices, and
//! stacks of them, go through registers; otherwise elements are copied one by one, or row by row.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::transpose::{MAX_CHANNELS, Transposed, transpose};
use ort_ops::ops::transpose::Transpose;
use ort_ops::strided::{self, Strided};
use ort_tensor::{DType, Shape, Word, row_major_strides};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;
use crate::strided::StridedCopy;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of copying an element, in multiply-adds: 0.05 ns, 0.25 ns through registers, or 1 ns if
/// elements adjacent in the result are not adjacent in the input.
const ADJACENT: usize = 4;
const IN_TILES: usize = 20;
const APART: usize = 64;

#[derive(Debug)]
struct TransposeKernel {
    isa: Isa,
    op: Transpose,
    /// Bytes per element.
    width: usize,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    copy: StridedCopy,
    stack: Option<Stack>,
    /// The cost of copying an element.
    each: usize,
}

/// A stack of matrices, each of which is transposed: `y[i, j, k] = x[i·next + k·pitch + j]`.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The ranges of `j` and `k`.
    size: [usize; 2],
    next: usize,
    pitch: usize,
    /// Whether there is a single `i`, so that threads share the `j`.
    is_one: bool,
}

impl Stack {
    /// The stack for a copy, if it is one.
    fn new(copy: &StridedCopy) -> Option<Self> {
        let (size, next, pitch) = match copy.axes() {
            (&[j, k], &[1, pitch]) => ([j, k], None, pitch),
            (&[_, j, k], &[next, 1, pitch]) => ([j, k], Some(next), pitch),
            _ => return None,
        };
        // The strides of a transposed tensor are not negative.
        let [next_stride, pitch] = [next.unwrap_or(0), pitch].map(isize::cast_unsigned);
        Some(Self { size, next: next_stride, pitch, is_one: next.is_none() })
    }

    /// Whether pixels of a few channels become planes. One thread takes all: the planes of another would be a third of each
    /// pixel, which takes longer than whole pixels.
    fn has_pixels(self) -> bool {
        let Self { size: [n_j, _], pitch, is_one, .. } = self;
        is_one && pitch == n_j && n_j <= MAX_CHANNELS
    }

    /// Writes a piece that starts at element `start` of the result: whole `i`, or whole `j` if there is a single `i`.
    fn write<W: Moved>(self, isa: Isa, x: &[W], (start, y): (usize, &mut [W])) {
        let Self { size: [n_j, n_k], next, pitch, is_one } = self;
        if is_one {
            let (first, n_j) = (start / n_k, y.len() / n_k);
            return W::transpose(isa, [n_k, n_j], (&x[first..], pitch), (y, n_k));
        }
        for (i, y) in (start / (n_j * n_k)..).zip(y.chunks_exact_mut(n_j * n_k)) {
            W::transpose(isa, [n_k, n_j], (&x[i * next..], pitch), (y, n_k));
        }
    }
}

/// An element identified by its width.
trait Moved: Word + strided::Word {
    /// As [`transpose()`].
    fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize));
}

impl Moved for u32 {
    fn transpose(isa: Isa, size: [usize; 2], x: (&[u32], usize), y: (&mut [u32], usize)) {
        let x = (bytemuck::cast_slice(x.0), x.1);
        transpose(isa, size, x, (bytemuck::cast_slice_mut(y.0), y.1));
    }
}

macro_rules! moved {
    ($($word:ty),*) => { $(
        impl Moved for $word {
            fn transpose(isa: Isa, size: [usize; 2], x: (&[Self], usize), y: (&mut [Self], usize)) {
                <$word as Transposed>::transpose(isa, size, x, y);
            }
        }
    )* };
}
moved!(u8, u16, u64);

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Transpose>().cloned() else { return Ok(None) };
    let width = compiler.fact(0).and_then(Fact::dtype).and_then(DType::word_bytes);
    let Some(width) = width.filter(|width| *width <= 8) else { return Ok(None) };
    Ok(Some(Box::new(TransposeKernel { isa: compiler.cpu.isa, op, width })))
}

impl Kernel for TransposeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let perm = self.op.perm(x.len())?;
        let strides = row_major_strides(x);
        let shape: Shape = perm.iter().map(|&axis| x[axis]).collect();
        let strides: Shape = perm.iter().map(|&axis| strides[axis]).collect();
        let copy = StridedCopy::new(&shape, &Strided::new(0, &strides));
        let stack = Stack::new(&copy);
        let each = match (stack, copy.axes()) {
            (Some(_), _) => IN_TILES,
            (None, (_, [.., last])) if *last > 1 => APART,
            _ => ADJACENT,
        };
        Ok(Prepared::new(State { shape, copy, stack, each }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.width {
            1 => self.permute::<u8>(prepared.state()?, io),
            2 => self.permute::<u16>(prepared.state()?, io),
            4 => self.permute::<u32>(prepared.state()?, io),
            _ => self.permute::<u64>(prepared.state()?, io),
        }
    }

    fn variant(&self) -> &'static str {
        "transpose"
    }
}

impl TransposeKernel {
    fn permute<W: Moved>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { ref shape, ref copy, stack, each } = state;
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(x.dtype(), shape)?.into_words::<W>()?;
        let x = x.as_words::<W>()?;
        let rows = match stack {
            Some(stack) if stack.has_pixels() => Rows { len: y.len(), cost: each },
            _ => copy.rows(each),
        };
        rows.for_each(io.threads, y, |start, y| match stack {
            Some(stack) => stack.write(self.isa, x, (start, y)),
            None => copy.write(x, (start, y)),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, f16};

    use crate::case::{Case, exact, floats};

    #[test]
    fn every_element_is_transposed() {
        let cases: [(&[usize], &[i64]); 21] = [
            (&[], &[]),
            (&[5], &[0]),
            (&[7, 9], &[1, 0]),
            (&[1, 3, 20, 30], &[0, 2, 3, 1]),
            (&[2, 3, 4, 5], &[3, 1, 0, 2]),
            (&[2, 0, 3], &[2, 0, 1]),
            (&[1, 1, 4], &[0, 2, 1]),
            (&[1, 300, 4, 200], &[0, 2, 1, 3]),
            // Matrices, alone and in stacks, small and large enough for several threads.
            (&[37, 53], &[1, 0]),
            (&[1, 517, 331, 1], &[0, 2, 1, 3]),
            (&[50, 8, 7], &[1, 2, 0]),
            (&[9, 70, 1, 90], &[0, 3, 1, 2]),
            (&[3, 0, 5], &[0, 2, 1]),
            // Pixels and planes, of one image and of several.
            (&[1, 200, 300, 3], &[0, 3, 1, 2]),
            (&[1, 3, 200, 300], &[0, 2, 3, 1]),
            (&[7, 40, 50, 4], &[0, 3, 1, 2]),
            (&[7, 2, 40, 50], &[0, 2, 3, 1]),
            // Axes that stay adjacent.
            (&[1, 30, 70, 41], &[0, 3, 1, 2]),
            (&[3, 30, 7, 11, 41], &[0, 4, 1, 2, 3]),
            (&[3, 5, 7, 60], &[0, 3, 1, 2]),
            (&[40, 5, 7, 60], &[2, 3, 0, 1]),
        ];
        for (shape, perm) in cases {
            let case = Case::new("Transpose", 25).input(floats(shape));
            case.attr("perm", Attr::Ints(perm.to_vec())).check(exact);
        }
        Case::new("Transpose", 25).input(floats(&[200, 300, 5])).check(exact);
    }

    #[test]
    fn elements_of_every_width_are_transposed() {
        fn numbers<T: Number>(shape: &[usize]) -> Tensor {
            let n: usize = shape.iter().product();
            let x = (0..n).map(|i| T::from_f64((i * 7919 % 127) as f64));
            Tensor::from_slice(shape, &x.collect::<Vec<_>>()).unwrap()
        }
        let cases: [(&[usize], &[i64]); 7] = [
            (&[1, 200, 300, 3], &[0, 3, 1, 2]),
            (&[1, 3, 200, 300], &[0, 2, 3, 1]),
            (&[37, 153], &[1, 0]),
            (&[1, 517, 331, 1], &[0, 2, 1, 3]),
            (&[5, 70, 1, 90], &[0, 3, 1, 2]),
            (&[2, 3, 4, 5], &[3, 1, 0, 2]),
            (&[1, 30, 4, 200], &[0, 2, 1, 3]),
        ];
        for (shape, perm) in cases {
            for x in [numbers::<u8>(shape), numbers::<f16>(shape), numbers::<i64>(shape)] {
                let case = Case::new("Transpose", 25).input(x);
                case.attr("perm", Attr::Ints(perm.to_vec())).check(exact);
            }
        }
    }
}
