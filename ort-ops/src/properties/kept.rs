//! A cache of keys or values: numbers, or quantized values.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::attending::SLACK;
use super::{Array, Cell, Draw, Expected};

/// Keys or values of each head of each batch.
pub(super) struct Cache {
    /// How numbers are kept.
    kind: Kind,
    dtype: DType,
    /// Numbers or quantized values `[B, K, P, H]`.
    past: Option<Array>,
    /// The scales of quantized values, `[1]` or `[1, K, 1, H]`.
    scale: Array,
    /// The minimum number of steps it keeps.
    longest: usize,
    /// How many steps are needed, if older ones are dropped when it is full.
    window: Option<usize>,
}

/// How a number is kept.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Plain,
    /// As a quantized value of 8 bits.
    Bits8,
    /// As a quantized value of 4 bits, two per byte.
    Bits4,
}

/// The dimensions and the possible types of a cache.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) dtype: DType,
    pub(super) kind: Kind,
    /// Without the capacity: `[B, K, H]`.
    pub(super) shape: [usize; 3],
    pub(super) capacity: Option<usize>,
    pub(super) longest: usize,
    pub(super) window: Option<usize>,
}

impl Cache {
    pub(super) fn draw(draw: &mut Draw, form: Form) -> Self {
        let Form { kind, shape: [batch, heads, size], longest, window, .. } = form;
        let dtype = match (kind, form.capacity) {
            (_, None) => form.dtype,
            (Kind::Plain, _) => draw.pick(&[form.dtype, form.dtype, DType::F16]),
            (Kind::Bits8, _) => draw.pick(&[DType::I8, DType::F8E4M3Fn]),
            (Kind::Bits4, _) => DType::U8,
        };
        let past = form.capacity.map(|capacity| {
            let shape = [batch, heads, capacity, size];
            match (kind, dtype) {
                (Kind::Bits4, _) => Array::from_fn(&shape, |_| Cell::Int(draw.int(-8, 7).into())),
                (Kind::Plain, _) => Array::of(&draw.real(dtype, &shape, 2.0)),
                (_, DType::I8) => Array::of(&draw.any(dtype, &shape)),
                // No quantized value is NaN.
                _ => Array::of(&Array::of(&draw.real(DType::F32, &shape, 2.0)).to_tensor(dtype)),
            }
        });
        let shape = draw.pick(&[vec![1], vec![1, heads, 1, size]]);
        let scale = Array::of(&draw.real(DType::F32, &shape, 0.5));
        let scale = scale.map(|x| Cell::Float(x.float().abs() + 0.0625));
        Self { kind, dtype, past, scale, longest, window }
    }

    /// The operands: the past, and the scale of quantized values.
    pub(super) fn operands(&self) -> [Option<Tensor>; 2] {
        let past = self.past.as_ref().map(|past| match self.kind {
            Kind::Bits4 => packed(past, |_| true).to_tensor(self.dtype),
            _ => past.to_tensor(self.dtype),
        });
        [past, (self.kind != Kind::Plain).then(|| self.scale.to_tensor(DType::F32))]
    }

    /// The attribute for how numbers are kept.
    pub(super) fn quant_type(&self) -> Option<Attr> {
        let name = if self.scale.shape.len() == 1 { "PER_TENSOR" } else { "PER_CHANNEL" };
        (self.kind != Kind::Plain).then(|| Attr::String(name.into()))
    }

    fn capacity(&self) -> usize {
        self.past.as_ref().map_or(0, |past| past.shape[2])
    }

    /// The contents of the past.
    pub(super) fn at(&self, index: &[usize]) -> Cell {
        self.past.as_ref().unwrap().at(index).clone()
    }

    /// The first position still cached after `n_steps` steps: when there is no room for a step, the oldest are
    /// dropped, except those that the window needs.
    pub(super) fn first(&self, n_steps: usize) -> usize {
        let Some(window) = self.window else { return 0 };
        let mut rows = 0;
        for _ in 0..n_steps {
            rows += 1;
            if rows > self.capacity() {
                rows = window;
            }
        }
        n_steps - rows
    }

    fn scale_at(&self, index: &[usize]) -> f64 {
        match self.kind {
            Kind::Plain => 1.0,
            _ => self.scale.at_broadcast(index).float(),
        }
    }

    /// The quantized values of numbers.
    pub(super) fn encoded(&self, numbers: &Array) -> Array {
        Array::from_fn(&numbers.shape, |at| {
            let quotient = numbers.at(at).float() / self.scale_at(at);
            match (self.kind, self.dtype) {
                (Kind::Plain, _) => Cell::Float(quotient),
                (Kind::Bits4, _) => Cell::whole(quotient.round_ties_even().clamp(-8.0, 7.0)),
                (Kind::Bits8, DType::I8) => Cell::saturated(DType::I8, quotient),
                (Kind::Bits8, dtype) => Cell::Float(quotient).rounded(dtype),
            }
        })
    }

    /// The numbers of quantized values.
    pub(super) fn decoded(&self, quantized: &Array) -> Array {
        Array::from_fn(&quantized.shape, |at| {
            Cell::Float(quantized.at(at).float() * self.scale_at(at))
        })
    }

    /// The kept quantized values by position, followed by zeros; `ends` are the lengths of each batch.
    pub(super) fn kept(&self, quantized: &Array, ends: &[usize]) -> Expected {
        let mut shape = quantized.shape.clone();
        shape[2] = match self.window {
            Some(_) => self.capacity(),
            None => self.capacity().max(self.longest),
        };
        let is_kept = |at: &[usize]| self.first(ends[at[0]]) + at[2] < ends[at[0]];
        let kept = Array::from_fn(&shape, |at| match is_kept(at) {
            true => quantized.at(&[at[0], at[1], self.first(ends[at[0]]) + at[2], at[3]]).clone(),
            false if self.kind == Kind::Bits4 => Cell::Int(0),
            false => Cell::zero(self.dtype),
        });
        match self.kind {
            Kind::Plain => Expected::within(self.dtype, kept, SLACK),
            Kind::Bits8 => Expected::exact(self.dtype, kept).remove(0),
            Kind::Bits4 => Expected::exact(self.dtype, packed(&kept, is_kept)).remove(0),
        }
    }
}

/// Quantized values from −8 to 7, two per byte, plus 8, the first one low; 0 for missing ones.
fn packed(quantized: &Array, is_quantized: impl Fn(&[usize]) -> bool) -> Array {
    let mut shape = quantized.shape.clone();
    let size = shape[3];
    shape[3] = size.div_ceil(2);
    Array::from_fn(&shape, |at| {
        let nibble = |d: usize| {
            let index = [at[0], at[1], at[2], d];
            if d < size && is_quantized(&index) { quantized.at(&index).int() + 8 } else { 0 }
        };
        Cell::Int(nibble(2 * at[3]) | nibble(2 * at[3] + 1) << 4)
    })
}
