//! How keys and values are kept from step to step: as numbers, or quantized.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{DType, F8E4M3Fn, Inputs, Number, Output, TensorView, collected, filled};

use super::steps::Step;
use crate::floats;
use crate::quantized::{self, QuantizedElement};

/// How a number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The number itself.
    Plain,
    /// A quantized value of 8 bits, times a scale.
    Code8,
    /// A quantized value from −8 to 7, times a scale; each byte holds two, plus 8, the first one low.
    Code4,
}

impl Kept {
    pub(super) fn of_spec(
        spec: &NodeSpec<'_>,
        name: &'static str,
        bits: i64,
    ) -> Result<Self, OpError> {
        match (spec.string(name)?.unwrap_or("NONE"), bits) {
            ("NONE", _) => Ok(Self::Plain),
            ("PER_TENSOR" | "PER_CHANNEL", 0 | 8) => Ok(Self::Code8),
            ("PER_TENSOR" | "PER_CHANNEL", 4) => Ok(Self::Code4),
            (other, _) => Err(OpError::AttributeValue { name, found: other.into() }),
        }
    }

    /// Whether a tensor of this type can contain it.
    pub(super) fn is_kept_in(self, dtype: DType) -> bool {
        match self {
            Self::Plain => dtype.is_float(),
            Self::Code8 => matches!(dtype, DType::I8 | DType::F8E4M3Fn),
            Self::Code4 => dtype == DType::U8,
        }
    }

    /// How many elements `n` numbers take.
    pub(super) const fn n_held(self, n: usize) -> usize {
        if matches!(self, Self::Code4) { n.div_ceil(2) } else { n }
    }
}

/// Keys or values of each head of each batch.
#[derive(Debug)]
pub(super) struct Cache {
    kept: Kept,
    dtype: DType,
    /// The scales of quantized values, repeated for heads and features.
    scales: Vec<f64>,
    /// `[B, K, capacity, H]`.
    past: Vec<f64>,
    shape: [usize; 4],
}

impl Cache {
    /// `shape` is `[B, K, capacity, H]` of the past; `dtype` is the cache's type if there is no past.
    pub(super) fn read(
        kept: Kept,
        inputs: Inputs<'_>,
        [past, scale]: [usize; 2],
        shape: [usize; 4],
        dtype: DType,
    ) -> Result<Self, OpError> {
        let view = inputs.optional_tensor(past)?;
        let dtype = view.map_or(dtype, |view| view.dtype());
        if !kept.is_kept_in(dtype) {
            return Err(OpError::Unsupported { what: "a cache of this type" });
        }
        let past = view.map_or(Ok(Vec::new()), |view| kept.quantized_values(past, view, shape))?;
        let scales = match kept {
            Kept::Plain => vec![1.0],
            _ => floats::read_period(inputs.tensor(scale)?, &[1, shape[1], 1, shape[3]])?,
        };
        Ok(Self { kept, dtype, scales, past, shape })
    }

    /// Quantized values `[B, K, rows, H]`: for each batch its past, then the heads `new: [B, K, S, H]`.
    pub(super) fn extended(
        &self,
        new: &[f64],
        steps: &[Step],
        [len, rows]: [usize; 2],
    ) -> Result<Vec<f64>, OpError> {
        let [batch, heads, capacity, size] = self.shape;
        let n = ort_tensor::n_elements(&[batch, heads, rows, size]).ok_or(OpError::TooLarge)?;
        let mut all = filled(0.0, n)?;
        for (i, own) in all.chunks_exact_mut((rows * size).max(1)).enumerate() {
            let old = steps[i / heads].old * size;
            let past = &self.past[(i * capacity * size).min(self.past.len())..];
            own[..old].copy_from_slice(&past[..old]);
            let own = &mut own[old..old + len * size];
            for ((j, own), &x) in own.iter_mut().enumerate().zip(&new[i * len * size..]) {
                *own = self.quantize(x, self.scale(i % heads, j % size));
            }
        }
        Ok(all)
    }

    /// The dequantized values of `[B, K, rows, H]`.
    pub(super) fn decoded(&self, quantized: &[f64], rows: usize) -> Result<Vec<f64>, OpError> {
        let [_, heads, _, size] = self.shape;
        let mut values = collected(quantized.iter().copied())?;
        for (i, own) in values.chunks_exact_mut((rows * size).max(1)).enumerate() {
            for (j, x) in own.iter_mut().enumerate() {
                *x *= self.scale(i % heads, j % size);
            }
        }
        Ok(values)
    }

