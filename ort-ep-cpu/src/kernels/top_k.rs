//! TopK: elements become keys, unsigned integers in the same order, so that one loop handles any type.
//!
//! For a small `k`, a sorted list is updated while the keys are scanned, skipping whole chunks that have none above
//! its last key; for a larger one, keys are selected and sorted together with their indices.

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_kernels::Isa;
use ort_kernels::vec::{any, bf16_to_f32, each, f16_to_f32};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::top_k::TopK;
use ort_tensor::{
    DType, Element, Pace, Shape, TensorError, bf16, by_pieces, f16, n_elements, with_dtype,
};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, per_part};
use crate::greatest::{select, sort};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The maximum length of a sorted list.
const FEW: usize = 32;
/// Keys compared at once.
const CHUNK: usize = 64;
/// The cost of an element, in multiply-adds.
const COST: usize = 16;

#[derive(Debug)]
struct TopKKernel {
    cpu: Cpu,
    op: TopK,
    dtype: DType,
}

/// Prepared state for one shape signature: the operand as `[outer, len, inner]`.
#[derive(Clone, Debug)]
struct State {
    shape: Shape,
    axis: usize,
    len: usize,
    inner: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) = (compiler.op::<TopK>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let cpu = compiler.cpu;
    Ok(dtype.is_number().then(|| Box::new(TopKKernel { cpu, op, dtype }) as Box<dyn Kernel>))
}

