//! One row times packed panels, which are read once, two at a time: one panel has too few chains to hide the latency of
//! a multiply-add.

use super::best;
use crate::Isa;
use crate::gemm::Element;

/// `y[j] = y[j] + Σ_k x[k]·B[k,j]` in f64: like [`gemv_f32`](crate::gemv_f32).
///
/// # Panics
/// If `panels` is not exactly the panels of `y`'s columns.
pub fn add_row_times_panels(isa: Isa, x: &[f64], panels: &[f64], y: &mut [f64]) {
    let nr = best(isa).nr;
    assert_eq!(panels.len(), y.len().next_multiple_of(nr) * x.len(), "length of packed B");
    if !x.is_empty() {
        add_panels(isa, x, panels, y, nr);
    }
}

per_isa! {
    fn add_panels<FMA>(x: &[f64], panels: &[f64], y: &mut [f64], nr: usize) {
        match nr {
            16 => add_pairs::<FMA, 16>(x, panels, y),
            _ => add_pairs::<FMA, 8>(x, panels, y),
        }
    }
}

#[inline(always)]
fn add_pairs<const FMA: bool, const NR: usize>(x: &[f64], panels: &[f64], y: &mut [f64]) {
    let pairs = panels.chunks(2 * NR * x.len()).zip(y.chunks_mut(2 * NR));
    for (panels, y) in pairs {
        let (first, second) = panels.split_at(NR * x.len());
        let (y_first, y_second) = y.split_at_mut(NR.min(y.len()));
        let mut sums = [[0.0; NR]; 2];
        sums[0][..y_first.len()].copy_from_slice(y_first);
        sums[1][..y_second.len()].copy_from_slice(y_second);
        // Without a second panel, the first is read twice.
        let second = if second.is_empty() { first } else { second };
        let rows = first.as_chunks::<NR>().0.iter().zip(second.as_chunks::<NR>().0);
        for (&x, (first, second)) in x.iter().zip(rows) {
            for j in 0..NR {
                sums[0][j] = Element::mul_add::<FMA>(x, first[j], sums[0][j]);
                sums[1][j] = Element::mul_add::<FMA>(x, second[j], sums[1][j]);
            }
        }
        y_first.copy_from_slice(&sums[0][..y_first.len()]);
        y_second.copy_from_slice(&sums[1][..y_second.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{Matrix, pack_b, packed_b_len_of};

    #[test]
    fn sums_are_chains_in_ascending_order() {
        for isa in Isa::all() {
            for [k, n] in [[1, 1], [7, 16], [33, 35], [64, 128], [5, 77], [0, 3]] {
                let number = |i: usize| (i * 7919 % 251) as f64 / 64.0 - 2.0;
                let (x, b): (Vec<_>, Vec<_>) =
                    ((1..=k).map(number).collect(), (0..k * n).map(number).collect());
                let mut panels = vec![0.0; packed_b_len_of::<f64>(isa, k, n)];
                pack_b(isa, &Matrix::row_major(&b, k, n), &mut panels);
                let mut y: Vec<_> = (0..n).map(number).collect();
                let mut expected = y.clone();
                add_row_times_panels(isa, &x, &panels, &mut y);
                for (j, y) in expected.iter_mut().enumerate() {
                    // These products are exact.
                    *y = (0..k).fold(*y, |sum, i| sum + x[i] * b[i * n + j]);
                }
                assert_eq!(y, expected, "{isa:?} {k} {n}");
            }
        }
    }
}
