//! GatherBlockQuantized: entries of an axis of a quantized tensor, selected by indices and dequantized.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Inputs, Output, Pace, TensorView,
    broadcast_strides, n_elements, with_dtype,
};

use crate::elementwise::unsupported;
use crate::floats::{read, write};
use crate::infer::{
    int_values, known_dims, known_or_zero, known_shape, normalize_axis, tensor_fact, unravel,
};
use crate::lanes::Lanes;
use crate::ops::microsoft::matmul_nbits::{expect_block_size, read_bits};
use crate::weights::packed_at;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "GatherBlockQuantized",
    versions: (1, 1),
    types: is_source,
    build: GatherBlockQuantized::build,
}];

/// GatherBlockQuantized: `y[a…, i…, b…] = (x − zero_point) · scale` at `[a…, indices[i…], b…]`, where
/// `indices` takes the place of `gather_axis`; zeros where an index is out of range.
///
/// `x`: int4, uint4, float8, float4e2m1, or uint8, in which quantized values of `bits` bits are packed along the
/// last axis. Scales: floats, one for each `block_size` elements along `quantize_axis`; for a float
/// `x`, a block size of 0 means the whole axis, and a scale of one element along another axis applies to all of it.
/// Zero points: of the type of `x`, as many as scales, packed as `x` is; not for a float `x`; the default is half the
/// range for uint8, else 0. Uint8 is gathered along axis 0 and quantized along the last.
///
/// Source: com.microsoft, GatherBlockQuantized-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherBlockQuantized {
    /// The axis of the indices, `−rank..rank`.
    pub gather_axis: i64,
    /// The axis of the blocks, `−rank..rank`.
    pub quantize_axis: i64,
    /// The elements of a block, a power of two from 16 on, or 0.
    pub block_size: usize,
    /// The bits of a quantized value in uint8: 2, 4 or 8.
    pub bits: usize,
}

impl GatherBlockQuantized {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let block_size = match spec.int("block_size")?.unwrap_or(128) {
            0 => 0,
            size => expect_block_size(size)?,
        };
        Ok(Arc::new(Self {
            gather_axis: spec.int("gather_axis")?.unwrap_or(0),
            quantize_axis: spec.int("quantize_axis")?.unwrap_or(1),
            block_size,
            bits: read_bits(spec, "bits")?.unwrap_or(4),
        }))
    }

    /// The layout that follows from type and dimensions of `x`.
    fn layout(self, dtype: DType, x: &[Dim]) -> Result<Layout, OpError> {
        let rank = x.len();
        let gather = normalize_axis(self.gather_axis, rank)?;
        let quantize = normalize_axis(self.quantize_axis, rank)?;
        let is_float = is_float(dtype);
        if dtype == DType::U8 && (gather != 0 || quantize == 0 || quantize + 1 != rank) {
            let what = "uint8 that is not gathered along the first, quantized along the last axis";
            return Err(OpError::Unsupported { what });
        }
        if self.block_size == 0 && !is_float {
            return Err(OpError::AttributeValue { name: "block_size", found: "0".to_owned() });
        }
        if self.bits != 4 && matches!(dtype, DType::I4 | DType::U4) {
            return Err(OpError::AttributeValue { name: "bits", found: self.bits.to_string() });
        }
        let per_byte = if dtype == DType::U8 { 8 / self.bits } else { 1 };
        let mut quantized: Dims = x.into();
        if per_byte > 1 {
            quantized[rank - 1] = quantized[rank - 1].map(|n| n.checked_mul(per_byte));
        }
        let block = if self.block_size == 0 { usize::MAX } else { self.block_size };
        let mut scales = quantized.clone();
        scales[quantize] = quantized[quantize].map(|n| Some(n.div_ceil(block)));
        Ok(Layout { gather, quantize, per_byte, block, is_float, quantized, scales })
    }

    /// The element of the quantized values at position `i`, as a number.
    fn element(self, x: TensorView<'_>, i: usize) -> Result<f64, OpError> {
        let dtype = x.dtype();
        if let Some(bytes) = x.as_bytes().filter(|_| dtype.is_packed()) {
            let value = dtype.decode_packed(packed_at(bytes, dtype.bits(), i));
            return value.map(f64::from).ok_or_else(|| unsupported(0, dtype));
        }
        with_dtype!(dtype, [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
            T => Ok(f64::from(x.as_slice::<T>()?[i].to_f32())),
            else => Ok(f64::from(packed_at(x.as_slice::<u8>()?, self.bits, i))))
    }
}

