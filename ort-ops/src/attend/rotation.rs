//! Rotary positions: pairs of features of a head are rotated by an angle that depends on its position.

use ort_graph::OpError;
use ort_tensor::{TensorError, TensorView, collected};

use crate::floats;

/// Cosines and sines, `[rows, pairs]`.
#[derive(Debug)]
pub(crate) struct Rotation {
    cos: Vec<f64>,
    sin: Vec<f64>,
    pairs: usize,
    /// Whether a pair is `(2i, 2i + 1)`, not `(i, i + pairs)`.
    is_interleaved: bool,
}

impl Rotation {
    /// From tensors of one shape, whose last dimension is that of the pairs.
    pub(crate) fn read(
        cos: TensorView<'_>,
        sin: TensorView<'_>,
        is_interleaved: bool,
    ) -> Result<Self, OpError> {
        if sin.shape() != cos.shape() {
            let (left, right) = (cos.shape().to_vec(), sin.shape().to_vec());
            return Err(OpError::Shapes { what: "cosines and sines", left, right });
        }
        let pairs = cos.shape().last().copied().unwrap_or(0);
        Ok(Self { cos: floats::read(cos)?, sin: floats::read(sin)?, pairs, is_interleaved })
    }

    /// The table of GPT-NeoX: pair `i` of row `r` rotates by `r / 10000^(i / pairs)`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn of_frequencies(rows: usize, pairs: usize) -> Result<Self, TensorError> {
        let angle = |row, i| row as f64 / 10000_f64.powf(i as f64 / pairs as f64);
        let angles = collected((0..rows).flat_map(|row| (0..pairs).map(move |i| angle(row, i))))?;
        let cos = collected(angles.iter().map(|angle| angle.cos()))?;
        let sin = collected(angles.iter().map(|angle| angle.sin()))?;
        Ok(Self { cos, sin, pairs, is_interleaved: false })
    }

    /// The table whose pair `i` in row `r` is that of row `row_of(r, i)` here.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn gathered(
        &self,
        rows: usize,
        row_of: impl Fn(usize, usize) -> usize,
    ) -> Result<Self, TensorError> {
        let gather = |from: &[f64]| {
            let row = |r| (0..self.pairs).map(move |i| (r, i));
            collected((0..rows).flat_map(row).map(|(r, i)| from[row_of(r, i) * self.pairs + i]))
        };
        Ok(Self { cos: gather(&self.cos)?, sin: gather(&self.sin)?, ..*self })
    }

    /// How many features of a head are rotated.
    pub(crate) const fn n_rotated(&self) -> usize {
        self.pairs.saturating_mul(2)
    }

    /// Checks that `row` is one of the table's.
    pub(crate) fn row(&self, row: i64) -> Result<usize, OpError> {
        let len = self.cos.len().checked_div(self.pairs).unwrap_or(usize::MAX);
        let found = usize::try_from(row).ok().filter(|&row| row < len);
        found.ok_or(OpError::Index { what: "the cosines", index: row, len })
    }

    /// `(a, b) → (a·cos − b·sin, a·sin + b·cos)` for each pair of a head, which has no fewer
    /// features than are rotated.
    pub(crate) fn rotate(&self, head: &mut [f64], row: usize) {
        let at = row * self.pairs..(row + 1) * self.pairs;
        for (i, (cos, sin)) in self.cos[at.clone()].iter().zip(&self.sin[at]).enumerate() {
            let (a, b) = if self.is_interleaved { (2 * i, 2 * i + 1) } else { (i, i + self.pairs) };
            let (x, y) = (head[a], head[b]);
            head[a] = x * cos - y * sin;
            head[b] = x * sin + y * cos;
        }
    }

    /// Rotates `[B, H, S, D]`, where step `s` of batch `b` is row `rows[b · S + s]`.
    pub(crate) fn rotate_heads(
        &self,
        x: &mut [f64],
        [heads, len, size]: [usize; 3],
        rows: &[usize],
    ) {
        for (i, head) in x.chunks_exact_mut(size.max(1)).enumerate() {
            self.rotate(head, rows[i / len / heads * len + i % len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::tensor;

    #[test]
    fn a_right_angle_swaps_a_pair() {
        let cos = tensor(&[2, 1], &[1_f32, 0.0]);
        let sin = tensor(&[2, 1], &[0_f32, 1.0]);
        let rotation = Rotation::read(cos.view(), sin.view(), false).unwrap();
        let mut x = [1.0, 2.0, 5.0, 3.0, 4.0, 6.0];
        rotation.rotate_heads(&mut x, [1, 2, 3], &[0, 1]);
        assert_eq!(x, [1.0, 2.0, 5.0, -4.0, 3.0, 6.0]);
        let swapped = rotation.gathered(2, |row, _| 1 - row).unwrap();
        swapped.rotate(&mut x, 0);
        assert_eq!(x[..2], [-2.0, 1.0]);
        assert!(rotation.row(2).is_err() && rotation.row(-1).is_err());
    }

    #[test]
    fn frequencies_fall_from_pair_to_pair() {
        let rotation = Rotation::of_frequencies(2, 2).unwrap();
        let (sin, cos) = 0.01_f64.sin_cos();
        assert_eq!(rotation.cos, [1.0, 1.0, 1_f64.cos(), cos]);
        assert_eq!(rotation.sin, [0.0, 0.0, 1_f64.sin(), sin]);
    }
}
