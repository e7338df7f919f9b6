//! ScatterND and ScatterElements, on all threads: updates are runs that are copied to the places that indices
//! select, in elements of any width, or reduced there, in numbers and booleans.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::scatter_elements::ScatterElements;
use ort_ops::ops::scatter_nd::ScatterNd;
use ort_ops::scatter::Reduction;
use ort_tensor::{DType, Shape, TensorViewMut, n_elements, row_major_strides, with_dtype};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::places::{Before, IndexedAxis, Indices, Put, Runs, copy, indexed_axes, join};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ScatterKernel {
    which: Which,
    dtype: DType,
    /// Bytes per element.
    width: usize,
    /// Reports which index or shape is invalid.
    eval: Arc<dyn Operator>,
    /// Puts the updates into their places.
    put: Put,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Tuples,
    /// Along this axis.
    Elements(i64),
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// Bytes per run.
    run: usize,
    to: To,
}

/// The destination of updates.
enum To {
    Tuples(Vec<IndexedAxis>),
    Lines(Lines),
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let tuples = compiler.op::<ScatterNd>();
    let elements = compiler.op::<ScatterElements>();
    let reduction = tuples.map(|op| op.reduction).or_else(|| elements.map(|op| op.reduction));
    let which = tuples.map(|_| Which::Tuples);
    let which = which.or_else(|| elements.map(|op| Which::Elements(op.axis)));
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(which), Some(dtype)) = (which, dtype) else { return Ok(None) };
    let eval = compiler.graph.node(id).op.clone();
    let (width, put) = (dtype.word_bytes(), put(reduction.unwrap_or(Reduction::None), dtype));
    let kernel =
        width.zip(put).map(|(width, put)| ScatterKernel { which, dtype, width, eval, put });
    Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
}

/// How updates are put into their places; `None` for a reduction of elements without order.
fn put(reduction: Reduction, dtype: DType) -> Option<Put> {
    let (reduction, dtype) = match (reduction, dtype) {
        (Reduction::Add, DType::Bool) => (Reduction::Max, DType::U8),
        (Reduction::Mul, DType::Bool) => (Reduction::Min, DType::U8),
        (_, DType::Bool) => (reduction, DType::U8),
        _ => (reduction, dtype),
    };
    with_dtype!(dtype, number, T => Some(match reduction {
        Reduction::None => copy,
        Reduction::Add => |len, updates, at, y| join((len, updates), at, y, <T as Arithmetic>::add),
        Reduction::Mul => |len, updates, at, y| join((len, updates), at, y, <T as Arithmetic>::mul),
        Reduction::Max => |len, updates, at, y| join((len, updates), at, y, T::larger),
        Reduction::Min => |len, updates, at, y| join((len, updates), at, y, T::smaller),
    }), else => (reduction == Reduction::None).then_some(copy))
}

impl Kernel for ScatterKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, indices, ref rest @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let updates = rest.first().copied().unwrap_or_default();
        Ok(Prepared::new(match self.which {
            Which::Tuples => self.tuples(x, indices, updates),
            Which::Elements(_) if indices != updates => None,
            Which::Elements(axis) => Lines::new(axis, (x, self.width), indices)?.map(|lines| {
                State { shape: Shape::from_slice(x), run: self.width, to: To::Lines(lines) }
            }),
        }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let is_valid = state.as_ref().map_or(Ok(false), |state| self.scatter(state, io))?;
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "scatter"
    }
}

impl ScatterKernel {
    /// `y[indices[i…, 0], …, indices[i…, k − 1], :] = updates[i…, :]`; `None` if shapes do not match, or it is empty.
    fn tuples(&self, x: &[usize], indices: &[usize], updates: &[usize]) -> Option<State> {
        let (&k, outer) = indices.split_last()?;
        let slice = x.get(k..)?;
        let to = To::Tuples(indexed_axes(x, k, self.width)?);
        let run = n_elements(slice)?.checked_mul(self.width)?;
        let fits = outer.iter().chain(slice).eq(updates);
        fits.then(|| State { shape: Shape::from_slice(x), run, to })
    }

