//! Depthwise convolution of planes that the first-level cache holds, with the windows of most networks.

use super::window::{BAND, MAX_LANES, past_len};
use super::{Axis, Depthwise};
use crate::isa::mul_add;
use crate::vec::clamp;

/// A plane with its padding, which is written once for any number of planes with the same axes.
#[derive(Debug)]
pub struct Padded<'s> {
    axes: [Axis; 3],
    data: &'s mut [f32],
}

impl<'s> Padded<'s> {
    /// Elements of scratch; `None` if the planes are too large, or the windows not those of
    /// [`Depthwise::run_padded`].
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 3]) -> Option<usize> {
        let [depth, height, width] = axes;
        let stride = width.stride;
        let is_usual = matches!((width.kernel, stride), (3, 1 | 2) | (5, 1 | 2) | (7, 1));
        let is_square = width.input > 0 && height.kernel == width.kernel && height.stride == stride;
        let is_dense = height.dilation == 1 && width.dilation == 1;
        let len = height.padded().checked_mul(width.padded()).filter(|len| *len <= BAND)?;
        let is_small = *depth == Axis::UNIT && is_usual && is_square && is_dense;
        is_small.then_some(len.saturating_add(past_len(width)))
    }

    /// The padding of planes with these axes; `None` as for [`Padded::scratch_len`].
    ///
    /// # Panics
    /// If the scratch is too short.
    pub fn new(axes: [Axis; 3], scratch: &'s mut [f32]) -> Option<Self> {
        let data = &mut scratch[..Self::scratch_len(&axes)?];
        data.fill(0.0);
        Some(Self { axes, data })
    }

    /// Writes a plane between the padding.
    #[inline(always)]
    fn fill(&mut self, plane: &[f32]) {
        let [_, height, width] = self.axes;
        let rows = self.data.chunks_exact_mut(width.padded()).skip(height.pad[0]);
        for (row, x) in rows.zip(plane.chunks_exact(width.input)) {
            copy(x, &mut row[width.pad[0]..width.pad[0] + width.input]);
        }
    }
}

impl Depthwise<'_> {
    /// The whole output of a plane, the same as that of [`Depthwise::run`]. Windows are square and
    /// dense: 3 or 5 wide with strides 1 and 2, or 7 wide with stride 1.
    ///
    /// # Panics
    /// If the plane, the weights or `out` is too short for the axes, which must be those of `padded`.
    pub fn run_padded(&self, padded: &mut Padded<'_>, plane: &[f32], out: &mut [f32]) {
        assert_eq!(self.axes, padded.axes, "the padding is of planes like this one");
        let [_, height, width] = &self.axes;
        let out = &mut out[..height.output * width.output];
        let plane = &plane[..height.input * width.input];
        if out.is_empty() {
            return;
        }
        convolve(self.isa, self, plane, padded, out);
        if self.activation.as_clamp().is_none() {
            self.activation.apply(self.isa, out);
        }
    }
}

per_isa! {
    fn convolve<FMA>(
        this: &Depthwise<'_>,
        plane: &[f32],
        padded: &mut Padded<'_>,
        out: &mut [f32],
    ) {
        padded.fill(plane);
        let width = this.axes[2];
        match (width.kernel, width.stride) {
            (3, 1) => by_width::<FMA, 3, 1>(this, padded.data, out),
            (3, _) => by_width::<FMA, 3, 2>(this, padded.data, out),
            (5, 1) => by_width::<FMA, 5, 1>(this, padded.data, out),
            (5, _) => by_width::<FMA, 5, 2>(this, padded.data, out),
            _ => by_width::<FMA, 7, 1>(this, padded.data, out),
        }
    }
}

#[inline(always)]
fn by_width<const FMA: bool, const K: usize, const S: usize>(
    this: &Depthwise<'_>,
    padded: &[f32],
    out: &mut [f32],
) {
    let [_, height, width] = &this.axes;
    match (width.output, height.output) {
        (..=8, 4..) => blocks::<FMA, K, S, 4, 8>(this, padded, out),
        (..=8, _) => blocks::<FMA, K, S, 1, 8>(this, padded, out),
        (9..=16, 2..) => blocks::<FMA, K, S, 2, 16>(this, padded, out),
        (9..=16, _) => blocks::<FMA, K, S, 1, 16>(this, padded, out),
        (17.., _) => blocks::<FMA, K, S, 1, MAX_LANES>(this, padded, out),
    }
}

/// Blocks of `ROWS` rows of `LANES` lanes, whose sums stay in registers. The last may recompute rows
/// of the one before.
#[inline(always)]
fn blocks<
    const FMA: bool,
    const K: usize,
    const S: usize,
    const ROWS: usize,
    const LANES: usize,
