//! The placement of the windows of convolutions and pools: window `o` of an axis reads, for each `k` of its kernel,
//! the element `o·stride + k·dilation − begin`, or padding.

use ort_graph::Attr;

use super::array::indices;
use super::draw::signed;
use super::{Draw, Sample};

/// One value per spatial axis each.
#[derive(Clone)]
pub(super) struct Windows {
    pub(super) input: Vec<usize>,
    pub(super) output: Vec<usize>,
    pub(super) kernel: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    pub(super) begin: Vec<usize>,
    pub(super) end: Vec<usize>,
    /// Their attributes.
    pub(super) attrs: Vec<(&'static str, Attr)>,
}

pub(super) fn ints(values: &[usize]) -> Attr {
    Attr::Ints(values.iter().copied().map(signed).collect())
}

impl Windows {
    /// Kernels and steps, not yet placed.
    pub(super) fn unplaced(draw: &mut Draw, may_be_dilated: bool) -> Self {
        let rank = draw.pick(&[1, 1, 2, 2, 3]);
        let is_dilated = may_be_dilated && draw.one_in(2);
        let is_strided = draw.one_in(2);
        let mut values = |n| -> Vec<usize> { (0..rank).map(|_| 1 + draw.below(n)).collect() };
        let kernel = values(if rank == 3 { 2 } else { 3 });
        let strides = values(if is_strided { 3 } else { 1 });
        let dilations = values(if is_dilated { 2 } else { 1 });
        let zeros = || vec![0; rank];
        let (input, output, begin, end) = (zeros(), zeros(), zeros(), zeros());
        let mut attrs = vec![];
        if is_strided {
            attrs.push(("strides", ints(&strides)));
        }
        if is_dilated {
            attrs.push(("dilations", ints(&dilations)));
        }
        Self { input, output, kernel, strides, dilations, begin, end, attrs }
    }

    /// The windows over an input; it need not be covered if `may_be_ceil`.
    pub(super) fn draw(draw: &mut Draw, may_be_dilated: bool, may_be_ceil: bool) -> Self {
        let mut windows = Self::unplaced(draw, may_be_dilated);
        let auto_pad = draw.pick(&["", "", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]);
        let is_ceil = may_be_ceil && draw.one_in(2);
        let is_explicit = matches!(auto_pad, "" | "NOTSET");
        let is_padded = is_explicit && draw.one_in(2);
        for axis in 0..windows.kernel.len() {
            if is_padded {
                (windows.begin[axis], windows.end[axis]) = (draw.below(3), draw.below(3));
            }
            windows.place(draw, axis, auto_pad, is_ceil);
        }
        if is_padded {
            windows.attrs.push(("pads", ints(&[&windows.begin[..], &windows.end].concat())));
        }
        if !auto_pad.is_empty() {
            windows.attrs.push(("auto_pad", Attr::String(auto_pad.into())));
        }
        if is_ceil {
            windows.attrs.push(("ceil_mode", Attr::Int(1)));
        }
        windows
    }

    fn place(&mut self, draw: &mut Draw, axis: usize, auto_pad: &str, is_ceil: bool) {
        let (stride, span) = (self.strides[axis], self.span(axis));
        let given = self.begin[axis] + self.end[axis];
        let is_same = auto_pad.starts_with("SAME");
        let is_rounded_up = is_ceil && !is_same && auto_pad != "VALID";
        // Rounded up, a window may end less than a stride behind the padded input.
        let beyond = if is_rounded_up { stride - 1 } else { 0 };
        let least = if is_same { 1 } else { span.saturating_sub(given + beyond).max(1) };
        let n = least + draw.below(3);
        self.input[axis] = n;
        if is_same {
            self.output[axis] = n.div_ceil(stride);
            let padding = ((self.output[axis] - 1) * stride + span).saturating_sub(n);
            let (less, more) = (padding / 2, padding.div_ceil(2));
            let is_upper = auto_pad == "SAME_UPPER";
            (self.begin[axis], self.end[axis]) = if is_upper { (less, more) } else { (more, less) };
            return;
        }
        let room = (n + given).saturating_sub(span);
        self.output[axis] = 1 + room / stride;
        if is_rounded_up {
            let last = room.div_ceil(stride);
            // Windows that would begin in the padding after the input are ignored.
            self.output[axis] = last + usize::from(last * stride < n + self.begin[axis]);
        }
    }

    /// From the first to the last element of a window.
    pub(super) fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    /// The positions in a window, in row-major order.
    pub(super) fn taps(&self) -> Vec<Vec<usize>> {
        indices(&self.kernel)
    }

    /// The element at a tap of a window; `None` for padding.
    pub(super) fn element(&self, window: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
        let along = |axis: usize| {
            let ahead = window[axis] * self.strides[axis] + tap[axis] * self.dilations[axis];
            ahead.checked_sub(self.begin[axis]).filter(|&i| i < self.input[axis])
        };
        (0..self.kernel.len()).map(along).collect()
    }

    /// The elements of a window.
    pub(super) fn seen(&self, window: &[usize]) -> Vec<Vec<usize>> {
        self.taps().iter().filter_map(|tap| self.element(window, tap)).collect()
    }

    /// A node with the attributes of these windows.
    pub(super) fn written(&self, sample: Sample) -> Sample {
        self.attrs.iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr.clone()))
    }
}
