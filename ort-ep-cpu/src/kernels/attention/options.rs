//! What com.microsoft's Attention and MultiHeadAttention have in common: attributes, and what follows from them.

use ort_ep::KernelError;
use ort_tensor::Inputs;

use super::heads::Heads;
use super::scores::{Bias, KeyMask, Rule, Window};
use crate::cpu::Cpu;

/// Attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) num_heads: usize,
    pub(super) scale: Option<f32>,
    pub(super) mask_filter_value: f32,
    pub(super) unidirectional: bool,
    pub(super) shares_buffer: bool,
}

/// What is new, and the buffer of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lens {
    pub(super) batch: usize,
    pub(super) q_len: usize,
    /// Keys.
    pub(super) len: usize,
    /// Elements of a head of a query or key, and of a value.
    pub(super) size: usize,
    pub(super) v_size: usize,
    /// Rows of the past's buffer.
    pub(super) capacity: usize,
}

impl Options {
    /// All heads behind so much of a past, with a mask and biases of these shapes, empty if there are none; `None`
    /// if one of them does not fit.
    pub(super) fn heads(
        &self,
        cpu: Cpu,
        lens: Lens,
        used: usize,
        [mask, biases]: [&[usize]; 2],
    ) -> Option<Heads> {
        let Lens { batch, q_len, len, size, v_size, .. } = lens;
        let causal = Window::CausalButLast { past: used };
        let mut heads = Heads {
            cpu,
            batch,
            heads: self.num_heads,
            shared: 1,
            q_len,
            kv_len: used.checked_add(len)?,
            size,
            v_size,
            is_joined: true,
            bias: None,
            mask: KeyMask::None,
            rule: Rule {
                filter: self.mask_filter_value,
                window: if self.unidirectional { causal } else { Window::All },
                ..Rule::of_rows(self.scale, size)
            },
        };
        if !mask.is_empty() {
            heads.mask = KeyMask::new(mask, [batch, q_len, heads.kv_len], used)?;
        }
        if !biases.is_empty() {
            heads.bias = Some(Bias::new(biases, &heads)?);
        }
        Some(heads)
    }

    /// The bytes of scratch that is enough however much of the past counts.
    pub(super) fn scratch_bytes(&self, cpu: Cpu, lens: Lens) -> usize {
        let most = match self.shares_buffer {
            true => lens.capacity.saturating_sub(lens.len),
            false => lens.capacity,
        };
        self.heads(cpu, lens, most, [&[]; 2]).map_or(0, |heads| heads.scratch_bytes())
    }

    /// How much of the past counts, where a run says `given` of a shared buffer; `None` if there is no room.
    pub(super) fn used(&self, lens: Lens, given: Option<i32>) -> Option<usize> {
        if !self.shares_buffer {
            return Some(lens.capacity);
        }
        let used = usize::try_from(given?).ok()?;
        (used.checked_add(lens.len)? <= lens.capacity).then_some(used)
    }

    /// Rows of the cache that is kept.
    pub(super) const fn kept(&self, lens: Lens, heads: &Heads) -> usize {
        if self.shares_buffer { lens.capacity } else { heads.kv_len }
    }
}

/// The shapes of inputs, empty of those that are absent.
pub(super) fn shapes_of<'a, const N: usize>(
    inputs: Inputs<'a>,
    indices: [usize; N],
) -> Result<[&'a [usize]; N], KernelError> {
    let mut shapes = [&[][..]; N];
    for (shape, index) in shapes.iter_mut().zip(indices) {
        *shape = inputs.optional_tensor(index)?.map_or(&[][..], |view| view.shape());
    }
    Ok(shapes)
}
