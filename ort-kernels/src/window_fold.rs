//! Folds of windows of a plane, or of a volume, of any type, such as maxima and norms: first over the rows of a window, then
//! along the row, so that a window of `k × l` takes `k + l` steps and not `k · l`.

use crate::conv_f32::Axis;
use crate::isa::{Isa, Task};

/// How the inputs of a window become its result.
pub trait WindowFold: Copy {
    /// An input.
    type In: Copy;
    /// A fold of inputs.
    type Sum: Copy;
    /// A result.
    type Out;

    /// The fold of no input, as in the padding.
    fn start(self) -> Self::Sum;

    /// The fold of one input. As the others, implementations are `#[inline(always)]`.
    fn of(self, x: Self::In) -> Self::Sum;

    /// The fold of the inputs of two folds.
    fn join(self, a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// The result of a window.
    fn finish(self, sum: Self::Sum) -> Self::Out;
}

/// An element with a maximum.
pub trait Ordered: Copy {
    /// The maximum; NaN if either is.
    fn larger(self, other: Self) -> Self;
}

macro_rules! ordered {
    ($($ty:ty),*) => { $(
        impl Ordered for $ty {
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )* };
}
ordered!(i8, u8);

impl Ordered for f64 {
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // As `vec::greater`.
        let larger = if self > other { self } else { other };
        if self.is_nan() | other.is_nan() { self + other } else { larger }
    }
}

/// The maximum of a window.
#[derive(Clone, Copy, Debug)]
pub struct Largest<T> {
    /// The result of a window without inputs.
    pub least: T,
}

impl<T: Ordered> WindowFold for Largest<T> {
    type In = T;
    type Sum = T;
    type Out = T;

    #[inline(always)]
    fn start(self) -> T {
        self.least
    }

    #[inline(always)]
    fn of(self, x: T) -> T {
        x
    }

    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        a.larger(b)
    }

    #[inline(always)]
    fn finish(self, sum: T) -> T {
        sum
    }
}

/// Windows over three axes, of which any may be [`Axis::UNIT`].
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Outermost first.
    pub axes: [Axis; 3],
}

impl Windows {
    /// Folds of a padded row, and of the windows along it: [`Windows::run`] takes scratch for both.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.row_len() + self.span()
    }

    /// The range that the windows of a row cover, and the row itself.
    fn row_len(&self) -> usize {
        let axis = &self.axes[2];
        (self.span() + (axis.kernel - 1) * axis.dilation).max(axis.pad[0] + axis.input)
    }

    /// From the start of the first window of a row to that of the last.
    fn span(&self) -> usize {
        let axis = &self.axes[2];
        axis.output.saturating_sub(1) * axis.stride + 1
    }

    /// `y[o] = fold of x[i]` over the inputs `i` that the window of `o` covers.
    ///
    /// # Panics
    /// If `x`, `y` or `scratch` has fewer elements than needed.
    pub fn run<F: WindowFold>(
        &self,
        isa: Isa,
        x: &[F::In],
        (fold, y): (F, &mut [F::Out]),
        scratch: &mut [F::Sum],
    ) {
        isa.run(Run { windows: *self, x, fold, y, scratch });
    }
}

struct Run<'a, F: WindowFold> {
    windows: Windows,
    x: &'a [F::In],
    fold: F,
    y: &'a mut [F::Out],
    scratch: &'a mut [F::Sum],
}

impl<F: WindowFold> Task for Run<'_, F> {
    type Output = ();
    const IS_WIDE: bool = size_of::<F::Sum>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { windows, x, fold, y, scratch } = self;
        let [a, b, c] = windows.axes;
        let (row, found) = scratch.split_at_mut(windows.row_len());
        let found = &mut found[..windows.span()];
        row.fill(fold.start());
        for (at, y) in y.chunks_exact_mut(c.output.max(1)).enumerate() {
            let seen = &mut row[c.pad[0]..][..c.input];
            seen.fill(fold.start());
            for i in (0..a.kernel).filter_map(|tap| a.at(at / b.output, tap)) {
                for j in (0..b.kernel).filter_map(|tap| b.at(at % b.output, tap)) {
                    let x = &x[(i * b.input + j) * c.input..][..c.input];
                    for (seen, x) in seen.iter_mut().zip(x) {
                        *seen = fold.join(*seen, fold.of(*x));
                    }
                }
            }
            found.copy_from_slice(&row[..found.len()]);
            for tap in 1..c.kernel {
                let row = &row[tap * c.dilation..][..found.len()];
                for (found, sum) in found.iter_mut().zip(row) {
                    *found = fold.join(*found, *sum);
                }
            }
            if c.stride == 1 {
                finish(fold, found.iter(), y);
            } else {
                finish(fold, found.iter().step_by(c.stride), y);
            }
        }
    }
}

#[inline(always)]
fn finish<'a, F: WindowFold<Sum: 'a>>(
    fold: F,
    found: impl Iterator<Item = &'a F::Sum>,
    y: &mut [F::Out],
) {
    for (y, found) in y.iter_mut().zip(found) {
        *y = fold.finish(*found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(input: usize, kernel: usize, stride: usize, dilation: usize, pad: [usize; 2]) -> Axis {
        let reach = (kernel - 1) * dilation + 1;
        let output = (input + pad[0] + pad[1]).saturating_sub(reach) / stride + 1;
        Axis { input, output, kernel, stride, dilation, pad }
    }

    #[test]
    fn the_largest_of_every_window_is_found() {
        let cases = [
            [Axis::UNIT, axis(9, 3, 1, 1, [1, 1]), axis(70, 3, 2, 1, [1, 1])],
            [axis(4, 2, 2, 1, [0, 0]), axis(6, 2, 1, 2, [2, 0]), axis(33, 5, 1, 2, [3, 4])],
            [Axis::UNIT, Axis::UNIT, axis(5, 3, 3, 1, [2, 2])],
            [Axis::UNIT, axis(3, 1, 1, 1, [2, 2]), axis(4, 2, 2, 1, [2, 3])],
        ];
        for axes in cases {
            let [a, b, c] = axes;
            let x: Vec<f64> = (0..a.input * b.input * c.input)
                .map(|i| if i == 17 { f64::NAN } else { (i * 7919 % 251) as f64 })
                .collect();
            for isa in Isa::all() {
                let windows = Windows { axes };
                let mut y = vec![0.0; a.output * b.output * c.output];
                let mut scratch = vec![9e9; windows.scratch_len()];
                windows.run(isa, &x, (Largest { least: -1.0 }, &mut y), &mut scratch);
                for (at, y) in y.iter().enumerate() {
                    let (p, q, r) =
                        (at / c.output / b.output, at / c.output % b.output, at % c.output);
                    let taps = (0..a.kernel).flat_map(|i| {
                        (0..b.kernel).flat_map(move |j| (0..c.kernel).map(move |k| [i, j, k]))
                    });
                    let expected = taps.fold(-1.0_f64, |most, [i, j, k]| {
                        let (Some(i), Some(j), Some(k)) = (a.at(p, i), b.at(q, j), c.at(r, k))
                        else {
                            return most;
                        };
                        most.larger(x[(i * b.input + j) * c.input + k])
                    });
                    assert!(*y == expected || y.is_nan() && expected.is_nan(), "{axes:?} at {at}");
                }
            }
        }
    }
}
