//! Filters in blocks of channels.

/// The dimensions of filters: outputs, their parts, such as the taps of another axis, the inputs of each, and
/// taps.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Dims {
    pub(in crate::kernels) outputs: usize,
    pub(in crate::kernels) parts: usize,
    pub(in crate::kernels) inputs: usize,
    pub(in crate::kernels) taps: usize,
}

/// Writes `[outputs/B][parts][inputs/L][taps][L][B]` for blocks of B outputs and L inputs: the elements of `w` at
/// `index(output, part, input, tap)`, and 0 where a block has no output or input.
pub(in crate::kernels) fn pack(
    [block, lanes]: [usize; 2],
    dims: Dims,
    (w, index): (&[f32], impl Fn(usize, usize, usize, usize) -> usize),
    filters: &mut [f32],
) {
    let mut lines = filters.chunks_exact_mut(block);
    for first in (0..dims.outputs).step_by(block) {
        for part in 0..dims.parts {
            for inputs in (0..dims.inputs).step_by(lanes) {
                for tap in 0..dims.taps {
                    for (input, line) in (inputs..inputs + lanes).zip(&mut lines) {
                        for (output, to) in (first..first + block).zip(line) {
                            let is_padding = output >= dims.outputs || input >= dims.inputs;
                            *to = if is_padding { 0.0 } else { w[index(output, part, input, tap)] };
                        }
                    }
                }
            }
        }
    }
}
