//! Weights that a DequantizeLinear computes, as those of MatMulNBits.

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::quantization::DequantizeLinear;
use ort_ops::ops::transpose::Transpose;
use ort_tensor::{
    DType, Element, Tensor, TensorError, bf16, collected, f16, filled, pack, with_dtype,
};

use crate::pass::Refusal;

/// The largest block of ONNX Runtime's MatMulNBits; longer ones are split.
const LARGEST_BLOCK: usize = 256;
/// The smallest block of MatMulNBits.
const SMALLEST_BLOCK: usize = 16;
/// The block of weights whose scales hold for whole columns.
const COLUMN_BLOCK: usize = 128;

/// Constant weights of 2, 4 or 8 bits, `k` of them in each of `n` columns, with constant scales.
pub(super) struct Weights<'a> {
    quantized: &'a Tensor,
    scales: &'a Tensor,
    zeros: Option<&'a Tensor>,
    layout: Layout,
    scaling: Scaling,
    /// The block of MatMulNBits.
    block: usize,
}

/// Where a quantized value lies.
#[derive(Clone, Copy)]
struct Layout {
    k: usize,
    n: usize,
    /// Whether they are stored as `[n, k]`.
    is_transposed: bool,
    format: Format,
}

/// A type of quantized values.
#[derive(Clone, Copy)]
struct Format {
    bits: usize,
    /// The highest bit of signed integers: flipped, they are unsigned, and larger by half of the range.
    sign: u8,
}

/// Which scale is that of a block.
#[derive(Clone, Copy)]
enum Scaling {
    Whole,
    Columns,
    /// One for `size` values of a column, with the distances of blocks and columns.
    Blocks {
        size: usize,
        strides: [usize; 2],
    },
}

impl<'a> Weights<'a> {
    /// The weights of `b`, which is `[k, n]`, or `[n, k]` if it `is_transposed`: those of a DequantizeLinear, with or
    /// without a Transpose after it. `None` if `b` is computed otherwise.
    pub(super) fn of(
        graph: &'a Graph,
        b: ValueId,
        is_transposed: bool,
    ) -> Result<Option<Self>, Refusal> {
        let Some((node, is_transposed)) = dequantized(graph, b, is_transposed) else {
            return Ok(None);
        };
        let Some(op) = node.operator::<DequantizeLinear>() else { return Ok(None) };
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let constant = |index: usize| input(index).and_then(|value| graph.constant(value));
        let (Some(quantized), Some(scales), zeros) = (constant(0), constant(1), constant(2)) else {
            return Ok(None);
        };
        let Some(format) = Format::of(quantized.dtype()) else { return Ok(None) };
        if input(2).is_some() && zeros.is_none() {
            return Err(Refusal("its zero points are not constant"));
        }
        if op.output_dtype.is_some_and(|dtype| dtype != scales.dtype()) {
            return Err(Refusal("its scales have another type than its weights"));
        }
        let (k, n) = match *quantized.shape() {
            [k, n] if !is_transposed => (k, n),
            [n, k] if is_transposed => (k, n),
            _ => return Err(Refusal("its weights are not a matrix")),
        };
        let granularity = op.granularity;
        let is_along_k = granularity.axis.rem_euclid(2) == i64::from(is_transposed);
        let n_blocks = k.div_ceil(granularity.block_size.max(1));
        let (of_blocks, strides) = match is_transposed {
            false => ([n_blocks, n], [n, 1]),
            true => ([n, n_blocks], [1, n_blocks]),
        };
        let scaling = match (granularity.block_size, scales.shape()) {
            _ if scales.len() == 1 => Scaling::Whole,
            (0, shape) if !is_along_k && *shape == [n] => Scaling::Columns,
            (size @ 1.., shape) if is_along_k && *shape == of_blocks => {
                Scaling::Blocks { size, strides }
            }
            _ => return Err(Refusal("its scales are not one per block of a column")),
        };
        let is_there = |tensor: &Tensor| tensor.unaligned_view().as_bytes().is_some();
        let are_zeros = zeros.is_none_or(|zeros| zeros.len() == scales.len() && is_there(zeros));
        if !are_zeros || k.min(n) == 0 || !is_there(quantized) {
            return Err(Refusal("its zero points are not like its scales, or it has no weights"));
        }
        let layout = Layout { k, n, is_transposed, format };
        let block = scaling.block(layout)?;
        Ok(Some(Self { quantized, scales, zeros, layout, scaling, block }))
    }

