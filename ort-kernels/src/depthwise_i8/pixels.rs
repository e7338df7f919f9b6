//! A channels-last image: lanes are the channels of a pixel.

use std::ops::Range;

use super::{LANES, Line, MAX_TAPS, QUAD, Weights};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::quantize::{Requantize, Scales};

/// One image and its weights.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// The axes of the pixels.
    pub axes: [Axis; 3],
    /// The inputs, `[…, channels]`.
    pub x: &'a [u8],
    /// A pixel of padding, whose length is the number of channels.
    pub padding: &'a [u8],
    /// XORed with every byte: 0 or 0x80.
    pub flip: u8,
    /// The weights in the order of [`taps`], packed by [`pack_each`](super::pack_each).
    pub weights: &'a [u8],
    /// The number of bytes that each weight was split into.
    pub parts: usize,
    /// The initial sums of each channel.
    pub start: &'a [i32],
}

/// The order in which [`Pixels`] reads taps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The number of taps and gaps.
    pub(super) len: usize,
    /// The distance between taps along each axis.
    steps: [usize; 3],
    /// The axis whose fifth row follows all columns, and where that row begins.
    fifth: Option<(usize, usize)>,
}

impl Order {
    /// For two-dimensional windows of height three to five, the first four rows of each column are a quad, and those of
    /// the fifth follow; others are read in row-major order. Axes with a single tap do not count.
    pub(super) fn of(kernel: [usize; 3]) -> Self {
        let mut wide = (0..3).filter(|&axis| kernel[axis] > 1);
        let mut steps = [0; 3];
        if let (Some(row), Some(column), None) = (wide.next(), wide.next(), wide.next())
            && (3..=QUAD + 1).contains(&kernel[row])
            && kernel[column] <= MAX_TAPS / (QUAD + 1)
        {
            (steps[row], steps[column]) = (1, QUAD);
            let fifth = Some((row, kernel[column] * QUAD)).filter(|_| kernel[row] > QUAD);
            return Self { len: kernel[column] * kernel[row].max(QUAD), steps, fifth };
        }
        let [k0, k1, k2] = kernel;
        Self { len: k0 * k1 * k2, steps: [k1 * k2, k2, 1], fifth: None }
    }

    /// The index of a tap in this order.
    pub(super) fn at(self, tap: [usize; 3]) -> usize {
        let at: usize = tap.iter().zip(self.steps).map(|(tap, step)| tap * step).sum();
        match self.fifth {
            // `at` is four, and four for each column before.
            Some((row, first)) if tap[row] == QUAD => first + (at / QUAD - 1),
            _ => at,
        }
    }
}

/// The taps of a window in the order in which [`Pixels`] reads them, as indices in the window; `None` for a
/// gap, whose weights are 0.
pub fn taps(kernel: [usize; 3]) -> impl Iterator<Item = Option<usize>> {
    let [k0, k1, k2] = kernel;
    let order = Order::of(kernel);
    let is_at = move |t: usize, at| order.at([t / k2 / k1, t / k2 % k1, t % k2]) == at;
    (0..order.len).map(move |at| (0..k0 * k1 * k2).find(|&t| is_at(t, at)))
}

/// A line of result pixels whose windows are read column by column.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    /// The lines of inputs, `None` for padding.
    pub(super) rows: [Option<&'a [u8]>; QUAD + 1],
    /// A pixel of padding.
    pub(super) padding: &'a [u8],
    /// The axis of the lines.
    pub(super) axis: Axis,
    pub(super) flip: u8,
    pub(super) weights: &'a [u8],
    pub(super) start: &'a [i32],
    /// One per channel, finite.
    pub(super) factors: &'a [f32],
    pub(super) requantize: Requantize<'a>,
    pub(super) outputs: Range<usize>,
}