/// The layout of quantized values and scales.
struct Layout {
    gather: usize,
    quantize: usize,
    /// How many quantized values an element of `x` contains.
    per_byte: usize,
    /// The quantized values of a block.
    block: usize,
    is_float: bool,
    quantized: Dims,
    /// The dimensions of the scales, if none is shared.
    scales: Dims,
}

impl Layout {
    /// Checks that scales and zero points of these dimensions are those of the quantized values.
    fn check(&self, scales: Option<&[Dim]>, zero_points: Option<&[Dim]>) -> Result<(), OpError> {
        let Some(scales) = scales else { return Ok(()) };
        let is_shared =
            |axis: usize| self.is_float && axis != self.quantize && scales[axis] == Dim::Known(1);
        let fits =
            |axis: usize| is_shared(axis) || self.scales[axis].unify(&scales[axis]).is_some();
        if scales.len() != self.scales.len() || !(0..scales.len()).all(fits) {
            return Err(wrong_shape("scales of blocks", scales, &self.scales));
        }
        let Some(zero_points) = zero_points else { return Ok(()) };
        let mut expected: Dims = scales.into();
        if self.per_byte > 1 {
            let last = &mut expected[scales.len() - 1];
            *last = last.map(|n| Some(n.div_ceil(self.per_byte)));
        }
        let mut pairs = expected.iter().zip(zero_points);
        if expected.len() == zero_points.len() && pairs.all(|(a, b)| a.unify(b).is_some()) {
            return Ok(());
        }
        Err(wrong_shape("zero points of blocks", zero_points, &expected))
    }

    fn gathered(&self, indices: &[Dim]) -> Dims {
        let (before, after) = (&self.quantized[..self.gather], &self.quantized[self.gather + 1..]);
        before.iter().chain(indices).chain(after).cloned().collect()
    }
}

