//! MatMulFpQ4: a matrix product with weights packed into a blob of 4-bit quantized values and their scales.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::floats::{read, write};
use crate::infer::{known_dim, matmul_dims, matmul_shape, product_flops};
use crate::ops::microsoft::matmul_nbits::starting_from;
use crate::weights::{add_product_by_rows, expect_len};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MatMulFpQ4",
    versions: (1, 1),
    types: DType::is_float,
    build: MatMulFpQ4::build,
}];

/// The bytes of a scale, a float, little-endian.
const SCALE_BYTES: usize = size_of::<f32>();

/// Quantized values are packed by this many: the first half of them in the low bits of bytes, the second half
/// in the high bits.
const UNIT: usize = 32;

/// MatMulFpQ4: `y = a·b`, where `b: [K, N]` is packed column by column: for each block of a column a
/// scale, its zero point (one byte) if `has_zero_point`, and the quantized values; `b = (q − zero point) ·
/// scale`, with a default zero point of 8.
///
/// Inputs: `a` of floats, the blob (uint8), and the shape of `b` (int64, two elements). Summed in
/// double precision and rounded once.
///
/// Source: com.microsoft, MatMulFpQ4-1 (ONNX Runtime 1.31, whose CPU provider treats type 2 as type 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulFpQ4 {
    /// The quantized values of a block: 32 or 64.
    pub block_size: usize,
    /// Whether each block has a zero point.
    pub has_zero_point: bool,
}

impl MatMulFpQ4 {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (block_size, has_zero_point) = match spec.int("blk_quant_type")?.unwrap_or(1) {
            0 => (UNIT, false),
            1 => (UNIT, true),
            2 => (2 * UNIT, false),
            found => {
                let found = found.to_string();
                return Err(OpError::AttributeValue { name: "blk_quant_type", found });
            }
        };
        Ok(Arc::new(Self { block_size, has_zero_point }))
    }

    fn header_bytes(self) -> usize {
        SCALE_BYTES + usize::from(self.has_zero_point)
    }

    /// The bytes of a block.
    fn block_bytes(self) -> usize {
        self.header_bytes() + self.block_size / 2
    }

    /// Checks that a blob of this shape holds `k · n` quantized values.
    fn check(self, blob: &[usize], [k, n]: [usize; 2]) -> Result<(), OpError> {
        let n_blocks = k.div_ceil(self.block_size).checked_mul(n);
        expect_len(
            "the packed matrix",
            blob,
            n_blocks.and_then(|n| n.checked_mul(self.block_bytes())),
        )
    }

    /// Writes a column of `b`, which begins where `blob` does, to `w`.
    fn column(self, blob: &[u8], w: &mut [f64]) {
        let blocks = blob.chunks_exact(self.block_bytes());
        for (block, w) in blocks.zip(w.chunks_mut(self.block_size)) {
            let (header, quantized) = block.split_at(self.header_bytes());
            let scale = header.first_chunk::<SCALE_BYTES>().map_or(0.0, |b| f32::from_le_bytes(*b));
            let zero_point = header.get(SCALE_BYTES).copied().unwrap_or(8);
            for (quantized, w) in quantized.chunks_exact(UNIT / 2).zip(w.chunks_mut(UNIT)) {
                let halves =
                    quantized.iter().map(|c| c & 0xf).chain(quantized.iter().map(|c| c >> 4));
                for (w, q) in w.iter_mut().zip(halves) {
                    *w = (f64::from(q) - f64::from(zero_point)) * f64::from(scale);
                }
            }
        }
    }
}

/// The shape of `b`.
fn sizes(shape: &[i64]) -> Result<[usize; 2], OpError> {
    let size = |n: i64| usize::try_from(n).ok();
    let sizes = match *shape {
        [k, n] => size(k).zip(size(n)),
        _ => None,
    };
    let (k, n) =
        sizes.ok_or(OpError::InputValue { index: 2, what: "this is not the shape of a matrix" })?;
    Ok([k, n])
}

