//! 4 rows by 8 columns, left to the vectoriser.

use super::{MAX_NR, QUAD, Rows, Variant};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 4, nr: NR };
const NR: usize = 8;

pub(super) fn tile(rows: &Rows<'_>, b: &[i8], c: &mut [[i32; MAX_NR]]) {
    match c.len() {
        1 => sums::<1>(rows, b, c),
        2 => sums::<2>(rows, b, c),
        3 => sums::<3>(rows, b, c),
        _ => sums::<4>(rows, b, c),
    }
}

fn sums<const R: usize>(rows: &Rows<'_>, b: &[i8], c: &mut [[i32; MAX_NR]]) {
    let (whole, rest) = rows.quads::<R>();
    let mut sums = [[0_i32; NR]; R];
    for (i, b) in b.as_chunks::<QUAD>().0.as_chunks::<NR>().0.iter().enumerate() {
        for r in 0..R {
            let a = whole[r].get(i).unwrap_or(&rest[r]);
            for j in 0..NR {
                for q in 0..QUAD {
                    let product = i32::from(a[q]) * i32::from(b[j][q]);
                    sums[r][j] = sums[r][j].wrapping_add(product);
                }
            }
        }
    }
    for (c, sums) in c.iter_mut().zip(&sums) {
        c[..NR].copy_from_slice(sums);
    }
}
