//! The sizes of a transposed convolution.

// collects are bounded: by the rank, and one per set

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_tensor::{Shape, n_elements};

use super::blocked::Blocked;
use super::depthwise::Planes;
use super::pack::{axes_of_kernel, block_channels};
use super::parts::Split;
use super::phases::{Set, Transposed, has_gaps, sets};

/// Elements that a product computes before they are scattered to the result: 64 KiB.
const STRIP: usize = 16 * 1024;

/// The sizes for one shape signature.
#[derive(Debug)]
pub(super) struct Geometry {
    /// The shape of the result.
    pub(super) shape: Shape,
    pub(super) group: usize,
    /// Input channels of a group.
    pub(super) c: usize,
    /// Output channels of a group.
    pub(super) m: usize,
    pub(super) axes: [Transposed; 3],
    pub(super) sets: Vec<Set>,
    /// For each set, its taps in the order of the product's terms.
    pub(super) taps: Vec<Vec<usize>>,
    pub(super) has_gaps: bool,
    pub(super) split: Split,
    /// If planes are computed directly.
    pub(super) planes: Option<Planes>,
}

/// Whether output channels read one input channel each: `c` is the number of those of a group.
pub(super) const fn is_depthwise(c: usize) -> bool {
    c == 1
}

/// The shape of the result, and the axes, for those of `x` and of the weights.
pub(super) fn shape_and_axes(
    op: &ConvTranspose,
    x: &[usize],
    w: &[usize],
) -> Result<(Shape, [Transposed; 3]), KernelError> {
    let wrong = || -> KernelError {
        let (left, right) = (x.to_vec(), w.to_vec());
        OpError::Shapes { what: "channels and groups", left, right }.into()
    };
    let (&[n, channels, ref input @ ..], &[c, m, ref kernel @ ..]) = (x, w) else {
        return Err(wrong());
    };
    if channels != c || !c.is_multiple_of(op.group) {
        return Err(wrong());
    }
    let window = op.window(input, kernel)?;
    let filters = m.checked_mul(op.group).ok_or_else(wrong)?;
    let shape = [n, filters].into_iter().chain(window.input.iter().copied()).collect();
    let mut axes = axes_of_kernel(op, kernel).ok_or_else(wrong)?;
    let first = axes.len() - kernel.len();
    for (i, axis) in axes[first..].iter_mut().enumerate() {
        axis.input = window.output[i];
        axis.output = window.input[i];
        axis.pad = window.pads_begin[i];
    }
    n_elements(kernel).ok_or_else(wrong)?;
    Ok((shape, axes))
}

impl Geometry {
    /// `late` as in [`ConvTransposeKernel`](super::ConvTransposeKernel); `blocked` if results are computed so.
    pub(super) fn new(
        op: &ConvTranspose,
        (x, w): (&[usize], &[usize]),
        (late, blocked): ([usize; 3], Option<(Isa, &Blocked)>),
    ) -> Result<Self, KernelError> {
        let (shape, axes) = shape_and_axes(op, x, w)?;
        let (c, m) = (w[0], w[1]);
        let sets = sets(&axes, late)?;
        let kernel = axes.map(|axis| axis.kernel);
        let taps = sets.iter().map(|set| set.taps(kernel)).collect::<Result<_, _>>()?;
        let split = match blocked {
            Some((isa, blocked)) => (blocked.channels(isa, (m, &sets)), blocked.step()),
            None => (block_channels(&sets, m), 1),
        };
        let split = Split::new(&axes, split);
        let (group, c, has_gaps) = (op.group, c / op.group, has_gaps(&axes, &sets));
        let planes = if is_depthwise(c) { Planes::new(&axes) } else { None };
        Ok(Self { shape, group, c, m, axes, sets, taps, has_gaps, split, planes })
    }

    pub(super) fn n_taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// Elements of a plane of `x`.
    pub(super) fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// Elements of a plane of the result.
    pub(super) fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// The positions of a strip. The last block of channels uses strips of the same length, so that
    /// scratch for the other blocks is large enough for it.
    pub(super) fn strip_len(&self, set: &Set) -> usize {
        let rows = self.split.n_channels * set.n_phases();
        let most = (STRIP / rows.max(1)).next_multiple_of(64);
        most.min(set.n_positions().max(1))
    }
}
