//! MultiHeadAttention and DecoderMaskedMultiHeadAttention: queries, keys and values by row or by head, apart
//! or packed, with biases, masks and a past. What does not fit together is for `eval` to tell.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::Operator;
use ort_ops::ops::microsoft::multi_head_attention::MultiHeadAttention;
use ort_tensor::{DType, Inputs, Output, TensorView};

use super::cache::Cache;
use super::floats::{Floats, Source, Strides, is_float, with_float};
use super::heads::{Heads, Operands};
use super::scores::{Bias, KeyMask, Rule, Seen, Window};
use crate::cpu::Cpu;
use crate::kernels::{Compiled, Compiler};

#[derive(Debug)]
struct RowsKernel {
    cpu: Cpu,
    op: MultiHeadAttention,
    dtype: DType,
    places: Places,
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
    let cpu = compiler.cpu;
    Ok(Some(Box::new(RowsKernel { cpu, op, dtype, places })))
}

/// What is new, and the buffer of the past.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    q_len: usize,
    /// Keys.
    len: usize,
    size: usize,
    v_size: usize,
    /// Rows of the past's buffer.
    capacity: usize,
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
        let sizes = Sizes { batch, q_len, len, size, v_size, capacity, q, k, v };
        (is_past && is_bias).then_some(sizes)
    }

    /// Of all heads, with what hides keys of so much of a past.
    fn heads(&self, sizes: &Sizes, used: usize, shapes: &[&[usize]]) -> Option<Heads> {
        let &Sizes { batch, q_len, len, size, v_size, .. } = sizes;
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let causal = Window::CausalButLast { past: used };
        let mut heads = Heads {
            cpu: self.cpu,
            batch,
            heads: self.op.num_heads,
            shared: 1,
            q_len,
            kv_len: used.checked_add(len)?,
            size,
            v_size,
            is_joined: true,
            bias: None,
            mask: KeyMask::None,
            rule: Rule {
                filter: self.op.mask_filter_value,
                window: if self.op.unidirectional { causal } else { Window::All },
                ..Rule::of_rows(self.op.scale, size)
            },
        };
        let (mask, biases) = (shape(self.places.mask), shape(self.places.biases));
        if !mask.is_empty() {
            heads.mask = KeyMask::new(mask, [batch, q_len, heads.kv_len], used)?;
        }
        if !biases.is_empty() {
            heads.bias = Some(Bias::new(biases, &heads)?);
        }
        Some(heads)
    }

    /// How much of the past counts.
    fn used(&self, inputs: Inputs<'_>, sizes: &Sizes) -> Option<usize> {
        if !self.op.shares_buffer {
            return Some(sizes.capacity);
        }
        let &used = inputs.tensor(self.places.past_len).ok()?.as_slice::<i32>().ok()?.first()?;
        let used = usize::try_from(used).ok()?;
        (used.checked_add(sizes.len)? <= sizes.capacity).then_some(used)
    }

    fn source<'a>(
        &self,
        inputs: Inputs<'a>,
        operand: Operand,
        first_bias: usize,
    ) -> Result<Source<'a>, KernelError> {
        let bias = inputs.optional_tensor(self.places.bias)?.filter(|_| operand.has_bias);
        Ok(Source {
            data: Floats::of(inputs.tensor(operand.input)?)?.from(operand.first),
            strides: operand.strides,
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
        let cache = Cache { past: Floats::of_optional(past)?, ..cache };
        let kept = match (output.is_wanted(), past) {
            (true, _) => cache.write((self.cpu.isa, self.dtype), output, threads)?,
            (false, Some(_)) => cache.write((self.cpu.isa, self.dtype), spare, threads)?,
            (false, None) => return Ok(cache.new),
        };
        let [_, heads, rows, size] = cache.shape;
        Ok(Source::new(kept, Strides::split([heads, rows, size])))
    }

    fn attend(
        &self,
        (sizes, used): (&Sizes, usize),
        heads: &Heads,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let inputs = io.inputs;
        let (n, width) = (self.op.num_heads, self.op.num_heads * sizes.size);
        let [mut no_keys, mut no_values] = [Output::unwanted(), Output::unwanted()];
        let [mut spare_keys, mut spare_values] = [Output::free(), Output::free()];
        let Some((y, kept)) = io.outputs.split_first_mut() else {
            return Err(KernelError::ForeignState);
        };
        let mut kept = kept.iter_mut();
        let keys = kept.next().unwrap_or(&mut no_keys);
        let values = kept.next().unwrap_or(&mut no_values);
        let rows = if self.op.shares_buffer { sizes.capacity } else { heads.kv_len };
        let cache = |i: usize, new, size| {
            let shape = [sizes.batch, n, rows, size];
            let cache = Cache { past: Floats::default(), used, new, n_new: sizes.len, shape };
            Ok::<_, KernelError>((cache, inputs.optional_tensor(self.places.past + i)?))
        };
        let k = cache(0, self.source(inputs, sizes.k, width)?, sizes.size)?;
        let v = cache(1, self.source(inputs, sizes.v, 2 * width)?, sizes.v_size)?;
        let k = self.kept(k, keys, &mut spare_keys, io.threads)?;
        let v = self.kept(v, values, &mut spare_values, io.threads)?;
        let mut seen = Seen::default();
        if let Some(mask) = inputs.optional_tensor(self.places.mask)? {
            seen.mask = mask.as_slice()?;
        }
        seen.bias = Floats::of_optional(inputs.optional_tensor(self.places.biases)?)?;
        let operands = Operands { q: self.source(inputs, sizes.q, 0)?, k, v, seen };
        let y = y.tensor(self.dtype, &[sizes.batch, sizes.q_len, n * sizes.v_size])?;
        with_float!(self.dtype, T => {
            heads.run(&operands, y.into_slice::<T>()?, (io.threads, io.scratch));
        });
        Ok(())
    }
}

impl Kernel for RowsKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(sizes) = self.sizes(shapes) else { return Ok(Prepared::new(None::<Sizes>)) };
        // A run may say that less of the buffer counts.
        let most = if self.op.shares_buffer {
            sizes.capacity.saturating_sub(sizes.len)
        } else {
            sizes.capacity
        };
        let scratch = self.heads(&sizes, most, &[]).map_or(0, |heads| heads.scratch_bytes());
        Ok(Prepared::new(Some(sizes)).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let sizes: &Option<Sizes> = prepared.state()?;
        let inputs = io.inputs;
        let shape = |i| inputs.optional_tensor(i).map(|view| view.map_or(&[][..], |x| x.shape()));
        let mut shapes = [&[][..]; 11];
        for (i, of) in shapes.iter_mut().enumerate() {
            *of = shape(i)?;
        }
        let call = sizes.as_ref().and_then(|sizes| {
            let used = self.used(inputs, sizes)?;
            Some((sizes, used, self.heads(sizes, used, &shapes)?))
        });
        match call {
            Some((sizes, used, heads)) => self.attend((sizes, used), &heads, io),
            None => Ok(self.op.eval(inputs, io.outputs)?),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention")
    }
}

#[cfg(test)]
mod tests;
