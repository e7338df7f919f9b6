//! Lines of an image that start anywhere, as the columns of a panel, in f32.

#[cfg(target_arch = "x86_64")]
mod avx2_8x4;
#[cfg(target_arch = "x86_64")]
mod avx512_16x4;

use crate::Isa;

/// `y[j·n + i] = x[starts[i] + j]` for `n` starts and every row `j` of `y`.
///
/// # Panics
/// If `x` is too short.
pub(super) fn patches(isa: Isa, starts: &[usize], x: &[f32], y: &mut [f32]) {
    // Shorter lines do not fill a quarter of a register.
    let are_tiles = y.len() >= 4 * starts.len();
    let _ = (isa, are_tiles);
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512().filter(|_| are_tiles && starts.len().is_multiple_of(16)) {
        return avx512_16x4::tiles(token, starts, x, y);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2().filter(|_| are_tiles && starts.len().is_multiple_of(8)) {
        return avx2_8x4::tiles(token, starts, x, y);
    }
    for (j, y) in y.chunks_exact_mut(starts.len()).enumerate() {
        for (y, start) in y.iter_mut().zip(starts) {
            *y = x[start + j];
        }
    }
}

/// The tiles of an instruction set, which defines `quad`, what its registers are called, and how they are stored.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($isa:ident) => {
        kernel! {
            $isa => pub(super) fn tiles(starts: &[usize], x: &[f32], y: &mut [f32]) {
                // The most elements that no line is shorter than.
                match y.len() / starts.len() {
                    16.. => tiles_of::<16>(starts, x, y),
                    8.. => tiles_of::<8>(starts, x, y),
                    _ => tiles_of::<4>(starts, x, y),
                }
            }
        }

        features! { $isa enabled
            #[inline]
            fn tiles_of<const WIDTH: usize>(starts: &[usize], x: &[f32], y: &mut [f32]) {
                let n = starts.len();
                each_tile::<LINES, WIDTH>(starts, x, y, |lines, y| {
                    for j in (0..WIDTH).step_by(4) {
                        let columns = transpose4([
                            quad::<0, WIDTH>(lines, j),
                            quad::<1, WIDTH>(lines, j),
                            quad::<2, WIDTH>(lines, j),
                            quad::<3, WIDTH>(lines, j),
                        ]);
                        for i in 0..4 {
                            store(&mut y[(j + i) * n..][..LINES], columns[i]);
                        }
                    }
                });
            }
        }

        features! { $isa enabled
            /// Transposes each four elements of four registers.
            #[inline]
            fn transpose4([a, b, c, d]: [Register; 4]) -> [Register; 4] {
                let (ab, cd) = (low(a, b), low(c, d));
                let [first, second] = [shuffle::<0b0100_0100>(ab, cd), shuffle::<0b1110_1110>(ab, cd)];
                let (ab, cd) = (high(a, b), high(c, d));
                [first, second, shuffle::<0b0100_0100>(ab, cd), shuffle::<0b1110_1110>(ab, cd)]
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
use tiles;

/// Calls `tile` with the same `WIDTH` elements of `LINES` lines, and the rows of `y` that begin with their columns: the last
/// elements may overlap others.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn each_tile<'x, const LINES: usize, const WIDTH: usize>(
    starts: &[usize],
    x: &'x [f32],
    y: &mut [f32],
    tile: impl Fn(&[&'x [f32; WIDTH]; LINES], &mut [f32]),
) {
    let (n, rows) = (starts.len(), y.len() / starts.len());
    for (i, starts) in starts.as_chunks::<LINES>().0.iter().enumerate() {
        for j in (0..rows).step_by(WIDTH) {
            let j = j.min(rows - WIDTH);
            let mut lines = [&[0.0; WIDTH]; LINES];
            for (line, start) in lines.iter_mut().zip(starts) {
                *line = x[start + j..].first_chunk().expect("lines are within x");
            }
            tile(&lines, &mut y[j * n + i * LINES..]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
features! { Avx2 enabled
    /// Four elements.
    #[inline]
    fn four(x: &[f32; 4]) -> std::arch::x86_64::__m128 {
        std::arch::x86_64::_mm_setr_ps(x[0], x[1], x[2], x[3])
    }
}

#[cfg(test)]
mod tests {
    use super::patches;
    use crate::Isa;

    #[test]
    fn lines_become_columns_whatever_their_length() {
        let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
        for isa in Isa::all() {
            for n in [8, 16, 32] {
                let starts: Vec<usize> = (0..n).map(|i| i * 37 % 280).collect();
                for rows in 0..=20 {
                    let mut y = vec![-1.0; rows * n];
                    patches(isa, &starts, &x, &mut y);
                    for (at, y) in y.iter().enumerate() {
                        assert_eq!(*y, (starts[at % n] + at / n) as f32, "{isa:?}: {n}, {at}");
                    }
                }
            }
        }
    }
}
