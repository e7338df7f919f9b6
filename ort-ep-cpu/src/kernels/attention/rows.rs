//! MultiHeadAttention and DecoderMaskedMultiHeadAttention: queries, keys and values by row or by head, apart
//! or packed, with biases, masks and a past. What does not fit together is for `eval` to tell.

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::Fact;
use ort_ops::ops::microsoft::multi_head_attention::MultiHeadAttention;
use ort_tensor::{DType, Inputs, Output, TensorView};
use smallvec::SmallVec;

use super::cache::{Cache, past_of};
use super::floats::{Floats, Source, Strides, is_float, with_float};
use super::heads::{Heads, Operands};
use super::options::{Lens, Options, shapes_of};
use super::scores::Seen;
use crate::cpu::Cpu;
use crate::extended::{Roomy, eval_extended};
use crate::kernels::{Compiled, Compiler};

#[derive(Debug)]
struct RowsKernel {
    cpu: Cpu,
    op: MultiHeadAttention,
    dtype: DType,
    places: Places,
    /// Whether keys and values are by head.
    are_by_head: bool,
}

/// Where the inputs behind queries, keys and values stand.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// What is added to all three.
    bias: usize,
    mask: usize,
    /// What is added to the scores.
    biases: usize,
    past: usize,
    past_len: usize,
}

const KEYS_AND_VALUES: [usize; 2] = [1, 2];
const BEAMS: usize = 9;
const SCORES: usize = 3;

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MultiHeadAttention>() else { return Ok(None) };
    let dtype = compiler.dtype_of(0..3).filter(|&dtype| is_float(dtype));
    let has_scores = compiler.claim.outputs.get(SCORES).is_some_and(Option::is_some);
    let Some(dtype) = dtype.filter(|_| !has_scores && compiler.fact(BEAMS).is_none()) else {
        return Ok(None);
    };
    let places = match op.is_decoder {
        true => Places { bias: 10, mask: 3, biases: 4, past: 5, past_len: 7 },
        false => Places { bias: 3, mask: 4, biases: 5, past: 6, past_len: 8 },
    };
    let is_by_head = |input| compiler.fact(input).and_then(Fact::rank) == Some(4);
    let are_by_head = KEYS_AND_VALUES.into_iter().all(is_by_head);
    let cpu = compiler.cpu;
    Ok(Some(Box::new(RowsKernel { cpu, op, dtype, places, are_by_head })))
}

/// Prepared state for one shape signature.
struct State {
    /// Nothing if it is for `eval` to tell what does not fit.
    sizes: Option<Sizes>,
    /// Keys and values by head, without their room.
    roomy: [Roomy; 2],
}

/// What is new, and the buffer of the past.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    lens: Lens,
    /// Where queries, keys and values lie.
    q: Operand,
    k: Operand,
    v: Operand,
}

/// Of which input an operand is, from which element on and how; and whether the bias is added to it.
#[derive(Clone, Copy, Debug)]
struct Operand {
    input: usize,
    first: usize,
    strides: Strides,
    has_bias: bool,
}