impl Operator for MatMulFpQ4 {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let blob = inputs.fact(1)?;
        inputs.expect_dtype(1, DType::U8)?;
        let shape = inputs.fact(2)?;
        inputs.expect_dtype(2, DType::I64)?;
        let sizes = shape.ints().map(|shape| sizes(&shape)).transpose()?;
        if let (Some(sizes), Some(blob)) = (sizes, blob.shape()) {
            self.check(&blob, sizes)?;
        }
        let Some(a) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let b: Dims = match sizes {
            Some(sizes) => sizes.map(Dim::Known).into_iter().collect(),
            // bounded: a constant
            None => Dims::from_elem(Dim::Unknown, 2),
        };
        Ok(vec![Fact::tensor(dtype, matmul_dims(a, &b)?)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, blob) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let [k, n] = sizes(inputs.tensor(2)?.as_slice()?)?;
        self.check(blob.shape(), [k, n])?;
        let shape = matmul_shape(a.shape(), &[k, n])?;
        let mut y = starting_from(None, &shape)?;
        let blob = blob.as_slice::<u8>()?;
        let column_bytes = k.div_ceil(self.block_size) * self.block_bytes();
        let column = |j: usize, w: &mut [f64]| {
            self.column(&blob[j * column_bytes..], w);
            Ok(())
        };
        add_product_by_rows(&read(a)?, [n, k], &mut y, column)?;
        write(outputs, 0, a.dtype(), &shape, &y)
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
        product_flops(known_dim(inputs, 0, rank.wrapping_sub(1)), outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn run(quant_type: i64, a: &[f32], blob: &[u8], shape: [i64; 2]) -> Result<Tensor, String> {
        let case = Case::new("MatMulFpQ4", 1).domain("com.microsoft");
        let case = case.attr("blk_quant_type", Attr::Int(quant_type));
        let (blob, shape) = (tensor(&[blob.len()], blob), tensor(&[2], &shape));
        case.tensor(&[tensor(&[a.len()], a), blob, shape])
    }

    /// The bytes of one block.
    fn block(scale: f32, zero_point: Option<u8>, quantized: &[u8]) -> Vec<u8> {
        [&scale.to_le_bytes()[..], zero_point.as_slice(), quantized].concat()
    }

    #[test]
    fn high_bits_come_half_a_unit_later() {
        let mut quantized = [0x88_u8; 16];
        quantized[1] = 0xf9;
        let mut a = [0_f32; 33];
        (a[1], a[17], a[32]) = (1.0, 10.0, 100.0);
        let last = block(2.0, None, &[0x07; 16]);
        let blob = [block(0.5, None, &quantized), last.clone(), last.clone(), last].concat();
        let y = run(0, &a, &blob, [33, 2]);
        // The second column has the quantized values 7 and 0 in its first block.
        assert_eq!(y, Ok(tensor(&[2], &[35.5_f32 - 200.0, -2.0 - 160.0 - 200.0])));
        let y = run(1, &a[..18], &block(0.5, Some(7), &quantized), [18, 1]);
        assert_eq!(y, Ok(tensor(&[1], &[41_f32])));
    }

    #[test]
    fn blocks_of_64_have_two_units() {
        let mut quantized = [0x88_u8; 32];
        (quantized[0], quantized[16]) = (0x89, 0x8a);
        let mut a = [0_f32; 64];
        (a[0], a[32]) = (1.0, 10.0);
        assert_eq!(run(2, &a, &block(1.0, None, &quantized), [64, 1]), Ok(tensor(&[1], &[21_f32])));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        let blob = block(1.0, None, &[0; 16]);
        assert!(run(0, &[1.0], &blob, [1, 1]).is_ok());
        for (quant_type, shape) in
            [(1, [1, 1]), (3, [1, 1]), (0, [1, 2]), (0, [-1, 1]), (0, [2, 1])]
        {
            assert!(run(quant_type, &[1.0], &blob, shape).is_err());
        }
        assert!(run(0, &[1.0], &blob, [i64::MAX, i64::MAX]).is_err());
        assert_eq!(run(0, &[], &[], [0, 2]), Ok(tensor(&[2], &[0_f32; 2])));
    }
}
