//! Operators on weights in blocks of quantized values, each block with its own scale.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::product::multiplied;
use super::quantized_product::scales;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("GatherBlockQuantized", gather),
    Property::microsoft("MatMulBnb4", matmul_bnb4),
    Property::microsoft("MatMulFpQ4", matmul_fpq4),
    Property::microsoft("MatMulNBits", matmul_nbits),
];

/// Quantized value `i` of packed ones, the first in the lowest bits.
fn packed_at(bytes: &[Cell], bits: usize, i: usize) -> f64 {
    let byte = bytes[i * bits / 8].int() >> (i * bits % 8);
    Cell::Int(byte & ((1 << bits) - 1)).float()
}

/// The left side of a product: `[…, k]`, of small whole numbers.
fn left(draw: &mut Draw, dtype: DType, k: usize) -> Tensor {
    let rank = draw.below(3);
    let shape = [&draw.shape_of_rank(rank)[..], &[k]].concat();
    draw.small(dtype, &shape)
}

fn size(n: usize) -> Attr {
    Attr::Int(signed(n))
}

fn matmul_nbits(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, k) = (draw.some_dim(), 1 + draw.below(40));
    let (bits, block) = (draw.pick(&[2, 4, 8]), draw.pick(&[16, 32]));
    let n_blocks = k.div_ceil(block);
    let a = left(draw, dtype, k);
    let quantized = draw.any(DType::U8, &[n, n_blocks, block * bits / 8]);
    let scale = scales_of(draw, dtype, &[n, n_blocks]);
    let zero_bytes = (n_blocks * bits).div_ceil(8);
    let zero_point = match draw.below(3) {
        0 => None,
        1 => Some(draw.any(DType::U8, &[n * zero_bytes])),
        _ => Some(draw.small(dtype, &[n, n_blocks])),
    };
    let groups = Array::from_fn(&[k], |_| Cell::Int(draw.int(0, signed(n_blocks) - 1).into()));
    let groups = draw.one_in(3).then_some(groups);
    let bias = draw.small(dtype, &[n]);
    let bias = draw.one_in(2).then_some(bias);
    let sample = Sample::new(&[&a.clone(), &quantized.clone(), &scale.clone()], {
        let (zero_point, groups, bias) = (zero_point.clone(), groups.clone(), bias.clone());
        move || {
            let (quantized, scale) = (Array::of(&quantized), Array::of(&scale));
            let zeros = zero_point.as_ref().map(Array::of);
            let w = Array::from_fn(&[k, n], |at| {
                let (k, row) = (at[0], at[1]);
                let own = groups
                    .as_ref()
                    .map_or(k / block, |groups| usize::try_from(groups.cells[k].int()).unwrap());
                let row_bytes = n_blocks * block * bits / 8;
                let q_of_row =
                    packed_at(&quantized.cells[row * row_bytes..(row + 1) * row_bytes], bits, k);
                let zero = match &zeros {
                    None => f64::from(1 << (bits - 1)),
                    Some(zeros) if zeros.shape.len() == 1 => {
                        packed_at(&zeros.cells[row * zero_bytes..], bits, own)
                    }
                    Some(zeros) => zeros.at(&[row, own]).float(),
                };
                Cell::Float((q_of_row - zero) * scale.at(&[row, own]).float())
            });
            let y = multiplied(DType::F64, &Array::of(&a), &w);
            let bias = bias.as_ref().map(Array::of);
            let y = Array::from_fn(&y.shape, |at| {
                let bias = bias.as_ref().map_or(0.0, |b| b.cells[at[at.len() - 1]].float());
                Cell::Float(y.at(at).float() + bias)
            });
            Expected::exact(dtype, y)
        }
    });
    let groups = groups.map(|groups| groups.to_tensor(DType::I32));
    let sample =
        [zero_point, groups, bias].into_iter().enumerate().fold(sample, |sample, (i, x)| {
            if x.is_some() { sample.input(3 + i, x) } else { sample }
        });
    let has_bits = bits != 4 || draw.one_in(2);
    sample
        .attr("K", size(k))
        .attr("N", size(n))
        .attr("block_size", size(block))
        .maybe("bits", has_bits.then(|| size(bits)))
}

