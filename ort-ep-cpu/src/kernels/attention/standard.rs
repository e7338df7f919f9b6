//! The standard's Attention in f32. Keys and values are put behind their past where there is one, each head
//! by one thread; then every head attends as in [`heads`](super::heads).

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_ops::ops::attention::{Attention, Sizes};
use ort_tensor::{DType, Inputs, Output, Shape, TensorView};

use super::heads::{Heads, Operands, Strides};
use super::scores::{Bias, Rule, Seen, Sliding, Window, usual_scale};
use crate::cpu::{Cpu, Team};
use crate::kernels::{Compiled, Compiler};

/// Where the inputs stand.
const MASK: usize = 3;
const PASTS: [usize; 2] = [4, 5];
const LENS: usize = 6;
/// What it costs to copy an element, in multiply-adds.
const COPY: usize = 4;

#[derive(Debug)]
struct AttentionKernel {
    cpu: Cpu,
    op: Attention,
    has_past: bool,
    has_mask: bool,
    has_lens: bool,
}

/// What a shape signature makes of it.
#[derive(Debug)]
struct State {
    heads: Heads,
    sizes: Sizes,
    /// Where new keys and values lie.
    new: [Strides; 2],
    y_shape: Shape,
}

/// What a head of keys or values becomes: its past, and what is new.
struct Head<'y> {
    batch: usize,
    head: usize,
    y: &'y mut [f32],
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Attention>() else { return Ok(None) };
    let has = |input| compiler.fact(input).is_some();
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    let [has_past, has_mask, has_lens] = [PASTS[0], MASK, LENS].map(has);
    let is_taken = compiler.are_f32(0..3)
        && PASTS
            .iter()
            .all(|&past| has(past) == has_past && (!has_past || dtype(past) == Some(DType::F32)))
        && (!has_mask || matches!(dtype(MASK), Some(DType::F32 | DType::Bool)))
        && compiler.claim.outputs.get(3).is_none_or(Option::is_none);
    let cpu = compiler.cpu;
    let kernel = AttentionKernel { cpu, op, has_past, has_mask, has_lens };
    Ok(is_taken.then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl AttentionKernel {
    fn state(&self, shapes: &[&[usize]]) -> Result<State, KernelError> {
        let (sizes, past) = self.op.sizes(shapes)?;
        let Sizes { batch, q_heads, kv_heads, q_len, kv_len, size, v_size } = sizes;
        let is_joined = |input: usize| shapes.get(input).is_some_and(|shape| shape.len() == 3);
        let strides = |input, [heads, len, size]: [usize; 3]| match is_joined(input) {
            true => Strides::joined([len, heads * size, size]),
            false => Strides::split([heads, len, size]),
        };
        let widths = [(1, size), (2, v_size)];
        let new = widths.map(|(input, size)| strides(input, [kv_heads, kv_len - past, size]));
        let kept = widths.map(|(_, size)| Strides::split([kv_heads, kv_len, size]));
        let [k, v] = if self.has_past { kept } else { new };
        let mut heads = Heads {
            cpu: self.cpu,
            batch,
            heads: q_heads,
            shared: q_heads.checked_div(kv_heads).unwrap_or(1),
            q_len,
            kv_len,
            size,
            v_size,
            q: strides(0, [q_heads, q_len, size]),
            k,
            v,
            is_joined: is_joined(0),
            bias: None,
            has_mask: false,
            rule: self.rule(&sizes, past),
        };
        if self.has_mask {
            let shape = shapes.get(MASK).copied().unwrap_or_default();
            heads.bias = Some(Bias::new(shape, &heads).ok_or_else(|| {
                let right = vec![batch, q_heads, q_len, kv_len];
                OpError::Shapes { what: "the mask", left: shape.to_vec(), right }
            })?);
        }
        let y_shape = match is_joined(0) {
            true => Shape::from_slice(&[batch, q_len, q_heads * v_size]),
            false => Shape::from_slice(&[batch, q_heads, q_len, v_size]),
        };
        Ok(State { heads: heads.with_shared_as_queries(), sizes, new, y_shape })
    }

    fn rule(&self, sizes: &Sizes, past: usize) -> Rule {
        let [before, after] = self.op.window;
        let window = Sliding {
            past: (self.has_past || !self.has_lens).then_some(past),
            q_len: sizes.q_len,
            before,
            after: if self.op.is_causal { Some(0) } else { after },
        };
        Rule {
            scale: self.op.scale.unwrap_or_else(|| usual_scale(sizes.size)),
            cap: self.op.softcap,
            filter: 0.0,
            window: Window::Sliding(window),
        }
    }
}

impl State {
    /// `[B, Hkv, T, D]` of keys, or with E for D of values.
    const fn kept_shape(&self, i: usize) -> [usize; 4] {
        let Sizes { batch, kv_heads, kv_len, size, v_size, .. } = self.sizes;
        [batch, kv_heads, kv_len, [size, v_size][i]]
    }

    /// What hides keys.
    fn seen<'a>(&self, inputs: Inputs<'a>) -> Result<Seen<'a>, KernelError> {
        let mut seen = Seen::default();
        if let Some(mask) = inputs.optional_tensor(MASK)? {
            match mask.dtype() {
                DType::Bool => seen.flags = mask.as_slice()?,
                _ => seen.bias = mask.as_slice()?,
            }
        }
        if let Some(lens) = inputs.optional_tensor(LENS)? {
            seen.lens = lens.as_slice()?;
            self.check(seen.lens)?;
        }
        Ok(seen)
    }

    /// Writes the past and what is new of each head.
    fn keep(
        &self,
        (past, new): (Option<TensorView<'_>>, &[f32]),
        (kept, strides): (&mut [f32], Strides),
        threads: &dyn Threads,
    ) -> Result<(), KernelError> {
        let Sizes { batch, kv_heads, kv_len, .. } = self.sizes;
        let n_heads = batch * kv_heads;
        if kept.is_empty() {
            return Ok(());
        }
        let (past, len) = (past.map_or(Ok(&[][..]), |past| past.as_slice::<f32>())?, kept.len());
        let (past_len, size) = (past.len() / n_heads, len / n_heads / kv_len);
        let heads = kept.chunks_mut(len / n_heads).enumerate().map(|(i, y)| Head {
            batch: i / kv_heads,
            head: i % kv_heads,
            y,
        });
        let team = Team::new(threads, n_heads).if_worth(len.saturating_mul(COPY));
        team.run(heads, |Head { batch, head, y }, _| {
            let (before, rest) = y.split_at_mut(past_len);
            before.copy_from_slice(&past[(batch * kv_heads + head) * past_len..][..past_len]);
            for (row, y) in rest.chunks_exact_mut(size).enumerate() {
                y.copy_from_slice(&strides.at(new, [batch, head, row])[..size]);
            }
        });
        Ok(())
    }

    /// That each batch has so many keys.
    fn check(&self, lens: &[i64]) -> Result<(), KernelError> {
        let kv_len = i64::try_from(self.sizes.kv_len).unwrap_or(i64::MAX);
        if lens.len() == self.sizes.batch && lens.iter().all(|len| (0..=kv_len).contains(len)) {
            return Ok(());
        }
        Err(OpError::InputValue { index: LENS, what: "no length for each batch" }.into())
    }
}

