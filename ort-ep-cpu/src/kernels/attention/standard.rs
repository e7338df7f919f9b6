//! The standard's Attention. Keys and values are put behind their past where there is one, each head
//! by one thread; then every head attends as in [`heads`](super::heads).

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_ops::ops::attention::{Attention, Sizes};
use ort_tensor::{DType, Inputs, Output, Shape};
use smallvec::SmallVec;

use super::cache::{Cache, past_of};
use super::floats::{Floats, Source, Strides, is_float, with_float};
use super::heads::{Heads, Operands};
use super::scores::{Bias, KeyMask, Rule, Seen, Sliding, Window, usual_scale};
use crate::cpu::Cpu;
use crate::kernels::{Compiled, Compiler};

/// Where the inputs stand.
const KEYS_AND_VALUES: [usize; 2] = [1, 2];
const MASK: usize = 3;
const PASTS: [usize; 2] = [4, 5];
const LENS: usize = 6;

#[derive(Debug)]
struct AttentionKernel {
    cpu: Cpu,
    op: Attention,
    /// Of queries and keys, and of values.
    dtypes: [DType; 2],
    has_past: bool,
    has_mask: bool,
    has_lens: bool,
    /// Whether keys and values are by head.
    are_by_head: bool,
}

/// Prepared state for one shape signature.
#[derive(Debug)]
struct State {
    heads: Heads,
    sizes: Sizes,
    past: usize,
    y_shape: Shape,
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Attention>() else { return Ok(None) };
    let has = |input| compiler.fact(input).is_some();
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    let [has_past, has_mask, has_lens] = [PASTS[0], MASK, LENS].map(has);
    let (Some(q), Some(v)) = (compiler.dtype_of(0..2), dtype(2)) else { return Ok(None) };
    let is_mask = |dtype| is_float(dtype) || dtype == DType::Bool;
    let is_taken = is_float(q)
        && is_float(v)
        && PASTS.iter().all(|&past| has(past) == has_past)
        && (!has_mask || dtype(MASK).is_some_and(is_mask))
        && compiler.claim.outputs.get(3).is_none_or(Option::is_none);
    let (cpu, dtypes) = (compiler.cpu, [q, v]);
    let is_by_head = |&input: &usize| compiler.fact(input).and_then(Fact::rank) == Some(4);
    let are_by_head = KEYS_AND_VALUES.iter().all(is_by_head);
    let kernel = AttentionKernel { cpu, op, dtypes, has_past, has_mask, has_lens, are_by_head };
    Ok(is_taken.then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl AttentionKernel {
    fn state(&self, shapes: &[&[usize]]) -> Result<State, KernelError> {
        let (sizes, past) = self.op.sizes(shapes)?;
        let Sizes { batch, q_heads, kv_heads, q_len, kv_len, size, v_size } = sizes;
        let is_joined = shapes.first().is_some_and(|shape| shape.len() == 3);
        let mut heads = Heads {
            cpu: self.cpu,
            batch,
            heads: q_heads,
            shared: q_heads.checked_div(kv_heads).unwrap_or(1).max(1),
            q_len,
            kv_len,
            size,
            v_size,
            is_joined,
            bias: None,
            mask: KeyMask::None,
            rule: self.rule(&sizes, past),
        };
        if self.has_mask {
            let shape = shapes.get(MASK).copied().unwrap_or_default();
            heads.bias = Some(Bias::new(shape, &heads).ok_or_else(|| {
                let right = vec![batch, q_heads, q_len, kv_len];
                OpError::Shapes { what: "the mask", left: shape.to_vec(), right }
            })?);
        }
        let y_shape = match is_joined {
            true => Shape::from_slice(&[batch, q_len, q_heads * v_size]),
            false => Shape::from_slice(&[batch, q_heads, q_len, v_size]),
        };
        Ok(State { heads, sizes, past, y_shape })
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
                _ => seen.bias = Floats::of(mask)?,
            }
        }
        if let Some(lens) = inputs.optional_tensor(LENS)? {
            seen.lens = lens.as_slice()?;
            self.check(seen.lens)?;
        }
        Ok(seen)
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

/// An input whose heads have so many elements. Those by head may have room behind their rows.
fn source(inputs: Inputs<'_>, input: usize, size: usize) -> Result<Source<'_>, KernelError> {
    let view = inputs.tensor(input)?;
    let strides = match *view.shape() {
        [_, len, width] => Strides::joined([len, width, size]),
        [_, heads, room, size] => Strides::split([heads, room, size]),
        _ => return Err(KernelError::ForeignState),
    };
    Ok(Source::new(Floats::of(view)?, strides))
}

impl Kernel for AttentionKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.state(shapes)?;
        let scratch_bytes = state.heads.scratch_bytes();
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let inputs = io.inputs;
        let seen = state.seen(inputs)?;
        let Sizes { size, v_size, .. } = state.sizes;
        let [q, k] = [source(inputs, 0, size)?, source(inputs, 1, size)?];
        let mut operands = Operands { q, k, v: source(inputs, 2, v_size)?, seen };
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
            let past = past_of(inputs.optional_tensor(PASTS[i])?, output)?;
            let (shape, n_new) = (state.kept_shape(i), state.sizes.kv_len - state.past);
            let cache = Cache { past, used: state.past, new: *operand, n_new, shape };
            let kept = cache.write((self.cpu.isa, self.dtypes[i]), output, io.threads)?;
            if self.has_past {
                *operand = kept;
            }
        }
        let y = y.tensor(self.dtypes[0], &state.y_shape)?;
        with_float!(self.dtypes[0], T => {
            state.heads.run(&operands, y.into_slice::<T>()?, (io.threads, io.scratch));
        });
        Ok(())
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        let kept = PASTS.iter().zip(1..).filter(|_| self.has_past);
        // bounded: keys and values
        kept.map(|(&input, output)| Extension { input, output, axis: 2 }).collect()
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
