//! MatMulNBits: `y[…, n] = Σ a[…, k] · w[n, k] + bias[n]`, where `w` has 2, 4 or 8 bits.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView, n_elements, try_collected};

use crate::floats::{read, write};
use crate::infer::{expect_dims, int_values, matmul_dims, matmul_shape, product_flops};
use crate::weights::{BlockFormat, QuantizedRows, add_product_by_rows, expect_len};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MatMulNBits",
    versions: (1, 1),
    types: DType::is_float,
    build: MatMulNBits::build,
}];

/// MatMulNBits: `y[…, n] = Σ a[…, k] · (q[n, k] − zero_point[n, b]) · scale[n, b] + bias[n]`, `b`
/// being `k / block_size`.
///
/// Inputs: `a` of floats; quantized values: `[n, blocks, bytes of a block]`, uint8, the first in the lowest
/// bits; scales: `[n, blocks]`, of the type of `a`; zero points, either uint8, packed row by row, or
/// `[n, blocks]` of the type of `a`, by default half the range of the quantized values; `g_idx`: `[k]` or as
/// many as there are quantized values in a row, int32, the block of each `k`; bias: `[n]`.
///
/// Products are summed in double precision and rounded once, whatever `accuracy_level` allows: at 4, faster kernels
/// round `a` to 8 bits by block, with an error of half a step, `max|a|/254·Σ|w|` per block.
///
/// Source: com.microsoft, MatMulNBits-1 (ONNX Runtime 1.31, which ignores packed zero points if there are groups).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulNBits {
    /// The columns of `a`, and the used quantized values of a row.
    pub k: usize,
    /// The columns of the result.
    pub n: usize,
    /// The bits of a quantized value: 2, 4 or 8.
    pub bits: usize,
    /// The quantized values of a block, a power of two, at least 16.
    pub block_size: usize,
    /// What `a` may be rounded to: 0 and 1 f32, 2 float16, 3 bfloat16, 4 int8 by block.
    pub accuracy_level: i64,
}

impl MatMulNBits {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if let Some(found) = spec.int("weight_prepacked")?.filter(|&found| found != 0) {
            let found = found.to_string();
            return Err(OpError::AttributeValue { name: "weight_prepacked", found });
        }
        let accuracy_level = spec.int("accuracy_level")?.unwrap_or(0);
        if !(0..=4).contains(&accuracy_level) {
            let found = accuracy_level.to_string();
            return Err(OpError::AttributeValue { name: "accuracy_level", found });
        }
        Ok(Arc::new(Self {
            k: required_size(spec, "K")?,
            n: required_size(spec, "N")?,
            bits: read_bits(spec, "bits")?.unwrap_or(4),
            block_size: required_block_size(spec)?,
            accuracy_level,
        }))
    }

    const fn format(self) -> BlockFormat {
        BlockFormat { bits: self.bits, block: self.block_size, width: self.k }
    }

    /// The bytes of a row of quantized values, of whole blocks.
    fn row_bytes(self) -> Option<usize> {
        self.format().n_blocks().checked_mul(self.block_size / 8 * self.bits)
    }

    /// Checks that an input of this shape has as many elements as the operator needs.
    fn expect_input(self, index: usize, dtype: DType, found: &[usize]) -> Result<(), OpError> {
        let n_blocks = self.format().n_blocks();
        let expected = match index {
            1 => self.row_bytes().and_then(|row| row.checked_mul(self.n)),
            3 if dtype == DType::U8 => {
                self.format().n_bytes(n_blocks).and_then(|row| row.checked_mul(self.n))
            }
            2 | 3 => n_blocks.checked_mul(self.n),
            4 if found == [self.k] => Some(self.k),
            4 => n_blocks.checked_mul(self.block_size),
            _ => Some(self.n),
        };
        const WHAT: [&str; 6] =
            ["the left side", "codes", "scales", "zero points", "groups", "bias"];
        expect_len(WHAT[index], found, expected)
    }

    fn zero_points(self, x: TensorView<'_>) -> Result<Vec<f64>, OpError> {
        if x.dtype() != DType::U8 {
            return read(x);
        }
        Ok(self.format().unpack_rows(x.as_slice()?, self.n, self.format().n_blocks())?)
    }

    /// The block of each `k`.
    fn groups(self, x: TensorView<'_>) -> Result<Vec<usize>, OpError> {
        let n_blocks = self.format().n_blocks();
        let group = |index: i64| {
            let inside = usize::try_from(index).ok().filter(|&group| group < n_blocks);
            inside.ok_or(OpError::Index { what: "groups", index, len: n_blocks })
        };
        try_collected(int_values(x)?.into_iter().map(group))
    }
}