/// Powers of two, of a type of floats; of another type anything.
fn scales_of(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Tensor {
    if dtype.is_float() { scales(draw, dtype, shape) } else { draw.any(dtype, shape) }
}

/// A sign, and twelfths.
const FP4: [f64; 8] = [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0];

/// Quantiles of the normal distribution, between −1 and 1 (QLoRA, appendix E).
const NF4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

/// Quantized values are packed across rows, the first in the highest bits.
fn matmul_bnb4(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, k, block) = (draw.some_dim(), 1 + draw.below(40), draw.pick(&[16, 32]));
    let (is_transposed, transposed) = draw.flag(true);
    let is_normal = draw.one_in(2);
    let a = left(draw, dtype, if is_transposed { k } else { n });
    let quantized = draw.any(DType::U8, &[(n * k).div_ceil(2)]);
    let scale = scales_of(draw, dtype, &[(n * k).div_ceil(block)]);
    let sample = Sample::new(&[&a.clone(), &quantized.clone(), &scale.clone()], move || {
        let (quantized, scale) = (Array::of(&quantized), Array::of(&scale));
        let w = Array::from_fn(&[n, k], |at| {
            let i = at[0] * k + at[1];
            let byte = quantized.cells[i / 2].int();
            let q = usize::try_from(if i % 2 == 0 { byte >> 4 } else { byte & 15 }).unwrap();
            let value = match (is_normal, q / 8) {
                (true, _) => NF4[q],
                (false, 0) => FP4[q] / 12.0,
                (false, _) => -FP4[q - 8] / 12.0,
            };
            Cell::Float(value * scale.cells[i / block].float())
        });
        let w = if is_transposed { w.transposed(&[1, 0]) } else { w };
        // Sums of at most 40 terms, none above 8.
        vec![Expected::close(
            dtype,
            multiplied(DType::F64, &Array::of(&a), &w),
            512.0 * f64::EPSILON,
        )]
    });
    sample
        .attr("K", size(k))
        .attr("N", size(n))
        .attr("block_size", size(block))
        .attr("quant_type", size(usize::from(is_normal)))
        .maybe("transB", transposed)
}

/// Blocks column by column: scale, optional zero point, quantized values.
fn matmul_fpq4(draw: &mut Draw, dtype: DType) -> Sample {
    let (k, n) = (1 + draw.below(70), draw.some_dim());
    let kind = draw.pick(&[None, Some(0), Some(1), Some(2)]);
    let block = if kind == Some(2) { 64 } else { 32 };
    let has_zero_point = matches!(kind, None | Some(1));
    let a = left(draw, dtype, k);
    let mut blob: Vec<u8> = vec![];
    let mut w = Array::from_fn(&[k, n], |_| Cell::Float(0.0));
    for (column, first) in (0..n).flat_map(|j| (0..k).step_by(block).map(move |first| (j, first))) {
        let scale = draw.pick(&[0.5_f32, 1.0, 2.0]);
        blob.extend(scale.to_le_bytes());
        let zero_point = if has_zero_point { draw.pick(&[0, 7, 15]) } else { 8 };
        blob.extend(has_zero_point.then_some(zero_point));
        for unit in (first..first + block).step_by(32) {
            let quantized: Vec<_> = (0..32).map(|_| draw.pick(&[0_u8, 3, 8, 15])).collect();
            blob.extend((0..16).map(|i| quantized[i] | quantized[i + 16] << 4));
            for (i, q) in (unit..k).zip(quantized) {
                let value = f64::from(scale) * (f64::from(q) - f64::from(zero_point));
                w.cells[i * n + column] = Cell::Float(value);
            }
        }
    }
    let blob = Tensor::from_slice(&[blob.len()], &blob).unwrap();
    let shape = Tensor::from_slice(&[2], &[signed(k), signed(n)]).unwrap();
    let sample = Sample::new(&[&a.clone(), &blob, &shape], move || {
        Expected::exact(dtype, multiplied(DType::F64, &Array::of(&a), &w))
    });
    sample.maybe("blk_quant_type", kind.map(size))
}

