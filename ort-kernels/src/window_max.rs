//! Maxima of windows of a plane, or of a volume, of any type: first over the rows of a window, then
//! along the row, so that a window of `k × l` takes `k + l` steps and not `k · l`.

use crate::conv_f32::Axis;
use crate::isa::{Isa, Task};

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

/// Windows over three axes, of which any may be [`Axis::UNIT`].
#[derive(Clone, Copy, Debug)]
pub struct WindowMax {
    /// Outermost first.
    pub axes: [Axis; 3],
}

impl WindowMax {
    /// Elements of a padded row, and of its result: [`WindowMax::run`] takes scratch for both.
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

    /// `y[o] = max x[i]` over the inputs `i` that the window of `o` covers, or `least` if it covers none.
    ///
    /// # Panics
    /// If `x`, `y` or `scratch` has fewer elements than needed.
    pub fn run<T: Ordered>(&self, isa: Isa, x: &[T], (least, y): (T, &mut [T]), scratch: &mut [T]) {
        isa.run(Run { windows: *self, x, least, y, scratch });
    }
}

struct Run<'a, T> {
    windows: WindowMax,
    x: &'a [T],
    least: T,
    y: &'a mut [T],
    scratch: &'a mut [T],
}

impl<T: Ordered> Task for Run<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { windows, x, least, y, scratch } = self;
        let [a, b, c] = windows.axes;
        let (row, found) = scratch.split_at_mut(windows.row_len());
        let found = &mut found[..windows.span()];
        row.fill(least);
        for (at, y) in y.chunks_exact_mut(c.output.max(1)).enumerate() {
            let seen = &mut row[c.pad[0]..][..c.input];
            seen.fill(least);
            for i in (0..a.kernel).filter_map(|tap| a.at(at / b.output, tap)) {
                for j in (0..b.kernel).filter_map(|tap| b.at(at % b.output, tap)) {
                    join(seen, &x[(i * b.input + j) * c.input..][..c.input]);
                }
            }
            if c.stride == 1 {
                along(c, row, y);
                continue;
            }
            along(c, row, found);
            for (y, found) in y.iter_mut().zip(found.iter().step_by(c.stride)) {
                *y = *found;
            }
        }
    }
}

/// `y[o] = max row[o + tap · dilation]`.
#[inline(always)]
fn along<T: Ordered>(axis: Axis, row: &[T], y: &mut [T]) {
    y.copy_from_slice(&row[..y.len()]);
    for tap in 1..axis.kernel {
        join(y, &row[tap * axis.dilation..][..y.len()]);
    }
}

#[inline(always)]
fn join<T: Ordered>(y: &mut [T], x: &[T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = y.larger(*x);
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
                let windows = WindowMax { axes };
                let mut y = vec![0.0; a.output * b.output * c.output];
                let mut scratch = vec![9e9; windows.scratch_len()];
                windows.run(isa, &x, (-1.0, &mut y), &mut scratch);
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