    /// Returns whether every index is in range. In place, the output is modified even if one is not: the run fails then.
    fn scatter(&self, state: &State, io: &mut Io<'_, '_>) -> Result<bool, KernelError> {
        let indices = Indices::new(io.inputs.tensor(1)?)?;
        let bytes = |index| io.inputs.tensor(index)?.as_bytes().ok_or(KernelError::ForeignState);
        let updates = bytes(2)?;
        let before = match io.outputs[0].in_place_of() {
            Some(0) => Before::InPlace,
            _ => Before::Copied(bytes(0)?),
        };
        let y = match before {
            Before::InPlace => io.outputs[0].in_place_tensor().ok_or(KernelError::ForeignState)?.1,
            _ => io.outputs[0].tensor(self.dtype, &state.shape)?,
        };
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        if y.is_empty() || updates.is_empty() {
            return Ok(false);
        }
        let runs = Runs { threads: io.threads, len: state.run };
        Ok(runs.scatter(self.put, (before, updates), y, |first, places| match &state.to {
            To::Tuples(axes) => indices.add_offsets(axes, first, places),
            To::Lines(lines) => lines.places(indices, first, places),
        }))
    }
}

/// The destinations of indices along one axis: the index at `(…, i, …)` of the indices' shape,
/// of value `index`, refers to byte `Σ i·strides[…] + index·step`.
struct Lines {
    shape: Shape,
    strides: Shape,
    axis: IndexedAxis,
}

impl Lines {
    /// Destinations of elements of `width` bytes; `None` if the shapes do not match.
    fn new(
        axis: i64,
        (x, width): (&[usize], usize),
        indices: &[usize],
    ) -> Result<Option<Self>, OpError> {
        let axis = normalize_axis(axis, x.len())?;
        let fits = |i: usize| i == axis || indices[i] <= x[i];
        if x.len() != indices.len() || x.is_empty() || !(0..x.len()).all(fits) {
            return Ok(None);
        }
        let strides = row_major_strides(x);
        let mut strides: Shape =
            strides.iter().map(|stride| stride.saturating_mul(width)).collect();
        let step = std::mem::replace(&mut strides[axis], 0);
        let axis = IndexedAxis::new(x[axis], step);
        Ok(Some(Self { shape: Shape::from_slice(indices), strides, axis }))
    }

    /// Writes the offsets of elements `first..`; returns whether all exist.
    fn places(&self, indices: Indices<'_>, first: usize, mut places: &mut [usize]) -> bool {
        let rank = self.shape.len();
        // bounded: by the rank
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
        let (mut rest, mut at, mut line) = (first, first, 0);
        for i in (0..rank).rev() {
            index[i] = rest % self.shape[i];
            rest /= self.shape[i];
            line += index[i] * self.strides[i];
        }
        let (len, stride) = (self.shape[rank - 1], self.strides[rank - 1]);
        let mut fit = true;
        while !places.is_empty() {
            let n = places.len().min(len - index[rank - 1]);
            let (now, rest) = places.split_at_mut(n);
            now.iter_mut().enumerate().for_each(|(i, place)| *place = line + i * stride);
            fit &= indices.add_offsets(&[self.axis], at, now);
            (at, places) = (at + n, rest);
            index[rank - 1] += n;
            line += n * stride;
            for i in (0..rank).rev() {
                if index[i] < self.shape[i] {
                    break;
                }
                line -= index[i] * self.strides[i];
                index[i] = 0;
                if i > 0 {
                    index[i - 1] += 1;
                    line += self.strides[i - 1];
                }
            }
        }
        fit
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, Complex, Tensor, f16};

    use crate::case::{Case, bytes, exact, floats, indices};

    type Make = fn(&[usize]) -> Tensor;

    const OF_EVERY_WIDTH: [Make; 5] = [
        |shape| bytes(shape, |byte| byte),
        |shape| bytes(shape, f16::from),
        floats,
        |shape| bytes(shape, i64::from),
        |shape| bytes(shape, |byte| Complex::new(f64::from(byte), 1.0)),
    ];