impl Operator for GatherBlockQuantized {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let source = inputs.dtype(0, is_source)?;
        inputs.dtype(1, DType::is_index)?;
        let dtype = inputs.dtype(2, DType::is_float)?;
        expect_no_zero_points(source, inputs.get(3).is_some())?;
        inputs.expect_dtype(3, source)?;
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let layout = self.layout(source, x)?;
        layout.check(inputs.fact(2)?.dims(), inputs.get(3).and_then(Fact::dims))?;
        let dims = inputs.fact(1)?.dims().map(|indices| layout.gathered(indices));
        Ok(vec![tensor_fact(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, indices, scales) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let zero_points = inputs.optional_tensor(3)?;
        expect_no_zero_points(x.dtype(), zero_points.is_some())?;
        let layout = self.layout(x.dtype(), &known_dims(x.shape()))?;
        let zero_dims = zero_points.map(|z| known_dims(z.shape()));
        layout.check(Some(&known_dims(scales.shape())), zero_dims.as_deref())?;
        let shape = known_shape(&layout.gathered(&known_dims(indices.shape())))?;
        let quantized = known_shape(&layout.quantized)?;
        let mut y = crate::accumulate::zeros(n_elements(&shape).ok_or(OpError::TooLarge)?)?;
        let strides = broadcast_strides(scales.shape(), &known_shape(&layout.scales)?);
        let (scale_values, indices) = (read(scales)?, int_values(indices)?);
        let Lanes { len, inner, .. } = Lanes::along(&quantized, layout.gather);
        // Zero points begin each row with a new byte, as quantized values do.
        let n_blocks = scales.shape().last().copied().unwrap_or(1);
        let row = n_blocks.next_multiple_of(layout.per_byte);
        let middle = if x.dtype() == DType::U8 { f64::from(1_u8 << (self.bits - 1)) } else { 0.0 };
        if y.is_empty() {
            return write(outputs, 0, scales.dtype(), &shape, &y);
        }
        let mut pace = Pace::new();
        for (place, y) in y.chunks_exact_mut(inner).enumerate() {
            let index = indices[place % indices.len()];
            // An index out of range leaves zeros.
            let Ok(entry) = normalize_axis(index, len) else { continue };
            let start = (place / indices.len() * len + entry) * inner;
            for (i, y) in y.iter_mut().enumerate() {
                // Each takes about ten operations.
                pace.go(16)?;
                let mut position = unravel(start + i, &quantized);
                position[layout.quantize] /= layout.block;
                let own: usize = position.iter().zip(&strides).map(|(i, s)| i * s).sum();
                let zero_point = zero_points
                    .map(|z| self.element(z, own / n_blocks * row + own % n_blocks))
                    .transpose()?;
                let centered = self.element(x, start + i)? - zero_point.unwrap_or(middle);
                *y = centered * scale_values[own];
            }
        }
        write(outputs, 0, scales.dtype(), &shape, &y)
    }
}

fn is_float(dtype: DType) -> bool {
    use DType::{F4E2M1, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    matches!(dtype, F4E2M1 | F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}

fn is_source(dtype: DType) -> bool {
    is_float(dtype) || matches!(dtype, DType::I4 | DType::U4 | DType::U8)
}

fn expect_no_zero_points(dtype: DType, has_zero_points: bool) -> Result<(), OpError> {
    if is_float(dtype) && has_zero_points {
        return Err(OpError::Unsupported { what: "a zero point of a float" });
    }
    Ok(())
}

fn wrong_shape(what: &'static str, found: &[Dim], expected: &[Dim]) -> OpError {
    OpError::Shapes { what, left: known_or_zero(found), right: known_or_zero(expected) }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use super::*;
    use crate::case::{Case, tensor};

    fn case(attrs: &[(&str, i64)]) -> Case {
        let case = Case::new("GatherBlockQuantized", 1).domain("com.microsoft");
        let case = case.attr("block_size", Attr::Int(16));
        attrs.iter().fold(case, |case, (name, value)| case.attr(name, Attr::Int(*value)))
    }

    /// A tensor of a packed or one-byte type from its quantized values.
    fn tensor_of(dtype: DType, shape: &[usize], quantized: &[u8]) -> Tensor {
        let mut x = Tensor::zeros(dtype, shape).unwrap();
        if dtype.is_packed() {
            x.view_mut().pack(quantized).unwrap();
        } else {
            x.view_mut().into_bytes().unwrap().copy_from_slice(quantized);
        }
        x
    }

    #[test]
    fn every_type_has_its_own_numbers_and_middle() {
        // Three entries with one block of two quantized values each.
        let index = || tensor(&[2], &[2_i64, -3]);
        let cases = [
            (DType::I4, [1, 2, 3, 4, 0xf, 7], [-1.0, 7.0, 1.0, 2.0]),
            (DType::U4, [1, 2, 3, 4, 0xf, 7], [15.0, 7.0, 1.0, 2.0]),
            (DType::U8, [129, 128, 3, 4, 0, 255], [-128.0, 127.0, 1.0, 0.0]),
            (DType::F4E2M1, [1, 2, 3, 4, 0xf, 7], [-6.0, 6.0, 0.5, 1.0]),
            (DType::F8E4M3Fn, [0x38, 0xb8, 0, 0, 0x40, 0], [2.0, 0.0, 1.0, -1.0]),
            (DType::F8E5M2, [0x3c, 0xbc, 0, 0, 0x40, 0], [2.0, 0.0, 1.0, -1.0]),
            (DType::F8E4M3Fnuz, [0x40, 0xc0, 0, 0, 0x48, 0], [2.0, 0.0, 1.0, -1.0]),
            (DType::F8E5M2Fnuz, [0x40, 0xc0, 0, 0, 0x44, 0], [2.0, 0.0, 1.0, -1.0]),
        ];
        for (dtype, quantized, expected) in cases {
            let bits = if dtype == DType::U8 { 8 } else { 4 };
            let scales = tensor(&[3, 1], &[f16::ONE, f16::ZERO, f16::ONE]);
            let x = tensor_of(dtype, &[3, 2], &quantized);
            let y = case(&[("bits", bits)]).tensor(&[x, index(), scales]);
            let expected = expected.map(f16::from_f32);
            assert_eq!(y, Ok(tensor(&[2, 2], &expected)), "{dtype}");
        }
    }

    #[test]
    fn packed_values_unpack_along_the_last_axis() {
        // Rows of 20 quantized values in two blocks; only the ends are not the zero point.
        let mut bytes = [0x88_u8; 20];
        (bytes[0], bytes[19]) = (0x89, 0xf8);
        let x = tensor(&[2, 10], &bytes);
        let scales = tensor(&[2, 2], &[1_f32, 2.0, 3.0, 4.0]);
        let run = |index: i32, zero_points: Option<Tensor>| {
            let inputs = [Some(x.clone()), Some(Tensor::scalar(index)), Some(scales.clone())];
            let y = case(&[]).run_optional(&[&inputs[..], &[zero_points]].concat()).unwrap();
            let y = y[0].as_tensor().unwrap();
            let y = y.as_slice::<f32>().unwrap();
            (y.len(), y[0], y[16], y[19])
        };
        assert_eq!(run(0, None), (20, 1.0, 0.0, 0.0));
        assert_eq!(run(1, None), (20, 0.0, 0.0, 28.0));
        assert_eq!(run(2, None), (20, 0.0, 0.0, 0.0));
        let zero_points = tensor(&[2, 1], &[0x18_u8, 0x27]);
        assert_eq!(run(1, Some(zero_points)), (20, 3.0, 24.0, 52.0));
    }

    #[test]
    fn any_axes_go_with_types_of_their_own() {
        let mut quantized = vec![0_u8; 2 * 17];
        (quantized[1], quantized[33]) = (3, 5);
        let x = tensor_of(DType::U4, &[17, 2], &quantized);
        let scales = tensor(&[2, 2], &[1_f32, 10.0, 100.0, 1000.0]);
        let zero_points = tensor_of(DType::U4, &[2, 2], &[0, 1, 0, 2]);
        let attrs = [("quantize_axis", 0), ("gather_axis", -1)];
        let indices = tensor(&[1], &[1_i32]);
        let y = case(&attrs).tensor(&[x, indices, scales, zero_points]).unwrap();
        let y = y.as_slice::<f32>().unwrap();
        assert_eq!((y.len(), y[0], y[1], y[16]), (17, 20.0, -10.0, 3000.0));
        let x = tensor_of(DType::F4E2M1, &[2, 3], &[2, 4, 6, 7, 5, 3]);
        let attrs = [("block_size", 0)];
        let inputs = [x, tensor(&[2], &[1_i64, 1]), tensor(&[1, 1], &[0.5_f32])];
        let y = case(&attrs).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[2, 3], &[3_f32, 1.5, 0.75, 3.0, 1.5, 0.75])));
    }

    #[test]
    fn mismatches_are_rejected_and_empty_tensors_accepted() {
        let x = || tensor_of(DType::I4, &[2, 2], &[0; 4]);
        let (index, scales) = (|| tensor(&[1], &[0_i64]), || tensor(&[2, 1], &[1_f32; 2]));
        assert!(case(&[]).tensor(&[x(), index(), scales()]).is_ok());
        assert!(case(&[]).tensor(&[x(), index(), tensor(&[1, 1], &[1_f32])]).is_err());
        assert!(case(&[("bits", 8)]).tensor(&[x(), index(), scales()]).is_err());
        assert!(case(&[("block_size", 0)]).tensor(&[x(), index(), scales()]).is_err());
        assert!(case(&[("gather_axis", 2)]).tensor(&[x(), index(), scales()]).is_err());
        let bytes = tensor(&[2, 1], &[0_u8; 2]);
        assert!(case(&[("gather_axis", 1)]).tensor(&[bytes, index(), scales()]).is_err());
        let none = tensor::<i64>(&[0], &[]);
        assert_eq!(case(&[]).tensor(&[x(), none, scales()]), Ok(tensor::<f32>(&[0, 2], &[])));
    }
}
