//! NonZero of numbers and booleans, on all threads: parts of the input are counted, which places their indices in the
//! result, and then searched row by row: the other indices of a row are the same.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::{Isa, Task};
use ort_ops::ops::non_zero::NonZero;
use ort_tensor::{DType, Element, Pace};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};
use crate::pieces::elements_as;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of testing an element, and of writing an index, in multiply-adds.
const TEST: usize = 32;
const INDEX: usize = 24;
/// Elements that are searched at a time.
const BLOCK: usize = 64;

#[derive(Debug)]
struct NonZeroKernel {
    isa: Isa,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let dtype = dtype.filter(|dtype| dtype.is_number() || dtype.is_bool());
    let (Some(_), Some(dtype)) = (compiler.op::<NonZero>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(NonZeroKernel { isa: compiler.cpu.isa, dtype })))
}

impl Kernel for NonZeroKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        // Zeros of floats have either sign.
        let is_float = self.dtype.is_float();
        match self.dtype.word_bytes() {
            Some(1) => self.find(io, |x: u8| x != 0),
            Some(2) if is_float => self.find(io, |x: u16| x & (u16::MAX >> 1) != 0),
            Some(2) => self.find(io, |x: u16| x != 0),
            Some(4) if is_float => self.find(io, |x: u32| x & (u32::MAX >> 1) != 0),
            Some(4) => self.find(io, |x: u32| x != 0),
            _ if is_float => self.find(io, |x: u64| x & (u64::MAX >> 1) != 0),
            _ => self.find(io, |x: u64| x != 0),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "non_zero")
    }
}

impl NonZeroKernel {
    fn find<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        is_set: impl Fn(T) -> bool + Copy + Sync,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let (dims, x) = (x.shape(), elements_as::<T>(x)?);
        let count = |x| self.isa.run(Count { x, is_set });
        let n = count(x);
        let y = io.outputs[0].tensor(DType::I64, &[dims.len(), n])?.into_slice::<i64>()?;
        if y.is_empty() {
            return Ok(());
        }
        let cost = x.len().saturating_mul(TEST).saturating_add(y.len().saturating_mul(INDEX));
        let n_parts = n_parts(io.threads, cost);
        let per_part = x.len().div_ceil(n_parts);
        let mut rest: Rows<'_> = y.chunks_exact_mut(n).collect();
        let parts = x.chunks(per_part).enumerate().map(|(i, x)| {
            let n = count(x);
            let y = rest.iter_mut().filter_map(|row| row.split_off_mut(..n));
            (i * per_part, x, y.collect())
        });
        Team::new(io.threads, n_parts).run(parts, |(start, x, y): (_, _, Rows<'_>), _| {
            self.isa.run(Indices { x, start, dims, is_set, y });
        });
        Ok(())
    }
}

/// A row of indices for each axis.
type Rows<'a> = SmallVec<[&'a mut [i64]; 4]>;

/// The number of elements that are set.
struct Count<'a, T, F> {
    x: &'a [T],
    is_set: F,
}

impl<T: Copy, F: Fn(T) -> bool> Task for Count<'_, T, F> {
    type Output = usize;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> usize {
        let mut n = 0;
        for x in self.x.chunks(u8::MAX.into()) {
            let mut sum = 0_u8;
            for x in x {
                sum += u8::from((self.is_set)(*x));
            }
            n += usize::from(sum);
        }
        n
    }
}

/// The indices of the elements that are set, in a part of an operand of shape `dims` that begins at element `start`.
struct Indices<'a, T, F> {
    x: &'a [T],
    start: usize,
    dims: &'a [usize],
    is_set: F,
    y: Rows<'a>,
}

impl<T: Copy, F: Fn(T) -> bool + Copy> Task for Indices<'_, T, F> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_wrap, reason = "indices of existing elements")]
    fn run<const FMA: bool>(self) {
        let Self { mut x, start, dims, is_set, mut y } = self;
        // The axis of rows: the last with more than one index.
        let axis = dims.iter().rposition(|&dim| dim != 1).unwrap_or(0);
        let (outer, inner) = y.split_at_mut(axis);
        let Some((columns, ones)) = inner.split_first_mut() else { return };
        ones.iter_mut().for_each(|y| y.fill(0));
        let (mut row, mut column, mut at) = (start / dims[axis], start % dims[axis], 0);
        let mut pace = Pace::new();
        while !x.is_empty() {
            let (now, rest) = x.split_at(x.len().min(dims[axis] - column));
            if pace.go(now.len()).is_err() {
                return;
            }
            let n = find(now, column, is_set, &mut columns[at..]);
            if n > 0 {
                let mut index = row;
                for (y, dim) in outer.iter_mut().zip(dims).rev() {
                    y[at..at + n].fill((index % dim) as i64);
                    index /= dim;
                }
            }
            (x, row, column, at) = (rest, row + 1, 0, at + n);
        }
    }
}

/// Writes the positions of the elements that are set, counted from `first`; returns their number.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "indices of existing elements")]
fn find<T: Copy>(x: &[T], first: usize, is_set: impl Fn(T) -> bool, y: &mut [i64]) -> usize {
    let mut at = 0;
    for (i, x) in x.chunks(BLOCK).enumerate() {
        let mut any = false;
        for x in x {
            any |= is_set(*x);
        }
        if !any {
            continue;
        }
        let (mut found, mut n) = ([0; BLOCK], 0);
        for (i, x) in (first + i * BLOCK..).zip(x) {
            found[n] = i as i64;
            n += usize::from(is_set(*x));
        }
        y[at..at + n].copy_from_slice(&found[..n]);
        at += n;
    }
    at
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, exact};

    const SHAPES: [&[usize]; 10] = [
        &[],
        &[1],
        &[0, 3],
        &[1001],
        &[3, 5, 7],
        &[40, 1, 3],
        &[700, 1],
        &[1, 1],
        // Large enough for several threads.
        &[3, 100, 701],
        &[2, 2, 150, 300],
    ];

    /// Runs of zeros, and numbers, zeros of either sign and NaN among each other.
    fn number(i: usize) -> f64 {
        match i / 200 % 3 {
            0 => 0.0,
            _ => [1.0, -0.0, 0.0, f64::NAN, 3.0, -2.0, 0.0][(i * 7919) % 7],
        }
    }

    #[test]
    fn indices_are_those_of_eval() {
        for shape in SHAPES {
            let n = n_elements(shape).unwrap();
            for &dtype in DType::ALL.iter().filter(|dtype| dtype.is_number()) {
                let x = with_dtype!(dtype, number, T => {
                    let x: Vec<T> = (0..n).map(|i| <T as Number>::from_f64(number(i + 7))).collect();
                    Tensor::from_slice(shape, &x).unwrap()
                }, else => unreachable!("a number type"));
                Case::new("NonZero", 13).input(x).check(exact);
            }
            let flags: Vec<Bool> = (0..n).map(|i| (i * i % 7 < 3).into()).collect();
            let flags = Tensor::from_slice(shape, &flags).unwrap();
            Case::new("NonZero", 13).input(flags).check(exact);
        }
    }
}
