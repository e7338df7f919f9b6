//! An image as B: column `p` holds the inputs of output `p` of a convolution.
//!
//! Rows are ordered by tap, then by channel, so that a quad is four channels of a tap. The lines that outputs read are
//! interleaved first, four channels at a time: with their padding, and split into phases. The quads that a tap reads for
//! adjacent outputs are then contiguous, and panels copy them.

use std::ops::Range;

use super::{MAX_NR, QUAD, Variant, variant};
use crate::conv_f32::Axis;
use crate::{Isa, Task};

/// The columns of an image: row `k` is a tap and a channel.
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

/// Quads that are copied at once.
const COPIED: usize = 8;

/// How the inputs of an axis are laid out: as phases, in which the inputs of adjacent outputs are adjacent.
#[derive(Clone, Copy)]
struct Phases {
    n: usize,
    /// Inputs per phase.
    len: usize,
    /// The distance between the first inputs of two phases.
    step: usize,
    /// Whether taps share them: there is one phase per remainder of the stride, instead of one per tap.
    are_shared: bool,
}

impl Phases {
    /// Those that `n` adjacent outputs read, with as few inputs as either way takes.
    fn of(axis: &Axis, n: usize) -> Self {
        let &Axis { kernel, stride, dilation, .. } = axis;
        let len = n.saturating_add((kernel - 1) * dilation / stride);
        let shared = Self { n: stride.min(axis.reach(1)), len, step: 1, are_shared: true };
        let apart = Self { n: kernel, len: n, step: dilation, are_shared: false };
        if apart.total() < shared.total() { apart } else { shared }
    }

    fn total(&self) -> usize {
        self.n.saturating_mul(self.len)
    }

    /// Where the input is that the first output reads with tap `t`.
    fn tap(&self, axis: &Axis, t: usize) -> usize {
        let (phase, i) = match self.are_shared {
            true => (t * axis.dilation % axis.stride, t * axis.dilation / axis.stride),
            false => (t, 0),
        };
        phase * self.len + i
    }
}

/// The interleaved lines: `[taps of the first axis][phases of lines][channels/4][phases]` quads.
#[derive(Clone, Copy)]
struct Lines {
    /// The lines, and the quads of four channels of a line.
    phases: [Phases; 2],
    /// Quads of a line.
    len: usize,
}

impl Lines {
    /// The lines that `n` lines of `width` outputs read.
    fn of([_, axis1, axis2]: &[Axis; 3], channels: usize, (n, width): (usize, usize)) -> Self {
        let phases = [Phases::of(axis1, n), Phases::of(axis2, width)];
        Self { phases, len: channels.div_ceil(QUAD) * phases[1].total() }
    }

    /// Quads of a tap of the first axis.
    fn slab(&self) -> usize {
        self.phases[0].total() * self.len
    }
}

/// Adjacent columns of a panel that read one line.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The first of them.
    at: usize,
    n: usize,
    /// The quad that the first tap reads.
    from: usize,
}

/// The length of rows of weights, `[taps, channels]`, with channels padded to whole quads if there are several taps.
#[must_use]
pub fn columns_k(channels: usize, taps: usize) -> usize {
    if taps == 1 { channels } else { taps * channels.next_multiple_of(QUAD) }
}