    #[test]
    fn slices_are_scattered_and_the_last_wins() {
        let cases: [(&[usize], &[usize], &[usize]); 6] = [
            (&[2, 3, 4], &[5, 3], &[5]),
            (&[2, 3, 4], &[5, 2, 1], &[5, 2, 3, 4]),
            (&[3], &[2, 0], &[2, 3]),
            (&[3, 2], &[0, 1], &[0, 2]),
            // Large enough for several threads.
            (&[900, 70, 3], &[7000, 2], &[7000, 3]),
            (&[100_000], &[300_000, 1], &[300_000]),
        ];
        for (x, of_indices, updates) in cases {
            let k = of_indices[of_indices.len() - 1];
            let dims = if k == 0 { &[1] } else { &x[..k] };
            for make in OF_EVERY_WIDTH {
                let case = || Case::new("ScatterND", 18).input(make(x));
                case().input(indices::<i64>(of_indices, dims)).input(make(updates)).check(exact);
            }
            let case = Case::new("ScatterND", 18).input(floats(x));
            case.input(indices::<i32>(of_indices, dims)).input(floats(updates)).check(exact);
        }
    }

    #[test]
    fn elements_are_scattered_and_the_last_wins() {
        let cases: [(&[usize], &[usize]); 4] = [
            (&[7], &[20]),
            (&[3, 4, 5], &[2, 4, 3]),
            (&[300, 700], &[300, 700]),
            (&[3, 5], &[0, 5]),
        ];
        for (x, of_indices) in cases {
            for axis in 0..x.len() {
                let mut shape = of_indices.to_vec();
                let others = (0..x.len()).filter(|&i| i != axis);
                others.for_each(|i| shape[i] = shape[i].min(x[i]));
                let indices = indices::<i64>(&shape, &x[axis..=axis]);
                for make in OF_EVERY_WIDTH {
                    let case = Case::new("ScatterElements", 18).input(make(x));
                    let case = case.attr("axis", Attr::Int(i64::try_from(axis).unwrap()));
                    case.input(indices.clone()).input(make(&shape)).check(exact);
                }
            }
        }
    }

    #[test]
    fn numbers_are_reduced_in_order() {
        let shape = [3, 40, 7];
        let of_number: [Make; 6] = [
            |shape| bytes(shape, |byte| Bool::from(byte & 1 == 1)),
            |shape| bytes(shape, |byte| byte),
            |shape| bytes(shape, f16::from),
            floats,
            |shape| bytes(shape, i64::from),
            |shape| bytes(shape, f64::from),
        ];
        for (reduction, make) in
            ["add", "mul", "max", "min"].iter().flat_map(|r| of_number.iter().map(move |m| (r, m)))
        {
            let case = |op| {
                let attr = Attr::String((*reduction).into());
                Case::new(op, 18).attr("reduction", attr).input(make(&shape))
            };
            let elements = case("ScatterElements").attr("axis", Attr::Int(1));
            let elements = elements.input(indices::<i32>(&[3, 300, 7], &[40]));
            elements.input(make(&[3, 300, 7])).check(exact);
            let tuples = case("ScatterND").input(indices::<i64>(&[5000, 2], &[3, 40]));
            tuples.input(make(&[5000, 7])).check(exact);
        }
    }

    #[test]
    fn an_index_out_of_range_is_reported() {
        for op in ["ScatterND", "ScatterElements"] {
            for index in [3_i64, -4] {
                let index = Tensor::from_slice(&[2, 1], &[-1, index]).unwrap();
                let case = Case::new(op, 18).input(floats(&[3, 1])).input(index);
                let error = case.input(floats(&[2, 1])).error().to_string();
                assert!(error.contains("out of range for"), "{error}");
            }
            let case = Case::new(op, 18).input(floats(&[3, 1]));
            let case = case.input(indices::<i64>(&[2, 1], &[3])).input(floats(&[3, 1]));
            assert!(case.error().to_string().contains("indices and updates"));
        }
    }
}