    /// Adds MatMulNBits of `a` and the weights.
    pub(super) fn product(
        &self,
        a: ValueId,
        name: &str,
        accuracy_level: i64,
        patch: &mut Patch,
    ) -> Result<ValueId, Refusal> {
        let Layout { k, n, format, .. } = self.layout;
        let weights = self.rows().map_err(no_memory)?;
        let scales = with_dtype!(self.scales.dtype(), [f32, f16, bf16],
            T => self.scales.as_slice::<T>().and_then(|scales| {
                Tensor::from_slice(&[n, self.n_blocks()], &self.by_column(scales)?)
            }).map_err(no_memory)?,
            else => return Err(Refusal("its scales are not floats")));
        let mut inputs = vec![
            Some(a),
            Some(patch.constant("weight", weights)?),
            Some(patch.constant("scale", scales)?),
        ];
        if let Some(zeros) = self.zero_points().map_err(no_memory)? {
            inputs.push(Some(patch.constant("zero_point", zeros)?));
        }
        let sizes = [("K", k), ("N", n), ("bits", format.bits), ("block_size", self.block)];
        let attrs = Attrs::new().with("accuracy_level", Attr::Int(accuracy_level));
        let attrs = sizes.into_iter().fold(attrs, |attrs, (name, size)| {
            attrs.with(name, Attr::Int(i64::try_from(size).unwrap_or(i64::MAX)))
        });
        Ok(patch.output_of(NewNode {
            name: name.to_owned(),
            domain: "com.microsoft".to_owned(),
            op_type: "MatMulNBits".to_owned(),
            since_version: 1,
            inputs,
            attrs,
            ..NewNode::default()
        })?)
    }

    fn n_blocks(&self) -> usize {
        self.layout.k.div_ceil(self.block)
    }

    /// The values, column by column, in whole blocks; written when they are read.
    fn rows(&self) -> Result<Tensor, TensorError> {
        let (layout, quantized) = (self.layout, self.quantized.clone());
        let shape = [layout.n, self.n_blocks(), self.block * layout.format.bits / 8];
        Tensor::deferred(DType::U8, &shape, move |rows| {
            let view = quantized.unaligned_view();
            layout.write_rows(view.as_bytes().unwrap_or_default(), rows);
        })
    }

    /// The zero points, packed column by column; `None` if all are the middle of the range.
    fn zero_points(&self) -> Result<Option<Tensor>, TensorError> {
        let (Layout { n, format, .. }, n_blocks) = (self.layout, self.n_blocks());
        let column_bytes = (n_blocks * format.bits).div_ceil(8);
        let Some(zeros) = self.zeros else {
            let is_middle = format.sign != 0;
            let zeros = || Tensor::zeros(DType::U8, &[n * column_bytes]);
            return (!is_middle).then(zeros).transpose();
        };
        let view = zeros.unaligned_view();
        let bytes = view.as_bytes().unwrap_or_default();
        let zeros = collected((0..zeros.len()).map(|i| format.at(bytes, i)))?;
        if zeros.iter().all(|&zero| zero == 1 << (format.bits - 1)) {
            return Ok(None);
        }
        let mut packed = filled(0, n * column_bytes)?;
        let columns = packed.chunks_mut(column_bytes);
        columns
            .zip(self.by_column(&zeros)?.chunks(n_blocks))
            .for_each(|(packed, zeros)| pack(zeros, format.bits, packed));
        Tensor::from_slice(&[n * column_bytes], &packed).map(Some)
    }