impl Columns<'_> {
    /// The number of rows, as [`columns_k`] says.
    #[must_use]
    pub fn k(&self) -> usize {
        columns_k(self.channels, self.axes.iter().map(|axis| axis.kernel).product())
    }

    /// Bytes that [`Columns::pack`] writes for `n` outputs.
    #[must_use]
    pub fn packed_len(&self, isa: Isa, n: usize) -> usize {
        super::packed_b_len(isa, self.k(), n)
    }

    /// Bytes of scratch for [`Columns::pack`] of up to `n` outputs.
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 3], channels: usize, n: usize) -> usize {
        if axes.iter().all(Axis::is_pointwise) {
            return 0;
        }
        let [axis0, axis1, axis2] = axes;
        let lines = match axis2.output {
            width if width < n => ((n + width - 2) / width + 1, width),
            _ => (1, n),
        };
        let lines = Lines::of(axes, channels, (lines.0.min(axis1.output), lines.1));
        (axis0.kernel * lines.slab() + COPIED) * QUAD
    }

    /// The first of these outputs, at most `n`, that [`Columns::pack`] packs at once: of one line if lines are as long, and
    /// of one index of the first axis.
    #[must_use]
    pub fn first(&self, outputs: &Range<usize>, n: usize) -> Range<usize> {
        let [_, axis1, axis2] = &self.axes;
        let whole = match axis2.output < n {
            true => axis1.output * axis2.output,
            false => axis2.output,
        };
        let end = match self.axes.iter().all(Axis::is_pointwise) {
            true => outputs.end,
            false => (outputs.start / whole + 1) * whole,
        };
        outputs.start..outputs.end.min(outputs.start + n).min(end)
    }

    /// Packs the columns of `outputs`, as returned by [`Columns::first`], into panels `[k/4][nr][4]`. What meets the zeros
    /// that pad channels is unspecified, unless the variant [reads steps](Variant::reads_steps). Masks, if there are any, say
    /// nothing about the image.
    ///
    /// # Panics
    /// If `scratch` or `packed` are too short, or the image is too short for its axes.
    pub fn pack(&self, isa: Isa, outputs: Range<usize>, scratch: &mut [u8], packed: &mut [u8]) {
        let lines = scratch.as_chunks_mut().0;
        isa.run(Packing { columns: self, variant: variant(isa, self.k()), outputs, lines, packed });
    }

    /// Packs one panel of a pointwise convolution: rows are pieces of planes.
    #[inline(always)]
    fn points<'p>(&self, own: &Range<usize>, quads: impl Iterator<Item = &'p mut [[u8; QUAD]]>) {
        let plane_len: usize = self.axes.iter().map(|axis| axis.input).product();
        for (group, quads) in quads.enumerate() {
            let rows = self.rows(group, plane_len);
            interleave(rows.map(|row| &row[own.clone()]), self.flip, &mut quads[..own.len()]);
        }
    }

    /// Four channels; missing ones are the last one, which meet bytes of A that are zeros.
    #[inline(always)]
    fn rows(&self, group: usize, plane_len: usize) -> [&[u8]; QUAD] {
        let mut rows = [&[][..]; QUAD];
        for (i, row) in rows.iter_mut().enumerate() {
            let channel = (group * QUAD + i).min(self.channels - 1);
            *row = &self.image[channel * plane_len..][..plane_len];
        }
        rows
    }

    /// Interleaves the lines that these outputs read, the first of which is at `[first axis, second, last]`.
    #[inline(always)]
    fn lay_out(&self, lines: &Lines, [at0, at1, at2]: [usize; 3], to: &mut [[u8; QUAD]]) {
        let [axis0, axis1, axis2] = &self.axes;
        let plane_len = axis0.input * axis1.input * axis2.input;
        let [phases1, phases2] = lines.phases;
        for (t0, slab) in to.chunks_exact_mut(lines.slab()).take(axis0.kernel).enumerate() {
            let i0 = axis0.at(at0, t0);
            for (i, line) in slab.chunks_exact_mut(lines.len).enumerate() {
                let (phase, i) = (i / phases1.len, i % phases1.len);
                let i1 = (at1 + i) * axis1.stride + phase * phases1.step;
                let i1 = i1.checked_sub(axis1.pad[0]).filter(|&i1| i1 < axis1.input);
                let Some((i0, i1)) = i0.zip(i1) else {
                    line.fill([self.padding ^ self.flip; QUAD]);
                    continue;
                };
                let first = (i0 * axis1.input + i1) * axis2.input;
                for (group, to) in line.chunks_exact_mut(phases2.total()).enumerate() {
                    let rows = self.rows(group, plane_len);
                    let rows = rows.map(|row| &row[first..][..axis2.input]);
                    for (phase, to) in to.chunks_exact_mut(phases2.len).enumerate() {
                        self.phase(at2 * axis2.stride + phase * phases2.step, rows, to);
                    }
                }
            }
        }
    }

    /// Interleaves the elements of lines from this one on, counted from the padding, as far apart as outputs.
    #[inline(always)]
    fn phase(&self, first: usize, rows: [&[u8]; QUAD], to: &mut [[u8; QUAD]]) {
        let (axis, n) = (&self.axes[2], to.len());
        let (stride, pad) = (axis.stride, axis.pad[0]);
        let left = pad.saturating_sub(first).div_ceil(stride).min(n);
        let right = (pad + axis.input).saturating_sub(first).div_ceil(stride).clamp(left, n);
        let (start, inside) = to.split_at_mut(left);
        let (inside, end) = inside.split_at_mut(right - left);
        start.fill([self.padding ^ self.flip; QUAD]);
        end.fill([self.padding ^ self.flip; QUAD]);
        if inside.is_empty() {
            return;
        }
        let rows = rows.map(|row| &row[first + left * stride - pad..]);
        match stride {
            1 => interleave(rows, self.flip, inside),
            2 => interleave_pairs(rows, self.flip, inside),
            _ => {
                let flip = self.flip;
                for (i, quad) in inside.iter_mut().enumerate() {
                    *quad = rows.map(|row| row[i * stride] ^ flip);
                }
            }
        }
    }

    /// Copies one panel from the lines; runs are its columns, in order.
    #[inline(always)]
    fn panel(
        &self,
        lines: (&Lines, &[[u8; QUAD]]),
        runs: &[Run],
        nr: usize,
        to: &mut [[u8; QUAD]],
    ) {
        let ([axis0, axis1, axis2], (layout, lines)) = (&self.axes, lines);
        let [phases1, phases2] = layout.phases;
        let mut row = 0;
        for t0 in 0..axis0.kernel {
            for t1 in 0..axis1.kernel {
                let line = t0 * layout.slab() + phases1.tap(axis1, t1) * layout.len;
                for tap in (0..axis2.kernel).map(|t2| line + phases2.tap(axis2, t2)) {
                    for group in (0..layout.len).step_by(phases2.total()) {
                        let to = &mut to[row * nr..];
                        for run in runs {
                            copy(&lines[tap + group + run.from..], &mut to[run.at..], run.n);
                        }
                        row += 1;
                    }
                }
            }
        }
    }
}

