//! Tiles of a cache line in each direction, element by element.

use super::{Variant, each_tile};

pub(super) const VARIANT: Variant = Variant { name: "generic", size: 16 };

pub(super) fn tiles(size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize)) {
    let (x_stride, y_stride) = (x.1, y.1);
    each_tile::<16>(size, x, y, |[rows, columns], x, y| {
        for j in 0..columns {
            for (i, y) in y[j * y_stride..][..rows].iter_mut().enumerate() {
                *y = x[i * x_stride + j];
            }
        }
    });
}
