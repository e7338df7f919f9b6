//! Gather, GatherND and ArrayFeatureExtractor of elements of any width, on all threads: all copy runs of the input that
//! tuples of indices select. A tuple of Gather is one index, and each index of the axes before its axis uses the same tuples.

use std::sync::Arc;

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, Operator};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::gather::Gather;
use ort_ops::ops::gather_nd::GatherNd;
use ort_ops::ops::ml::array_feature_extractor::ArrayFeatureExtractor;
use ort_tensor::{DType, Shape, TensorViewMut, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::READ;
use crate::pieces::Rows;
use crate::places::{IndexedAxis, Indices, Runs, indexed_axes};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The most elements of a group that are copied by places found once.
const COLUMNS: usize = 64;

#[derive(Debug)]
struct GatherKernel {
    which: Which,
    dtype: DType,
    /// Bytes per element.
    width: usize,
    /// Reports which index or shape is invalid.
    eval: Arc<dyn Operator>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    One(Gather),
    Tuples(GatherNd),
    /// Along the last axis, by indices that do not count from the end.
    Features,
}

/// Prepared state for one shape signature: run `i` of group `g` is selected by tuple `i`, starting at `g·group_bytes`.
struct State {
    shape: Shape,
    /// Runs per group.
    n: usize,
    group_bytes: usize,
    /// Whether all groups use the same tuples.
    is_shared: bool,
    axes: Vec<IndexedAxis>,
    /// Bytes per run.
    run: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let one = compiler.op::<Gather>().copied().map(Which::One);
    let tuples = || compiler.op::<GatherNd>().copied().map(Which::Tuples);
    let features = || compiler.op::<ArrayFeatureExtractor>().map(|_| Which::Features);
    let which = one.or_else(tuples).or_else(features);
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(which), Some(dtype)) = (which, dtype) else { return Ok(None) };
    let eval = compiler.graph.node(id).op.clone();
    let kernel = |width| GatherKernel { which, dtype, width, eval };
    Ok(dtype.word_bytes().map(|width| Box::new(kernel(width)) as Box<dyn Kernel>))
}

impl Kernel for GatherKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, indices] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(match self.which {
            Which::One(Gather { axis }) => self.one(normalize_axis(axis, x.len())?, x, indices),
            Which::Tuples(GatherNd { batch_dims }) => self.tuples(batch_dims, x, indices),
            Which::Features => match *x {
                [] => None,
                [n] => self.features(&[1, n], indices),
                _ => self.features(x, indices),
            },
        }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let is_valid = state.as_ref().map_or(Ok(false), |state| self.gather(state, io))?;
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "gather"
    }
}

impl GatherKernel {
    /// `y[a…, i…, b…] = x[a…, indices[i…], b…]`; `None` if it is empty.
    fn one(&self, axis: usize, x: &[usize], indices: &[usize]) -> Option<State> {
        let shape = [&x[..axis], indices, &x[axis + 1..]].concat();
        self.state(&shape, (indices, true), (&x[axis..], 1))
    }

    /// `y[a…, i] = x[a…, indices[i]]`; `None` if it is empty.
    fn features(&self, x: &[usize], indices: &[usize]) -> Option<State> {
        self.one(x.len() - 1, x, &[n_elements(indices)?])
    }

    /// `y[b…, i…, :] = x[b…, indices[b…, i…, 0], …, indices[b…, i…, k − 1], :]`; `None` if shapes do not match, or it
    /// is empty.
    fn tuples(&self, batch_dims: usize, x: &[usize], indices: &[usize]) -> Option<State> {
        let (&k, outer) = indices.split_last()?;
        let (batches, tuples) = outer.split_at_checked(batch_dims)?;
        let group = x.get(batch_dims..).filter(|_| x[..batch_dims] == *batches)?;
        let shape = [outer, group.get(k..)?].concat();
        self.state(&shape, (tuples, false), (group, k))
    }

    /// The state for groups of these dimensions, the first `k` of which are indexed.
    fn state(
        &self,
        shape: &[usize],
        (tuples, is_shared): (&[usize], bool),
        (group, k): (&[usize], usize),
    ) -> Option<State> {
        let n_bytes = |dims: &[usize]| n_elements(dims)?.checked_mul(self.width);
        n_bytes(shape)?;
        let axes = indexed_axes(group, k, self.width)?;
        let shape = Shape::from_slice(shape);
        let (n, group_bytes, run) = (n_elements(tuples)?, n_bytes(group)?, n_bytes(&group[k..])?);
        Some(State { shape, n, group_bytes, is_shared, axes, run })
    }

