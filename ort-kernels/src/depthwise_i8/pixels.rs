//! An image whose channels are the last dimension: lanes are the channels of a pixel.

use std::ops::Range;

use super::{LANES, Line, MAX_TAPS, Weights};
use crate::Isa;
use crate::conv_f32::Axis;

/// One image, and the weights it meets.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// The axes of the pixels.
    pub axes: [Axis; 3],
    /// The inputs, `[…, channels]`.
    pub x: &'a [u8],
    /// What is read outside: one pixel, whose length is the number of channels.
    pub padding: &'a [u8],
    /// Flips every byte: 0 or 0x80.
    pub flip: u8,
    /// The weights, packed by [`pack_each`](super::pack_each).
    pub weights: &'a [u8],
    /// How many bytes each weight was split into.
    pub parts: usize,
    /// What the sums of each channel begin with.
    pub start: &'a [i32],
}

impl Pixels<'_> {
    /// The elements of the sums of a pixel: whole blocks.
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
        let n_taps = axis0.kernel * axis1.kernel * axis2.kernel;
        let mut taps = [self.padding; MAX_TAPS];
        let taps = &mut taps[..n_taps];
        // Where the lines of the taps begin, of the line of outputs that was last.
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
            // Pixels that are all there follow each other.
            let ends = axis2.at(at2, 0).zip(axis2.at(at2, axis2.kernel - 1));
            let step = axis2.dilation * channels;
            for (taps, start) in taps.chunks_exact_mut(axis2.kernel).zip(&starts) {
                match (start, ends) {
                    (Some(start), Some((first, _))) => {
                        let x = &self.x[(start + first) * channels..];
                        for (t2, tap) in taps.iter_mut().enumerate() {
                            *tap = &x[t2 * step..][..channels];
                        }
                    }
                    (Some(start), None) => {
                        for (t2, tap) in taps.iter_mut().enumerate() {
                            *tap = match axis2.at(at2, t2) {
                                Some(i2) => &self.x[(start + i2) * channels..][..channels],
                                None => self.padding,
                            };
                        }
                    }
                    (None, _) => taps.fill(self.padding),
                }
            }
            sums[..channels].copy_from_slice(&self.start[..channels]);
            let weights = Weights::Each(self.weights);
            Line { taps, flip: self.flip, weights, parts: self.parts }.add(isa, sums);
            each(pixel, &sums[..channels]);
        }
    }
}