/// Panels to be packed.
struct Packing<'a> {
    columns: &'a Columns<'a>,
    variant: Variant,
    outputs: Range<usize>,
    lines: &'a mut [[u8; QUAD]],
    packed: &'a mut [u8],
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { columns, variant, outputs, lines, packed } = self;
        let ([_, axis1, axis2], k, nr) = (&columns.axes, columns.k(), variant.nr);
        let is_pointwise = columns.axes.iter().all(Axis::is_pointwise);
        let (first, last) = (outputs.start / axis2.output, (outputs.end - 1) / axis2.output);
        // Of a single line, only what the outputs read is interleaved.
        let (at2, width) = match first == last {
            true => (outputs.start % axis2.output, outputs.len()),
            false => (0, axis2.output),
        };
        let layout = Lines::of(&columns.axes, columns.channels, (last - first + 1, width));
        if !is_pointwise {
            let at = [first / axis1.output, first % axis1.output, at2];
            columns.lay_out(&layout, at, lines);
        }
        let panels = packed.chunks_exact_mut(variant.panel_len(k).max(1));
        for (start, panel) in outputs.clone().step_by(nr).zip(panels) {
            let own = start..outputs.end.min(start + nr);
            let (quads, masks) = panel.split_at_mut(variant.quads_len(k));
            masks.fill(0);
            let quads = quads.as_chunks_mut::<QUAD>().0;
            let (quads, padding) = quads.split_at_mut(k.div_ceil(QUAD) * nr);
            padding.fill([0; QUAD]);
            if is_pointwise {
                columns.points(&own, quads.chunks_exact_mut(nr));
            } else {
                let (mut runs, mut n_runs, mut output) = ([Run::default(); MAX_NR], 0, own.start);
                while output < own.end {
                    let (line, at) = (output / axis2.output, output % axis2.output);
                    let n = (own.end - output).min(axis2.output - at);
                    let from = (line - first) * layout.len + at - at2;
                    runs[n_runs] = Run { at: output - own.start, n, from };
                    (output, n_runs) = (output + n, n_runs + 1);
                }
                columns.panel((&layout, lines), &runs[..n_runs], nr, quads);
            }
            if variant.reads_steps() {
                // A single tap may have channels that are no whole quads.
                clear(&mut quads[k / QUAD * nr..], k % QUAD);
            }
        }
    }
}

/// Clears all but the first terms of quads.
fn clear(quads: &mut [[u8; QUAD]], n_terms: usize) {
    quads.iter_mut().for_each(|quad| quad[n_terms..].fill(0));
}

/// Copies `n` quads, and up to whole [`COPIED`] ones if there are as many: those that follow are written later.
#[inline(always)]
fn copy(from: &[[u8; QUAD]], to: &mut [[u8; QUAD]], n: usize) {
    for i in (0..n).step_by(COPIED) {
        match (from[i..].first_chunk::<COPIED>(), to[i..].first_chunk_mut::<COPIED>()) {
            (Some(from), Some(to)) => *to = *from,
            _ => return to[i..n].copy_from_slice(&from[i..n]),
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

/// Interleaves every second element.
#[inline(always)]
fn interleave_pairs(rows: [&[u8]; QUAD], flip: u8, quads: &mut [[u8; QUAD]]) {
    // A pair may be incomplete.
    let n = quads.len() - 1;
    let pairs = rows.map(|row| &row.as_chunks::<2>().0[..n]);
    let word = u32::from_ne_bytes([flip; QUAD]);
    for i in 0..n {
        let even = |row: usize| u32::from(u16::from_le_bytes(pairs[row][i]) & 0xff);
        let quad = even(0) | even(1) << 8 | even(2) << 16 | even(3) << 24;
        quads[i] = (quad ^ word).to_le_bytes();
    }
    quads[n] = rows.map(|row| row[2 * n] ^ flip);
}
