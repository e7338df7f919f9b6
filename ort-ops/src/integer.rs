//! Exact products of quantized operands: differences of 8-bit quantized values, stored in 16 bits so that the
//! processor can multiply and add them in pairs. Rows are contiguous in both operands.

use ort_graph::OpError;
use ort_tensor::{Pace, Room, TensorError, n_elements};

use crate::infer::PADDING;
use crate::ops::conv::ConvGeometry;

/// The sum of this many products of differences of 8-bit quantized values, each at most 255², stays below 2³¹.
const N_TERMS: usize = 1 << 15;

/// How many elements of the left operand are multiplied with all rows of the right one before the
/// next: 256 KiB, which fits the L2 cache.
const N_BLOCK: usize = 1 << 17;

/// `Σ a[k]·b[k]`, exact for differences of 8-bit quantized values.
pub(crate) fn dot(a: &[i16], b: &[i16]) -> i64 {
    let products = |a: &[i16], b: &[i16]| -> i32 {
        a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    };
    let parts = a.chunks(N_TERMS).zip(b.chunks(N_TERMS));
    parts.map(|(a, b)| i64::from(products(a, b))).sum()
}

/// Calls `write(i, j, Σ a[i, k]·b[j, k])` for all rows of `a` and `b`, whose length `k` is not 0.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn multiply(
    a: &[i16],
    b: &[i16],
    k: usize,
    mut write: impl FnMut(usize, usize, i64),
) -> Result<(), TensorError> {
    let (n_rows, mut pace) = ((N_BLOCK / k).max(1), Pace::new());
    for (block, a) in a.chunks(n_rows * k).enumerate() {
        for (j, b) in b.chunks_exact(k).enumerate() {
            pace.go(a.len())?;
            for (i, a) in a.chunks_exact(k).enumerate() {
                write(block * n_rows + i, j, dot(a, b));
            }
        }
    }
    Ok(())
}

/// Each of the matrices `[rows, columns]` in `x` transposed.
pub(crate) fn transposed<T: Copy>(
    x: &[T],
    rows: usize,
    columns: usize,
) -> Result<Vec<T>, TensorError> {
    let (mut transposed, mut pace) = (Room::with_room(x.len())?, Pace::new());
    if let Some(size) = rows.checked_mul(columns).filter(|&size| size > 0) {
        for matrix in x.chunks_exact(size) {
            for column in 0..columns {
                pace.go(rows)?;
                transposed.extend(matrix[column..].iter().copied().step_by(columns))?;
            }
        }
    }
    Ok(transposed.into_vec())
}

/// Calls `write(at, channel, sum)` for each element of the convolution of `x: [N, C, …]` with
/// `w: [M, C/group, …]`, once: its index in the row-major result, and its channel. Padding is 0.
pub(crate) fn convolve(
    geometry: &ConvGeometry,
    x: &[i16],
    w: &[i16],
    mut write: impl FnMut(usize, usize, i64),
) -> Result<(), OpError> {
    let ConvGeometry { n, group, c, m, ref window } = *geometry;
    if geometry.output_shape().contains(&0) {
        return Ok(());
    }
    let n_taps = window.n_taps();
    let n_outputs = window.n_outputs();
    let k = c.checked_mul(n_taps).ok_or(OpError::TooLarge)?;
    if k == 0 {
        for plane in 0..n * m * group {
            let elements = plane * n_outputs..(plane + 1) * n_outputs;
            elements.for_each(|at| write(at, plane % (m * group), 0));
        }
        return Ok(());
    }
    // Where the product overflows, another dimension is zero and every tap is padding.
    let n_inputs = n_elements(&window.input).unwrap_or(0);
    // NHWC, so that what a tap reads is contiguous.
    let (x, w) = (transposed(x, c * group, n_inputs)?, transposed(w, c, n_taps)?);
    let mut patches = Room::new();
    for run in window.runs() {
        let offsets = window.offsets(run.clone())?;
        for image in 0..n * group {
            let (image, part) = (image / group, image % group);
            patches.clear();
            for column in 0..run.len() {
                for &at in offsets[column..].iter().step_by(run.len()) {
                    if at == PADDING {
                        patches.resize(patches.len() + c, 0)?;
                    } else {
                        let start = ((image * n_inputs + at) * group + part) * c;
                        patches.extend(x[start..start + c].iter().copied())?;
                    }
                }
            }
            let filters = &w[part * m * k..(part + 1) * m * k];
            multiply(&patches, filters, k, |i, j, sum| {
                let channel = part * m + j;
                write((image * m * group + channel) * n_outputs + run.start + i, channel, sum);
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_many_large_products_are_exact() {
        for n in [0_i64, 1, 7, 40_000, 70_001] {
            let x = vec![255; usize::try_from(n).unwrap()];
            let y = vec![-255; x.len()];
            assert_eq!([dot(&x, &x), dot(&x, &y)], [n * 65_025, n * -65_025]);
        }
    }

    #[test]
    fn rows_meet_rows_in_every_block() {
        let k = N_BLOCK / 2;
        let a = [vec![1; k], vec![2; k], vec![3; k]].concat();
        let b = [vec![1; k], vec![-1; k]].concat();
        let mut found = Vec::new();
        multiply(&a, &b, k, |i, j, sum| found.push((i, j, sum / k as i64))).unwrap();
        found.sort_unstable();
        let expected = [(0, 0, 1), (0, 1, -1), (1, 0, 2), (1, 1, -2), (2, 0, 3), (2, 1, -3)];
        assert_eq!(found, expected);
    }

    #[test]
    fn matrices_are_transposed_one_by_one() {
        assert_eq!(transposed(&[1, 2, 3, 4, 5, 6, 7, 8], 1, 4).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(transposed(&[1, 2, 3, 4, 5, 6, 7, 8], 2, 2).unwrap(), [1, 3, 2, 4, 5, 7, 6, 8]);
        assert!(transposed::<u8>(&[], 0, 3).unwrap().is_empty());
    }
}
