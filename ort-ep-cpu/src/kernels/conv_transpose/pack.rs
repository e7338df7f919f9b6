//! The weights of a transposed convolution as left operands.

// collects are bounded: by the rank, and one per set

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::gemm::variant;
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_tensor::Shape;

use super::geometry::is_depthwise;
use super::phases::{Left, Set, Transposed, sets};
use crate::kernels::Compiler;

/// Rows of a product, unless one channel has more: enough to justify gathering its right operand.
const BLOCK_ROWS: usize = 448;
/// The maximum output channels of a product.
const CHANNELS: usize = 128;

/// To generate an element of the right operand takes as long as to multiply it by as many rows.
const ROWS_TO_COPY: usize = 8;

/// The axes of a kernel, unit axes in front; input and output sizes are unknown.
pub(super) fn axes_of_kernel(op: &ConvTranspose, kernel: &[usize]) -> Option<[Transposed; 3]> {
    let of = |list: &Option<Shape>, i: usize| match list {
        None => Some(1),
        Some(list) => list.get(i).copied(),
    };
    let mut axes = [Transposed::UNIT; 3];
    let first = axes.len().checked_sub(kernel.len())?;
    for (i, axis) in axes[first..].iter_mut().enumerate() {
        let (stride, dilation) = (of(&op.window.strides, i)?, of(&op.window.dilations, i)?);
        *axis = Transposed { kernel: kernel[i], stride, dilation, ..Transposed::UNIT };
    }
    Some(axes)
}

/// How many of `m` output channels are computed together.
pub(super) fn block_channels(sets: &[Set], m: usize) -> usize {
    let most = sets.iter().map(Set::n_phases).max().unwrap_or(1);
    let most = (BLOCK_ROWS / most).clamp(1, CHANNELS);
    m.div_ceil(m.div_ceil(most).max(1)).max(1)
}

/// The numbers of late remainders that form their own classes, for these axes of `m` output channels: those of
/// the smaller product.
pub(super) fn late(isa: Isa, axes: &[Transposed; 3], m: usize) -> [usize; 3] {
    let none = [0; 3];
    let all = axes.map(|axis| axis.pad % axis.stride);
    let work = |late| {
        let work = |set: &Set| {
            let n = set.n_positions().next_multiple_of(variant(isa).nr);
            let rows = m.saturating_mul(set.n_phases()).saturating_add(ROWS_TO_COPY);
            rows.saturating_mul(set.n_taps()).saturating_mul(n)
        };
        let sets = sets(axes, late).ok()?;
        Some(sets.iter().map(work).fold(0, usize::saturating_add))
    };
    match (work(none), work(all)) {
        (Some(together), Some(apart)) if apart < together => all,
        _ => none,
    }
}

/// Packs the weights of each block of channels as left operands: by group, set,
/// and block.
pub(super) fn pack(
    compiler: &Compiler<'_>,
    op: &ConvTranspose,
    late: [usize; 3],
) -> Option<Packed> {
    let isa = compiler.cpu.isa;
    let weights = compiler.constant(1)?;
    let &[channels, m, ref kernel @ ..] = weights.shape() else { return None };
    if weights.is_empty() || is_depthwise(channels / op.group) {
        return None;
    }
    let axes = axes_of_kernel(op, kernel)?;
    let kernel = axes.map(|axis| axis.kernel);
    let (c, n_taps) = (channels / op.group, kernel.iter().product::<usize>());
    let steps = axes.iter().flat_map(|axis| [axis.stride, axis.dilation]);
    let sets = sets(&axes, late).ok()?;
    let per_block = block_channels(&sets, m);
    let recipe = Recipe {
        name: "conv_transpose_f32/phases",
        parameters: [variant(isa).mr, op.group, per_block]
            .into_iter()
            .chain(steps)
            .chain(late)
            .map(|n| n as u64)
            .collect(),
        n_bytes: weights.len() * size_of::<f32>(),
    };
    let taps = sets.iter().map(|set| set.taps(kernel)).collect::<Result<Vec<_>, _>>().ok()?;
    compiler.pack_for_runs(1, &recipe, |w: &[f32], mut packed| {
        for w in w.chunks_exact(c * m * n_taps) {
            for (set, taps) in sets.iter().zip(&taps) {
                let n_phases = set.n_phases();
                for first in (0..m).step_by(per_block) {
                    let channels = first..m.min(first + per_block);
                    let shape = [c, m, n_taps];
                    let left = Left { isa, w, shape, channels, taps, n_phases };
                    let (block, rest) = std::mem::take(&mut packed).split_at_mut(left.len());
                    left.pack(block);
                    packed = rest;
                }
            }
        }
    })
}