impl RowsKernel {
    fn sizes(&self, shapes: &[&[usize]]) -> Option<Sizes> {
        let n = self.op.num_heads;
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        if (0..3).any(|input| shape(input).contains(&0)) {
            return None;
        }
        let joined = |input, first, strides| {
            let strides = Strides::joined(strides);
            Operand { input, first, strides, has_bias: true }
        };
        let rows = |input, [len, size]: [usize; 2]| joined(input, 0, [len, n * size, size]);
        let of_rows = |width: usize| width.is_multiple_of(n).then_some(width / n);
        let (batch, [q_len, len], [size, v_size], [q, k, v]) = match (shape(0), shape(1), shape(2))
        {
            (&[b, s, d], &[kb, l, kd], &[vb, vl, e])
                if [kb, vb] == [b; 2] && kd == d && vl == l =>
            {
                let sizes @ [h, e] = [of_rows(d)?, of_rows(e)?];
                (b, [s, l], sizes, [rows(0, [s, h]), rows(1, [l, h]), rows(2, [l, e])])
            }
            (&[b, s, d], &[kb, kn, l, h], &[vb, vn, vl, e])
                if [kb, vb] == [b; 2] && [kn, vn] == [n; 2] && vl == l && d == n * h =>
            {
                let split = |input, size| {
                    let strides = Strides::split([n, l, size]);
                    Operand { input, first: 0, strides, has_bias: false }
                };
                (b, [s, l], [h, e], [rows(0, [s, h]), split(1, h), split(2, e)])
            }
            (&[b, s, d], &[kb, l, kn, 2, h], []) if kb == b && kn == n && d == n * h => {
                let part = |i| joined(1, i * h, [l, n * 2 * h, 2 * h]);
                (b, [s, l], [h; 2], [rows(0, [s, h]), part(0), part(1)])
            }
            (&[b, s, qn, 3, h], [], []) if qn == n => {
                let part = |i| joined(0, i * h, [s, n * 3 * h, 3 * h]);
                (b, [s; 2], [h; 2], [part(0), part(1), part(2)])
            }
            (&[b, s, d], [], []) if self.op.is_decoder && d.is_multiple_of(3 * n) => {
                let h = d / 3 / n;
                let part = |i| joined(0, i * n * h, [s, d, h]);
                (b, [s; 2], [h; 2], [part(0), part(1), part(2)])
            }
            _ => return None,
        };
        let [past, v_past] = [0, 1].map(|i| shape(self.places.past + i));
        let capacity = past.get(2).copied().unwrap_or(0);
        let is_past = past.is_empty() && v_past.is_empty()
            || k.has_bias
                && past == [batch, n, capacity, size]
                && v_past == [batch, n, capacity, v_size];
        let bias = shape(self.places.bias);
        let is_bias = bias.is_empty() || bias == [n * (2 * size + v_size)];
        let lens = Lens { batch, q_len, len, size, v_size, capacity };
        (is_past && is_bias).then_some(Sizes { lens, q, k, v })
    }

    const fn options(&self) -> Options {
        let op = &self.op;
        Options {
            num_heads: op.num_heads,
            scale: op.scale,
            mask_filter_value: op.mask_filter_value,
            unidirectional: op.unidirectional,
            shares_buffer: op.shares_buffer,
        }
    }

    /// How much of the past counts, and all heads behind it; `None` if `eval` takes no such operands.
    fn call(&self, inputs: Inputs<'_>, lens: Lens) -> Result<Option<(usize, Heads)>, KernelError> {
        let options = self.options();
        let given = inputs.optional_tensor(self.places.past_len)?;
        let given = given.map(|len| len.as_slice::<i32>()).transpose()?;
        let Some(used) = options.used(lens, given.and_then(|given| given.first().copied())) else {
            return Ok(None);
        };
        let hiding = shapes_of(inputs, [self.places.mask, self.places.biases])?;
        Ok(options.heads(self.cpu, lens, used, hiding).map(|heads| (used, heads)))
    }