impl Operator for MatMulNBits {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.dtype(1, |dtype| dtype == DType::U8)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        if inputs.get(3).is_some_and(|zero_points| zero_points.dtype() != Some(DType::U8)) {
            inputs.expect_dtype(3, dtype)?;
        }
        inputs.expect_dtype(4, DType::I32)?;
        inputs.expect_dtype(5, dtype)?;
        for index in 1..6 {
            let fact = inputs.get(index);
            if let Some((fact, shape)) = fact.and_then(|fact| Some((fact, fact.shape()?))) {
                self.expect_input(index, fact.dtype().unwrap_or(dtype), &shape)?;
            }
        }
        expect_dims(inputs, 5, &[Dim::Known(self.n)])?;
        let Some(a) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let dims = matmul_dims(a, &[Dim::Known(self.k), Dim::Known(self.n)])?;
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, quantized) = (inputs.tensor(0)?, inputs.tensor(1)?);
        for index in 1..6 {
            if let Some(x) = inputs.optional_tensor(index)? {
                self.expect_input(index, x.dtype(), x.shape())?;
            }
        }
        let zero_points = inputs.optional_tensor(3)?.map(|x| self.zero_points(x)).transpose()?;
        let quantized = QuantizedRows {
            format: self.format(),
            bytes: quantized.as_slice()?,
            row_bytes: self.row_bytes().ok_or(OpError::TooLarge)?,
            scales: read(inputs.tensor(2)?)?,
            zero_points,
            blocks: inputs.optional_tensor(4)?.map(|x| self.groups(x)).transpose()?,
        };
        let bias = inputs.optional_tensor(5)?.map(read).transpose()?;
        let shape = matmul_shape(a.shape(), &[self.k, self.n])?;
        let mut y = starting_from(bias.as_deref(), &shape)?;
        let row = |n: usize, w: &mut [f64]| {
            quantized.row(n, w);
            Ok(())
        };
        add_product_by_rows(&read(a)?, [self.n, self.k], &mut y, row)?;
        write(outputs, 0, a.dtype(), &shape, &y)
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        product_flops(Some(self.k), outputs.first())
    }
}

/// The initial sums of this shape: rows of `bias`, or zeros.
///
/// # Errors
/// If it is too large.
pub(super) fn starting_from(bias: Option<&[f64]>, shape: &[usize]) -> Result<Vec<f64>, OpError> {
    let mut y = crate::accumulate::zeros(n_elements(shape).ok_or(OpError::TooLarge)?)?;
    if let Some(bias) = bias.filter(|bias| !bias.is_empty()) {
        y.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
    }
    Ok(y)
}

/// The attribute `name`, a size.
///
/// # Errors
/// If it is absent or negative.
pub(super) fn required_size(spec: &NodeSpec<'_>, name: &'static str) -> Result<usize, OpError> {
    let size = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
    let wrong = |_| OpError::AttributeValue { name, found: size.to_string() };
    usize::try_from(size).map_err(wrong)
}

/// The attribute `name`, the bits of a quantized value.
///
/// # Errors
/// If they are not 2, 4 or 8.
pub(super) fn read_bits(spec: &NodeSpec<'_>, name: &'static str) -> Result<Option<usize>, OpError> {
    match spec.int(name)? {
        None => Ok(None),
        Some(2) => Ok(Some(2)),
        Some(4) => Ok(Some(4)),
        Some(8) => Ok(Some(8)),
        Some(found) => Err(OpError::AttributeValue { name, found: found.to_string() }),
    }
}

/// The attribute `block_size`.
///
/// # Errors
/// If it is absent, not a power of two, or less than 16.
pub(super) fn required_block_size(spec: &NodeSpec<'_>) -> Result<usize, OpError> {
    let name = "block_size";
    expect_block_size(spec.int(name)?.ok_or(OpError::MissingAttribute { name })?)
}

