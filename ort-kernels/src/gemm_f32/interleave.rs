//! Rows side by side: `to[k·stride + r] = alpha·from[r][k]`, the transposition at the heart of
//! packing.

use crate::Isa;

/// Rows that are interleaved together.
const ROWS: usize = 8;

/// At most eight rows on their way to columns of a panel.
struct Group<'a> {
    /// All of one length; those beyond `count` are repetitions.
    from: [&'a [f32]; ROWS],
    count: usize,
    alpha: f32,
    stride: usize,
}

/// `to[k·stride + r] = alpha·from[r][k]` for the rows of `from`, all of one length.
pub(super) fn interleave<'a>(
    isa: Isa,
    mut from: impl ExactSizeIterator<Item = &'a [f32]>,
    alpha: f32,
    to: &mut [f32],
) {
    let stride = from.len();
    for first in (0..stride).step_by(ROWS) {
        let count = ROWS.min(stride - first);
        let mut rows = [from.next().unwrap_or_default(); ROWS];
        rows[1..count].iter_mut().for_each(|row| *row = from.next().unwrap_or_default());
        let group = Group { from: rows, count, alpha, stride };
        group.write(isa, &mut to[first..]);
    }
}

impl Group<'_> {
    fn write(&self, isa: Isa, to: &mut [f32]) {
        let done = self.write_eights(isa, to);
        for r in 0..self.count {
            let from = &self.from[r][done..];
            if !from.is_empty() {
                self.scatter(from, &mut to[done * self.stride + r..]);
            }
        }
    }

    /// One row, eight elements at a time without a check between them.
    fn scatter(&self, from: &[f32], to: &mut [f32]) {
        let (eights, rest) = from.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            let to = &mut to[i * 8 * self.stride..][..=7 * self.stride];
            for (k, from) in eight.iter().enumerate() {
                to[k * self.stride] = self.alpha * from;
            }
        }
        for (k, from) in (eights.len() * 8..).zip(rest) {
            to[k * self.stride] = self.alpha * from;
        }
    }

    /// Writes what the instruction set can write eight elements at a time; returns how many of each
    /// row that is.
    #[cfg(target_arch = "x86_64")]
    fn write_eights(&self, isa: Isa, to: &mut [f32]) -> usize {
        let Some(token) = isa.avx2() else { return 0 };
        let eights = self.from[0].len() / 8;
        for i in 0..eights {
            x86::write_eight(token, self, i * 8, &mut to[i * 8 * self.stride..]);
        }
        eights * 8
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn write_eights(&self, _: Isa, _: &mut [f32]) -> usize {
        0
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Group;
    use crate::isa::x86::{load8, store8};
    use crate::transpose::transpose8;
    use std::arch::x86_64::{_mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps};

    kernel! {
        /// The elements `k` to `k + 8` of eight rows, transposed in registers.
        Avx2 => pub(super) fn write_eight(group: &Group<'_>, k: usize, to: &mut [f32]) {
            let alpha = _mm256_set1_ps(group.alpha);
            let mut rows = [_mm256_setzero_ps(); 8];
            for (row, from) in rows.iter_mut().zip(&group.from) {
                *row = _mm256_mul_ps(alpha, load8(&from[k..k + 8]));
            }
            for (i, lanes) in transpose8(rows).into_iter().enumerate() {
                let from = i * group.stride;
                store8(&mut to[from..from + group.count], lanes);
            }
        }
    }
}