impl Pixels<'_> {
    /// Elements of the sums of a pixel: whole blocks.
    #[must_use]
    pub fn sums_len(channels: usize) -> usize {
        channels.next_multiple_of(LANES)
    }

    /// Calls `each(pixel, sums)` for these pixels of the result.
    ///
    /// # Panics
    /// If there are more than [`MAX_TAPS`], or operands or `sums` are too short.
    pub fn run(
        &self,
        isa: Isa,
        pixels: Range<usize>,
        sums: &mut [i32],
        mut each: impl FnMut(usize, &[i32]),
    ) {
        let [axis0, axis1, axis2] = self.axes;
        let channels = self.padding.len();
        let sums = &mut sums[..Self::sums_len(channels)];
        let order = Order::of(self.axes.map(|axis| axis.kernel));
        let mut taps = [self.padding; MAX_TAPS];
        let taps = &mut taps[..order.len];
        // The offsets of the taps' lines, for the current line of outputs.
        let (mut starts, mut last) = ([None; MAX_TAPS], None);
        for pixel in pixels {
            let (line, at2) = (pixel / axis2.output, pixel % axis2.output);
            if last != Some(line) {
                last = Some(line);
                let (at0, at1) = (line / axis1.output, line % axis1.output);
                for t0 in 0..axis0.kernel {
                    for t1 in 0..axis1.kernel {
                        let inputs = axis0.at(at0, t0).zip(axis1.at(at1, t1));
                        let start = inputs.map(|(i0, i1)| (i0 * axis1.input + i1) * axis2.input);
                        starts[t0 * axis1.kernel + t1] = start;
                    }
                }
            }
            // Pixels that are all inside the image are adjacent.
            let ends = axis2.at(at2, 0).zip(axis2.at(at2, axis2.kernel - 1));
            let step = axis2.dilation * channels;
            for (i, start) in starts[..axis0.kernel * axis1.kernel].iter().enumerate() {
                let (t0, t1) = (i / axis1.kernel, i % axis1.kernel);
                let mut tap = |t2: usize, x| taps[order.at([t0, t1, t2])] = x;
                match (start, ends) {
                    (Some(start), Some((first, _))) => {
                        let x = &self.x[(start + first) * channels..];
                        (0..axis2.kernel).for_each(|t2| tap(t2, &x[t2 * step..][..channels]));
                    }
                    (Some(start), None) => {
                        for t2 in 0..axis2.kernel {
                            tap(
                                t2,
                                match axis2.at(at2, t2) {
                                    Some(i2) => &self.x[(start + i2) * channels..][..channels],
                                    None => self.padding,
                                },
                            );
                        }
                    }
                    (None, _) => (0..axis2.kernel).for_each(|t2| tap(t2, self.padding)),
                }
            }
            sums[..channels].copy_from_slice(&self.start[..channels]);
            let weights = Weights::Each(self.weights);
            Line { taps, flip: self.flip, weights, parts: self.parts }.add(isa, sums);
            each(pixel, &sums[..channels]);
        }
    }
    /// Writes the quantized values of these pixels to `y`, bytes with the sign of the results, using factors per channel.
    ///
    /// # Panics
    /// Like [`Pixels::run`], or if factors or `y` are too short.
    pub fn run_quantized(
        &self,
        isa: Isa,
        pixels: Range<usize>,
        requantize: &Requantize<'_>,
        (sums, y): (&mut [i32], &mut [u8]),
    ) {
        let channels = self.padding.len();
        #[cfg(target_arch = "x86_64")]
        if let (Some(token), Some(columns)) = (isa.avx512_vnni(), self.columns(requantize)) {
            let (mut at, mut rest) = (pixels.start, y);
            while at < pixels.end {
                let n = (pixels.end - at).min(self.axes[2].output - at % self.axes[2].output);
                let (own, others) = rest.split_at_mut(n * channels);
                let line = self.line(at..at + n, &columns);
                match self.axes[1].kernel {
                    super::avx512vnni_five::WIDTH => super::avx512vnni_five::run(token, &line, own),
                    _ => super::avx512vnni_columns::run(token, &line, own),
                }
                (at, rest) = (at + n, others);
            }
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let (Isa::Avx2(token), Scales::ByColumn(factors)) = (isa, requantize.factors)
            && requantize.is_finite()
        {
            return super::avx2_pixels::run(token, self, pixels, (requantize, factors), y);
        }
        let first = pixels.start;
        self.run(isa, pixels, sums, |pixel, sums| {
            requantize.row(
                isa,
                pixel - first,
                sums,
                &mut y[(pixel - first) * channels..][..channels],
            );
        });
    }

    /// The data shared by all lines, if windows are read column by column.
    #[cfg(target_arch = "x86_64")]
    fn columns<'a>(&'a self, requantize: &Requantize<'a>) -> Option<Columns<'a>> {
        let kernel = self.axes.map(|axis| axis.kernel);
        let Scales::ByColumn(factors) = requantize.factors else { return None };
        let width = match kernel[1] {
            super::avx512vnni_five::WIDTH => super::avx512vnni_five::WIDTH,
            _ => super::avx512vnni_columns::WIDTH,
        };
        let fits = Order::of(kernel).steps == [0, 1, QUAD]
            && kernel[2] == width
            && self.parts == 1
            && requantize.is_finite();
        fits.then(|| Columns {
            rows: [None; QUAD + 1],
            padding: self.padding,
            axis: self.axes[2],
            flip: self.flip,
            weights: self.weights,
            start: self.start,
            factors,
            requantize: *requantize,
            outputs: 0..0,
        })
    }

    /// Computes pixels of one line.
    #[cfg(target_arch = "x86_64")]
    fn line<'a>(&'a self, pixels: Range<usize>, columns: &Columns<'a>) -> Columns<'a> {
        let [axis0, axis1, axis2] = self.axes;
        let (line, first) = (pixels.start / axis2.output, pixels.start % axis2.output);
        let (at0, at1) = (line / axis1.output, line % axis1.output);
        let line_len = axis2.input * self.padding.len();
        let row = |t1: usize| {
            let i1 = axis1.at(at1, t1).filter(|_| t1 < axis1.kernel)?;
            let line = axis0.at(at0, 0)? * axis1.input + i1;
            Some(&self.x[line * line_len..][..line_len])
        };
        let rows = std::array::from_fn(row);
        Columns { rows, outputs: first..first + pixels.len(), ..*columns }
    }
}