>(
    this: &Depthwise<'_>,
    padded: &[f32],
    out: &mut [f32],
) {
    let [_, height, width] = &this.axes;
    let line = width.padded();
    let (weights, _) = this.weights.as_chunks::<K>();
    let mut taps = [[0.0; K]; K];
    taps.copy_from_slice(&weights[..K]);
    let (min, max) = this.activation.as_clamp().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    for y in (0..height.output).step_by(ROWS).map(|y| y.min(height.output - ROWS)) {
        for x in (0..width.output).step_by(LANES) {
            let window = &padded[y * S * line + x * S..];
            let mut sums = [[this.bias; LANES]; ROWS];
            for row in 0..K {
                for r in 0..ROWS {
                    let window = &window[(r * S + row) * line..][..(LANES - 1) * S + K];
                    for tap in 0..K {
                        for i in 0..LANES {
                            let x = window[i * S + tap];
                            sums[r][i] = mul_add::<FMA>(x, taps[row][tap], sums[r][i]);
                        }
                    }
                }
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                for sum in &mut *sums {
                    *sum = clamp(*sum, min, max);
                }
                // The excess of a row is overwritten by the next; the last has no room for it.
                let out = &mut out[(y + r) * width.output + x..];
                match out.first_chunk_mut::<LANES>() {
                    Some(out) => *out = *sums,
                    None => copy(&sums[..out.len()], out),
                }
            }
        }
    }
}

/// Copies a short row, without a call.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    match from.len() {
        8.. => copy_by::<8>(from, to),
        4.. => copy_by::<4>(from, to),
        _ => {
            for i in 0..3 {
                if let (Some(from), Some(to)) = (from.get(i), to.get_mut(i)) {
                    *to = *from;
                }
            }
        }
    }
}

/// Copies at least `N` elements, the last `N` perhaps in part twice.
#[inline(always)]
fn copy_by<const N: usize>(from: &[f32], to: &mut [f32]) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Isa};

    fn axis(input: usize, kernel: usize, stride: usize, pad: [usize; 2]) -> Option<Axis> {
        let output = (input + pad[0] + pad[1]).checked_sub(kernel)? / stride + 1;
        Some(Axis { input, output, kernel, stride, dilation: 1, pad })
    }

    #[test]
    fn planes_equal_those_of_bands() {
        let numbers =
            |n: usize| -> Vec<f32> { (0..n).map(|i| (i * 37 % 29) as f32 - 9.5).collect() };
        let windows = [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)];
        let sizes = [1, 2, 3, 4, 7, 8, 9, 14, 16, 17, 33, 40];
        let pads = [[0, 0], [1, 1], [2, 0], [3, 5]];
        for ((kernel, stride), width) in windows.into_iter().flat_map(|w| sizes.map(|n| (w, n))) {
            for (pad, height) in pads.into_iter().zip([1, 4, 7, 13]) {
                let axes = [axis(height, kernel, stride, pad), axis(width, kernel, stride, pad)];
                let [Some(height), Some(width)] = axes else { continue };
                same_as_bands([Axis::UNIT, height, width], numbers);
            }
        }
    }

    fn same_as_bands(axes: [Axis; 3], numbers: impl Fn(usize) -> Vec<f32>) {
        let [_, height, width] = &axes;
        let (weights, n) = (numbers(height.kernel * width.kernel), height.output * width.output);
        let planes = numbers(2 * height.input * width.input);
        for isa in Isa::all() {
            let mut small = vec![7.0; Padded::scratch_len(&axes).expect("a small plane")];
            let mut padded = Padded::new(axes, &mut small).expect("a small plane");
            let mut scratch = vec![7.0; Depthwise::scratch_len(&axes)];
            for (activation, plane) in [Activation::None, Activation::Relu, Activation::Sigmoid]
                .into_iter()
                .flat_map(|a| planes.chunks_exact(planes.len() / 2).map(move |plane| (a, plane)))
            {
                let depthwise = Depthwise { isa, axes, weights: &weights, bias: 0.5, activation };
                let [mut expected, mut found] = [vec![9.0; n], vec![9.0; n]];
                depthwise.run(plane, 0..height.output, &mut expected, &mut scratch);
                depthwise.run_padded(&mut padded, plane, &mut found);
                assert_eq!(found, expected, "{isa:?} {axes:?}");
            }
        }
    }

    #[test]
    fn others_are_not_small() {
        let square = |n, kernel, stride| {
            let axis = axis(n, kernel, stride, [1, 1]).expect("it has an output");
            [Axis::UNIT, axis, axis]
        };
        assert!(Padded::scratch_len(&square(62, 3, 1)).is_some());
        for axes in [square(63, 3, 1), square(9, 4, 1), square(9, 3, 3), square(9, 7, 2)] {
            assert!(Padded::scratch_len(&axes).is_none(), "{axes:?}");
        }
        let [_, axis, _] = square(9, 3, 1);
        for axes in [
            [axis, axis, axis],
            [Axis::UNIT, Axis { dilation: 2, ..axis }, axis],
            [Axis::UNIT, axis, Axis { input: 0, pad: [5, 6], ..axis }],
            [Axis::UNIT, Axis::UNIT, axis],
        ] {
            assert!(Padded::scratch_len(&axes).is_none(), "{axes:?}");
        }
    }
}
