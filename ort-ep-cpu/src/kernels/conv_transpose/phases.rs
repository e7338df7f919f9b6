//! A transposed convolution as convolutions: outputs that are a stride apart read with the same taps.
//!
//! ```text
//! y[u − pad] = Σ_t w[t]·x[i]    over all t and i with i·stride + t·dilation = u
//! ```
//! With `u = q·stride + r`, the remainder r selects the taps: those with `t·dilation ≡ r`. The
//! inputs they read, last tap first, are `q − shift`, `q − shift + step`, …: a convolution of
//! stride 1 over q. Remainders with the same shift and number of taps form a [`Class`]: they read the
//! same inputs. On several axes there is a [`Set`] for each combination of one class per axis.
//!
//! The outputs of the *late* remainders, those below `pad mod stride`, start one q after the others. A class of both
//! computes one q in vain for each of them, which is much if there are few: then they form their own classes.

use std::ops::Range;

use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::gemm::row_panels;
use ort_tensor::{TensorError, collected, with_room};
use smallvec::SmallVec;

/// One axis of a transposed convolution. Output `i·stride + t·dilation − pad` reads input `i` with tap
/// `t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transposed {
    /// Elements of `x`.
    pub(super) input: usize,
    /// Elements of the result.
    pub(super) output: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) pad: usize,
}

/// Remainders whose outputs read the same inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    /// Each remainder, in ascending order, and its taps, last first.
    pub(super) remainders: SmallVec<[(usize, SmallVec<[usize; 4]>); 4]>,
    /// The distance from `q` back to the first input.
    shift: usize,
    /// The distance between inputs.
    step: usize,
}

/// The outputs of a combination of classes: a convolution for each remainder.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) classes: [Class; 3],
    /// Axes of the convolution; output 0 is `q = first`.
    pub(super) axes: [Axis; 3],
    pub(super) first: [usize; 3],
    /// Each remainder of the last axis, and the `q` of its outputs.
    pub(super) columns: Vec<(usize, Range<usize>)>,
    /// The `q` that have outputs for all remainders of the last axis, if the class has all of several.
    pub(super) whole: Range<usize>,
}

impl Transposed {
    /// The axis of a missing dimension.
    pub(super) const UNIT: Self =
        Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, pad: 0 };

    /// The classes of all remainders that have taps; the first `late` remainders are apart.
    ///
    /// # Errors
    /// If the list of taps cannot be allocated: filters without channels may have any number of taps.
    pub(super) fn classes(&self, late: usize) -> Result<Vec<Class>, TensorError> {
        let mut taps: Vec<(usize, usize)> =
            collected((0..self.kernel).map(|tap| (tap * self.dilation % self.stride, tap)))?;
        taps.sort_by_key(|&(remainder, tap)| (remainder, usize::MAX - tap));
        let mut classes: Vec<Class> = Vec::new();
        for taps in taps.chunk_by(|(a, _), (b, _)| a == b) {
            let (remainder, last) = taps[0];
            let shift = (last * self.dilation - remainder) / self.stride;
            let before = taps.get(1).map_or(last, |&(_, tap)| tap);
            let step = ((last - before) * self.dilation / self.stride).max(1);
            let is_late = remainder < late;
            // bounded: as many as `taps`
            let remainder = (remainder, taps.iter().map(|&(_, tap)| tap).collect());
            let is_like = |class: &&mut Class| {
                let is_like =
                    (class.shift, class.step, class.n_taps()) == (shift, step, taps.len());
                is_like && class.remainders.iter().all(|(r, _)| (*r < late) == is_late)
            };
            match classes.iter_mut().find(is_like) {
                Some(class) => class.remainders.push(remainder),
                None => {
                    // bounded: one
                    let remainders = SmallVec::from_iter([remainder]);
                    classes.push(Class { remainders, shift, step });
                }
            }
        }
        Ok(classes)
    }

    /// The `q` of all outputs.
    pub(super) fn positions(&self) -> Range<usize> {
        self.pad / self.stride..(self.pad + self.output).div_ceil(self.stride)
    }

    /// The `q` of the outputs of a remainder.
    fn positions_of(&self, remainder: usize) -> Range<usize> {
        let q = |output: usize| output.saturating_sub(remainder).div_ceil(self.stride);
        q(self.pad)..q(self.pad + self.output)
    }

    /// The outputs of a range of `q`.
    pub(super) fn outputs(&self, positions: &Range<usize>) -> Range<usize> {
        let output = |q: usize| (q * self.stride).saturating_sub(self.pad).min(self.output);
        output(positions.start)..output(positions.end)
    }

    /// The output of `q` and a remainder, if it is not cut off.
    pub(super) fn output_of(&self, q: usize, remainder: usize) -> Option<usize> {
        let output = (q * self.stride + remainder).checked_sub(self.pad)?;
        (output < self.output).then_some(output)
    }

    /// The convolution of a class, and the `q` of its output 0.
    fn axis(&self, class: &Class) -> (Axis, usize) {
        let positions = || class.remainders.iter().map(|(r, _)| self.positions_of(*r));
        let start = positions().map(|q| q.start).min().unwrap_or(0);
        let end = positions().map(|q| q.end).max().unwrap_or(start);
        let first = start.min(class.shift);
        let axis = Axis {
            input: self.input,
            output: end - first,
            kernel: class.n_taps(),
            stride: 1,
            dilation: class.step,
            pad: [class.shift - first, 0],
        };
        (axis, first)
    }
}

