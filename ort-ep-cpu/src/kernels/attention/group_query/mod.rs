//! GroupQueryAttention in f32 with a plain cache.
//!
//! ```text
//! for each batch and head of keys:  the past's rows are copied to the cache, the new ones rotated behind
//!                                   them, and the queries of the group rotated: [heads, queries, size]
//! then every head attends as in `heads` to the keys of its batch
//! ```

mod call;
mod rotation;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_ops::ops::microsoft::group_query_attention::{GroupQueryAttention, Kept};
use ort_tensor::{DType, Inputs};

use self::call::{Call, new_of};
use self::rotation::Rotation;
use super::heads::{Heads, Operands, Strides};
use super::scores::{Rule, Seen, Sliding, Window};
use crate::cpu::{Cpu, floats};
use crate::kernels::{Compiled, Compiler};

#[derive(Debug)]
struct GroupKernel {
    cpu: Cpu,
    op: GroupQueryAttention,
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<GroupQueryAttention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_plain = !op.slides && !op.is_buffer && !op.smooth_softmax && op.kept == [Kept::Plain; 2];
    let are_f32 = compiler.are_f32(0..3)
        && [3, 4, 7, 8].into_iter().all(|i| compiler.are_f32(i..i + 1) || !is_there(i));
    let has_all = (1..3).map(is_there).eq([is_there(1); 2])
        && (3..5).map(is_there).eq([is_there(3); 2])
        && !(10..16).any(is_there)
        && (!op.do_rotary || (is_there(7) && is_there(8)));
    let are_wanted = matches!(compiler.claim.outputs[..], [Some(_), Some(_), Some(_)])
        || matches!(compiler.claim.outputs[..], [Some(_), Some(_), Some(_), None]);
    let is_taken = is_plain && are_f32 && has_all && are_wanted;
    let cpu = compiler.cpu;
    Ok(is_taken.then(|| Box::new(GroupKernel { cpu, op }) as Box<dyn Kernel>))
}

/// What a shape signature makes of it.
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
            && batch * len * size > 0;
        is_fine.then_some(Sizes { batch, len, size, capacity: past[2] })
    }

    /// The heads of a call whose cache has `kept` rows and whose queries lie as `q` says.
    fn heads(&self, sizes: Sizes, kept: usize, q: Strides) -> Heads {
        let (n, k) = (self.op.num_heads, self.op.kv_num_heads);
        let Sizes { batch, len, size, capacity } = sizes;
        let before = self.op.local_window_size.map(|n| n.saturating_sub(1));
        let after = self.op.is_causal.then_some(0);
        let heads = Heads {
            cpu: self.cpu,
            batch,
            heads: n,
            shared: n / k,
            q_len: len,
            // The most rows of keys that a call can have: a run says how many each batch has.
            kv_len: capacity + len,
            size,
            v_size: size,
            q,
            k: Strides::split([k, kept, size]),
            v: Strides::split([k, kept, size]),
            is_joined: true,
            bias: None,
            has_mask: false,
            rule: Rule {
                cap: self.op.softcap,
                window: Window::Sliding(Sliding { past: None, q_len: len, before, after }),
                ..Rule::of_rows(self.op.scale, size, false)
            },
        };
        heads.with_shared_as_queries()
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
        let call = Call { kernel: self, sizes, lasts, is_first, kept, rotation };
        Ok(call.can_rotate().then_some(call))
    }
}

/// The bytes of `n` elements, in whole lines.
const fn lines<T>(n: usize) -> usize {
    (n * size_of::<T>()).next_multiple_of(64)
}

impl Kernel for GroupKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(sizes) = self.sizes(shapes) else { return Ok(Prepared::new(None::<Sizes>)) };
        let own = lines::<i64>(sizes.batch) + lines::<f32>(self.rotated_len(sizes));
        let heads = self.heads(sizes, sizes.capacity, Strides::split([0; 3]));
        let scratch = own + self.cpu.scratch_bytes(heads.scratch_len());
        Ok(Prepared::new(Some(sizes)).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let inputs = io.inputs;
        // What does not fit together, or is empty, is for `eval` to tell.
        let Some(sizes) = *prepared.state::<Option<Sizes>>()? else {
            return Ok(self.op.eval(inputs, io.outputs)?);
        };
        let Some(call) = self.call(inputs, sizes)? else {
            return Ok(self.op.eval(inputs, io.outputs)?);
        };
        let Sizes { batch, len, size, .. } = sizes;
        let (ends, rest) = io.scratch.split_at_mut(lines::<i64>(batch));
        let ends = &mut bytemuck::cast_slice_mut::<u8, i64>(ends)[..batch];
        ends.iter_mut().enumerate().for_each(|(batch, end)| *end = call.end(batch));
        let n_rotated = self.rotated_len(sizes);
        let (queries, scratch) = rest.split_at_mut(lines::<f32>(n_rotated));
        let queries = &mut floats(queries)[..n_rotated];
        let cache = [batch, self.op.kv_num_heads, call.kept, size];
        let [y, keys, values, ..] = &mut io.outputs[..] else {
            return Err(KernelError::ForeignState);
        };
        let keys = keys.tensor(DType::F32, &cache)?.into_slice::<f32>()?;
        let values = values.tensor(DType::F32, &cache)?.into_slice::<f32>()?;
        let new = new_of(&self.op, inputs, size)?;
        call.fill_all(&new, [&mut *keys, &mut *values], queries, io.threads);
        let (q, strides) = match self.op.do_rotary {
            true => (&*queries, Strides::split([self.op.num_heads, len, size])),
            false => new.queries([len, size]),
        };
        let seen = Seen { lens: ends, ..Seen::default() };
        let y = y.tensor(DType::F32, &[batch, len, self.op.num_heads * size])?.into_slice()?;
        let heads = self.heads(sizes, call.kept, strides);
        heads.run(&Operands { q, k: keys, v: values, seen }, y, (io.threads, scratch));
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention_f32")
    }
}

#[cfg(test)]
mod tests;