/// The size of a block.
///
/// # Errors
/// If it is not a power of two, or less than 16.
pub(super) fn expect_block_size(found: i64) -> Result<usize, OpError> {
    let size = usize::try_from(found).ok().filter(|size| *size >= 16 && size.is_power_of_two());
    size.ok_or(OpError::AttributeValue { name: "block_size", found: found.to_string() })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn case(k: i64, n: i64, bits: i64) -> Case {
        Case::new("MatMulNBits", 1)
            .domain("com.microsoft")
            .attr("K", Attr::Int(k))
            .attr("N", Attr::Int(n))
            .attr("bits", Attr::Int(bits))
            .attr("block_size", Attr::Int(16))
    }

    #[test]
    fn quantized_values_of_each_width_have_the_middle_for_zero() {
        // The first quantized values of two rows; those beyond K are ignored.
        let cases: [(i64, u8, f32, f32); 3] =
            [(2, 0b1101, -1.0, 1.0), (4, 0xf1, -7.0, 7.0), (8, 0x81, 1.0, -128.0)];
        for (bits, byte, first, second) in cases {
            let row_bytes = usize::try_from(2 * bits).unwrap();
            let mut quantized = vec![0_u8; 2 * row_bytes];
            (quantized[0], quantized[row_bytes]) = (byte, byte);
            let quantized = tensor(&[2, 1, row_bytes], &quantized);
            let scales = tensor(&[2], &[1_f32, 0.5]);
            let a = tensor(&[1, 2], &[1_f32, 10.0]);
            let sum = first + 10.0 * second;
            let y = case(2, 2, bits).tensor(&[a, quantized, scales]);
            assert_eq!(y, Ok(tensor(&[1, 2], &[sum, 0.5 * sum])), "{bits} bits");
        }
    }

    #[test]
    fn each_block_has_its_scale_and_zero_point() {
        let mut quantized = [0_u8; 16];
        (quantized[0], quantized[8]) = (0x05, 0x07);
        let inputs = |zero_points: Option<Tensor>, groups: Option<Tensor>| {
            let a = (0..17).map(|k| f16::from_f32(if k % 16 == 0 { 1.0 } else { 0.0 }));
            [
                Some(tensor(&[17], &a.collect::<Vec<_>>())),
                Some(tensor(&[1, 2, 8], &quantized)),
                Some(tensor(&[1, 2], &[f16::from_f32(1.0), f16::from_f32(100.0)])),
                zero_points,
                groups,
                Some(tensor(&[1], &[f16::from_f32(0.5)])),
            ]
        };
        let floats = [1.5, 2.0].map(f16::from_f32);
        let mut groups = [0_i32; 17];
        groups[0] = 1;
        let cases = [
            (None, None, -102.5),
            (Some(tensor(&[1, 1], &[0x42_u8])), None, 303.5),
            (Some(tensor(&[2], &floats)), None, 504.0),
            (Some(tensor(&[1, 2], &floats)), Some(tensor(&[17], &groups)), 306.0),
        ];
        for (zero_points, groups, expected) in cases {
            let y = case(17, 1, 4).run_optional(&inputs(zero_points, groups)).unwrap();
            assert_eq!(y[0].as_tensor(), Ok(&tensor(&[1], &[f16::from_f32(expected)])));
        }
        let outside = Some(tensor(&[17], &[2_i32; 17]));
        let error = case(17, 1, 4).run_optional(&inputs(None, outside)).unwrap_err();
        assert_eq!(error, "groups: index 2 is out of range for 2 elements");
    }

    #[test]
    fn empty_products_and_batches_are_allowed() {
        let inputs = |a: Tensor, n: usize, blocks: usize| {
            [
                a,
                tensor(&[n, blocks, 8], &vec![0_u8; n * blocks * 8]),
                tensor(&[n, blocks], &vec![bf16::ONE; n * blocks]),
            ]
        };
        let zeros = |shape: &[usize]| Tensor::zeros(ort_tensor::DType::Bf16, shape).unwrap();
        let y = case(0, 2, 4).tensor(&inputs(zeros(&[3, 0]), 2, 0));
        assert_eq!(y, Ok(zeros(&[3, 2])));
        let y = case(4, 2, 4).tensor(&inputs(zeros(&[2, 0, 4]), 2, 1));
        assert_eq!(y, Ok(zeros(&[2, 0, 2])));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        let a = || tensor(&[1, 2], &[1_f32, 1.0]);
        let quantized = |bytes: usize| tensor(&[1, 1, bytes], &vec![0_u8; bytes]);
        let scale = || tensor(&[1], &[1_f32]);
        assert!(case(2, 1, 4).tensor(&[a(), quantized(8), scale()]).is_ok());
        assert!(case(2, 1, 4).tensor(&[a(), quantized(7), scale()]).is_err());
        assert!(case(3, 1, 4).tensor(&[a(), quantized(8), scale()]).is_err());
        assert!(case(2, 1, 4).tensor(&[a(), quantized(8), tensor(&[1], &[1_f64])]).is_err());
        for (name, value) in [
            ("bits", 3),
            ("block_size", 24),
            ("weight_prepacked", 1),
            ("accuracy_level", 5),
            ("K", -1),
        ] {
            let case = case(2, 1, 4).attr(name, Attr::Int(value));
            let error = case.tensor(&[a(), quantized(8), scale()]).unwrap_err();
            assert_eq!(error, format!("attribute `{name}` has the unsupported value {value}"));
        }
    }
}