    /// Whether every index is in range.
    fn gather(&self, state: &State, io: &mut Io<'_, '_>) -> Result<bool, KernelError> {
        let x = io.inputs.tensor(0)?.as_bytes().ok_or(KernelError::ForeignState)?;
        let indices = io.inputs.tensor(1)?;
        if let (Which::Features, Ok(indices)) = (self.which, indices.as_slice::<i64>())
            && indices.iter().any(|&index| index < 0)
        {
            return Ok(false);
        }
        let indices = Indices::new(indices)?;
        let y = io.outputs[0].tensor(self.dtype, &state.shape)?;
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        if y.is_empty() {
            return Ok(false);
        }
        if state.is_shared && state.run == self.width && state.n <= COLUMNS {
            let mut places = [0; COLUMNS];
            let places = &mut places[..state.n];
            let fit = state.places(indices, 0, places);
            if fit {
                let columns = Columns { places, group_bytes: state.group_bytes };
                match self.width {
                    1 => columns.copy::<u8>(x, y, io.threads),
                    2 => columns.copy::<u16>(x, y, io.threads),
                    4 => columns.copy::<u32>(x, y, io.threads),
                    8 => columns.copy::<u64>(x, y, io.threads),
                    _ => columns.copy::<[u64; 2]>(x, y, io.threads),
                }
            }
            return Ok(fit);
        }
        let runs = Runs { threads: io.threads, len: state.run };
        Ok(runs.gather(x, y, |first, places| state.places(indices, first, places)))
    }
}

/// A few elements of each group, at the same places.
struct Columns<'a> {
    /// Offsets in bytes.
    places: &'a [usize],
    group_bytes: usize,
}

impl Columns<'_> {
    /// Copies the elements of each group of `x`, which are as wide as `T`.
    fn copy<T: Pod + Send + Sync>(&self, x: &[u8], y: &mut [u8], threads: &dyn Threads) {
        let (x, y): (&[T], &mut [T]) = (bytemuck::cast_slice(x), bytemuck::cast_slice_mut(y));
        let (n, len) = (self.places.len(), self.group_bytes / size_of::<T>());
        let mut places = [0; COLUMNS];
        for (to, place) in places.iter_mut().zip(self.places) {
            *to = place / size_of::<T>();
        }
        let places = &places[..n];
        Rows { len: n, cost: n * READ }.for_each(threads, y, |start, y| {
            let groups = x[start / n * len..].chunks_exact(len);
            for (x, y) in groups.zip(y.chunks_exact_mut(n)) {
                for (y, &place) in y.iter_mut().zip(places) {
                    *y = x[place];
                }
            }
        });
    }
}

impl State {
    /// Writes the offsets of runs `first..`; returns whether every index is in range.
    fn places(&self, indices: Indices<'_>, mut first: usize, places: &mut [usize]) -> bool {
        // If all groups use the same tuples, offsets are those of the previous group and a group more.
        let n_looked_up = if self.is_shared { self.n.min(places.len()) } else { places.len() };
        let (mut rest, mut fit) = (&mut places[..n_looked_up], true);
        while !rest.is_empty() {
            let (group, tuple) = (first / self.n, first % self.n);
            let n = rest.len().min(self.n - tuple);
            let (now, behind) = rest.split_at_mut(n);
            now.fill(group * self.group_bytes);
            let tuple = if self.is_shared { tuple } else { first };
            fit &= indices.add_offsets(&self.axes, tuple, now);
            (first, rest) = (first + n, behind);
        }
        // Offsets of indices out of range may be anything.
        if fit {
            for i in n_looked_up..places.len() {
                places[i] = places[i - self.n] + self.group_bytes;
            }
        }
        fit
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Complex, Tensor, f16};

    use crate::case::{Case, bytes, exact, floats, indices};

    fn of_every_width(shape: &[usize]) -> [Tensor; 5] {
        let wide = |byte: u8| Complex::new(f64::from(byte), -f64::from(byte));
        [
            bytes(shape, |byte| byte),
            bytes(shape, f16::from),
            floats(shape),
            bytes(shape, i64::from),
            bytes(shape, wide),
        ]
    }