impl Class {
    fn n_taps(&self) -> usize {
        self.remainders.first().map_or(0, |(_, taps)| taps.len())
    }
}

/// The sets of a transposed convolution, in an order that depends only on kernel, strides, dilations, and
/// the numbers of late remainders that are apart.
///
/// # Errors
/// As [`Transposed::classes`].
pub(super) fn sets(axes: &[Transposed; 3], late: [usize; 3]) -> Result<Vec<Set>, TensorError> {
    let [d, h, w] = [0, 1, 2].map(|i| axes[i].classes(late[i]));
    let (d, h, w) = (d?, h?, w?);
    let last = axes[2];
    let mut sets = Vec::new();
    for depth in &d {
        for height in &h {
            for width in &w {
                let classes = [depth, height, width].map(Class::clone);
                let placed: [(Axis, usize); 3] = std::array::from_fn(|i| axes[i].axis(&classes[i]));
                let (axes, first) = (placed.map(|(axis, _)| axis), placed.map(|(_, q)| q));
                let columns = width.remainders.iter().map(|(r, _)| (*r, last.positions_of(*r)));
                let columns: Vec<_> = collected(columns)?;
                let is_whole = columns.len() > 1 && columns.len() == last.stride;
                let whole = if is_whole { common(&columns) } else { 0..0 };
                sets.push(Set { classes, axes, first, columns, whole });
            }
        }
    }
    Ok(sets)
}

/// The `q` that are in all ranges.
fn common(columns: &[(usize, Range<usize>)]) -> Range<usize> {
    let start = columns.iter().map(|(_, q)| q.start).max().unwrap_or(0);
    let end = columns.iter().map(|(_, q)| q.end).min().unwrap_or(0);
    start..end.max(start)
}

/// Whether some outputs are reached by no tap of any set.
pub(super) fn has_gaps(axes: &[Transposed; 3], sets: &[Set]) -> bool {
    let n_outputs = axes.iter().try_fold(1_usize, |n, axis| n.checked_mul(axis.stride));
    let n_phases = sets.iter().map(Set::n_phases).sum::<usize>();
    n_outputs.is_none_or(|n| n_phases < n)
}

impl Set {
    /// The number of remainders on all axes: rows of the product per channel.
    pub(super) fn n_phases(&self) -> usize {
        self.classes.iter().map(|class| class.remainders.len()).product()
    }

    /// Taps per remainder.
    pub(super) fn n_taps(&self) -> usize {
        self.classes.iter().map(Class::n_taps).product()
    }

    /// Positions of the convolution.
    pub(super) fn n_positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// The taps of a kernel of this shape in the order of the product's terms, grouped by
    /// remainder.
    ///
    /// # Errors
    /// If they cannot be allocated.
    pub(super) fn taps(&self, kernel: [usize; 3]) -> Result<Vec<usize>, TensorError> {
        let [d, h, w] = &self.classes;
        let mut all = with_room(self.n_phases() * self.n_taps())?;
        for (_, d) in &d.remainders {
            for (_, h) in &h.remainders {
                for (_, w) in &w.remainders {
                    for z in d {
                        for y in h {
                            let row = (z * kernel[1] + y) * kernel[2];
                            // bounded: by reserved capacity
                            all.extend(w.iter().map(|x| row + x));
                        }
                    }
                }
            }
        }
        Ok(all)
    }
}