impl Kernel for TopKKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let (len, inner) = (x[axis], n_elements(&x[axis + 1..]).unwrap_or(0));
        let state = State { shape: x.into(), axis, len, inner };
        let n_bytes = self.cpu.scratch_bytes(self.room(len));
        Ok(Prepared::new(state).with_scratch(n_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let k = match self.op.k {
            Some(k) => usize::try_from(k).ok(),
            None => match io.inputs.tensor(1)?.as_slice::<i64>()? {
                [k] => usize::try_from(*k).ok(),
                _ => None,
            },
        };
        let Some(k) = k.filter(|&k| k > 0 && k <= state.len && self.has_places(state.len)) else {
            // Empty or invalid: left to the operator.
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        with_dtype!(self.dtype, number,
            T => self.select::<T>(state, k, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "top_k")
    }
}

impl TopKKernel {
    /// Scratch for the keys of a lane, in floats, and for keys with indices.
    fn room(&self, len: usize) -> usize {
        let is_wide = matches!(self.dtype, DType::F64 | DType::I64 | DType::U64);
        len.saturating_mul(if is_wide { 6 } else { 3 }).saturating_add(64)
    }

    /// Whether an index fits next to a key.
    fn has_places(&self, len: usize) -> bool {
        u32::try_from(len).is_ok()
    }

    fn select<T: Sorted>(
        &self,
        state: &State,
        k: usize,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let &State { axis, len, inner, .. } = state;
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let mut shape = state.shape.clone();
        shape[axis] = k;
        let n = n_elements(&shape).ok_or(OpError::TooLarge)?;
        let (mut values, mut places): (&mut [T], &mut [i64]) = (&mut [], &mut []);
        let mut outputs = io.outputs.iter_mut();
        if let Some(output) = outputs.next().filter(|output| output.is_wanted()) {
            values = output.tensor(T::DTYPE, &shape)?.into_slice()?;
        }
        if let Some(output) = outputs.next().filter(|output| output.is_wanted()) {
            places = output.tensor(DType::I64, &shape)?.into_slice()?;
        }
        let (Some(n_blocks), block) = (n.checked_div(k * inner), k * inner) else { return Ok(()) };
        let n_parts = n_parts(io.threads, x.len().saturating_mul(COST));
        let per_part = per_part(io.threads, n_blocks, n_parts);
        let mut values = values.chunks_mut(per_part * block);
        let mut places = places.chunks_mut(per_part * block);
        let parts = x.chunks(per_part * len * inner).map(move |x| {
            (x, values.next().unwrap_or_default(), places.next().unwrap_or_default())
        });
        let lanes = Lanes { isa: self.cpu.isa, is_largest: self.op.is_largest, k, inner };
        let team = Team::new(io.threads, parts.len()).with_scratch(io.scratch, self.room(len));
        team.run(parts, |(x, values, places), room| {
            let (mut values, mut places) = (values.chunks_mut(block), places.chunks_mut(block));
            for x in x.chunks_exact(len * inner) {
                let values = values.next().unwrap_or_default();
                let places = places.next().unwrap_or_default();
                if lanes.select(x, room, (values, places)).is_err() {
                    // The run was cancelled.
                    return;
                }
            }
        });
        Ok(())
    }
}

/// How the lanes of a block are processed.
#[derive(Clone, Copy)]
struct Lanes {
    isa: Isa,
    is_largest: bool,
    k: usize,
    inner: usize,
}

impl Lanes {
    fn select<T: Sorted>(
        self,
        x: &[T],
        room: &mut [f32],
        (values, places): (&mut [T], &mut [i64]),
    ) -> Result<(), TensorError> {
        let Self { isa, is_largest, k, inner } = self;
        let len = x.len() / inner;
        let n_placed = len * size_of::<T::Placed>() / size_of::<f32>();
        let (placed, keys) = room.split_at_mut(n_placed.next_multiple_of(16));
        let keys = &mut bytemuck::cast_slice_mut::<_, T::Key>(keys)[..len];
        let placed = &mut bytemuck::cast_slice_mut::<_, T::Placed>(placed)[..len];
        for lane in 0..inner {
            let key = |x: T| if is_largest { x.key() } else { T::inverse(x.key()) };
            match inner {
                1 => by_pieces(keys, |at, keys| each(isa, &x[at..][..keys.len()], keys, key))?,
                _ => by_pieces(keys, |at, keys| {
                    let lane = x[at * inner + lane..].iter().step_by(inner);
                    keys.iter_mut().zip(lane).for_each(|(key_of, x)| *key_of = key(*x));
                })?,
            }
            let best = best::<T>(isa, keys, k, placed)?;
            let mut pace = Pace::new();
            for (j, placed) in best.iter().enumerate() {
                pace.go(1)?;
                let (at, to) = (T::place(*placed), j * inner + lane);
                if let Some(value) = values.get_mut(to) {
                    *value = x[at as usize * inner + lane];
                }
                if let Some(place) = places.get_mut(to) {
                    *place = i64::from(at);
                }
            }
        }
        Ok(())
    }
}

/// The `k` greatest keys with indices, best first; `placed` has room for all.
fn best<'p, T: Sorted>(
    isa: Isa,
    keys: &[T::Key],
    k: usize,
    placed: &'p mut [T::Placed],
) -> Result<&'p [T::Placed], TensorError> {
    let with_place = |(i, key): (usize, &T::Key)| T::placed(*key, i);
    if k > FEW {
        by_pieces(placed, |at, placed| {
            let keys = (at..).zip(&keys[at..]).map(with_place);
            placed.iter_mut().zip(keys).for_each(|(to, x)| *to = x);
        })?;
        select(placed, k)?;
        sort(&mut placed[..k])?;
        return Ok(&placed[..k]);
    }
    for (i, key) in keys[..k].iter().enumerate() {
        insert(&mut placed[..=i], T::placed(*key, i));
    }
    for (i, chunk) in keys[k..].chunks(CHUNK).enumerate() {
        // Of equal keys the first is better.
        let least = T::key_of(placed[k - 1]);
        if !any(isa, chunk, |key| key > least) {
            continue;
        }
        for (j, key) in chunk.iter().enumerate() {
            let found = T::placed(*key, k + i * CHUNK + j);
            if found > placed[k - 1] {
                insert(&mut placed[..k], found);
            }
        }
    }
    Ok(&placed[..k])
}

/// Inserts one into a list, best first, whose last is dropped.
fn insert<P: Ord + Copy>(sorted: &mut [P], one: P) {
    let last = sorted.len() - 1;
    let at = sorted[..last].partition_point(|other| *other > one);
    sorted.copy_within(at..last, at + 1);
    sorted[at] = one;
}

/// An element with a key: a greater element has a greater key, NaN the greatest, and both zeros the same.
trait Sorted: Element {
    type Key: Pod + Ord + Send + Sync;
    /// A key with an index: of equal keys, the one with the lower index is greater.
    type Placed: Pod + Ord + Send + Sync;

    fn key(self) -> Self::Key;
    /// The key in the reverse order.
    fn inverse(key: Self::Key) -> Self::Key;
    fn placed(key: Self::Key, at: usize) -> Self::Placed;
    fn key_of(placed: Self::Placed) -> Self::Key;
    fn place(placed: Self::Placed) -> u32;
}

