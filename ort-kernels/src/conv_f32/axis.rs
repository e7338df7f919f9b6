//! One spatial axis of a convolution or a pooling: which tap of which output reads which input.

use std::ops::Range;

/// Output `o` reads input `o·stride + t·dilation − pad[0]` with tap `t`, if it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Elements of the input.
    pub input: usize,
    /// Elements of the output.
    pub output: usize,
    /// Taps of the kernel, at least 1.
    pub kernel: usize,
    /// Distance between outputs, at least 1.
    pub stride: usize,
    /// Distance between taps, at least 1.
    pub dilation: usize,
    /// Padding before and after the input.
    pub pad: [usize; 2],
}

impl Axis {
    /// An axis of one element and one tap: the missing dimensions of a convolution of fewer
    /// dimensions.
    pub const UNIT: Self =
        Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, pad: [0, 0] };

    /// Whether every output reads the input at the same index, and no other.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.pad[0] == 0 && self.input == self.output
    }

    /// The input that `output` reads with `tap`.
    #[must_use]
    pub fn at(&self, output: usize, tap: usize) -> Option<usize> {
        let i = (output * self.stride + tap * self.dilation).checked_sub(self.pad[0])?;
        (i < self.input).then_some(i)
    }

    /// The taps with which `output` reads an input.
    pub(crate) fn taps(&self, output: usize) -> Range<usize> {
        // If the first and the last tap read an input, so do those in between; only edges need a
        // division.
        if self.at(output, 0).is_some() && self.at(output, self.kernel - 1).is_some() {
            return 0..self.kernel;
        }
        self.below(output * self.stride, self.dilation, self.kernel)
    }

    /// The first input that `output` reads, if any, and their number.
    pub(crate) fn inputs(&self, output: usize) -> (usize, usize) {
        let taps = self.taps(output);
        let first = output * self.stride + taps.start * self.dilation;
        (first.saturating_sub(self.pad[0]), taps.len())
    }

    /// The number of taps with which `output` reads an input or, if `counts_padding`, padding; taps
    /// beyond the padding never count.
    pub(crate) fn n_taps(&self, output: usize, counts_padding: bool) -> usize {
        if !counts_padding {
            return self.taps(output).len();
        }
        let room = self.pad[0] + self.input + self.pad[1];
        if output * self.stride + (self.kernel - 1) * self.dilation < room {
            return self.kernel;
        }
        room.saturating_sub(output * self.stride).div_ceil(self.dilation).min(self.kernel)
    }

    /// The number of inputs, including padding, that consecutive outputs read.
    pub(crate) fn reach(&self, outputs: usize) -> usize {
        outputs.saturating_sub(1) * self.stride + (self.kernel - 1) * self.dilation + 1
    }

    /// The number of inputs, including padding, that any output reads.
    pub(crate) fn padded(&self) -> usize {
        self.reach(self.output).max(self.pad[0] + self.input)
    }

    /// These outputs as a separate axis, and the inputs of that axis: exactly those that they read.
    #[must_use]
    pub fn part(&self, outputs: Range<usize>) -> (Self, Range<usize>) {
        let from = outputs.start * self.stride;
        let before = self.pad[0].saturating_sub(from);
        let start = from.saturating_sub(self.pad[0]).min(self.input);
        let end = (from + self.reach(outputs.len())).saturating_sub(self.pad[0]);
        let inputs = start..end.clamp(start, self.input);
        let room = (self.pad[0] + self.input + self.pad[1]).saturating_sub(from);
        let after = room.saturating_sub(before + inputs.len());
        let (input, output) = (inputs.len(), outputs.len());
        (Self { input, output, pad: [before, after], ..*self }, inputs)
    }

    /// The outputs that read an input with every tap.
    pub(crate) fn interior(&self) -> Range<usize> {
        self.inside(&self.outputs(0), self.kernel - 1)
    }

    /// The outputs that read an input with `tap`.
    #[must_use]
    pub fn outputs(&self, tap: usize) -> Range<usize> {
        self.below(tap * self.dilation, self.stride, self.output)
    }

    /// The part of `outputs` that reads an input with `tap`.
    #[inline(always)]
    pub fn inside(&self, outputs: &Range<usize>, tap: usize) -> Range<usize> {
        let Range { start, end } = *outputs;
        // As in `taps`.
        if start < end && self.at(start, tap).is_some() && self.at(end - 1, tap).is_some() {
            return start..end;
        }
        let all = self.outputs(tap);
        let from = all.start.clamp(start, end);
        from..all.end.clamp(from, end)
    }

    /// The `i` below `limit` for which `from + i·step` minus the padding is an input.
    fn below(&self, from: usize, step: usize, limit: usize) -> Range<usize> {
        let least = self.pad[0].saturating_sub(from).div_ceil(step).min(limit);
        let end = (self.pad[0] + self.input).saturating_sub(from).div_ceil(step).min(limit);
        least..end.max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn parts_of_an_axis_read_what_the_whole_reads() {
        for (input, kernel, stride, dilation, pad) in
            [(9, 3, 1, 1, [1, 1]), (9, 4, 2, 3, [7, 5]), (2, 2, 3, 1, [9, 9]), (0, 2, 1, 1, [3, 3])]
        {
            let axis = Axis { input, output: 7, kernel, stride, dilation, pad };
            for (start, end) in (0..7).flat_map(|start| (start..8).map(move |end| (start, end))) {
                let (part, inputs) = axis.part(start..end);
                assert_eq!((part.input, part.output), (inputs.len(), end - start));
                for output in start..end {
                    let own = output - start;
                    for tap in 0..kernel {
                        let found = part.at(own, tap).map(|i| inputs.start + i);
                        assert_eq!(found, axis.at(output, tap), "{axis:?} {start}..{end} {tap}");
                    }
                    for counts in [false, true] {
                        assert_eq!(part.n_taps(own, counts), axis.n_taps(output, counts));
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_equal_at() {
        for (input, kernel, stride, dilation, pad) in
            [(5, 3, 1, 1, 1), (7, 3, 2, 1, 0), (4, 5, 3, 2, 6), (1, 2, 1, 3, 2), (0, 1, 1, 1, 1)]
        {
            let axis = Axis { input, output: 6, kernel, stride, dilation, pad: [pad, pad] };
            for output in 0..6 {
                let taps = (0..kernel).filter(|&tap| axis.at(output, tap).is_some());
                assert!(taps.eq(axis.taps(output)), "{axis:?} taps of {output}");
            }
            for tap in 0..kernel {
                let outputs = (0..6).filter(|&output| axis.at(output, tap).is_some());
                assert!(outputs.eq(axis.outputs(tap)), "{axis:?} outputs of {tap}");
                for (start, end) in [(0, 6), (1, 2), (2, 5), (3, 3), (5, 6)] {
                    let inside = (start..end).filter(|&output| axis.at(output, tap).is_some());
                    assert!(inside.eq(axis.inside(&(start..end), tap)), "{axis:?} {tap}");
                }
            }
        }
    }
}