    #[test]
    fn indices_replace_the_axis() {
        let cases: [(&[usize], i64, &[usize]); 8] = [
            (&[7], 0, &[]),
            (&[3, 4], -1, &[5]),
            (&[5, 1, 3], 0, &[2, 3]),
            (&[300, 2], 1, &[]),
            (&[3, 4], 0, &[0]),
            (&[2, 0, 3], 0, &[4]),
            // Large enough for several threads.
            (&[1000, 37], 0, &[6011]),
            (&[90, 7, 11], 1, &[300]),
        ];
        for (shape, axis, of_indices) in cases {
            let dim = shape[usize::try_from(axis).unwrap_or(shape.len() - 1)];
            for x in of_every_width(shape) {
                let case =
                    || Case::new("Gather", 13).attr("axis", Attr::Int(axis)).input(x.clone());
                case().input(indices::<i64>(of_indices, &[dim])).check(exact);
                case().input(indices::<i32>(of_indices, &[dim])).check(exact);
            }
        }
    }

    #[test]
    fn features_are_on_the_last_axis() {
        let cases: [(&[usize], &[usize]); 5] = [
            (&[7], &[3]),
            (&[3, 4], &[1, 5]),
            (&[300, 20], &[1]),
            (&[2, 5, 3], &[2, 2]),
            (&[0, 3], &[2]),
        ];
        let case = || Case::new("ArrayFeatureExtractor", 1).domain("ai.onnx.ml");
        for (shape, of_indices) in cases {
            let dim = shape[shape.len() - 1];
            let count = of_indices.iter().product::<usize>();
            // Indices that count from the end are errors.
            let places: Vec<i64> =
                (0..count).map(|i| i64::try_from(i * 7 % dim).unwrap()).collect();
            let places = Tensor::from_slice(of_indices, &places).unwrap();
            for x in [bytes(shape, i64::from), floats(shape)] {
                case().input(x).input(places.clone()).check(exact);
            }
        }
        let last = Tensor::from_slice(&[1], &[-1_i64]).unwrap();
        let error = case().input(floats(&[2, 3])).input(last).error().to_string();
        assert!(error.contains("features"), "{error}");
    }

    #[test]
    fn tuples_pick_elements_or_slices() {
        let cases: [(&[usize], i64, &[usize]); 7] = [
            (&[2, 3, 4], 0, &[5, 3]),
            (&[2, 3, 4], 0, &[5, 1]),
            (&[2, 3, 4], 1, &[2, 7, 2]),
            (&[2, 3, 4], 2, &[2, 3, 1]),
            (&[2, 3], 0, &[4, 0]),
            (&[2, 0], 0, &[3, 1]),
            // Large enough for several threads.
            (&[40, 50, 30], 1, &[40, 900, 1]),
        ];
        for (shape, batch_dims, of_indices) in cases {
            let first = usize::try_from(batch_dims).unwrap();
            let indexed = &shape[first..][..of_indices[of_indices.len() - 1]];
            let indexed = if indexed.is_empty() { &[1] } else { indexed };
            for x in of_every_width(shape) {
                let case = || Case::new("GatherND", 13).attr("batch_dims", Attr::Int(batch_dims));
                let case = || case().input(x.clone());
                case().input(indices::<i64>(of_indices, indexed)).check(exact);
                case().input(indices::<i32>(of_indices, indexed)).check(exact);
            }
        }
    }

    #[test]
    fn an_index_out_of_range_is_reported() {
        for op in ["Gather", "GatherND"] {
            for (dim, index) in [(3, 3_i64), (3, -4), (0, 0)] {
                let index = Tensor::from_slice(&[2, 1], &[-1, index]).unwrap();
                let case = Case::new(op, 13).input(floats(&[dim, 2])).input(index);
                let error = case.error().to_string();
                assert!(error.contains("out of range for"), "{error}");
            }
        }
        // The offsets of the next groups would be even larger.
        for shape in [&[3, 2, 5][..], &[3, 2]] {
            let far = Tensor::scalar(i64::MAX / 4);
            let case = Case::new("Gather", 13).attr("axis", Attr::Int(1)).input(floats(shape));
            let error = case.input(far).error().to_string();
            assert!(error.contains("out of range for"), "{error}");
        }
    }
}