/// How a node of GatherBlockQuantized stores quantized values.
struct Packing {
    /// The bits of a quantized value in a byte; none if each quantized value is an element.
    bits: Option<usize>,
    is_float: bool,
}

impl Packing {
    /// The number at a position of an array whose last dimension may be packed.
    fn number(&self, x: &Array, at: &[usize]) -> f64 {
        let Some(bits) = self.bits else { return x.at(at).float() };
        let (row, last) = at.split_at(at.len() - 1);
        let byte = [row, &[last[0] * bits / 8]].concat();
        packed_at(&[x.at(&byte).clone()], bits, last[0] % (8 / bits))
    }

    /// The stored shape of quantized values.
    fn stored(&self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        if let (Some(bits), Some(last)) = (self.bits, shape.last_mut()) {
            *last = (*last * bits).div_ceil(8);
        }
        shape
    }
}

fn gather(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 2 + draw.below(2);
    let is_byte = dtype == DType::U8;
    let packing = Packing {
        bits: is_byte.then(|| draw.pick(&[2, 4, 8])),
        is_float: !is_byte && !dtype.is_integer(),
    };
    let axes = draw.permutation(rank);
    let (gathered, quantized) = if is_byte { (0, rank - 1) } else { (axes[0], axes[1]) };
    let block = draw.pick(&[16, 32]);
    let mut shape: Vec<_> = (0..rank).map(|_| draw.some_dim()).collect();
    shape[quantized] = 8 * (1 + draw.below(5));
    let n = shape[gathered];
    let x = draw.any(dtype, &packing.stored(&shape));
    let mut blocks = shape.clone();
    blocks[quantized] = blocks[quantized].div_ceil(block);
    let y_type = draw.pick(&[DType::F32, DType::F16, DType::Bf16, DType::F64]);
    let scale = scales(draw, y_type, &blocks);
    let zero_point = draw.any(dtype, &packing.stored(&blocks));
    let zero_point = (!packing.is_float && draw.one_in(2)).then_some(zero_point);
    let index_rank = draw.below(3);
    let index_shape = draw.shape_of_rank(index_rank);
    // Also from the back, and outside.
    let indices =
        Array::from_fn(&index_shape, |_| Cell::Int(draw.int(-signed(n), signed(n)).into()));
    let stored = indices.to_tensor(draw.index_type());
    let has_bits = packing.bits.is_some_and(|bits| bits != 4);
    let bits = packing.bits.filter(|_| has_bits).map(size);
    let axes = [draw.written(gathered, rank), draw.written(quantized, rank)];
    let sample = Sample::new(&[&x.clone(), &stored, &scale.clone()], {
        let zero_point = zero_point.clone();
        move || {
            let (x, scale) = (Array::of(&x), Array::of(&scale));
            let zero_point = zero_point.as_ref().map(Array::of);
            let y = [&shape[..gathered], &indices.shape, &shape[gathered + 1..]].concat();
            let middle = packing.bits.map_or(0.0, |bits| f64::from(1 << (bits - 1)));
            let y = Array::from_fn(&y, |at| {
                let (place, after) = at[gathered..].split_at(indices.shape.len());
                if indices.at(place).int() == i128::try_from(n).unwrap() {
                    return Cell::Float(0.0);
                }
                let entry = indices.index_at(place, n);
                let at = [&at[..gathered], &[entry], after].concat();
                let mut own = at.clone();
                own[quantized] /= block;
                let zero = zero_point.as_ref().map_or(middle, |it| packing.number(it, &own));
                Cell::Float((packing.number(&x, &at) - zero) * scale.at(&own).float())
            });
            Expected::exact(y_type, y)
        }
    });
    let sample = if zero_point.is_some() { sample.input(3, zero_point) } else { sample };
    sample
        .attr("gather_axis", Attr::Int(axes[0]))
        .attr("quantize_axis", Attr::Int(axes[1]))
        .attr("block_size", size(block))
        .maybe("bits", bits)
}
