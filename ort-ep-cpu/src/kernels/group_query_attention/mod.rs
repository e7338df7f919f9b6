//! GroupQueryAttention in f32 with a plain cache: heads of queries that share a head of keys and values
//! are rows of the same products.
//!
//! ```text
//! for each batch and head of keys:  the past's rows are copied to the cache, the new ones turned behind
//!                                   them, and the queries of the group turned: [heads, queries, size]
//! for each block of such rows:      scores = scale · q·kᵀ, softmax of what each query sees, times v
//! ```

mod call;
mod turn;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::Activation;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start};
use ort_ops::ops::microsoft::group_query_attention::{GroupQueryAttention, Kept};
use ort_tensor::{DType, Inputs};

use self::call::{Call, new_of};
use self::turn::Turn;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, floats};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Rows of queries whose scores are computed together; of long calls fewer, for a block sees no more
/// keys than its last query.
const ROWS: usize = 128;
const ROWS_OF_LONG: usize = 64;
#[derive(Debug)]
struct GroupKernel {
    cpu: Cpu,
    op: GroupQueryAttention,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<GroupQueryAttention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_plain = op.softcap == 0.0
        && !op.slides
        && !op.is_buffer
        && !op.smooth_softmax
        && op.kept == [Kept::Plain; 2];
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

    /// The most rows of keys that a call can have.
    const fn most_rows(&self, sizes: Sizes) -> usize {
        sizes.capacity + sizes.len
    }

    /// Rows of queries in a block.
    fn together(&self, Sizes { len, .. }: Sizes) -> usize {
        let group = self.op.num_heads / self.op.kv_num_heads;
        let most = if len >= ROWS_OF_LONG { ROWS_OF_LONG } else { ROWS };
        most.min(group * len)
    }

    /// The elements of the queries, and of results that are not in their order at once.
    fn q_len(&self, Sizes { batch, len, size, .. }: Sizes) -> usize {
        (batch * len * self.op.num_heads * size).next_multiple_of(16)
    }

    /// The elements of scratch a thread needs.
    fn scratch_len(&self, sizes: Sizes) -> usize {
        let (together, rows) = (self.together(sizes), self.most_rows(sizes));
        let none = Matrix::row_major(&[], 0, 0);
        let a = Lhs::Strided { a: none, alpha: 1.0 };
        let products = [(rows, sizes.size), (sizes.size, rows)];
        let products = products
            .map(|(n, k)| gemm(self.cpu, [together, n, k], (a, none)).scratch_len(together));
        together * rows + products[0].max(products[1])
    }

    /// The length of each sequence, whether all are new, and the rows of the cache; `None` if `eval`
    /// takes no such lengths.
    fn lengths<'a>(
        &self,
        inputs: Inputs<'_>,
        Sizes { batch, len, capacity, .. }: Sizes,
        totals: &'a mut [i32],
    ) -> Result<Option<(&'a [i32], bool, usize)>, KernelError> {
        let &[total] = inputs.tensor(6)?.as_slice::<i32>()? else { return Ok(None) };
        let lasts = inputs.tensor(5)?.as_slice::<i32>()?;
        let Ok(longest) = usize::try_from(total) else { return Ok(None) };
        if longest < len || longest - len > capacity || lasts.len() != batch {
            return Ok(None);
        }
        let is_first = longest == len;
        for (to, &last) in totals.iter_mut().zip(lasts) {
            *to = last.saturating_add(1);
            let least = if !is_first { len } else { usize::from(!self.op.is_causal) };
            let fits = |own: usize| (least..=longest).contains(&own);
            if !usize::try_from(*to).is_ok_and(fits) || last == i32::MAX {
                return Ok(None);
            }
        }
        Ok(Some((totals, is_first, capacity.max(longest))))
    }
}

/// The bytes of a number for each batch, in whole lines.
const fn lens_bytes(batch: usize) -> usize {
    (batch * size_of::<i32>()).next_multiple_of(64)
}

fn gemm<'a>(
    cpu: Cpu,
    [m, n, k]: [usize; 3],
    (a, b): (Lhs<'a>, Matrix<'a>),
) -> Gemm<'a, Matrix<'a>> {
    Gemm { isa: cpu.isa, m, n, k, a, b, start: Start::Zero, activation: Activation::None }
}

impl Kernel for GroupKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(sizes) = self.sizes(shapes) else { return Ok(Prepared::new(None::<Sizes>)) };
        let own = lens_bytes(sizes.batch) + 2 * self.q_len(sizes) * size_of::<f32>();
        let scratch = own + self.cpu.scratch_bytes(self.scratch_len(sizes));
        Ok(Prepared::new(Some(sizes)).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let inputs = io.inputs;
        // What does not fit together, or is empty, is for `eval` to tell.
        let Some(sizes) = *prepared.state::<Option<Sizes>>()? else {
            return Ok(self.op.eval(inputs, io.outputs)?);
        };
        let Sizes { batch, len, size, .. } = sizes;
        let (lens, rest) = io.scratch.split_at_mut(lens_bytes(batch));
        let lens = &mut bytemuck::cast_slice_mut::<u8, i32>(lens)[..batch];
        let Some((totals, is_first, kept)) = self.lengths(inputs, sizes, lens)? else {
            return Ok(self.op.eval(inputs, io.outputs)?);
        };
        let turn = if self.op.do_rotary { Turn::read(&self.op, inputs, size)? } else { None };
        let call = Call { kernel: self, sizes, totals, is_first, kept, turn };
        if !call.can_turn() {
            return Ok(self.op.eval(inputs, io.outputs)?);
        }
        let n = self.q_len(sizes) * size_of::<f32>();
        let (queries, rest) = rest.split_at_mut(n);
        let (heads, scratch) = rest.split_at_mut(n);
        let q_len = batch * len * self.op.num_heads * size;
        let (queries, heads) = (&mut floats(queries)[..q_len], &mut floats(heads)[..q_len]);
        let cache = [batch, self.op.kv_num_heads, kept, size];
        let [y, keys, values, ..] = &mut io.outputs[..] else {
            return Err(KernelError::ForeignState);
        };
        let y = y.tensor(DType::F32, &[batch, len, self.op.num_heads * size])?;
        let y = y.into_slice::<f32>()?;
        let keys = keys.tensor(DType::F32, &cache)?.into_slice::<f32>()?;
        let values = values.tensor(DType::F32, &cache)?.into_slice::<f32>()?;
        let new = new_of(&self.op, inputs, size)?;
        call.fill_all(&new, [&mut *keys, &mut *values], queries, io.threads);
        let caches = [&*keys, &*values];
        if len == 1 {
            call.answer_all((queries, caches), y, (io.threads, scratch));
        } else {
            call.answer_all((queries, caches), heads, (io.threads, scratch));
            call.reorder(heads, y, io.threads);
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention_f32")
    }
}

#[cfg(test)]
mod tests;
