//! Two to four rows or columns: planes become the channels of pixels, or the reverse. The compiler knows how to load and
//! store every second to fourth element.

use crate::isa::{Isa, Task};

/// The channels of a pixel, at most.
pub const MAX_CHANNELS: usize = 4;

/// [`transpose`](super::transpose), if one side has pixels of 2 to [`MAX_CHANNELS`] channels without gaps; returns whether that
/// is so.
pub(super) fn transpose<T: Copy>(
    isa: Isa,
    [rows, columns]: [usize; 2],
    (x, x_stride): (&[T], usize),
    (y, y_stride): (&mut [T], usize),
) -> bool {
    let is_few = |n| (2..=MAX_CHANNELS).contains(&n);
    if is_few(rows) && y_stride == rows && columns > rows {
        let (x, y) = ((x, x_stride), &mut y[..columns * rows]);
        match rows {
            2 => isa.run(ToPixels::<T, 2> { x, y }),
            3 => isa.run(ToPixels::<T, 3> { x, y }),
            _ => isa.run(ToPixels::<T, 4> { x, y }),
        }
        return true;
    }
    if is_few(columns) && x_stride == columns && rows > columns {
        let (x, y) = (&x[..rows * columns], (y, y_stride));
        match columns {
            2 => isa.run(ToPlanes::<T, 2> { x, y }),
            3 => isa.run(ToPlanes::<T, 3> { x, y }),
            _ => isa.run(ToPlanes::<T, 4> { x, y }),
        }
        return true;
    }
    false
}

/// `y[i·C + c] = x[c·stride + i]`
struct ToPixels<'a, T, const C: usize> {
    x: (&'a [T], usize),
    y: &'a mut [T],
}

impl<T: Copy, const C: usize> Task for ToPixels<'_, T, C> {
    type Output = ();
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (pixels, (x, stride)) = (self.y.as_chunks_mut::<C>().0, self.x);
        let n = pixels.len();
        let mut planes = [x; C];
        for c in 0..C {
            planes[c] = &x[c * stride..][..n];
        }
        for i in 0..n {
            for c in 0..C {
                pixels[i][c] = planes[c][i];
            }
        }
    }
}

/// `y[c·stride + i] = x[i·C + c]`
struct ToPlanes<'a, T, const C: usize> {
    x: &'a [T],
    y: (&'a mut [T], usize),
}

impl<T: Copy, const C: usize> Task for ToPlanes<'_, T, C> {
    type Output = ();
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (pixels, (y, stride)) = (self.x.as_chunks::<C>().0, self.y);
        let n = pixels.len();
        let mut planes = y.chunks_mut(stride);
        let planes: [&mut [T]; C] =
            std::array::from_fn(|_| &mut planes.next().unwrap_or_default()[..n]);
        for i in 0..n {
            for c in 0..C {
                planes[c][i] = pixels[i][c];
            }
        }
    }
}
