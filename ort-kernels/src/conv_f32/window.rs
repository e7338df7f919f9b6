//! Folding a window over rows of a plane: what depthwise convolution and pooling share.
//!
//! Away from the left and right edge, outputs are folded a block of lanes at a time, all taps in
//! registers; at the edges one by one. Each output folds its taps in ascending order either way.

use super::Axis;

/// How one output is folded from the inputs of its window.
pub(super) trait Fold {
    /// The value of an empty window.
    fn start(&self) -> f32;

    /// `sum` and the input `x` at `tap`, counted row-major over the kernel.
    fn step<const FMA: bool>(&self, sum: f32, x: f32, tap: usize) -> f32;
}

/// One row of outputs.
struct Row<'a, F> {
    fold: &'a F,
    width: &'a Axis,
    /// The input rows of the window with the first tap of each.
    taps: std::ops::Range<usize>,
    y: usize,
    height: &'a Axis,
    plane: &'a [f32],
}

/// Row `y` of the output; `axes` are height and width, `plane: [height, width]`.
#[inline(always)]
pub(super) fn fold_row<const FMA: bool, F: Fold>(
    fold: &F,
    [height, width]: &[Axis; 2],
    plane: &[f32],
    y: usize,
    out: &mut [f32],
) {
    let row = Row { fold, width, taps: height.taps(y), y, height, plane };
    let interior = width.interior();
    let (left, rest) = out.split_at_mut(interior.start);
    let (middle, right) = rest.split_at_mut(interior.len());
    row.edge::<FMA>(0, left);
    match width.stride {
        1 => row.middle::<FMA, 1>(interior.start, middle),
        2 => row.middle::<FMA, 2>(interior.start, middle),
        _ => row.edge::<FMA>(interior.start, middle),
    }
    row.edge::<FMA>(interior.end, right);
}

impl<F: Fold> Row<'_, F> {
    /// The input row of tap row `tap`.
    #[inline(always)]
    fn input(&self, tap: usize) -> &[f32] {
        let y = self.y * self.height.stride + tap * self.height.dilation - self.height.pad[0];
        &self.plane[y * self.width.input..(y + 1) * self.width.input]
    }

    /// Outputs from `first` on, one by one.
    #[inline(always)]
    fn edge<const FMA: bool>(&self, first: usize, out: &mut [f32]) {
        for (x, out) in out.iter_mut().enumerate() {
            let taps = self.width.taps(first + x);
            let mut sum = self.fold.start();
            for tap_y in self.taps.clone() {
                let input = self.input(tap_y);
                for tap_x in taps.clone() {
                    let at = (first + x) * self.width.stride + tap_x * self.width.dilation;
                    let tap = tap_y * self.width.kernel + tap_x;
                    sum = self.fold.step::<FMA>(sum, input[at - self.width.pad[0]], tap);
                }
            }
            *out = sum;
        }
    }

    /// Outputs from `first` on, none of whose windows crosses an edge. The last block of each size
    /// may overlap the one before it and writes the same values again.
    #[inline(always)]
    fn middle<const FMA: bool, const STRIDE: usize>(&self, first: usize, out: &mut [f32]) {
        match out.len() {
            32.. => self.blocks::<FMA, STRIDE, 32>(first, out),
            8.. => self.blocks::<FMA, STRIDE, 8>(first, out),
            _ => self.edge::<FMA>(first, out),
        }
    }

    #[inline(always)]
    fn blocks<const FMA: bool, const STRIDE: usize, const LANES: usize>(
        &self,
        first: usize,
        out: &mut [f32],
    ) {
        let last = out.len() - LANES;
        for from in (0..last).step_by(LANES).chain([last]) {
            let block = self.block::<FMA, STRIDE, LANES>(first + from);
            out[from..from + LANES].copy_from_slice(&block);
        }
    }

    #[inline(always)]
    fn block<const FMA: bool, const STRIDE: usize, const LANES: usize>(
        &self,
        first: usize,
    ) -> [f32; LANES] {
        let left = first * STRIDE - self.width.pad[0];
        let mut sums = [self.fold.start(); LANES];
        for tap_y in self.taps.clone() {
            let input = self.input(tap_y);
            for tap_x in 0..self.width.kernel {
                let x = &input[left + tap_x * self.width.dilation..][..(LANES - 1) * STRIDE + 1];
                let tap = tap_y * self.width.kernel + tap_x;
                for i in 0..LANES {
                    sums[i] = self.fold.step::<FMA>(sums[i], x[i * STRIDE], tap);
                }
            }
        }
        sums
    }
}
