//! An image as B: column `p` holds the inputs of output `p` of a convolution.

use std::ops::Range;

use super::{MAX_NR, QUAD, Variant, best};
use crate::conv_f32::Axis;
use crate::{Isa, Task};

/// The columns of an image: row `k` is a channel and tap, in the order of the weights.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// `[channels, input…]`.
    pub image: &'a [u8],
    /// Number of channels.
    pub channels: usize,
    /// The axes, the last of which is contiguous.
    pub axes: [Axis; 3],
    /// The value of padding.
    pub padding: u8,
    /// XORed with every byte: 0 or 0x80.
    pub flip: u8,
}

/// One tap of one channel.
struct Tap<'a> {
    plane: &'a [u8],
    at: [usize; 3],
}

impl Columns<'_> {
    /// The number of rows.
    #[must_use]
    pub fn k(&self) -> usize {
        self.channels * self.axes.iter().map(|axis| axis.kernel).product::<usize>()
    }

    /// Bytes that [`Columns::pack`] writes for `n` outputs.
    #[must_use]
    pub fn packed_len(&self, isa: Isa, n: usize) -> usize {
        super::packed_b_len(isa, self.k(), n)
    }

    /// Packs the columns of `outputs` into panels `[k/4][nr][4]`. Masks, if there are any, say nothing about the image.
    ///
    /// # Panics
    /// If `packed` is shorter than [`Columns::packed_len`], or the image too short for its axes.
    pub fn pack(&self, isa: Isa, outputs: Range<usize>, packed: &mut [u8]) {
        isa.run(Packing { columns: self, variant: best(isa), outputs, packed });
    }

    /// Packs one panel of a pointwise convolution: rows are pieces of planes.
    #[inline(always)]
    fn points<'p>(&self, own: &Range<usize>, quads: impl Iterator<Item = &'p mut [[u8; QUAD]]>) {
        let plane_len: usize = self.axes.iter().map(|axis| axis.input).product();
        let planes = self.image.chunks_exact(plane_len.max(1));
        let mut rows = planes.take(self.channels).map(|plane| &plane[own.clone()]);
        for quads in quads {
            let quads = &mut quads[..own.len()];
            match [rows.next(), rows.next(), rows.next(), rows.next()] {
                [Some(a), Some(b), Some(c), Some(d)] => {
                    interleave([a, b, c, d], self.flip, quads);
                }
                // Missing rows meet bytes of A that are zeros.
                [Some(a), b, c, d] => {
                    interleave(
                        [a, b.unwrap_or(a), c.unwrap_or(a), d.unwrap_or(a)],
                        self.flip,
                        quads,
                    );
                }
                [None, ..] => return,
            }
        }
    }

    /// Packs one panel, four rows at a time.
    #[inline(always)]
    fn panel<'p>(&self, own: &Range<usize>, mut quads: impl Iterator<Item = &'p mut [[u8; QUAD]]>) {
        let mut rows = [[0; MAX_NR]; QUAD];
        let mut filled = 0;
        self.for_each_tap(|tap| {
            self.row(&tap, own, &mut rows[filled]);
            filled += 1;
            if filled == QUAD {
                self.next_quads(&rows, own.len(), quads.next());
                filled = 0;
            }
        });
        if filled > 0 {
            self.next_quads(&rows, own.len(), quads.next());
        }
    }

    #[inline(always)]
    fn next_quads(&self, rows: &[[u8; MAX_NR]; QUAD], n: usize, quads: Option<&mut [[u8; QUAD]]>) {
        if let Some(quads) = quads {
            let [a, b, c, d] = rows;
            interleave([a, b, c, d], self.flip, &mut quads[..n]);
        }
    }

    #[inline(always)]
    fn for_each_tap(&self, mut f: impl FnMut(Tap<'_>)) {
        let plane_len: usize = self.axes.iter().map(|axis| axis.input).product();
        let [kernel0, kernel1, kernel2] = self.axes.map(|axis| axis.kernel);
        for channel in 0..self.channels {
            let plane = &self.image[channel * plane_len..][..plane_len];
            for t0 in 0..kernel0 {
                for t1 in 0..kernel1 {
                    (0..kernel2).for_each(|t2| f(Tap { plane, at: [t0, t1, t2] }));
                }
            }
        }
    }

    /// The inputs of the outputs `own` for one tap.
    #[inline(always)]
    fn row(&self, tap: &Tap<'_>, own: &Range<usize>, to: &mut [u8; MAX_NR]) {
        let [axis0, axis1, axis2] = &self.axes;
        let mut output = own.start;
        while output < own.end {
            let (line, start) = (output / axis2.output, output % axis2.output);
            let len = (own.end - output).min(axis2.output - start);
            let to = &mut to[output - own.start..][..len];
            output += len;
            let above = axis0.at(line / axis1.output, tap.at[0]);
            let inputs = above.zip(axis1.at(line % axis1.output, tap.at[1]));
            let Some((i0, i1)) = inputs else {
                to.fill(self.padding);
                continue;
            };
            let from = &tap.plane[(i0 * axis1.input + i1) * axis2.input..][..axis2.input];
            let inside = axis2.inside(&(start..start + len), tap.at[2]);
            let (left, right) = (inside.start - start, inside.end - start);
            to[..left].fill(self.padding);
            to[right..].fill(self.padding);
            if let Some(first) = axis2.at(inside.start, tap.at[2]).filter(|_| left < right) {
                copy_strided(&from[first..], axis2.stride, &mut to[left..right]);
            }
        }
    }
}

/// Panels to be packed.
struct Packing<'a> {
    columns: &'a Columns<'a>,
    variant: Variant,
    outputs: Range<usize>,
    packed: &'a mut [u8],
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { columns, variant, outputs, packed } = self;
        let (k, nr) = (columns.k(), variant.nr);
        let is_pointwise = columns.axes.iter().all(Axis::is_pointwise);
        let panels = packed.chunks_exact_mut(variant.panel_len(k).max(1));
        for (first, panel) in outputs.clone().step_by(nr).zip(panels) {
            let own = first..outputs.end.min(first + nr);
            let (quads, masks) = panel.split_at_mut(variant.quads_len(k));
            masks.fill(0);
            let quads = quads.as_chunks_mut::<QUAD>().0.chunks_exact_mut(nr);
            match is_pointwise {
                true => columns.points(&own, quads),
                false => columns.panel(&own, quads),
            }
        }
    }
}

/// Interleaves the elements of four rows; written as words, which vectorises.
#[inline(always)]
pub(super) fn interleave([a, b, c, d]: [&[u8]; QUAD], flip: u8, quads: &mut [[u8; QUAD]]) {
    let flip = u32::from_ne_bytes([flip; QUAD]);
    let n = quads.len();
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for i in 0..n {
        let low = u32::from(a[i]) | u32::from(b[i]) << 8;
        let high = u32::from(c[i]) << 16 | u32::from(d[i]) << 24;
        quads[i] = ((low | high) ^ flip).to_le_bytes();
    }
}

#[inline(always)]
fn copy_strided(from: &[u8], stride: usize, to: &mut [u8]) {
    if stride == 1 {
        to.copy_from_slice(&from[..to.len()]);
    } else {
        to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, from)| *to = *from);
    }
}