    fn source<'a>(
        &self,
        inputs: Inputs<'a>,
        operand: Operand,
        first_bias: usize,
    ) -> Result<Source<'a>, KernelError> {
        let bias = inputs.optional_tensor(self.places.bias)?.filter(|_| operand.has_bias);
        let view = inputs.tensor(operand.input)?;
        let strides = match *view.shape() {
            // By head, whose rows may have room behind them.
            [_, heads, room, size] => Strides::split([heads, room, size]),
            _ => operand.strides,
        };
        Ok(Source {
            data: Floats::of(view)?.from(operand.first),
            strides,
            bias: Floats::of_optional(bias)?.from(first_bias),
        })
    }

    /// Keys or values behind their past, where that is wanted or needed, written and read there then.
    fn kept<'a>(
        &self,
        (cache, past): (Cache<'a>, Option<TensorView<'a>>),
        output: &'a mut Output<'_>,
        spare: &'a mut Output<'_>,
        threads: &dyn Threads,
    ) -> Result<Source<'a>, KernelError> {
        let cache = Cache { past: past_of(past, output)?, ..cache };
        match (output.is_wanted(), past) {
            (true, _) => cache.write((self.cpu.isa, self.dtype), output, threads),
            (false, Some(_)) => cache.write((self.cpu.isa, self.dtype), spare, threads),
            (false, None) => Ok(cache.new),
        }
    }

    fn extensions_of(&self) -> [Extension; 2] {
        [0, 1].map(|i| Extension { input: self.places.past + i, output: 1 + i, axis: 2 })
    }

    fn attend(
        &self,
        (sizes, used): (&Sizes, usize),
        heads: &Heads,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let inputs = io.inputs;
        let Lens { batch, q_len, len, size, v_size, .. } = sizes.lens;
        let (n, width) = (self.op.num_heads, self.op.num_heads * size);
        let [mut no_keys, mut no_values] = [Output::unwanted(), Output::unwanted()];
        let [mut spare_keys, mut spare_values] = [Output::free(), Output::free()];
        let Some((y, kept)) = io.outputs.split_first_mut() else {
            return Err(KernelError::ForeignState);
        };
        let mut kept = kept.iter_mut();
        let keys = kept.next().unwrap_or(&mut no_keys);
        let values = kept.next().unwrap_or(&mut no_values);
        let rows = self.options().kept(sizes.lens, heads);
        let cache = |i: usize, new, size| {
            let shape = [batch, n, rows, size];
            let cache = Cache { past: Floats::default(), used, new, n_new: len, shape };
            Ok::<_, KernelError>((cache, inputs.optional_tensor(self.places.past + i)?))
        };
        let k = cache(0, self.source(inputs, sizes.k, width)?, size)?;
        let v = cache(1, self.source(inputs, sizes.v, 2 * width)?, v_size)?;
        let k = self.kept(k, keys, &mut spare_keys, io.threads)?;
        let v = self.kept(v, values, &mut spare_values, io.threads)?;
        let mut seen = Seen::default();
        if let Some(mask) = inputs.optional_tensor(self.places.mask)? {
            seen.mask = mask.as_slice()?;
        }
        seen.bias = Floats::of_optional(inputs.optional_tensor(self.places.biases)?)?;
        let operands = Operands { q: self.source(inputs, sizes.q, 0)?, k, v, seen };
        let y = y.tensor(self.dtype, &[batch, q_len, n * v_size])?;
        with_float!(self.dtype, T => {
            heads.run(&operands, y.into_slice::<T>()?, (io.threads, io.scratch));
        });
        Ok(())
    }
}

impl Kernel for RowsKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let len =
            |input: usize| shapes.get(input).and_then(|shape| shape.get(2)).copied().unwrap_or(0);
        let roomy = KEYS_AND_VALUES.map(|input| Roomy { input, axis: 2, len: len(input) });
        let sizes = self.sizes(shapes);
        let scratch = sizes.map_or(0, |sizes| self.options().scratch_bytes(self.cpu, sizes.lens));
        Ok(Prepared::new(State { sizes, roomy }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { sizes, roomy }: &State = prepared.state()?;
        let call = match sizes {
            Some(sizes) => self.call(io.inputs, sizes.lens)?.map(|call| (sizes, call)),
            None => None,
        };
        match call {
            Some((sizes, (used, heads))) => self.attend((sizes, used), &heads, io),
            None if self.are_by_head => eval_extended(&self.op, &self.extensions_of(), roomy, io),
            None => eval_extended(&self.op, &self.extensions_of(), &[], io),
        }
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        self.extensions_of().into()
    }

    fn reads_room(&self, input: usize, axis: usize) -> bool {
        self.are_by_head && KEYS_AND_VALUES.contains(&input) && axis == 2
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention")
    }
}

#[cfg(test)]
mod tests;
