//! GroupQueryAttention with a cache of floats.
//!
//! ```text
//! for each batch and head of keys:  the past's rows are copied to the cache, the new ones rotated behind
//!                                   them, and the queries of the group rotated: [heads, queries, size]
//! then every head attends as in `heads` to the keys of its batch
//! ```

mod call;
mod rotation;

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared};
use ort_ops::ops::microsoft::group_query_attention::{GroupQueryAttention, Kept};
use ort_tensor::{DType, Inputs};
use smallvec::SmallVec;

use self::call::{Call, new_of};
use self::rotation::Rotation;
use super::floats::{Float, Floats, Source, Strides, is_float, with_float};
use super::heads::{Heads, Operands};
use super::scores::{Bias, KeyMask, Rule, Seen, Sinks, Sliding, Window};
use crate::cpu::{Cpu, floats, numbers};
use crate::extended::eval_extended;
use crate::kernels::{Compiled, Compiler};

/// The caches of keys and values.
const EXTENSIONS: [Extension; 2] =
    [Extension { input: 3, output: 1, axis: 2 }, Extension { input: 4, output: 2, axis: 2 }];

#[derive(Debug)]
struct GroupKernel {
    cpu: Cpu,
    op: GroupQueryAttention,
    dtype: DType,
}

const BIASES: usize = 10;
const SINKS: usize = 11;

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<GroupQueryAttention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_plain = !op.slides && !op.is_buffer && op.kept == [Kept::Plain; 2];
    let Some(dtype) = compiler.dtype_of(0..5).filter(|&dtype| is_float(dtype)) else {
        return Ok(None);
    };
    let has_all = (1..3).map(is_there).eq([is_there(1); 2])
        && (3..5).map(is_there).eq([is_there(3); 2])
        && !(12..16).any(is_there)
        && (!op.do_rotary || (is_there(7) && is_there(8)));
    let are_wanted = matches!(compiler.claim.outputs[..], [Some(_), Some(_), Some(_)])
        || matches!(compiler.claim.outputs[..], [Some(_), Some(_), Some(_), None]);
    let is_taken = is_plain && has_all && are_wanted;
    let cpu = compiler.cpu;
    Ok(is_taken.then(|| Box::new(GroupKernel { cpu, op, dtype }) as Box<dyn Kernel>))
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    /// Queries and new keys of each batch.
    len: usize,
    /// Elements of a head.
    size: usize,
    /// Rows of the past's buffer.
    capacity: usize,
}

impl GroupKernel {
    fn sizes(&self, shapes: &[&[usize]]) -> Option<Sizes> {
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let (n, k) = (self.op.num_heads, self.op.kv_num_heads);
        let is_packed = shape(1).is_empty();
        let &[batch, len, width] = shape(0) else { return None };
        let heads = if is_packed { n + 2 * k } else { n };
        let size = width / heads;
        let own = [batch, len, k * size];
        let past = [batch, k, shape(3).get(2).copied().unwrap_or(0), size];
        let fits = |input, expected: &[usize]| shape(input).is_empty() || shape(input) == expected;
        let is_fine = width % heads == 0
            && [1, 2].into_iter().all(|i| fits(i, &own))
            && [3, 4].into_iter().all(|i| fits(i, &past))
            && size > 0
            && !shape(0).contains(&0);
        is_fine.then_some(Sizes { batch, len, size, capacity: past[2] })
    }

    /// The heads of a call whose longest batch has so many keys.
    fn heads(&self, sizes: Sizes, longest: usize) -> Heads {
        let (n, k) = (self.op.num_heads, self.op.kv_num_heads);
        let Sizes { batch, len, size, .. } = sizes;
        let before = self.op.local_window_size.map(|n| n.saturating_sub(1));
        let after = self.op.is_causal.then_some(0);
        Heads {
            cpu: self.cpu,
            batch,
            heads: n,
            shared: n / k,
            q_len: len,
            kv_len: longest,
            size,
            v_size: size,
            is_joined: true,
            bias: None,
            mask: KeyMask::None,
            rule: Rule {
                cap: self.op.softcap,
                window: Window::Sliding(Sliding { past: None, q_len: len, before, after }),
                ..Rule::of_rows(self.op.scale, size)
            },
        }
    }

    /// The elements of the queries once they are rotated.
    fn rotated_len(&self, Sizes { batch, len, size, .. }: Sizes) -> usize {
        if self.op.do_rotary { batch * len * self.op.num_heads * size } else { 0 }
    }

    /// The call; `None` if `eval` takes no such lengths.
    fn call<'a>(
        &'a self,
        inputs: Inputs<'a>,
        sizes: Sizes,
    ) -> Result<Option<Call<'a>>, KernelError> {
        let Sizes { batch, len, size, capacity } = sizes;
        let &[total] = inputs.tensor(6)?.as_slice::<i32>()? else { return Ok(None) };
        let lasts = inputs.tensor(5)?.as_slice::<i32>()?;
        let Ok(longest) = usize::try_from(total) else { return Ok(None) };
        if longest < len || longest - len > capacity || lasts.len() != batch {
            return Ok(None);
        }
        let is_first = longest == len;
        let least = if !is_first { len } else { usize::from(!self.op.is_causal) };
        let fits = |last: &i32| {
            let own = last.checked_add(1).and_then(|own| usize::try_from(own).ok());
            own.is_some_and(|own| (least..=longest).contains(&own))
        };
        if !lasts.iter().all(fits) {
            return Ok(None);
        }
        let rotation =
            if self.op.do_rotary { Rotation::read(&self.op, inputs, size)? } else { None };
        let kept = capacity.max(longest);
        let call = Call { kernel: self, sizes, lasts, is_first, longest, kept, rotation };
        Ok(call.can_rotate().then_some(call))
    }
}