/// 32-bit keys with indices in 64 bits, 64-bit keys in 128.
macro_rules! sorted {
    ($($ty:ty: $key:ty, $placed:ty, $shift:literal, |$x:ident| $expr:expr;)*) => { $(
        #[allow(clippy::cast_possible_truncation, reason = "indices are below 2³², keys in the upper bits")]
        impl Sorted for $ty {
            type Key = $key;
            type Placed = $placed;

            #[inline(always)]
            fn key(self) -> $key { let $x = self; $expr }
            #[inline(always)]
            fn inverse(key: $key) -> $key { !key }
            #[inline(always)]
            fn placed(key: $key, at: usize) -> $placed {
                <$placed>::from(key) << $shift | <$placed>::from(!(at as u32))
            }
            #[inline(always)]
            fn key_of(placed: $placed) -> $key { (placed >> $shift) as $key }
            #[inline(always)]
            fn place(placed: $placed) -> u32 { !(placed as u32) }
        }
    )* };
}
sorted! {
    i8: u32, u64, 32, |x| i32::from(x).cast_unsigned() ^ 1 << 31;
    i16: u32, u64, 32, |x| i32::from(x).cast_unsigned() ^ 1 << 31;
    i32: u32, u64, 32, |x| x.cast_unsigned() ^ 1 << 31;
    i64: u64, u128, 64, |x| x.cast_unsigned() ^ 1 << 63;
    u8: u32, u64, 32, |x| u32::from(x);
    u16: u32, u64, 32, |x| u32::from(x);
    u32: u32, u64, 32, |x| x;
    u64: u64, u128, 64, |x| x;
    f16: u32, u64, 32, |x| f16_to_f32(x.to_bits()).key();
    bf16: u32, u64, 32, |x| bf16_to_f32(x.to_bits()).key();
    f32: u32, u64, 32, |x| {
        let bits = if x == 0.0 { 0 } else { x.to_bits() };
        let flipped = if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 };
        if x.is_nan() { u32::MAX } else { flipped }
    };
    f64: u64, u128, 64, |x| {
        let bits = if x == 0.0 { 0 } else { x.to_bits() };
        let flipped = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
        if x.is_nan() { u64::MAX } else { flipped }
    };
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, exact};

    /// Numbers, many of them equal, and some NaN.
    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 0.0, 1e300];
        let number = |i: usize| match i % 23 {
            0 => special[i / 23 % 6],
            _ => (i * 7919 % 401) as f64 / 2.0 - 100.0,
        };
        let n = n_elements(shape).unwrap();
        let elements: Vec<T> = (0..n).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    }

    fn case(x: Tensor, (k, axis, is_largest): (i64, i64, bool)) -> Case {
        Case::new("TopK", 11)
            .attr("axis", Attr::Int(axis))
            .attr("largest", Attr::Int(is_largest.into()))
            .input(x)
            .weight(Tensor::from_slice(&[1], &[k]).unwrap())
            .outputs(2)
    }

    #[test]
    fn the_best_of_every_type_equal_the_operators() {
        for dtype in DType::ALL.iter().filter(|dtype| dtype.is_number()) {
            for (k, is_largest) in [(1, true), (5, false), (32, true), (33, true), (150, false)] {
                let x = |shape: &[usize]| with_dtype!(*dtype, number, T => numbers::<T>(shape), else => panic!());
                case(x(&[3, 1000]), (k, -1, is_largest)).check(exact);
                case(x(&[2, 150, 7]), (k, 1, is_largest)).check(exact);
                case(x(&[150]), (k, 0, is_largest)).check(exact);
            }
        }
        // Large enough for several threads.
        case(numbers::<f32>(&[300, 1000]), (7, 1, true)).check(exact);
    }

    #[test]
    fn empty_operands_give_empty_results() {
        case(numbers::<f32>(&[3, 10]), (0, 1, true)).check(exact);
        case(numbers::<f32>(&[0, 10]), (3, 1, true)).check(exact);
        let case = Case::new("TopK", 11).input(numbers::<f32>(&[10])).outputs(2);
        let error = case.input(Tensor::from_slice(&[1], &[11_i64]).unwrap()).error();
        assert!(error.to_string().contains("axis"));
    }
}
