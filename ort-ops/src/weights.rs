//! Compact weights: matrices whose rows are decoded one at a time, from floats or quantized values of 2, 4 or 8 bits,
//! and products with them.

use ort_graph::OpError;
use ort_tensor::{Number, Pace, TensorError, TensorView, collected, filled, with_dtype};

use crate::elementwise::unsupported;
use crate::product::dot;

/// Quantized value `i` of packed ones of `bits` bits (2, 4 or 8), the first in the lowest bits of a
/// byte.
pub(crate) fn packed_at(bytes: &[u8], bits: usize, i: usize) -> u8 {
    let per_byte = 8 / bits;
    bytes[i / per_byte] >> (i % per_byte * bits) & (u8::MAX >> (8 - bits))
}

/// The blocks of quantized values with one scale each: `width` quantized values of `bits` bits in each row, `block`
/// of them in a block, the last of which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockFormat {
    /// The bits of a quantized value: 2, 4 or 8.
    pub(crate) bits: usize,
    /// The quantized values of a block, at least 1.
    pub(crate) block: usize,
    /// The quantized values of a row.
    pub(crate) width: usize,
}

impl BlockFormat {
    /// How many blocks a row has.
    pub(crate) const fn n_blocks(self) -> usize {
        self.width.div_ceil(self.block)
    }

    /// The zero point of quantized values that have none: half their range.
    pub(crate) fn middle(self) -> f64 {
        f64::from(1_u16 << (self.bits - 1))
    }

    /// The bytes of `n` quantized values, rounded up; `None` if that overflows.
    pub(crate) fn n_bytes(self, n: usize) -> Option<usize> {
        Some(n.checked_mul(self.bits)?.div_ceil(8))
    }

    /// The numbers of `n_rows` times `len` quantized values, each row of whole bytes.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn unpack_rows(
        self,
        bytes: &[u8],
        n_rows: usize,
        len: usize,
    ) -> Result<Vec<f64>, TensorError> {
        let row_bytes = self.n_bytes(len).unwrap_or(0).max(1);
        let rows = bytes.chunks_exact(row_bytes).take(n_rows);
        collected(
            rows.flat_map(|row| (0..len).map(move |i| f64::from(packed_at(row, self.bits, i)))),
        )
    }
}

/// Rows of quantized values: `w[n, k] = (q[n, k] − zero_point[n, b]) · scale[n, b]`, `b` being the block of
/// `k`.
#[derive(Debug)]
pub(crate) struct QuantizedRows<'a> {
    /// The format of the quantized values.
    pub(crate) format: BlockFormat,
    /// The quantized values, row by row.
    pub(crate) bytes: &'a [u8],
    /// The bytes of a row, at least those of its quantized values.
    pub(crate) row_bytes: usize,
    /// A scale for each block of each row.
    pub(crate) scales: Vec<f64>,
    /// As many zero points; by default the middle of the range.
    pub(crate) zero_points: Option<Vec<f64>>,
    /// The block of each `k`, if it does not follow from the format.
    pub(crate) blocks: Option<Vec<usize>>,
}

impl QuantizedRows<'_> {
    /// Writes row `n` to `w`.
    pub(crate) fn row(&self, n: usize, w: &mut [f64]) {
        let BlockFormat { bits, block, .. } = self.format;
        let bytes = &self.bytes[n * self.row_bytes..];
        let first = n * self.format.n_blocks();
        let value = |k: usize, own: usize| {
            let zero_point = self.zero_points.as_ref().map_or(self.format.middle(), |z| z[own]);
            (f64::from(packed_at(bytes, bits, k)) - zero_point) * self.scales[own]
        };
        match &self.blocks {
            Some(blocks) => {
                let blocks = w.iter_mut().zip(blocks).enumerate();
                blocks.for_each(|(k, (w, block))| *w = value(k, first + block));
            }
            None => {
                for (i, w) in w.chunks_mut(block.max(1)).enumerate() {
                    let values = (i * block..).zip(w);
                    values.for_each(|(k, w)| *w = value(k, first + i));
                }
            }
        }
    }
}

/// Writes row `n` of a row-major matrix of floats, input `index`, to `w`.
///
/// # Errors
/// If its elements are not floats.
pub(crate) fn float_row(
    index: usize,
    x: TensorView<'_>,
    n: usize,
    w: &mut [f64],
) -> Result<(), OpError> {
    with_dtype!(x.dtype(), float, T => {
        let row = &x.as_slice::<T>()?[n * w.len()..];
        w.iter_mut().zip(row).for_each(|(w, x)| *w = x.to_f64());
        Ok(())
    }, else => Err(unsupported(index, x.dtype())))
}

/// `y[m, n] += Σ a[m, k] · w[n, k]`, where `a: [m, k]`, `y: [m, n]`, and `row(n, w)` writes row `n` of
/// `w: [n, k]`.
///
/// # Errors
/// If `row` fails, or the run was cancelled.
pub(crate) fn add_product_by_rows(
    a: &[f64],
    [n, k]: [usize; 2],
    y: &mut [f64],
    mut row: impl FnMut(usize, &mut [f64]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    if n == 0 || k == 0 {
        return Ok(());
    }
    let (mut w, mut pace) = (filled(0.0, k)?, Pace::new());
    for j in 0..n {
        row(j, &mut w)?;
        for (a, y) in a.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
            pace.go(k)?;
            y[j] += dot(a, &w);
        }
    }
    Ok(())
}

/// Checks that a parameter of the shape `found` has `expected` elements.
///
/// # Errors
/// If it has another number of them.
pub(crate) fn expect_len(
    what: &'static str,
    found: &[usize],
    expected: Option<usize>,
) -> Result<(), OpError> {
    let expected = expected.ok_or(OpError::TooLarge)?;
    if ort_tensor::n_elements(found) == Some(expected) {
        return Ok(());
    }
    Err(OpError::Shapes { what, left: found.to_vec(), right: vec![expected] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_quantized_values_have_scales_by_block() {
        let format = BlockFormat { bits: 4, block: 2, width: 3 };
        let quantized = QuantizedRows {
            format,
            bytes: &[0x98, 0x07, 0x21, 0x0f],
            row_bytes: 2,
            scales: vec![1.0, 2.0, 0.5, -1.0],
            zero_points: None,
            blocks: None,
        };
        let mut w = [0.0; 3];
        quantized.row(0, &mut w);
        assert_eq!(w, [0.0, 1.0, -2.0]);
        let shifted = QuantizedRows { zero_points: Some(vec![0.0, 0.0, 1.0, 2.0]), ..quantized };
        shifted.row(1, &mut w);
        assert_eq!(w, [0.0, 0.5, -13.0]);
        let regrouped = QuantizedRows { blocks: Some(vec![1, 1, 0]), ..shifted };
        regrouped.row(1, &mut w);
        assert_eq!(w, [1.0, -0.0, 7.0]);
    }

    #[test]
    fn rows_of_packed_zero_points_end_with_whole_bytes() {
        let format = BlockFormat { bits: 2, block: 16, width: 80 };
        let bytes = [0b11_10_01_00, 0b01, 0, 0b10];
        let expected = [0.0, 1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0];
        assert_eq!(format.unpack_rows(&bytes, 2, 5).unwrap(), expected);
        assert_eq!((format.n_blocks(), format.middle()), (5, 2.0));
    }
}