/// The bytes of `n` elements, in whole lines.
const fn lines<T>(n: usize) -> usize {
    (n * size_of::<T>()).next_multiple_of(64)
}

impl GroupKernel {
    /// The heads of a call with what is added to the scores; `None` if `eval` takes no such biases.
    fn biased(&self, call: &Call<'_>, inputs: Inputs<'_>) -> Result<Option<Heads>, KernelError> {
        let heads = self.heads(call.sizes, call.longest);
        let Some(biases) = inputs.optional_tensor(BIASES)? else { return Ok(Some(heads)) };
        Ok(Bias::new(biases.shape(), &heads).map(|bias| Heads { bias: Some(bias), ..heads }))
    }

    /// A score of each head that belongs to no value; `None` if `eval` takes no such sinks.
    fn sinks<'a>(&self, inputs: Inputs<'a>) -> Result<Option<Sinks<'a>>, KernelError> {
        Ok(match inputs.optional_tensor(SINKS)? {
            Some(sinks) if sinks.shape() == [self.op.num_heads] => {
                Some(Sinks::Each(Floats::of(sinks)?))
            }
            Some(_) => None,
            None if self.op.smooth_softmax => Some(Sinks::Zero),
            None => Some(Sinks::None),
        })
    }

    fn attend<T: Float>(
        &self,
        (call, heads, sinks): (&Call<'_>, &Heads, Sinks<'_>),
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let (inputs, k) = (io.inputs, self.op.kv_num_heads);
        let Sizes { batch, len, size, .. } = call.sizes;
        let (ends, rest) = io.scratch.split_at_mut(lines::<i64>(batch));
        let ends: &mut [i64] = &mut numbers(ends)[..batch];
        ends.iter_mut().enumerate().for_each(|(batch, end)| *end = call.end(batch));
        let n_rotated = self.rotated_len(call.sizes);
        let (queries, scratch) = rest.split_at_mut(lines::<f32>(n_rotated));
        let queries = &mut floats(queries)[..n_rotated];
        let [y, keys, values, ..] = &mut io.outputs[..] else {
            return Err(KernelError::ForeignState);
        };
        let cache = [batch, k, call.kept, size];
        let (keys, has_keys) = keys.extended(self.dtype, &cache)?;
        let (values, has_values) = values.extended(self.dtype, &cache)?;
        let rows = [keys.shape()[2], values.shape()[2]];
        let (keys, values) = (keys.into_slice::<T>()?, values.into_slice::<T>()?);
        let new = new_of(&self.op, inputs, [len, size], [has_keys, has_values])?;
        call.fill_all(&new, [&mut *keys, &mut *values], queries, (io.threads, &mut *scratch));
        let q = match self.op.do_rotary {
            true => {
                let strides = Strides::split([self.op.num_heads, len, size]);
                Source::new(Floats::F32(queries), strides)
            }
            false => new.sources[0],
        };
        let bias = Floats::of_optional(inputs.optional_tensor(BIASES)?)?;
        let seen = Seen { bias, lens: ends, sinks, ..Seen::default() };
        let strides = rows.map(|rows| Strides::split([k, rows, size]));
        let [k, v] =
            [Source::new(T::floats(keys), strides[0]), Source::new(T::floats(values), strides[1])];
        let width = self.op.num_heads * size;
        let y = y.tensor(self.dtype, &[batch, len, width])?.into_slice::<T>()?;
        heads.run(&Operands { q, k, v, seen }, y, (io.threads, scratch));
        Ok(())
    }
}

impl Sizes {
    /// The elements of scratch that a thread needs to fill the cache.
    pub(super) const fn fill_len(&self) -> usize {
        3 * self.size
    }
}

impl Kernel for GroupKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(sizes) = self.sizes(shapes) else { return Ok(Prepared::new(None::<Sizes>)) };
        let own = lines::<i64>(sizes.batch) + lines::<f32>(self.rotated_len(sizes));
        // A run says how many keys there are.
        let heads = self.heads(sizes, sizes.capacity + sizes.len);
        let fill = self.cpu.scratch_bytes(sizes.fill_len());
        let scratch = own + heads.scratch_bytes().max(fill);
        Ok(Prepared::new(Some(sizes)).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let inputs = io.inputs;
        // What does not fit together, or is empty, is for `eval` to tell.
        let Some(sizes) = *prepared.state::<Option<Sizes>>()? else {
            return eval_extended(&self.op, &EXTENSIONS, &[], io);
        };
        let Some(call) = self.call(inputs, sizes)? else {
            return eval_extended(&self.op, &EXTENSIONS, &[], io);
        };
        let (Some(heads), Some(sinks)) = (self.biased(&call, inputs)?, self.sinks(inputs)?) else {
            return eval_extended(&self.op, &EXTENSIONS, &[], io);
        };
        with_float!(self.dtype, T => self.attend::<T>((&call, &heads, sinks), io))
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        EXTENSIONS.into()
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention")
    }
}

#[cfg(test)]
mod tests;