/// Some output channels of one group as the left operand of a set's product.
pub(super) struct Left<'a> {
    pub(super) isa: Isa,
    /// `[c, m, taps]`, of a group.
    pub(super) w: &'a [f32],
    /// Input channels of the group, its output channels, and taps of the kernel.
    pub(super) shape: [usize; 3],
    pub(super) channels: Range<usize>,
    /// The taps of the set.
    pub(super) taps: &'a [usize],
    pub(super) n_phases: usize,
}

impl Left<'_> {
    /// Elements that [`Left::pack`] writes.
    pub(super) fn len(&self) -> usize {
        self.channels.len() * self.shape[0] * self.taps.len()
    }

    /// `A[(m, phase), (c, t)] = w[c, m, taps[phase, t]]`, as
    /// [`pack_a`](ort_kernels::gemm::pack_a) would write it.
    pub(super) fn pack(&self, packed: &mut [f32]) {
        let [c, m, n_taps] = self.shape;
        let per_phase = self.taps.len() / self.n_phases.max(1);
        let mut elements = packed.iter_mut();
        for rows in row_panels(self.isa, self.channels.len() * self.n_phases) {
            // Where each row's channel and taps begin.
            let starts = rows.map(|row| {
                let (channel, phase) = (row / self.n_phases, row % self.n_phases);
                ((self.channels.start + channel) * n_taps, phase * per_phase)
            });
            // bounded: by the rows of a panel
            let starts: SmallVec<[(usize, usize); 32]> = starts.collect();
            for w in self.w.chunks_exact(m * n_taps).take(c) {
                for term in 0..per_phase {
                    for (&(channel, taps), to) in starts.iter().zip(&mut elements) {
                        *to = w[channel + self.taps[taps + term]];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::within;

    use super::*;

    /// Each output's pairs of tap and input.
    fn pairs(axis: &Transposed, late: usize) -> Vec<Vec<(usize, usize)>> {
        let mut pairs = vec![Vec::new(); axis.output];
        for class in axis.classes(late).unwrap() {
            let (conv, first) = axis.axis(&class);
            for (remainder, taps) in &class.remainders {
                for position in 0..conv.output {
                    let Some(o) = axis.output_of(first + position, *remainder) else { continue };
                    for (i, tap) in taps.iter().enumerate() {
                        pairs[o].extend(conv.at(position, i).map(|input| (*tap, input)));
                    }
                }
            }
        }
        pairs.iter_mut().for_each(|pairs| pairs.sort_unstable());
        pairs
    }

    #[test]
    fn every_output_reads_the_inputs_of_the_formula() {
        for (kernel, stride, dilation, pad, added) in [
            (2, 2, 1, 0, 0),
            (3, 2, 1, 1, 1),
            (4, 2, 1, 1, 0),
            (3, 3, 2, 0, 0),
            (2, 4, 1, 0, 0),
            (5, 2, 3, 4, 2),
            (2, 2, 1, 1, 0),
            (9, 1, 1, 4, 0),
            (4, 6, 4, 5, 3),
        ] {
            let input = 5;
            let output = 4 * stride + (kernel - 1) * dilation + 1 + added - 2 * pad.min(4);
            let axis = Transposed { input, output, kernel, stride, dilation, pad };
            let mut expected = vec![Vec::new(); output];
            for (tap, i) in (0..kernel).flat_map(|tap| (0..input).map(move |i| (tap, i))) {
                let o = (i * stride + tap * dilation).checked_sub(pad);
                if let Some(pairs) = o.and_then(|o| expected.get_mut(o)) {
                    pairs.push((tap, i));
                }
            }
            for late in [0, pad % stride] {
                assert_eq!(pairs(&axis, late), expected, "{axis:?}");
            }
        }
    }

    #[test]
    fn any_number_of_taps_is_an_error_at_most() {
        let axis = Transposed { kernel: 1 << 40, ..Transposed::UNIT };
        let limit = 1 << 20;
        assert!(within(limit, limit, || axis.classes(0)).is_err());
    }

    #[test]
    fn windows_that_do_not_overlap_are_one_class() {
        let axis = Transposed { kernel: 2, stride: 2, input: 7, output: 14, ..Transposed::UNIT };
        let classes = axis.classes(0).unwrap();
        assert_eq!(classes.len(), 1);
        assert!(axis.axis(&classes[0]).0.is_pointwise());
        let gaps = |axes| has_gaps(&axes, &sets(&axes, [0; 3]).unwrap());
        assert!(!gaps([axis, axis, Transposed::UNIT]));
        assert!(gaps([Transposed { stride: 3, ..axis }, axis, axis]));
    }
}