    /// The quantized values that are kept of `[B, K, rows, H]`: `len` rows of each head, from the first that its
    /// batch keeps on, followed by zeros or, if `is_buffer`, by the past's contents.
    pub(super) fn kept_quantized(
        &self,
        quantized: &[f64],
        steps: &[Step],
        [rows, len]: [usize; 2],
        is_buffer: bool,
    ) -> Result<Vec<f64>, OpError> {
        let [batch, heads, _, size] = self.shape;
        let n = ort_tensor::n_elements(&[batch, heads, len, size]).ok_or(OpError::TooLarge)?;
        let mut kept = filled(0.0, n)?;
        if is_buffer && self.past.len() == n {
            kept.copy_from_slice(&self.past);
        }
        let froms = quantized.chunks_exact((rows * size).max(1));
        for (i, (to, from)) in kept.chunks_exact_mut((len * size).max(1)).zip(froms).enumerate() {
            let step = steps[i / heads];
            let from = &from[step.dropped * size..step.rows() * size];
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
        }
        Ok(kept)
    }

    /// Writes what is kept, `[B, K, len, H]`.
    pub(super) fn write(
        &self,
        output: Option<&mut Output<'_>>,
        kept: &[f64],
        steps: &[Step],
        len: usize,
    ) -> Result<(), OpError> {
        let Some(output) = output.filter(|output| output.is_wanted()) else { return Ok(()) };
        let [batch, heads, _, size] = self.shape;
        let shape = [batch, heads, len, size];
        match self.kept {
            Kept::Plain => floats::write(std::slice::from_mut(output), 0, self.dtype, &shape, kept),
            Kept::Code8 => {
                let quantized = collected(kept.iter().map(|&q| (f32::from_f64(q), 0.0)))?;
                quantized::store(output, self.dtype, &shape, &quantized)
            }
            Kept::Code4 => {
                let packed = self.kept.n_held(size);
                let y = output.tensor(DType::U8, &[batch, heads, len, packed])?.into_slice()?;
                y.fill(0);
                for (i, y) in y.chunks_exact_mut((len * packed).max(1)).enumerate() {
                    let step = steps[i / heads];
                    let kept = &kept[i * len * size..][..(step.rows() - step.dropped) * size];
                    let rows = y.chunks_exact_mut(packed).zip(kept.chunks_exact(size));
                    rows.for_each(|(y, quantized)| pack(y, quantized));
                }
                Ok(())
            }
        }
    }

    fn scale(&self, head: usize, feature: usize) -> f64 {
        self.scales[(head * self.shape[3] + feature) % self.scales.len()]
    }

    fn quantize(&self, x: f64, scale: f64) -> f64 {
        let (low, high) = match self.kept {
            Kept::Plain => return x,
            Kept::Code8 if self.dtype == DType::F8E4M3Fn => {
                return F8E4M3Fn::from_f32(f32::from_f64(x / scale), true).to_f32().into();
            }
            Kept::Code8 => (-128.0, 127.0),
            Kept::Code4 => (-8.0, 7.0),
        };
        // In float32, as QuantizeLinear, so that ties are the same.
        let quotient = f32::from_f64(x) / f32::from_f64(scale);
        let q = f64::from(quotient).round_ties_even().clamp(low, high);
        if q.is_nan() { 0.0 } else { q }
    }
}

/// Two quantized values per byte.
fn pack(bytes: &mut [u8], quantized: &[f64]) {
    let nibble = |q: &f64| u8::from_f64(q + 8.0);
    for (byte, pair) in bytes.iter_mut().zip(quantized.chunks(2)) {
        *byte = nibble(&pair[0]) | pair.get(1).map_or(0, nibble) << 4;
    }
}

impl Kept {
    /// The quantized values of the past at input `index`, `[B, K, capacity, H]`.
    fn quantized_values(
        self,
        index: usize,
        view: TensorView<'_>,
        [batch, heads, capacity, size]: [usize; 4],
    ) -> Result<Vec<f64>, OpError> {
        let shape = [batch, heads, capacity, self.n_held(size)];
        if view.shape() != shape {
            let (left, right) = (view.shape().to_vec(), shape.to_vec());
            return Err(OpError::Shapes { what: "the past", left, right });
        }
        match self {
            Self::Plain => floats::read(view),
            Self::Code8 => f64::of(index, view),
            Self::Code4 => {
                let bytes = view.as_slice::<u8>()?;
                let rows = bytes.chunks_exact(shape[3].max(1));
                let pair = |byte: &u8| [byte & 15, byte >> 4];
                let nibbles = rows.flat_map(|row| row.iter().flat_map(pair).take(size));
                Ok(collected(nibbles.map(|nibble| f64::from(nibble) - 8.0))?)
            }
        }
    }
}