impl Kernel for AttentionKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.state(shapes)?;
        let scratch_bytes = self.cpu.scratch_bytes(state.heads.scratch_len());
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let inputs = io.inputs;
        let input = |input| Ok::<_, KernelError>(inputs.tensor(input)?.as_slice::<f32>()?);
        let seen = state.seen(inputs)?;
        let mut operands = Operands { q: input(0)?, k: input(1)?, v: input(2)?, seen };
        let Some((y, kept)) = io.outputs.split_first_mut() else {
            return Err(KernelError::ForeignState);
        };
        // A node may have a past and yet not say where to keep it.
        let mut spare = [Output::free(), Output::free()];
        let mut kept = kept.iter_mut();
        for (i, (spare, operand)) in
            spare.iter_mut().zip([&mut operands.k, &mut operands.v]).enumerate()
        {
            let output = match kept.next().filter(|output| output.is_wanted()) {
                Some(output) => output,
                None if self.has_past => spare,
                None => continue,
            };
            let kept = output.tensor(DType::F32, &state.kept_shape(i))?.into_slice()?;
            let past = inputs.optional_tensor(PASTS[i])?;
            state.keep((past, operand), (kept, state.new[i]), io.threads)?;
            if self.has_past {
                *operand = kept;
            }
        }
        let y = y.tensor(DType::F32, &state.y_shape)?.into_slice()?;
        state.heads.run(&operands, y, (io.threads, io.scratch));
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention_f32")
    }
}

#[cfg(test)]
mod tests;