    /// What belongs to each block, column by column.
    fn by_column<T: Element + Copy>(&self, of_blocks: &[T]) -> Result<Vec<T>, TensorError> {
        let places = (0..self.layout.n).flat_map(|n| (0..self.n_blocks()).map(move |b| (n, b)));
        collected(places.map(|(n, b)| match self.scaling {
            Scaling::Whole => of_blocks[0],
            Scaling::Columns => of_blocks[n],
            Scaling::Blocks { size, strides } => {
                of_blocks[b * self.block / size * strides[0] + n * strides[1]]
            }
        }))
    }
}

/// The DequantizeLinear, or what else computes `b` or its transpose, and whether it `is_transposed`.
fn dequantized(graph: &Graph, b: ValueId, is_transposed: bool) -> Option<(&Node, bool)> {
    let (id, _) = graph.producer(b)?;
    let node = graph.node(id);
    let Some(transpose) = node.operator::<Transpose>() else { return Some((node, is_transposed)) };
    let is_swap = transpose.perm.as_deref().is_none_or(|perm| perm == [1, 0]);
    let (id, _) = graph.producer(node.inputs.first().copied().flatten().filter(|_| is_swap)?)?;
    Some((graph.node(id), !is_transposed))
}

fn no_memory(_: TensorError) -> Refusal {
    Refusal("there is no memory for its weights")
}

impl Scaling {
    /// The block of MatMulNBits: a power of two that no scale ends in, and not twice as long as a column.
    fn block(self, Layout { k, format, .. }: Layout) -> Result<usize, Refusal> {
        let of_column = k.next_power_of_two().max(SMALLEST_BLOCK);
        match self {
            Scaling::Blocks { size, .. } if size < k => {
                let block = (1 << size.trailing_zeros()).min(LARGEST_BLOCK);
                let is_block = block >= SMALLEST_BLOCK;
                is_block.then_some(block).ok_or(Refusal("its blocks are not multiples of 16"))
            }
            Scaling::Blocks { .. } => Ok(of_column.min(LARGEST_BLOCK)),
            _ if format.bits == 8 => Err(Refusal("its weights of 8 bits have no blocks")),
            _ => Ok(of_column.min(COLUMN_BLOCK)),
        }
    }
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let sign = match dtype {
            DType::U2 | DType::U4 | DType::U8 => 0,
            DType::I2 | DType::I4 | DType::I8 => 1 << (dtype.bits() - 1),
            _ => return None,
        };
        Some(Self { bits: dtype.bits(), sign })
    }

    /// The byte and bit of value `i`.
    fn place(self, i: usize) -> (usize, usize) {
        let (log_bits, per_byte) = (self.bits.trailing_zeros(), 8 / self.bits);
        (i >> (3 - log_bits), (i & (per_byte - 1)) << log_bits)
    }

    /// Value `i`, unsigned.
    fn at(self, bytes: &[u8], i: usize) -> u8 {
        let (byte, bit) = self.place(i);
        (bytes[byte] >> bit & (u8::MAX >> (8 - self.bits))) ^ self.sign
    }
}

impl Layout {
    /// Writes unsigned values, column by column, to bytes that are zero.
    fn write_rows(self, quantized: &[u8], rows: &mut [u8]) {
        /// Columns of which a byte each is written in turn, so that values of a row are read in turn.
        const TILE: usize = 64;
        let Self { k, n, format, .. } = self;
        let (row_bytes, per_byte) = (rows.len() / n, 8 / format.bits);
        let [along_k, along_n] = if self.is_transposed { [1, k] } else { [n, 1] };
        for (tile, rows) in rows.chunks_mut(TILE * row_bytes).enumerate() {
            for first in (0..k).step_by(per_byte) {
                let mut bytes = [0; TILE];
                for k in first..k.min(first + per_byte) {
                    let (start, (_, bit)) = (k * along_k + tile * TILE * along_n, format.place(k));
                    for (column, byte) in bytes.iter_mut().enumerate().take(rows.len() / row_bytes)
                    {
                        *byte |= format.at(quantized, start + column * along_n) << bit;
                    }
                }
                for (row, byte) in rows.chunks_exact_mut(row_bytes).zip(bytes) {
                    row[first / per_byte] = byte;
                }
            }
        }
    }
}
