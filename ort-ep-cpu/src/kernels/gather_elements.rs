//! GatherElements of elements of any width, on all threads, line by line of the indices.

// collects are bounded: by the rank

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::gather_elements::GatherElements;
use ort_tensor::{DType, Element, Shape, Word, row_major_strides};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{PIECE, Rows, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of copying an element, in multiply-adds: 0.5 ns.
const COST: usize = 48;

#[derive(Debug)]
struct GatherElementsKernel {
    op: GatherElements,
    dtype: DType,
    index: DType,
    /// Reports which index or shape is invalid.
    eval: Arc<dyn Operator>,
}

/// Prepared state for one shape signature: element `(…, i, …)` of the result, which has the shape of the indices, is
/// the input's element at `Σ i·strides[…] + index·step`.
struct State {
    shape: Shape,
    strides: Shape,
    step: usize,
    /// The dimension of the indexed axis.
    dim: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let dtype = |index| compiler.fact(index).and_then(Fact::dtype);
    let (Some(&op), Some(dtype), Some(index)) =
        (compiler.op::<GatherElements>(), dtype(0), dtype(1))
    else {
        return Ok(None);
    };
    let eval = compiler.graph.node(id).op.clone();
    let kernel = GatherElementsKernel { op, dtype, index, eval };
    Ok(dtype.word_bytes().is_some().then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl Kernel for GatherElementsKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, indices] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let fits = |i: usize| i == axis || indices[i] <= x[i];
        let fits = x.len() == indices.len() && !x.is_empty() && (0..x.len()).all(fits);
        Ok(Prepared::new(fits.then(|| {
            let mut strides = row_major_strides(x);
            let step = std::mem::replace(&mut strides[axis], 0);
            let (shape, strides) = (Shape::from_slice(indices), strides.iter().copied().collect());
            State { shape, strides, step, dim: x[axis] }
        })))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let is_valid = match (state, self.dtype.word_bytes()) {
            (Some(state), Some(1)) => self.words::<u8>(state, io)?,
            (Some(state), Some(2)) => self.words::<u16>(state, io)?,
            (Some(state), Some(4)) => self.words::<u32>(state, io)?,
            (Some(state), Some(8)) => self.words::<u64>(state, io)?,
            (Some(state), Some(16)) => self.words::<u128>(state, io)?,
            _ => false,
        };
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "gather_elements"
    }
}

impl GatherElementsKernel {
    /// Returns whether every index is in range.
    fn words<W: Word + Send + Sync>(
        &self,
        state: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        match self.index {
            DType::I32 => self.indexed::<W, i32>(state, io),
            _ => self.indexed::<W, i64>(state, io),
        }
    }

    fn indexed<W: Word + Send + Sync, I: Element + Into<i64> + Sync>(
        &self,
        state: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        let x = io.inputs.tensor(0)?.as_words::<W>()?;
        let indices = io.inputs.tensor(1)?.as_slice::<I>()?;
        let y = io.outputs[0].tensor(self.dtype, &state.shape)?.into_words::<W>()?;
        let Some(&len) = state.shape.last().filter(|_| !y.is_empty()) else { return Ok(true) };
        if x.is_empty() {
            return Ok(false);
        }
        let is_invalid = AtomicBool::new(false);
        let rows = Rows { len, cost: len.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            let mut lines = Lines::new(state, start / len);
            let each = y.chunks_exact_mut(len).zip(indices[start..].chunks_exact(len));
            for (y, indices) in each {
                let pieces = y.chunks_mut(PIECE).zip(indices.chunks(PIECE)).enumerate();
                for (i, (y, indices)) in wanted(pieces) {
                    if !state.gather((&x[lines.origin..], i * PIECE), indices, y) {
                        is_invalid.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                lines.advance(state);
            }
        });
        Ok(!is_invalid.into_inner())
    }
}

impl State {
    /// Writes elements of a line starting at `first`; for index 0, element 0 would be element 0 of `x`. Returns whether
    /// every index is in range.
    fn gather<W: Copy, I: Copy + Into<i64>>(
        &self,
        (x, first): (&[W], usize),
        indices: &[I],
        y: &mut [W],
    ) -> bool {
        let stride = self.strides.last().copied().unwrap_or(0);
        let dim = i64::try_from(self.dim).unwrap_or(i64::MAX);
        for (j, (y, index)) in (first..).zip(y.iter_mut().zip(indices)) {
            let index: i64 = (*index).into();
            let index = if index < 0 { index + dim } else { index };
            match usize::try_from(index) {
                Ok(index) if index < self.dim => *y = x[j * stride + index * self.step],
                _ => return false,
            }
        }
        true
    }
}

/// Iterates over lines: the index along the leading axes, and the line's offset in the input.
struct Lines {
    index: SmallVec<[usize; 6]>,
    origin: usize,
}

impl Lines {
    fn new(state: &State, mut line: usize) -> Self {
        let leading = state.shape.len() - 1;
        // bounded: by the rank
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, leading);
        let mut origin = 0;
        for axis in (0..leading).rev() {
            index[axis] = line % state.shape[axis];
            line /= state.shape[axis];
            origin += index[axis] * state.strides[axis];
        }
        Self { index, origin }
    }

    fn advance(&mut self, state: &State) {
        for axis in (0..self.index.len()).rev() {
            self.index[axis] += 1;
            self.origin += state.strides[axis];
            if self.index[axis] < state.shape[axis] {
                return;
            }
            self.origin -= self.index[axis] * state.strides[axis];
            self.index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact, floats, indices, integers};

    #[test]
    fn every_index_gives_its_element() {
        let shapes: [[&[usize]; 2]; 6] = [
            [&[7], &[20]],
            [&[3, 4, 5], &[2, 4, 3]],
            [&[300, 70], &[300, 70]],
            [&[2, 900, 4], &[2, 301, 4]],
            [&[2, 3, 40, 50], &[1, 3, 30, 50]],
            [&[3, 5], &[0, 5]],
        ];
        for [x, shape] in shapes {
            for axis in 0..x.len() {
                let mut shape = shape.to_vec();
                let dim = x[axis];
                (0..x.len()).filter(|&i| i != axis).for_each(|i| shape[i] = shape[i].min(x[i]));
                let attr = Attr::Int(i64::try_from(axis).unwrap());
                let case = || Case::new("GatherElements", 13).attr("axis", attr.clone());
                case().input(floats(x)).input(indices::<i64>(&shape, &[dim])).check(exact);
                case().input(integers(x)).input(indices::<i32>(&shape, &[dim])).check(exact);
                case()
                    .input(bytes(x, |byte| byte))
                    .input(indices::<i32>(&shape, &[dim]))
                    .check(exact);
            }
        }
    }

    #[test]
    fn an_index_out_of_range_is_reported() {
        for index in [3_i64, -4] {
            let index = Tensor::from_slice(&[2], &[0, index]).unwrap();
            let case = Case::new("GatherElements", 13).input(floats(&[3])).input(index);
            assert!(case.error().to_string().contains("indices"));
        }
        // An empty result, which no thread computes.
        let indices = Tensor::zeros(ort_tensor::DType::I64, &[1, 700, 900]).unwrap();
        let case = Case::new("GatherElements", 13).input(floats(&[0, 700, 900])).input(indices);
        assert!(case.error().to_string().contains("indices"));
    }
}
